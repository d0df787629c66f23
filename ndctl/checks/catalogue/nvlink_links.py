"""Every NVLink of every GPU is up, at the profile's speed."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import node_judge
from ndctl.checks.gpus import named
from ndctl.checks.texts.nvlink_status import JUDGE
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Group, Level
from ndctl.profiles.schema import Profile

_judge_text = node_judge("nvlink.links", JUDGE, commands.NVLINK_STATUS)


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    return [named(finding, answer) for finding in _judge_text(answer, profile)]


CHECK = Check(
    id="nvlink.links",
    group=Group.NVLINK,
    level=Level.QUICK,
    title="all NVLinks of all GPUs are active at the promised speed",
    commands=(commands.NVLINK_STATUS, commands.NVIDIA_SMI_XML),
    judge_node=_judge_node,
)
