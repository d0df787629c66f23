"""What `nvidia-smi topo -m` means: on NVSwitch systems every pair of GPUs has the same number of NVLinks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ndctl.checks.texts.base import TextJudge
from ndctl.checks.texts.nvidia_troubles import trouble_findings
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.topo import Topo, parse
from ndctl.profiles.schema import Profile

_SWITCHED = 12  # NVLinks of a pair from which on all pairs go through NVSwitches (A100 and later)


def judge(facts: Topo, profile: Profile | None) -> Sequence[Finding]:
    findings = list(trouble_findings(facts.troubles))
    pairs = _pairs(facts)
    if not pairs:
        if len(facts.gpus) == 1 and not profile:
            message = "one GPU: there is no pair to judge"
        else:
            message = "no pair of GPUs is in this text"
        return findings or [Finding(check="topo.none", status=Status.UNKNOWN, subject="text", message=message)]
    findings.extend(_odd_pairs(pairs, profile))
    missing = [name for name in facts.gpus if name not in facts.links]
    if missing or facts.problems:
        what = f"rows of {', '.join(missing)} are missing" if missing else "; ".join(facts.problems[:2])
        findings.append(
            Finding(
                check="topo.incomplete",
                status=Status.UNKNOWN if profile else Status.WARN,
                subject="text",
                message=f"the table is cut: {what}",
            )
        )
    if profile and len(facts.gpus) < profile.gpu.count.value:
        findings.append(
            Finding(
                check="topo.gpu-count",
                status=Status.FAIL,
                subject="GPUs",
                value=len(facts.gpus),
                unit="GPUs",
                expected=str(profile.gpu.count.value),
                source=profile.gpu.count.origin,
                message=f"{len(facts.gpus)} of {profile.gpu.count.value} GPUs in the table",
                action=Action.INVESTIGATE,
            )
        )
    if not any(f.status in (Status.FAIL, Status.WARN, Status.UNKNOWN) for f in findings):
        kinds = Counter(pairs.values())
        shown = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
        nvlink = any(kind.startswith("NV") for kind in kinds)
        note = "" if nvlink else "; no NVLink between them"
        findings.append(
            Finding(
                check="topo.pairs",
                status=Status.PASS,
                subject=f"{len(facts.gpus)} GPUs",
                value=len(pairs),
                unit="pairs",
                message=f"{len(facts.gpus)} GPUs, pairs: {shown}{note}",
            )
        )
    return findings


def _pairs(facts: Topo) -> dict[tuple[str, str], str]:
    gpus = facts.gpus
    found = {}
    for row, cells in facts.links.items():
        for column, kind in cells.items():
            if row in gpus and column in gpus and row != column and (column, row) not in found:
                found[(row, column)] = kind
    return found


def _odd_pairs(pairs: dict[tuple[str, str], str], profile: Profile | None) -> list[Finding]:
    kinds = Counter(pairs.values())
    usual, count = kinds.most_common(1)[0]
    number = re.fullmatch(r"NV(\d+)", usual)
    if profile:
        usual, source = f"NV{profile.nvlink.links_per_gpu.value}", profile.nvlink.links_per_gpu.origin
    elif number and int(number[1]) >= _SWITCHED and count >= 0.6 * len(pairs):
        source = "the other pairs of this table"
    else:
        return []
    return [
        Finding(
            check="topo.pair",
            status=Status.FAIL,
            subject=f"{one} and {other}",
            value=kind,
            expected=usual,
            source=source,
            message=f"connected by {kind}, not {usual}",
            cause="NVLinks down, or GPUs not in one fabric",
            action=Action.INVESTIGATE,
            health_category="Resource.Hpc.Unhealthy.NvLink",
        )
        for (one, other), kind in pairs.items()
        if kind != usual
    ]


def looks_like(text: str) -> float:
    """The head row and the crosses of the diagonal."""
    if re.search(r"^\W*GPU0\s+(?:GPU1|X)\b", text, re.MULTILINE) and re.search(r"\bX\b", text):
        return 0.95
    return 0.0


JUDGE = TextJudge(
    tool="topo",
    title="nvidia-smi topo -m: how GPUs and NICs are connected",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("nvidia-smi-topo", "nvidia-smi-topo-m"),
)
