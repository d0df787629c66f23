"""Every InfiniBand port of a node is Active and LinkUp at the profile's rate, and all rails of the rack agree."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.catalogue.infiniband_counters import is_ours
from ndctl.checks.from_text import evidence, node_judge
from ndctl.checks.majority import camps, majority
from ndctl.checks.rail_rates import rate_findings
from ndctl.checks.read_once import ports_of
from ndctl.checks.texts.ib_sysfs import JUDGE
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "infiniband.ports"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    """Rates; firmware and board id, which differ where a part was swapped or an update stopped half way."""
    seen: dict[tuple[str, str], dict[str, str]] = {}
    for node, answer in view.answers.items():
        result = answer.results.get(commands.IB_SYSFS.id)
        if result is None:
            continue
        for port in ports_of(result.stdout).ports:
            if port.link_layer == "InfiniBand":
                seen.setdefault(("firmware", port.device), {})[node.name] = port.firmware
                seen.setdefault(("board id", port.device), {})[node.name] = port.board_id
    findings = rate_findings(view, profile, _ID)
    for (what, device), by_node in sorted(seen.items()):
        told = {node_name: value for node_name, value in by_node.items() if value}
        usual = majority(told.values(), len(by_node))
        if usual is None and len(set(told.values())) > 1:
            findings.append(_split(view, what, device, told))
        for node_name, value in told.items():
            if usual is not None and value != usual:
                findings.append(
                    Finding(
                        check=f"{_ID}.mixed",
                        status=Status.WARN,
                        subject=device,
                        node=node_name,
                        value=value,
                        expected=usual,
                        source="the rack's other nodes",
                        message=f"{what} {value} differs from the rack's {usual}",
                        cause="another part or an update that reached only some nodes",
                        action=Action.INVESTIGATE,
                        evidence=f"{node_name}/{commands.IB_SYSFS.id}",
                    )
                )
    return findings


def _split(view: RackView, what: str, device: str, told: dict[str, str]) -> Finding:
    return Finding(
        check=f"{_ID}.mixed",
        status=Status.WARN,
        subject=f"{view.name} {device} {what}",
        value=len(set(told.values())),
        unit="versions",
        expected="one",
        message=f"{what} of {device} is split, and no version has the majority: {camps(told)}",
        cause="an update that reached only a part of the rack",
        action=Action.INVESTIGATE,
    )


# What one node's text says of partition keys and rates is judged where those of the whole rack are compared.
_judge_text = node_judge(
    _ID, JUDGE, commands.IB_SYSFS, keep=lambda finding: "pkey" not in finding.check and "rate" not in finding.check
)


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    findings = _judge_text(answer, profile)
    if findings:
        return findings
    ports = [p for p in ports_of(answer.results[commands.IB_SYSFS.id].stdout).ports if is_ours(p.device, profile)]
    active = sum(1 for port in ports if port.state == "Active")
    complete = active == len(ports) == profile.infiniband.ports.value
    return [
        Finding(
            check=_ID,
            status=Status.PASS if complete else Status.UNKNOWN,
            subject=f"{len(ports)} ports",
            node=answer.node.name,
            value=active,
            unit="ports active",
            expected=str(profile.infiniband.ports.value),
            source=profile.infiniband.ports.origin,
            message=f"{active} of {len(ports)} InfiniBand ports Active",
            evidence=evidence(answer, commands.IB_SYSFS),
        )
    ]


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="InfiniBand ports are Active and LinkUp at the promised rate, with one firmware across the rack",
    commands=(commands.IB_SYSFS,),
    judge_node=_judge_node,
    judge_rack=_judge_rack,
)
