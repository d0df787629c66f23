"""What `dcgmi nvlink` says of links; with a profile, whether all that should be up are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.dcgmi_nvlink import DcgmiNvlink, Owner, parse
from ndctl.profiles.schema import Profile


def judge(facts: DcgmiNvlink, profile: Profile | None = None) -> list[Finding]:
    """Findings about one listing."""
    findings = [
        _say("nvlink.no-result", Status.UNKNOWN, "DCGM", f"DCGM gave no listing: {error}") for error in facts.errors[:1]
    ]
    for kind, owners in (("GPU", facts.gpus), ("NVSwitch", facts.switches)):
        for owner in owners:
            findings += _owner(owner, kind, profile)
    findings += [
        _say(
            "nvlink.errors", Status.WARN, f"GPU {one.gpu if one.gpu is not None else '?'} link {one.link}",
            f"{one.counter}: {one.count}", value=one.count, cause="errors since the counters were last cleared",
        )
        for one in facts.counters
        if one.count
    ]  # fmt: skip
    links = [link for owner in facts.gpus for link in owner.links]
    up = sum(1 for link in links if link.state == "up")
    if not links and not facts.counters and not findings:
        findings.append(_say("nvlink.no-result", Status.UNKNOWN, "text", "no link listing in this text"))
    elif links and not up and not findings:
        findings.append(_say("nvlink.none", Status.UNKNOWN, "GPUs", "no GPU has an NVLink that is up"))
    elif not facts.complete:
        findings.append(_say("nvlink.cut", Status.UNKNOWN, "text", "the listing is cut off: GPUs may be missing"))
    if profile and facts.gpus and len(facts.gpus) != profile.gpu.count.value:
        findings.append(
            _say(
                "nvlink.gpus", Status.FAIL, "GPUs", f"{len(facts.gpus)} GPUs are listed", value=len(facts.gpus),
                expected=f"{profile.gpu.count.value} GPUs", source=profile.gpu.count.origin, action=Action.INVESTIGATE,
            )
        )  # fmt: skip
    if up:
        findings.insert(0, _say("nvlink.up", Status.PASS, "GPUs", f"{up} of {len(links)} links of GPUs are up"))
    elif facts.counters and not any(one.count for one in facts.counters):
        findings.insert(0, _say("nvlink.errors", Status.PASS, "GPUs", f"{len(facts.counters)} error counters are 0"))
    return findings


def _owner(owner: Owner, kind: str, profile: Profile | None) -> Iterator[Finding]:
    name = f"{kind} {owner.index}"
    down = [link.link for link in owner.links if link.state == "down"]
    disabled = [link.link for link in owner.links if link.state == "disabled"]
    up = sum(1 for link in owner.links if link.state == "up")
    if down:
        every = len(down) == len(owner.links)
        which = f"all {len(down)} links" if every else f"link {', '.join(map(str, down))}"
        yield _say(
            "nvlink.link-down", Status.FAIL, name, f"{which} down", value=len(down), expected="up",
            cause="NVLink fabric or fabric manager" if every else "this link, its peer or its cable",
            action=Action.INVESTIGATE,
        )  # fmt: skip
    if disabled:
        yield _say(
            "nvlink.link-disabled", Status.WARN, name, f"link {', '.join(map(str, disabled))} disabled",
            value=len(disabled),
        )  # fmt: skip
    if profile and kind == "GPU" and up < profile.nvlink.links_per_gpu.value and not down:
        wanted = profile.nvlink.links_per_gpu
        yield _say(
            "nvlink.links", Status.FAIL, name, f"{up} links up", value=up, expected=f"{wanted.value} links",
            source=wanted.origin, action=Action.INVESTIGATE,
        )  # fmt: skip


def looks_like(text: str) -> float:
    if "NvLink Link Status" in text or re.search(r"gpuId \d+:\s*\n\s+[UDX_] ", text):
        return 0.97
    return 0.9 if "NVLINK Error Counts" in text else 0.0


def _say(
    check: str,
    status: Status,
    subject: str,
    message: str,
    *,
    value: int | None = None,
    expected: str = "",
    source: str = "",
    cause: str = "",
    action: Action = Action.NONE,
) -> Finding:
    return Finding(
        check=check, status=status, subject=subject, message=message, value=value, expected=expected, source=source,
        cause=cause, action=action,
    )  # fmt: skip


JUDGE = TextJudge(
    tool="dcgmi-nvlink",
    title="dcgmi nvlink -s (link states) and -e (error counts)",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("dcgm-nvlink",),
)
