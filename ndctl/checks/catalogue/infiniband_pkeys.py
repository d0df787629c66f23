"""One full-member partition key on all rails of all nodes; with several, every link is up and nothing connects."""

from __future__ import annotations

from collections import Counter

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.ib_sysfs import parse
from ndctl.profiles.schema import Profile

_ID = "infiniband.pkeys"
_FULL_MEMBER = 0x8000
_DEFAULT = 0x7FFF  # the management partition, with the member bit taken off
_SOURCE = "InfiniBand partitioning; Azure gives each group of VMs a key of its own"


def _keys(pkeys: tuple[int, ...]) -> frozenset[int]:
    """The keys that tell partitions apart: not empty slots, not the default partition."""
    return frozenset(key for key in pkeys if key & _DEFAULT not in (0, _DEFAULT))


def _text(keys: frozenset[int]) -> str:
    return ", ".join(f"0x{key:04x}" for key in sorted(keys)) or "none beside the default"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    rails: dict[tuple[Node, str], frozenset[int]] = {}
    findings: list[Finding] = []
    for node, answer in view.answers.items():
        result = answer.results.get(commands.IB_SYSFS.id)
        if result is None:
            continue
        ports = [port for port in parse(result.stdout).ports if port.link_layer == "InfiniBand"]
        rails.update({(node, port.device): _keys(port.pkeys) for port in ports if port.pkeys})
        if not any(port.pkeys for port in ports):
            findings.append(
                Finding(
                    check=_ID,
                    status=Status.UNKNOWN,
                    subject="partition keys",
                    node=node.name,
                    message="no partition key could be read",
                    evidence=f"{node.name}/{commands.IB_SYSFS.id}",
                )
            )
    if not rails:
        return findings
    counts = Counter(keys for keys in rails.values() if keys)
    usual = min(counts, key=lambda keys: (-counts[keys], sorted(keys)), default=frozenset())
    for (node, device), keys in rails.items():
        problem = _problem(keys, usual)
        if problem:
            findings.append(
                Finding(
                    check=_ID,
                    status=Status.FAIL,
                    subject=device,
                    node=node.name,
                    value=_text(keys),
                    expected=f"{_text(usual)} as on {counts[usual]} of {len(rails)} rails"
                    if usual
                    else "a full-member key",
                    source=_SOURCE,
                    message=problem,
                    cause="the VM is in another partition: another scale set's group, or its port was not configured",
                    action=Action.REDEPLOY,
                    evidence=f"{node.name}/{commands.IB_SYSFS.id}",
                    health_category="Resource.Hpc.Unhealthy.HpcGenericFailure",
                )
            )
    if not findings:
        findings.append(
            Finding(
                check=_ID,
                status=Status.PASS,
                subject=view.name,
                value=_text(usual),
                message=f"one partition key ({_text(usual)}) on {len(rails)} rails",
            )
        )
    return findings


def _problem(keys: frozenset[int], usual: frozenset[int]) -> str:
    if not keys:
        return "has no partition key beside the default"
    if keys != usual:
        return f"partition key {_text(keys)} differs from the rack's {_text(usual)}"
    if not any(key & _FULL_MEMBER for key in keys):
        return f"is only a limited member of {_text(keys)}: limited members cannot talk to each other"
    return ""


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="one full-member InfiniBand partition key on all rails of the rack",
    commands=(commands.IB_SYSFS,),
    judge_rack=_judge_rack,
)
