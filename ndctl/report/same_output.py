"""Nodes that said the same, together; and how the others differ from the most."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ndctl.model.execution import Said
from ndctl.report.fold import natural, node_set
from ndctl.report.identity import Identity, common, without_own

# difflib's time grows with the product of both lengths
MOST_DIFF_LINES = 4_000


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes whose answers are equal.

    shared: what all of them said, by which groups are compared: with placeholders when folded
    sample: what is shown of it: one node's own words, or `shared` where the nodes' own differ
    taken:  the placeholders in it
    """

    nodes: tuple[str, ...]
    shared: Said
    sample: Said
    taken: tuple[str, ...] = ()

    @property
    def nodeset(self) -> str:
        return node_set(self.nodes)


def groups(said: Iterable[Said], *, fold: bool) -> list[Group]:
    """Commands that ended with 0, those that ended otherwise, then those that did not end; the largest group of each
    first.

    fold: texts count as equal when they differ in nothing but what is each node's own (`report.identity`). What went
    wrong with a connection is always compared so, since it names the node.
    """
    alike: dict[tuple[object, ...], list[tuple[Said, Said, tuple[str, ...]]]] = {}
    for one in said:
        shared, taken = _shared(one, fold)
        key = (one.outcome, one.exit_code, one.truncated, shared.stdout, shared.stderr, shared.detail, shared.hint)
        alike.setdefault(key, []).append((one, shared, taken))
    made = []
    for members in alike.values():
        members.sort(key=lambda member: natural(member[0].name))
        first, shared, _ = members[0]
        same = len({(one.stdout, one.stderr, one.detail, one.hint) for one, _, _ in members}) == 1
        taken = () if same else tuple(dict.fromkeys(word for _, _, words in members for word in words))
        made.append(Group(tuple(one.name for one, _, _ in members), shared, first if same else shared, taken))
    return sorted(made, key=lambda group: (_rank(group.sample), -len(group.nodes), natural(group.nodes[0])))


def _rank(one: Said) -> int:
    return 2 if not one.answered else 1 if one.failed else 0


def _shared(one: Said, fold: bool) -> tuple[Said, tuple[str, ...]]:
    own = Identity((one.name, *one.host_names), (one.address, *one.addresses))
    taken: list[str] = []
    detail, hint = (without_own(text, own, taken.append) for text in (one.detail, one.hint))
    if not fold:
        return replace(one, detail=detail, hint=hint), tuple(taken)
    out, err = common(one.stdout, own), common(one.stderr, own)
    shared = replace(one, stdout=out.text, stderr=err.text, detail=detail, hint=hint)
    return shared, tuple(dict.fromkeys((*taken, *out.taken, *err.taken)))


def majority(made: Sequence[Group]) -> Group | None:
    """What the most nodes answered; of equally many those that succeeded. None when no command ended."""
    answered = [group for group in made if group.sample.answered]
    return max(answered, key=lambda group: (len(group.nodes), not group.sample.failed), default=None)


def how_it_ended(one: Said) -> str:
    """ "exit 2", "timed-out: …"; "" for exit 0."""
    if one.answered:
        return f"exit {one.exit_code}" if one.failed else ""
    return one.outcome + (f": {one.detail}" if one.detail else "")


def differences(base: Group, other: Group) -> list[str]:
    """A unified diff of what both printed, stdout and stderr each, without the heading lines of files."""
    lines: list[str] = []
    for stream in ("stdout", "stderr"):
        before = getattr(base.shared, stream).splitlines()
        after = getattr(other.shared, stream).splitlines()
        if before == after:
            continue
        mark = "" if stream == "stdout" else " stderr"
        if max(len(before), len(after)) > MOST_DIFF_LINES:
            lines.append(f"@@{mark} {len(before):,} lines against {len(after):,}: too long to compare by lines @@")
            continue
        told = list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]
        lines += [line.replace("@@", f"@@{mark}", 1) if mark and line.startswith("@@ ") else line for line in told]
    return lines
