"""Every InfiniBand port of a node is Active and LinkUp at the profile's rate, and all rails of the rack agree."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import common, node_judge
from ndctl.checks.texts.ib_sysfs import JUDGE
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.ib_sysfs import parse
from ndctl.profiles.schema import Profile

_ID = "infiniband.ports"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    """Firmware and board id differ where a part was swapped or an update stopped half way."""
    seen: dict[tuple[str, str], dict[str, str]] = {}
    for node, answer in view.answers.items():
        result = answer.results.get(commands.IB_SYSFS.id)
        if result is None:
            continue
        for port in parse(result.stdout).ports:
            if port.link_layer == "InfiniBand":
                seen.setdefault(("firmware", port.device), {})[node.name] = port.firmware
                seen.setdefault(("board id", port.device), {})[node.name] = port.board_id
    findings = []
    for (what, device), by_node in sorted(seen.items()):
        usual = common(list(by_node.values()))
        for node_name, value in by_node.items():
            if value and usual and value != usual:
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


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="InfiniBand ports are Active and LinkUp at the promised rate, with one firmware across the rack",
    commands=(commands.IB_SYSFS,),
    # Partition keys of one node alone are judged too, but belong to the check that compares them.
    judge_node=node_judge(_ID, JUDGE, commands.IB_SYSFS, keep=lambda finding: "pkey" not in finding.check),
    judge_rack=_judge_rack,
)
