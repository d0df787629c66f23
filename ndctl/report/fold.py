"""Equal findings of many parts and nodes as one: rack07-n[01-17] rather than seventeen lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ndctl.model.findings import Finding
from ndctl.report.identity import Identity, common

_PLACE = re.compile(r"rack([0-9]+)-n([0-9]+)")
_NUMBER = re.compile(r"(\d+)")
_SERIAL = re.compile(r",? serial [^,)\s]+")
_NO_NODE_SET = re.compile(r"[^\w.:-]")  # what ClusterShell would take for an operator
_SUBJECTS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Folded:
    """Findings that say the same. `finding` stands for all: with several nodes, its texts name none of them."""

    finding: Finding
    nodes: tuple[str, ...]
    subjects: tuple[str, ...]
    count: int

    @property
    def where(self) -> str:
        """Nodes and parts: "rack07-n[01-17]  GPU 2, GPU 3"."""
        parts = list(self.subjects[:_SUBJECTS_SHOWN])
        if more := len(self.subjects) - len(parts):
            parts.append(f"and {more} more")
        return "  ".join(text for text in (node_set(self.nodes), ", ".join(parts)) if text)


def natural(text: str) -> list[tuple[int, int, str]]:
    """A sort key by which n9 comes before n10."""
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in _NUMBER.split(text)]


def node_set(names: Iterable[str]) -> str:
    """ClusterShell's notation, rack07-n[01-17]; names it would read otherwise are listed."""
    unique = sorted(set(filter(None, names)), key=lambda name: (natural(name), name))
    if len(unique) < 2 or any(_NO_NODE_SET.search(name) for name in unique):
        return ",".join(unique)
    places = [match.groups() for name in unique if (match := _PLACE.fullmatch(name))]
    if len(places) == len(unique):
        return _of_racks(places)
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    return str(NodeSet.fromlist(unique, resolver=RESOLVER_NOGROUP))


def _of_racks(places: Iterable[tuple[str, ...]]) -> str:
    """As ClusterShell writes it, for ndctl's own names (rack and position, in order): its own folding is quadratic in
    them, and takes seconds for ten thousand."""
    positions: dict[str, list[str]] = {}
    for rack, position in places:
        positions.setdefault(rack, []).append(position)
    racks: dict[tuple[str, ...], list[str]] = {}
    for rack, here in positions.items():
        racks.setdefault(tuple(here), []).append(rack)
    return ",".join(f"rack{_ranges(racks_of)}-n{_ranges(here)}" for here, racks_of in racks.items())


def _ranges(numbers: Sequence[str]) -> str:
    """ "07" or "[01-10,12]" of ascending numbers; those of a range with leading zeros have one length."""
    runs: list[list[str]] = []
    for number in numbers:
        if runs and int(number) == int(runs[-1][-1]) + 1 and _of_one_range(runs[-1][0], number):
            runs[-1].append(number)
        else:
            runs.append([number])
    if len(numbers) == 1:
        return numbers[0]
    return "[" + ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) + "]"


def _of_one_range(first: str, number: str) -> bool:
    return len(first) == len(number) or not (first.startswith("0") or number.startswith("0"))


def fold(findings: Iterable[Finding], addresses: Mapping[str, str]) -> list[Folded]:
    """Findings that differ only in node, part and evidence, and in their texts only by what is a node's own (its name
    and address, serials, UUIDs, GUIDs, MACs), together; in the order of the first of each. What was measured, and what
    was expected, keeps them apart.

    addresses: node name -> address, which texts about a node may hold
    """
    groups: dict[Finding, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_common(finding, addresses), []).append(finding)
    result = []
    for shared, members in groups.items():
        subjects_of: dict[str, set[str]] = {}
        for one in members:
            subjects_of.setdefault(one.node, set()).add(_without_serial(one.subject))
        nodes_of: dict[tuple[str, ...], list[str]] = {}
        for node, subjects in subjects_of.items():
            nodes_of.setdefault(tuple(sorted(subjects, key=natural)), []).append(node)
        for subjects_key, nodes in nodes_of.items():
            own = [one for one in members if one.node in nodes]
            result.append(_folded(shared, own, nodes, subjects_key))
    return result


def _folded(shared: Finding, own: list[Finding], nodes: list[str], subjects: tuple[str, ...]) -> Folded:
    first = own[0]
    if len(subjects) == len({one.subject for one in own}):
        subjects = tuple(sorted({one.subject for one in own}, key=natural))  # nothing gained by leaving serials out
    same = all(one.message == first.message and one.cause == first.cause for one in own)
    texts = first if same else shared
    finding = replace(first, message=texts.message, cause=texts.cause)
    return Folded(finding, tuple(sorted(nodes, key=natural)), subjects, len(own))


def _common(finding: Finding, addresses: Mapping[str, str]) -> Finding:
    own = Identity((finding.node,), (addresses.get(finding.node, ""),))
    return replace(
        finding,
        node="",
        subject="",
        evidence="",
        caused_by="",
        message=common(finding.message, own).text,
        cause=common(finding.cause, own).text,
        # True and 1 are equal in Python, and are not the same answer.
        unit=f"{type(finding.value).__name__} {finding.unit}",
    )


def _without_serial(subject: str) -> str:
    return _SERIAL.sub("", subject).replace(" ()", "")
