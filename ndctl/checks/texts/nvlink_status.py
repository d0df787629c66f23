"""What `nvidia-smi nvlink --status` means: every link up, and at one speed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ndctl.checks.read_once import links_of
from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.nvidia_troubles import trouble_findings
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nvlink_status import GpuLinks, Link, NvlinkStatus
from ndctl.profiles.schema import Profile

_SPEED_SLACK = 0.01  # printed to three digits
# Boards whose links may rest by design: PCIe cards without bridge, export variants with fewer links.
_LINKS_MAY_REST = re.compile(
    r"PCIe|\bNVL\b|RTX|\bA10\b|\bA16\b|\bA30\b|\bA40\b|\bL4\b|\bL40|\bT4\b|[AH]800", re.IGNORECASE
)
_NVLINK_CATEGORY = "Resource.Hpc.Unhealthy.NvLink"


def judge(facts: NvlinkStatus, profile: Profile | None) -> Sequence[Finding]:
    """Down links are faults of the GPU or its path; a listing cut short is never a pass under a profile."""
    findings = list(trouble_findings(facts.troubles))
    if not facts.gpus:
        if not findings:
            findings.append(_nothing())
        return findings
    usual = Counter(len(gpu.links) for gpu in facts.gpus if gpu.links)
    expected = profile.nvlink.links_per_gpu.value if profile else (usual.most_common(1)[0][0] if usual else 0)
    for position, gpu in enumerate(facts.gpus):
        last = position == len(facts.gpus) - 1
        findings.extend(_of_gpu(gpu, facts.gpus, expected, last, profile))
    if profile:
        findings.extend(_gpu_count(facts, profile))
    if not any(f.status in (Status.FAIL, Status.WARN, Status.UNKNOWN) for f in findings):
        findings.append(_content(facts, profile))
    return findings


def _nothing() -> Finding:
    """Even a GPU without NVLink has its headline: what names no GPU says nothing of any, whatever a profile expects."""
    return Finding(
        check="nvlink.none",
        status=Status.UNKNOWN,
        subject="text",
        message="no GPU and no link is listed: no GPU was seen, or not the output of nvidia-smi nvlink --status",
    )


def _name(gpu: GpuLinks) -> str:
    return f"GPU {gpu.index}" if gpu.index is not None else "GPU ? (its headline is missing)"


def _of_gpu(
    gpu: GpuLinks, all_gpus: Sequence[GpuLinks], expected: int, last: bool, profile: Profile | None
) -> list[Finding]:
    if not gpu.links:
        return [_without_links(gpu, last, profile)]
    findings = []
    down = [link for link in gpu.links if link.state in {"inactive", "disabled"}]
    strange = [link for link in gpu.links if link.state not in {"inactive", "disabled", "active", "cut"}]
    if down:
        findings.append(_down(gpu, down, all_gpus, profile))
    for link in strange:
        findings.append(
            Finding(
                check="nvlink.link-unread",
                status=Status.UNKNOWN if profile else Status.WARN,
                subject=f"{_name(gpu)} link {link.link}",
                value=link.state,
                message=f"the driver gives no state: '{link.state}'",
                cause="driver cannot read this link",
                action=Action.INVESTIGATE,
            )
        )
    findings.extend(_missing(gpu, expected, last, profile))
    findings.extend(_slow(gpu, all_gpus, profile))
    return findings


def _without_links(gpu: GpuLinks, last: bool, profile: Profile | None) -> Finding:
    said = "; ".join(gpu.notes)
    if re.search(r"inactive", said, re.IGNORECASE):
        rests = not profile and bool(_LINKS_MAY_REST.search(gpu.name))
        return Finding(
            check="nvlink.link-down",
            status=Status.WARN if rests else Status.FAIL,
            subject=f"{_name(gpu)}, all links",
            value=0,
            unit="links active",
            message=f"all NVLinks of {gpu.name or 'this GPU'} are inactive: “{said}”",
            cause="no bridge fitted"
            if rests
            else "the GPU is not part of the fabric: fabric manager, switch or GPU fault",
            action=Action.NONE if rests else Action.INVESTIGATE,
            health_category="" if rests else _NVLINK_CATEGORY,
        )
    if said:
        return Finding(
            check="nvlink.none",
            status=Status.FAIL if profile else Status.UNKNOWN,
            subject=_name(gpu),
            message=f"no links: “{said}”",
            action=Action.INVESTIGATE if profile else Action.NONE,
        )
    return Finding(
        check="nvlink.none",
        status=Status.FAIL if profile and not last else Status.UNKNOWN,
        subject=_name(gpu),
        message="no link is listed under this GPU" + (": is the text cut off?" if last else ""),
        action=Action.INVESTIGATE if profile and not last else Action.NONE,
    )


def _down(gpu: GpuLinks, down: list[Link], all_gpus: Sequence[GpuLinks], profile: Profile | None) -> Finding:
    numbers = ", ".join(str(link.link) for link in down)
    rests = not profile and bool(_LINKS_MAY_REST.search(gpu.name))
    active = sum(1 for link in gpu.links if link.state == "active")
    same = [g for g in all_gpus if {x.link for x in g.links if x.state != "active"} >= {x.link for x in down}]
    everywhere = len(all_gpus) > 2 and len(same) == len(all_gpus) and active > 0
    cause = "link, cable or switch port; the kernel log (XID 149, 74) says which side"
    if everywhere:
        cause = "the same links are down on every GPU: a switch or switch plane, not these GPUs"
    if rests:
        cause = "this board's links may rest by design (no bridge, or a variant with fewer links)"
    return Finding(
        check="nvlink.link-down",
        status=Status.WARN if rests else Status.FAIL,
        subject=f"{_name(gpu)} link {numbers}",
        value=active,
        unit="links active",
        expected=f"{len(gpu.links)} listed" if not profile else f"{profile.nvlink.links_per_gpu.value} links",
        source=profile.nvlink.links_per_gpu.origin if profile else "",
        message=f"NVLink {numbers} of {gpu.name or _name(gpu)} down: {active} of {len(gpu.links)} links active",
        cause=cause,
        action=Action.NONE if rests else Action.INVESTIGATE,
        health_category="" if rests else _NVLINK_CATEGORY,
    )


def _missing(gpu: GpuLinks, expected: int, last: bool, profile: Profile | None) -> list[Finding]:
    whole = [link for link in gpu.links if link.state != "cut"]
    if len(whole) == expected:
        return []
    if len(whole) > expected and not profile:
        return []
    where_cut = last and [link.link for link in whole] == list(range(len(whole)))
    headless = gpu.index is None
    if where_cut or headless or any(link.state == "cut" for link in gpu.links):
        status = Status.UNKNOWN if profile else Status.WARN
        text = f"only {len(whole)} of {expected} links are in the text: it is cut off here"
    elif profile:
        status = Status.FAIL
        text = f"{len(whole)} links listed, {expected} expected"
    else:
        status = Status.WARN
        text = f"{len(whole)} links listed, {expected} on most other GPUs here"
    return [
        Finding(
            check="nvlink.link-count",
            status=status,
            subject=_name(gpu),
            value=len(whole),
            unit="links",
            expected=str(expected),
            source=profile.nvlink.links_per_gpu.origin if profile else "the other GPUs of this text",
            message=text,
            action=Action.INVESTIGATE if status is Status.FAIL else Action.NONE,
        )
    ]


def _slow(gpu: GpuLinks, all_gpus: Sequence[GpuLinks], profile: Profile | None) -> list[Finding]:
    rates = Counter(link.gb_per_s for g in all_gpus for link in g.links if link.state == "active" and link.gb_per_s)
    if profile:
        expected, source = profile.nvlink.link_gb_per_s.value, profile.nvlink.link_gb_per_s.origin
    elif rates:
        expected, source = max(rate for rate in rates if rate), "the fastest links of this text"
    else:
        return []
    slow = [x for x in gpu.links if x.state == "active" and x.gb_per_s and x.gb_per_s < expected * (1 - _SPEED_SLACK)]
    unrated = [x for x in gpu.links if x.state == "active" and x.gb_per_s is None]
    findings = []
    if slow:
        numbers = ", ".join(str(link.link) for link in slow)
        findings.append(
            Finding(
                check="nvlink.link-slow",
                status=Status.FAIL if profile else Status.WARN,
                subject=f"{_name(gpu)} link {numbers}",
                value=min(link.gb_per_s or 0.0 for link in slow),
                unit="GB/s",
                expected=f"{expected:g} GB/s",
                source=source,
                message=f"link {numbers} at {min(x.gb_per_s or 0.0 for x in slow):g} GB/s, not {expected:g}",
                cause="link trained at a lower rate, or another GPU generation than the profile's",
                action=Action.INVESTIGATE,
            )
        )
    if unrated and profile:
        findings.append(
            Finding(
                check="nvlink.link-slow",
                status=Status.UNKNOWN,
                subject=_name(gpu),
                message=f"{len(unrated)} links are active but no speed is given",
            )
        )
    return findings


def _gpu_count(facts: NvlinkStatus, profile: Profile) -> list[Finding]:
    expected = profile.gpu.count.value
    indices = {gpu.index for gpu in facts.gpus}
    uuids = {gpu.uuid for gpu in facts.gpus if gpu.uuid}
    seen = max(len(indices), len(uuids))
    if seen >= expected:
        return []
    last = facts.gpus[-1]
    cut = len(last.links) < profile.nvlink.links_per_gpu.value and not last.notes
    return [
        Finding(
            check="nvlink.gpu-count",
            status=Status.UNKNOWN if cut else Status.FAIL,
            subject="GPUs",
            value=seen,
            unit="GPUs",
            expected=str(expected),
            source=profile.gpu.count.origin,
            message=f"{seen} of {expected} GPUs are listed" + (": is the text cut off?" if cut else ""),
            cause="a GPU is missing, or only a part was pasted",
            action=Action.NONE if cut else Action.INVESTIGATE,
        )
    ]


def _content(facts: NvlinkStatus, profile: Profile | None) -> Finding:
    links = [link for gpu in facts.gpus for link in gpu.links]
    rates = sorted({link.gb_per_s for link in links if link.gb_per_s is not None})
    speed = f" at {rates[-1]:g} GB/s" if rates else ""
    return Finding(
        check="nvlink.links",
        status=Status.PASS,
        subject=f"{len(facts.gpus)} GPUs",
        value=len(links),
        unit="links active",
        expected=f"{profile.nvlink.links_per_gpu.value} a GPU" if profile else "",
        source=profile.nvlink.links_per_gpu.origin if profile else "",
        message=f"{len(links)} NVLinks of {len(facts.gpus)} GPUs active{speed}",
    )


def looks_like(text: str) -> float:
    """A GPU headline and `Link n: … GB/s` or `<inactive>` lines."""
    if re.search(r"\bLink \d+: (?:[\d.]+ GB/s|<?inactive>?)", text, re.IGNORECASE):
        return 0.95 if re.search(r"\bGPU \d+: ", text) else 0.7
    return 0.9 if "retrieve NVLink information" in text else 0.0


JUDGE = TextJudge(
    tool="nvlink-status",
    title="nvidia-smi nvlink --status: links up and their speed",
    parse=links_of,
    judge=judge,
    looks_like=looks_like,
    aliases=("nvidia-smi-nvlink", "nvlink", "nvidia-smi-nvlink-status"),
)
