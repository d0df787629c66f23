"""No systemd unit has failed or keeps being restarted; a failure of one that the rack lives by fails the node."""

from __future__ import annotations

import re

from ndctl.checks import host_commands as asked
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, unusable
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse import systemd_units
from ndctl.parse.systemd_units import Unit, UnitFacts
from ndctl.profiles.schema import Profile

_ID = "host.units"
# Without these GPUs lose their state between programs, or NVLink and InfiniBand do not come up.
_VITAL = re.compile(r"^(?:nvidia-(?:persistenced|imex|fabricmanager)|openibd|rdma-load-modules@\S*|opensm)\.service$")
_NO_SYSTEMD = ("offline", "unknown", "")


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    missing = unusable(_ID, answer, asked.HOST_UNITS)
    if missing:
        return [missing]
    result = answer.results[asked.HOST_UNITS.id]
    facts = systemd_units.parse(result.stdout, result.stderr)
    if facts.units:
        return [_finding(answer, unit) for unit in facts.units]
    if facts.state in _NO_SYSTEMD:
        return [_of_node(answer, Status.SKIP, f"systemd does not run here: {_first(facts)}")]
    if facts.state == "degraded":
        # It lists nothing, and says that something failed: the list was not readable.
        return [_of_node(answer, Status.UNKNOWN, f"systemd says degraded, and lists no failed unit: {_first(facts)}")]
    return [_of_node(answer, Status.PASS, f"no unit has failed, systemd says {facts.state}")]


def _first(facts: UnitFacts) -> str:
    return next(iter((*facts.problems, *facts.unknown_fields)), "it says nothing more")


def _of_node(answer: NodeAnswer, status: Status, message: str) -> Finding:
    return Finding(
        check=_ID,
        status=status,
        subject="systemd",
        node=answer.node.name,
        message=message,
        evidence=evidence(answer, asked.HOST_UNITS),
    )


def _finding(answer: NodeAnswer, unit: Unit) -> Finding:
    failed = unit.active == "failed"
    vital = _VITAL.match(unit.name) is not None
    described = f" ({unit.description})" if unit.description else ""
    return Finding(
        check=f"{_ID}.{'failed' if failed else 'restarting'}",
        status=Status.FAIL if failed and vital else Status.WARN,
        subject=unit.name,
        node=answer.node.name,
        value=unit.sub,
        expected="active or inactive",
        source="systemd",
        message=f"{unit.name}{described} {'has failed' if failed else 'ends and is started again and again'}",
        cause=f"see: journalctl -b -u {unit.name}",
        action=Action.RESTART_IMEX if failed and unit.name == "nvidia-imex.service" else Action.INVESTIGATE,
        evidence=evidence(answer, asked.HOST_UNITS),
    )


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="no systemd unit has failed",
    commands=(asked.HOST_UNITS,),
    judge_node=_judge_node,
    required=False,
)
