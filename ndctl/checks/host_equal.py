"""Whether the nodes of a rack have the same of everything in a list: what one node has otherwise, and what is split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ndctl.checks.host_facts import THE_RACK, few
from ndctl.checks.majority import camps, majority
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status

ABSENT = "(none)"
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared, and what to say where it differs.

    noun: what the names are, in the plural, e.g. "kernel settings"; evidence: the command's id.
    """

    check: str
    noun: str
    cause: str
    action: Action
    evidence: str


def compare(what: Comparison, rack: str, by_node: Mapping[str, Mapping[str, str]], voters: int) -> list[Finding]:
    """One finding for each node that differs from the majority, and one for all that is split.

    by_node: node -> name -> value; voters: how many nodes should have told. Empty where all are equal.
    """
    names = sorted({name for values in by_node.values() for name in values})
    differs: dict[str, list[tuple[str, str, str]]] = {}
    split: dict[str, str] = {}
    for name in names:
        values = {node: told.get(name, ABSENT) for node, told in by_node.items()}
        if len(set(values.values())) == 1:
            continue
        usual = majority(values.values(), voters)
        if usual is None:
            split[name] = camps({node: _short(value) for node, value in values.items()})
            continue
        for node, value in values.items():
            if value != usual:
                differs.setdefault(node, []).append((name, value, usual))
    findings = [_differs(what, node, found) for node, found in differs.items()]
    if split:
        findings.append(_split(what, rack, split))
    return findings


def _differs(what: Comparison, node: str, found: list[tuple[str, str, str]]) -> Finding:
    first, value, usual = found[0]
    texts = [f"{name} {_short(value)} beside the rack's {_short(usual)}" for name, value, usual in found]
    return Finding(
        check=f"{what.check}.differs",
        status=Status.WARN,
        subject=first if len(found) == 1 else what.noun,
        node=node,
        value=value if len(found) == 1 else len(found),
        unit="" if len(found) == 1 else what.noun,
        expected=usual if len(found) == 1 else "as on most nodes",
        source=THE_RACK,
        message=few(texts, 3),
        cause=what.cause,
        action=what.action,
        evidence=f"{node}/{what.evidence}",
    )


def _split(what: Comparison, rack: str, split: Mapping[str, str]) -> Finding:
    texts = [f"{name}: {text}" for name, text in split.items()]
    return Finding(
        check=f"{what.check}.split",
        status=Status.WARN,
        subject=rack,
        value=len(split),
        unit=what.noun,
        expected="one value each",
        message=f"the rack is split, and no value has the majority: {few(texts, 2)}",
        cause="a change that reached only a part of the rack",
        action=what.action,
    )


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"
