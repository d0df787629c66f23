"""What the output of ubergemm means: a GPU's GEMM rate, or Azure's table of many; with a profile, against its floor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.ubergemm import Ubergemm, parse
from ndctl.profiles.schema import Bounds, Profile

CATEGORY = "Resource.Hpc.Unhealthy.HpcGenericFailure"


def judge(facts: Ubergemm, profile: Profile | None = None) -> list[Finding]:
    """A finding per figure; an output without one is unknown."""
    floor = profile.gpu.gemm_tflops if profile is not None else None
    findings = [_error(text) for text in facts.errors]
    if facts.tflops is not None:
        findings.insert(0, _figure("GPU", facts.tflops, floor))
    findings += _of_table(facts, floor)
    if not findings:
        why = facts.problems[0] if facts.problems else "no GFlops figure in this text"
        findings.append(Finding(check="ubergemm.no-result", status=Status.UNKNOWN, subject="output", message=why))
    return findings


def _of_table(facts: Ubergemm, floor: Bounds | None) -> Iterator[Finding]:
    told = [(f"{host} GPU {i}", value) for host, row in facts.tables.items() for i, value in enumerate(row)]
    for subject, value in told:
        if not value:  # Azure's script writes 0 where a GPU gave no figure
            yield Finding(check="ubergemm.no-result", status=Status.UNKNOWN, subject=subject, message="no figure")
        elif floor is not None and value < floor.warn_below.value:
            yield _figure(subject, value, floor)
    good = [v for _, v in told if v and (floor is None or v >= floor.warn_below.value)]
    if good:
        yield _figure(f"{len(good)} GPUs", min(good), floor)


def _figure(subject: str, tflops: float, floor: Bounds | None) -> Finding:
    if floor is None:
        status, word, expected, source = Status.PASS, "measured", "", ""
    else:
        status = (
            Status.FAIL
            if tflops < floor.fail_below.value
            else Status.WARN
            if tflops < floor.warn_below.value
            else Status.PASS
        )
        word = "measured" if status is Status.PASS else "slow"
        expected = (
            f"{floor.expected.value:g} TFLOPS; warn below {floor.warn_below.value:g}, fail below "
            f"{floor.fail_below.value:g}"
        )
        source = floor.warn_below.origin
    bad = status is not Status.PASS
    return Finding(
        check=f"ubergemm.{word}",
        status=status,
        subject=subject,
        value=round(tflops, 1),
        unit="TFLOPS",
        expected=expected,
        source=source,
        message=f"GEMM at {tflops:,.0f} TFLOPS",
        cause="lower clocks (heat, power) or a degraded GPU" if bad else "",
        action=Action.INVESTIGATE if bad else Action.NONE,
        health_category=CATEGORY if status is Status.FAIL else "",
    )


def _error(text: str) -> Finding:
    return Finding(
        check="ubergemm.error",
        status=Status.UNKNOWN,
        subject="run",
        message=f"the tool complained: {text[:240]}",
        action=Action.INVESTIGATE,
    )


def looks_like(text: str) -> float:
    if re.search(r"^hostname,gpu0(?:_gflops)?,", text, re.MULTILINE | re.IGNORECASE):
        return 0.95
    if re.search(r"\bGFlops:\d", text):
        return 0.95 if "starting" in text.lower() or "ubergemm" in text.lower() else 0.7
    return 0.0


JUDGE = TextJudge(
    tool="ubergemm",
    title="ubergemm of one GPU, or Azure's gpu_test table of many nodes",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("gemm", "gpu-test"),
)
