"""What the fabric could do beside carrying data: SHARP and adaptive routing, told as capabilities. Nothing here fails:
a rack without them is a healthy rack."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.model.findings import Finding
from ndctl.model.status import Group, Level, Status
from ndctl.parse.fabric_map import parse
from ndctl.profiles.schema import Profile

_ID = "infiniband.capabilities"
_SERVICE_LEVEL = "NCCL_IB_SL"  # by the service level Azure's fabrics tell adaptively routed traffic apart


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    found: dict[str, str] = {}
    silent = []
    for node, answer in view.answers.items():
        result = answer.results.get(commands.FABRIC_MAP.id)
        fabric = parse(result.stdout) if result is not None else None
        if fabric is None or not fabric.complete:
            silent.append(node.name)
        else:
            found[node.name] = fabric.sharp
    return [_sharp(view, found, silent), _adaptive_routing(view, profile)]


def _sharp(view: RackView, found: dict[str, str], silent: list[str]) -> Finding:
    have = sorted(node for node, library in found.items() if library)
    unheard = f"; {len(silent)} nodes did not tell" if silent else ""
    if not found:
        return _told(view, "sharp", Status.SKIP, "SHARP", "no node told whether it has SHARP's library")
    if not have:
        text = f"SHARP: unsupported, its library is on none of {len(found)} nodes{unheard}"
        return _told(view, "sharp", Status.SKIP, "SHARP", text)
    if len(have) < len(found):
        lack = sorted(set(found) - set(have))
        text = f"SHARP: library on {len(have)} of {len(found)} nodes, not on {', '.join(lack[:3])}: jobs cannot use it"
        return _told(view, "sharp", Status.SKIP, "SHARP", text + unheard)
    text = f"SHARP: library on all {len(found)} nodes{unheard}; whether the fabric grants it, a job shows"
    return _told(view, "sharp", Status.PASS, "SHARP", text)


def _adaptive_routing(view: RackView, profile: Profile) -> Finding:
    """The routing of a subnet is its manager's, and no file of a node tells of it."""
    recipe = profile.nccl.environment
    level = next((env[_SERVICE_LEVEL] for env in recipe.values() if _SERVICE_LEVEL in env), "")
    asks = f"; the profile's jobs ask for it by service level {level}" if level else ""
    text = f"adaptive routing: not to be seen from a node{asks}"
    return _told(view, "adaptive-routing", Status.SKIP, "adaptive routing", text)


def _told(view: RackView, kind: str, status: Status, subject: str, message: str) -> Finding:
    return Finding(check=f"{_ID}.{kind}", status=status, subject=f"{view.name} {subject}", message=message)


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="SHARP and adaptive routing, as capabilities",
    commands=(commands.FABRIC_MAP,),
    judge_rack=_judge_rack,
    required=False,
)
