"""What `nvidia-smi nvlink --errorcounters` means. Totals only warn; a failed recovery fails."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.nvidia_troubles import trouble_findings
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nvlink_errors import GpuLinkErrors, LinkErrors, NvlinkErrors, parse
from ndctl.profiles.schema import Profile

_BER_SOURCE = "GoogleCloudPlatform/cluster-toolkit NVLink checks, 2026-12-02"
_BER_LIMITS = {"effective ber": 1e-9, "symbol ber": 1e-25}
# A recovery that worked, and its total, announce a bad link days ahead; they are no fault yet.
_RECOVERED = re.compile(r"recovery (?:successful )?events|^recovery errors$", re.IGNORECASE)
_RECOVERY_FAILED = re.compile(r"recovery failed", re.IGNORECASE)


def judge(facts: NvlinkErrors, profile: Profile | None) -> Sequence[Finding]:
    findings = list(trouble_findings(facts.troubles))
    read = counted = 0
    for gpu in facts.gpus:
        for link in gpu.links:
            counted += sum(1 for count in link.counters.values() if count is not None)
            read += sum(1 for rate in link.rates.values() if rate is not None)
            findings.extend(_of_link(gpu, link))
    read += counted
    # Bit error rates alone say nothing of replays, recoveries and symbol errors.
    if not counted:
        if not findings:
            findings.append(
                Finding(
                    check="nvlink.errors-none",
                    status=Status.UNKNOWN,
                    subject="text",
                    message="no NVLink error counter with a value is in this text",
                )
            )
        return findings
    if profile and len(facts.gpus) < profile.gpu.count.value:
        findings.append(
            Finding(
                check="nvlink.errors-incomplete",
                status=Status.UNKNOWN,
                subject="GPUs",
                value=len(facts.gpus),
                expected=f"{profile.gpu.count.value} GPUs",
                source=profile.gpu.count.origin,
                message=f"counters of {len(facts.gpus)} of {profile.gpu.count.value} GPUs only",
            )
        )
    findings.extend(_cut(facts))
    findings.extend(_untold(facts))
    if not any(f.status in (Status.FAIL, Status.WARN, Status.UNKNOWN) for f in findings):
        links = sum(len(gpu.links) for gpu in facts.gpus)
        findings.append(
            Finding(
                check="nvlink.errors",
                status=Status.PASS,
                subject=f"{len(facts.gpus)} GPUs",
                value=0,
                unit="errors",
                message=f"{read} counters of {links} links on {len(facts.gpus)} GPUs read, no error among them",
            )
        )
    return findings


def _of_link(gpu: GpuLinkErrors, link: LinkErrors) -> list[Finding]:
    subject = f"GPU {'?' if gpu.index is None else gpu.index} link {link.link}"
    findings = []
    for name, count in link.counters.items():
        if name in link.saturated:
            findings.append(
                Finding(
                    check="nvlink.error-saturated",
                    status=Status.WARN,
                    subject=subject,
                    value=count,
                    message=f"{name} stands at its largest value: no longer a count",
                    cause="counter full, or a value the driver could not read",
                    action=Action.INVESTIGATE,
                )
            )
        elif count:
            failed = bool(_RECOVERY_FAILED.search(name))
            recovered = bool(_RECOVERED.search(name))
            cause = "link signal integrity: cable, connector or port"
            if recovered:
                cause = "the link had to be recovered; a count that grows announces a failing link"
            findings.append(
                Finding(
                    check="nvlink.recovery-failed" if failed else "nvlink.errors",
                    status=Status.FAIL if failed else Status.WARN,
                    subject=subject,
                    value=count,
                    unit="events since the counters were reset",
                    expected="0",
                    message=f"{name}: {count}" + ("" if failed else " (a total: read it twice to see if it grows)"),
                    cause=cause,
                    action=Action.INVESTIGATE if failed else Action.WATCH,
                    health_category="Resource.Hpc.Unhealthy.NvLink" if failed else "",
                )
            )
    for name, rate in link.rates.items():
        limit = _BER_LIMITS.get(name.lower())
        if limit is not None and rate is not None and rate > limit:
            findings.append(
                Finding(
                    check="nvlink.bit-error-rate",
                    status=Status.WARN,
                    subject=subject,
                    value=rate,
                    expected=f"at most {limit:g}",
                    source=_BER_SOURCE,
                    message=f"{name} {rate:g} is above {limit:g}",
                    cause="link signal integrity",
                    action=Action.WATCH,
                )
            )
    return findings


def _cut(facts: NvlinkErrors) -> list[Finding]:
    """A last link with fewer counters than the others: the text ends too early."""
    every = [link for gpu in facts.gpus for link in gpu.links]
    most = max(len(link.counters) + len(link.rates) for link in every)
    last = every[-1]
    links = {len(gpu.links) for gpu in facts.gpus}
    if len(last.counters) + len(last.rates) == most and len(facts.gpus[-1].links) == max(links):
        return []
    return [
        Finding(
            check="nvlink.errors-incomplete",
            status=Status.WARN,
            subject=f"GPU {facts.gpus[-1].index} link {last.link}",
            message="the listing ends in the middle: the last GPU or link has fewer counters than the others",
        )
    ]


def _untold(facts: NvlinkErrors) -> list[Finding]:
    """Links without a value for a counter that other links of the text do tell. What none tells is not supported."""
    every = [(gpu, link) for gpu in facts.gpus for link in gpu.links]
    told = {name for _, link in every for name, count in link.counters.items() if count is not None}
    lacking = [
        f"GPU {'?' if gpu.index is None else gpu.index} link {link.link}"
        for gpu, link in every
        if any(count is None and name in told for name, count in link.counters.items())
    ]
    if not lacking:
        return []
    more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    return [
        Finding(
            check="nvlink.errors-incomplete",
            status=Status.UNKNOWN,
            subject=", ".join(lacking[:3]) + more,
            value=len(lacking),
            unit="links",
            message="counters that other links tell have no value here, so nothing is known of them",
        )
    ]


def looks_like(text: str) -> float:
    """`Link n: … Errors: n` lines."""
    if re.search(r"\bLink \d+: [A-Z][A-Za-z ]{2,40}(?:Errors|events|discards|BER)\b[^:\n]{0,8}: ?[\d<N]", text):
        return 0.97
    return 0.0


JUDGE = TextJudge(
    tool="nvlink-errors",
    title="nvidia-smi nvlink --errorcounters: error counters of each link",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("nvidia-smi-nvlink-errors", "nvlink-error-counters"),
)
