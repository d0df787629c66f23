"""The local NVMe disks say of themselves that they are well: no critical warning, no media errors, wear left."""

from __future__ import annotations

from ndctl.checks import host_commands as asked
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, refused_root, unusable
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse import nvme_smart
from ndctl.parse.nvme_smart import Smart
from ndctl.profiles.schema import Profile

_ID = "host.smart"
_SOURCE = "NVM Express base specification, SMART / Health Information log"
_WORN = 100  # percent of its endurance; the specification lets it count beyond
_BITS = {
    0: "spare blocks below the limit",
    1: "temperature outside its limits",
    2: "reliability degraded by media or internal errors",
    3: "read-only",
    4: "its memory backup has failed",
    5: "its persistent memory is unreliable or read-only",
}
_WARN_ONLY = 1 << 1


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    result = answer.results.get(asked.HOST_SMART.id)
    if result is not None and result.missing_tool:
        return [_skip(answer, "nvme-cli is not installed")]
    if result is not None and refused_root(result):
        return [_skip(answer, "the login user may not become root, which the disks' own log needs")]
    missing = unusable(_ID, answer, asked.HOST_SMART)
    if missing or result is None:
        return [missing] if missing else []
    facts = nvme_smart.parse(result.stdout, result.stderr)
    disks = facts.disks
    told = [disk for disk in disks if disk.answered]
    if not told and facts.complete:
        why = next((f"{disk.name}: {disk.refusal}" for disk in disks if disk.refusal), "no disk was asked")
        return [_skip(answer, f"no disk tells of its health: {why}")]
    findings = [finding for disk in told for finding in _judged(answer, disk)]
    findings += [_mute(answer, disk) for disk in disks if not disk.answered and _is_data(disk, profile)]
    if not facts.complete:
        findings.append(_broke_off(answer))
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject="NVMe disks",
            node=answer.node.name,
            value=len(told),
            unit="disks",
            message=f"{len(told)} disks without media errors or warnings"
            + (f", at most {max(worn)} % worn" if (worn := [d.percent_used for d in told if d.percent_used]) else ""),
            evidence=evidence(answer, asked.HOST_SMART),
        )
    ]


def _is_data(disk: Smart, profile: Profile) -> bool:
    return profile.host.nvme_data_model.value.lower() in disk.model.lower()


def _broke_off(answer: NodeAnswer) -> Finding:
    return Finding(
        check=_ID,
        status=Status.UNKNOWN,
        subject="NVMe disks",
        node=answer.node.name,
        message="the answer broke off before its end: not every disk was asked",
        evidence=evidence(answer, asked.HOST_SMART),
    )


def _mute(answer: NodeAnswer, disk: Smart) -> Finding:
    """Others of its kind answer, so it could."""
    return Finding(
        check=f"{_ID}.no-answer",
        status=Status.UNKNOWN,
        subject=disk.name,
        node=answer.node.name,
        message=f"{disk.name} does not tell of its health, as the other disks do: {disk.refusal}",
        cause="the disk hangs, or is about to be lost",
        action=Action.INVESTIGATE,
        evidence=evidence(answer, asked.HOST_SMART),
    )


def _judged(answer: NodeAnswer, disk: Smart) -> list[Finding]:
    findings = []
    warning = disk.critical_warning or 0
    if warning:
        words = [text for bit, text in _BITS.items() if warning >> bit & 1] or [f"mask 0x{warning:02x}"]
        findings.append(
            _finding(
                answer,
                disk,
                "critical-warning",
                Status.WARN if warning == _WARN_ONLY else Status.FAIL,
                (f"0x{warning:02x}", "", "0x00"),
                f"{disk.name} warns: {', '.join(words)}",
                Action.INVESTIGATE if warning == _WARN_ONLY else Action.REDEPLOY,
            )
        )
    if disk.media_errors:
        findings.append(
            _finding(
                answer,
                disk,
                "media-errors",
                Status.WARN,
                (disk.media_errors, "errors", "none"),
                f"{disk.name} has met {disk.media_errors} media errors in its life",
                Action.WATCH,
            )
        )
    if disk.percent_used is not None and disk.percent_used >= _WORN:
        findings.append(
            _finding(
                answer,
                disk,
                "worn",
                Status.WARN,
                (disk.percent_used, "%", f"below {_WORN} %"),
                f"{disk.name} has used up {disk.percent_used} % of the endurance its maker promises",
                Action.WATCH,
            )
        )
    return findings


def _finding(
    answer: NodeAnswer,
    disk: Smart,
    what: str,
    status: Status,
    measured: tuple[int | str, str, str],
    message: str,
    action: Action,
) -> Finding:
    value, unit, expected = measured
    return Finding(
        check=f"{_ID}.{what}",
        status=status,
        subject=disk.name or "NVMe disk",
        node=answer.node.name,
        value=value,
        unit=unit,
        expected=expected,
        source=_SOURCE,
        message=message,
        cause="the disk wears out or is broken",
        action=action,
        evidence=evidence(answer, asked.HOST_SMART),
        health_category="Resource.Hpc.Unhealthy.HpcGenericFailure" if status is Status.FAIL else "",
    )


def _skip(answer: NodeAnswer, why: str) -> Finding:
    return Finding(
        check=_ID,
        status=Status.SKIP,
        subject="NVMe disks",
        node=answer.node.name,
        message=why,
        evidence=evidence(answer, asked.HOST_SMART),
    )


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="the NVMe disks report no critical warning and no media errors",
    commands=(asked.HOST_SMART,),
    judge_node=_judge_node,
    required=False,
)
