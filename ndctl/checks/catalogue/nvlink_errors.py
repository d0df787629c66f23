"""NVLink error counters: what grew during this run. Totals hold link training and old events."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.gpus import named
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.nvlink_errors import NvlinkErrors, parse
from ndctl.profiles.schema import Profile

_ID = "nvlink.errors"
# Forward error correction repairs these by design; only their trend says something.
_BENIGN = ("corrected", "fec", "correctable")


def _values(facts: NvlinkErrors) -> dict[tuple[int, int, str], float]:
    return {
        (gpu.index, link.link, name): value
        for gpu in facts.gpus
        if gpu.index is not None
        for link in gpu.links
        for name, value in link.counters.items()
        if value is not None
    }


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    for command in (commands.NVLINK_ERRORS_BEFORE, commands.NVLINK_ERRORS_AFTER):
        missing = unusable(_ID, answer, command)
        if missing:
            return [missing]
    before = _values(parse(answer.results[commands.NVLINK_ERRORS_BEFORE.id].stdout))
    after = _values(parse(answer.results[commands.NVLINK_ERRORS_AFTER.id].stdout))
    raw = evidence(answer, commands.NVLINK_ERRORS_AFTER)
    both = sorted(set(before) & set(after))
    if not both:
        return [
            Finding(
                check=_ID,
                status=Status.SKIP,
                subject="NVLink counters",
                node=answer.node.name,
                message="this driver shows no NVLink error counters, so growth can't be seen",
                evidence=raw,
            )
        ]
    findings = []
    for key in both:
        index, link, name = key
        grown = after[key] - before[key] if after[key] >= before[key] else after[key]
        if grown > 0 and not any(word in name.lower() for word in _BENIGN):
            finding = Finding(
                check=_ID,
                status=Status.WARN,
                subject=f"GPU {index} link {link}",
                node=answer.node.name,
                value=grown,
                unit="events",
                expected="no growth during a run",
                source="NVLink error counters are cumulative; only growth tells of now",
                message=f"{name} +{grown:g} during this run",
                cause="a marginal NVLink: cable cartridge, connector or switch port",
                action=Action.WATCH,
                evidence=raw,
                health_category="Resource.Hpc.Unhealthy.NvLink",
            )
            findings.append(named(finding, answer))
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject="NVLink counters",
            node=answer.node.name,
            value=len(both),
            unit="counters",
            message=f"none of {len(both)} NVLink error counters grew",
            evidence=raw,
        )
    ]


CHECK = Check(
    id=_ID,
    group=Group.NVLINK,
    level=Level.QUICK,
    title="NVLink error counters do not grow",
    commands=(commands.NVLINK_ERRORS_BEFORE, commands.NVLINK_ERRORS_AFTER, commands.NVIDIA_SMI_XML),
    judge_node=_judge_node,
    required=False,
)
