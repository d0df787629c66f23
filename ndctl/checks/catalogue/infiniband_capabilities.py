"""What the fabric could do beside carrying data: SHARP and adaptive routing, told as capabilities. Nothing here fails:
a rack without them is a healthy rack."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import unusable
from ndctl.checks.read_once import fabric_of
from ndctl.model.findings import Finding
from ndctl.model.status import Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "infiniband.capabilities"
_SERVICE_LEVEL = "NCCL_IB_SL"  # by the service level Azure's fabrics tell adaptively routed traffic apart


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    found: dict[str, str] = {}
    findings = []
    for node, answer in view.answers.items():
        if not answer.results:
            continue
        missing = unusable(_ID, answer, commands.FABRIC_MAP)
        if missing:
            findings.append(missing)
            continue
        fabric = fabric_of(answer.results[commands.FABRIC_MAP.id].stdout)
        if fabric.complete:
            found[node.name] = fabric.sharp
    return [*findings, _sharp(view, found), _adaptive_routing(view, profile)]


def _sharp(view: RackView, found: dict[str, str]) -> Finding:
    have = sorted(node for node, library in found.items() if library)
    if not found:
        return _told(view, Status.SKIP, "SHARP", "no node told whether it has SHARP's library")
    if not have:
        return _told(view, Status.SKIP, "SHARP", f"unsupported: its library is on none of {len(found)} nodes")
    if len(have) < len(found):
        lack = ", ".join(sorted(set(found) - set(have))[:3])
        text = f"library on {len(have)} of {len(found)} nodes, not on {lack}: jobs over all of them cannot use it"
        return _told(view, Status.SKIP, "SHARP", text)
    text = f"library on all {len(found)} nodes that told; whether the fabric grants it, a job shows"
    return _told(view, Status.PASS, "SHARP", text)


def _adaptive_routing(view: RackView, profile: Profile) -> Finding:
    """The routing of a subnet is its manager's, and no file of a node tells of it."""
    recipe = profile.nccl.environment
    level = next((env[_SERVICE_LEVEL] for env in recipe.values() if _SERVICE_LEVEL in env), "")
    asks = f"; the profile's jobs ask for it by service level {level}" if level else ""
    return _told(view, Status.SKIP, "adaptive routing", f"not to be seen from a node{asks}")


def _told(view: RackView, status: Status, subject: str, message: str) -> Finding:
    return Finding(check=_ID, status=status, subject=f"{view.name} {subject}", message=message)


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="SHARP and adaptive routing, as capabilities",
    commands=(commands.FABRIC_MAP,),
    judge_rack=_judge_rack,
    required=False,
)
