"""The answer of `ndctl exec`: equal output once under its nodes, differences from the most, JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ndctl.model.execution import EXEC_SCHEMA, Execution, Said
from ndctl.model.jsonable import dumps, jsonable
from ndctl.report.identity import in_words
from ndctl.report.plain import one_line
from ndctl.report.same_output import Group, differences, groups, how_it_ended, majority

_NOT_TOLD = ("host_names", "addresses")


@dataclass(frozen=True, slots=True)
class Block:
    """header: ndctl's own line; body: the nodes' text as it came, or ndctl's about it."""

    header: str
    body: str = ""


def execution_json(execution: Execution, *, fold: bool) -> str:
    """`{"schema": "ndctl.exec/1", …, "nodes": [every node's answer], "groups": [who answered the same]}`."""
    body = jsonable(execution)
    said = body.pop("said")
    return dumps(
        {
            "schema": EXEC_SCHEMA,
            **body,
            "exit_code": int(execution.exit_code),
            "folded": fold,
            "nodes": [{key: value for key, value in one.items() if key not in _NOT_TOLD} for one in said],
            "groups": [
                {
                    "nodeset": group.nodeset,
                    "nodes": list(group.nodes),
                    "outcome": group.sample.outcome,
                    "exit_code": group.sample.exit_code,
                    "sample": group.nodes[0],
                    "replaced": list(group.taken),
                }
                for group in groups(execution.said, fold=fold)
            ],
        }
    )


def blocks(execution: Execution, *, fold: bool, diff: bool) -> Iterator[Block]:
    """One for each group of equal answers; with `diff` all but the most nodes' show only how they differ from it."""
    made = groups(execution.said, fold=fold)
    base = majority(made) if diff else None
    ordered = made if base is None else [base, *(group for group in made if group is not base)]
    for group in ordered:
        if base is None or group is base or not group.sample.answered:
            yield Block(_header(group), _text(group.sample, execution.cap_bytes))
        else:
            yield Block(f"{_header(group)}  against {base.nodeset}", _lines(_told_difference(base, group)))


def _told_difference(base: Group, group: Group) -> list[str]:
    told = differences(base, group)
    if base.sample.exit_code != group.sample.exit_code:
        told = [f"-exit {base.sample.exit_code}", f"+exit {group.sample.exit_code}", *told]
    return told or ["the same lines, with other line ends or cut at another place"]


def _header(group: Group) -> str:
    count = len(group.nodes)
    parts = [f"---- {group.nodeset}"]
    if count > 1:
        parts.append(f"{count:,} nodes")
    if ended := how_it_ended(group.sample):
        parts.append(one_line(ended))
    if group.taken and group.sample.answered:
        parts.append(f"equal but for {in_words(group.taken)}")
    return "  ".join(parts)


def _text(one: Said, cap_bytes: int) -> str:
    parts = [one.stdout, _marked(one.stderr)]
    if one.truncated:
        parts.append(f"[cut: more than {cap_bytes:,} bytes]")
    if not one.answered and one.hint:
        parts.append(f"hint: {one_line(one.hint)}")
    if one.answered and not any(parts):
        parts.append("[no output]")
    return "".join(part if part.endswith("\n") else f"{part}\n" for part in parts if part)


def _marked(stderr: str) -> str:
    return _lines([f"stderr: {line}" for line in stderr.splitlines()])


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def summary(execution: Execution) -> str:
    """ "18 nodes: 16 exit 0, 1 exit 2, 1 refused"."""
    counts: dict[str, int] = {}
    for one in sorted(execution.said, key=lambda one: (not one.answered, one.exit_code or 0, one.outcome)):
        ended = f"exit {one.exit_code}" if one.answered else one.outcome
        counts[ended] = counts.get(ended, 0) + 1
    told = ", ".join(f"{count:,} {ended}" for ended, count in counts.items())
    nodes = len(execution.said)
    return f"{nodes:,} node{'' if nodes == 1 else 's'}: {told}"
