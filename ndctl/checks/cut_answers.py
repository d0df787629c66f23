"""Answers that were longer than their limit: what was cut off was judged by nobody, so the node is not fully known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ndctl.checks.base import Check
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status

CUT = "host.answers.cut"


def cut_answers(answers: Mapping[Node, NodeAnswer], checks: Sequence[Check]) -> list[Finding]:
    """One finding for each answer to a check's command that was cut."""
    limits = {command.id: command.cap_bytes for check in checks for command in check.commands}
    return [
        Finding(
            check=CUT,
            status=Status.UNKNOWN,
            subject=result.id,
            node=node.name,
            expected=f"at most {limits[result.id]:,} bytes",
            source="ndctl",
            message=f"cut at its limit of {limits[result.id]:,} bytes: what came after that is not judged",
            cause="a tool or a log there says far more than a healthy one: read its beginning",
            action=Action.INVESTIGATE,
            evidence=f"{node.name}/{result.id}",
        )
        for node, answer in answers.items()
        for result in answer.results.values()
        if result.truncated and result.id in limits
    ]
