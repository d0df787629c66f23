"""The host fabric manager: absent where NVSwitches are outside the VM, running where they are inside."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, unusable
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "nvlink.fabric-manager"


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    missing = unusable(_ID, answer, commands.FABRIC_MANAGER)
    if missing:
        return [missing]
    wanted = profile.nvlink.host_fabric_manager
    lines = answer.results[commands.FABRIC_MANAGER.id].stdout.split()
    state = lines[0] if lines else ""
    wrong = (wanted.value == "absent" and state in ("active", "activating", "reloading")) or (
        wanted.value == "required" and state != "active"
    )
    return [
        Finding(
            check=_ID,
            status=Status.UNKNOWN if not state else Status.FAIL if wrong else Status.PASS,
            subject="nvidia-fabricmanager",
            node=answer.node.name,
            value=state,
            expected=wanted.value,
            source=wanted.origin,
            message=f"nvidia-fabricmanager is {state or 'in a state that could not be read'}",
            cause="an image or a person enabled it where it does not belong" if wrong and state == "active" else "",
            action=Action.FIX_IMAGE if wrong else Action.NONE,
            evidence=evidence(answer, commands.FABRIC_MANAGER),
        )
    ]


CHECK = Check(
    id=_ID,
    group=Group.NVLINK,
    level=Level.QUICK,
    title="the host fabric manager is off where NVSwitches are outside the VM, and on where they are inside",
    commands=(commands.FABRIC_MANAGER,),
    judge_node=_judge_node,
    applies=lambda profile: profile.nvlink.host_fabric_manager.value != "optional",
)
