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
_RUNS = ("active", "reloading")
_RESTS = ("inactive", "failed")
_MOVES = ("activating", "deactivating", "maintenance")
_STATES = (*_RUNS, *_RESTS, *_MOVES)


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    missing = unusable(_ID, answer, commands.FABRIC_MANAGER)
    if missing:
        return [missing]
    wanted = profile.nvlink.host_fabric_manager
    result = answer.results[commands.FABRIC_MANAGER.id]
    state = next(iter(result.stdout.split()), "").lower()
    said = " ".join((result.stdout + " " + result.stderr).split())
    known = state in _STATES
    wrong = state in (*_RUNS, "activating") if wanted.value == "absent" else state in _RESTS
    return [
        Finding(
            check=_ID,
            # One that is on its way up or down has not answered yet.
            status=Status.FAIL if wrong else Status.UNKNOWN if not known or state in _MOVES else Status.PASS,
            subject="nvidia-fabricmanager",
            node=answer.node.name,
            value=state,
            expected=wanted.value,
            source=wanted.origin,
            message=f"nvidia-fabricmanager is {state if known else f'in a state that could not be read: {said[:80]}'}",
            cause=_why(wanted.value) if wrong else "",
            action=Action.FIX_IMAGE if wrong else Action.NONE,
            evidence=evidence(answer, commands.FABRIC_MANAGER),
        )
    ]


def _why(wanted: str) -> str:
    if wanted == "absent":
        return "an image or a person enabled it where it does not belong"
    return "it is not installed or enabled, or it stopped: its log tells"


CHECK = Check(
    id=_ID,
    group=Group.NVLINK,
    level=Level.QUICK,
    title="the host fabric manager is off where NVSwitches are outside the VM, and on where they are inside",
    commands=(commands.FABRIC_MANAGER,),
    judge_node=_judge_node,
    applies=lambda profile: profile.nvlink.host_fabric_manager.value != "optional",
)
