"""What nvidia-smi says of a node's GPUs, put together; shared by the judges of `-q`, `-q -x` and `--query-gpu`."""

from __future__ import annotations

from collections.abc import Sequence

from ndctl.checks.texts.gpu_fabric import fabric_findings, registered
from ndctl.checks.texts.gpu_finding import name_of
from ndctl.checks.texts.gpu_memory import memory_findings, sees_memory
from ndctl.checks.texts.gpu_running import running_findings, sees_running
from ndctl.checks.texts.gpu_state import sees_state, state_findings
from ndctl.checks.texts.nvidia_troubles import trouble_findings
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.gpu_facts import Gpu, Gpus
from ndctl.profiles.schema import Profile


def gpu_findings(facts: Gpus, profile: Profile | None, also_seen: Sequence[str] = ()) -> Sequence[Finding]:
    """Every fault shown; what a whole listing should hold and does not; or a pass that names what was seen.

    also_seen: health that a tool's own judge saw besides.
    """
    findings = list(trouble_findings(facts.troubles))
    for gpu in facts.gpus:
        findings.extend(memory_findings(gpu, profile))
        findings.extend(state_findings(gpu, profile))
        findings.extend(running_findings(gpu, profile))
    findings.extend(fabric_findings(facts.gpus, profile))
    if not facts.gpus:
        return findings or [_nothing("no GPU is in this text")]
    findings.extend(_count(facts, profile))
    if profile:
        findings.extend(_blind_spots(facts.gpus, profile))
    seen = [*_seen(facts.gpus), *also_seen]
    if not any(f.status in (Status.FAIL, Status.UNKNOWN) for f in findings) and not seen:
        findings.append(_nothing("nothing in this text tells whether the GPUs are healthy"))
    if facts.cut and not any(f.status is Status.FAIL for f in findings):
        findings.append(
            Finding(
                check="gpu.text-cut",
                status=Status.UNKNOWN if profile else Status.WARN,
                subject=name_of(facts.gpus[-1]),
                message="the text ends too early: this GPU, or what should follow it, is not all there",
            )
        )
    if not any(f.status in (Status.FAIL, Status.WARN, Status.UNKNOWN) for f in findings):
        findings.append(
            Finding(
                check="gpu.health",
                status=Status.PASS,
                subject=f"{len(facts.gpus)} GPUs",
                value=len(facts.gpus),
                unit="GPUs",
                message=f"{', '.join(seen)} of {len(facts.gpus)} GPUs read, no fault among them",
            )
        )
    return findings


def _nothing(message: str) -> Finding:
    return Finding(check="gpu.none", status=Status.UNKNOWN, subject="text", message=message)


def _seen(gpus: Sequence[Gpu]) -> list[str]:
    """What every GPU of the text shows of its health; an item that only some show is no ground for a pass."""
    seen: dict[str, int] = {}
    for gpu in gpus:
        items = [*sees_memory(gpu), *sees_state(gpu), *sees_running(gpu)]
        if registered(gpu):
            items.append("NVLink fabric")
        for item in items:
            seen[item] = seen.get(item, 0) + 1
    return [item for item, count in seen.items() if count == len(gpus)]


def _count(facts: Gpus, profile: Profile | None) -> list[Finding]:
    shown = len(facts.gpus)
    findings = []
    attached = facts.attached
    if attached is not None and attached > shown:
        findings.append(
            Finding(
                check="gpu.listing-incomplete",
                status=Status.UNKNOWN if profile else Status.WARN,
                subject="GPUs",
                value=shown,
                unit="GPUs",
                expected=f"{attached} attached",
                source="the same text",
                message=f"the text shows {shown} of {attached} attached GPUs; nothing is known of the others",
            )
        )
    if profile:
        expected = profile.gpu.count.value
        present = attached if attached is not None else shown
        if present > expected:
            findings.append(
                Finding(
                    check="gpu.count",
                    status=Status.WARN,
                    subject="GPUs",
                    value=present,
                    unit="GPUs",
                    expected=str(expected),
                    source=profile.gpu.count.origin,
                    message=f"{present} GPUs, {expected} expected: another profile, or texts of several nodes",
                    action=Action.FIX_INVENTORY,
                )
            )
        if present < expected:
            findings.append(
                Finding(
                    check="gpu.count",
                    status=Status.FAIL if not facts.cut else Status.UNKNOWN,
                    subject="GPUs",
                    value=present,
                    unit="GPUs",
                    expected=str(expected),
                    source=profile.gpu.count.origin,
                    message=f"{present} of {expected} GPUs",
                    cause="a GPU is missing, or only a part was pasted",
                    action=Action.NONE if facts.cut else Action.INVESTIGATE,
                    health_category="" if facts.cut else "Resource.Hpc.Unhealthy.HpcMissingGpu",
                )
            )
    return findings


def _blind_spots(gpus: Sequence[Gpu], profile: Profile) -> list[Finding]:
    """In a whole listing (it names the model and its counts) a missing answer is unknown, not fine."""
    findings = []
    for gpu in gpus:
        whole = gpu.name is not None and gpu.uuid is not None and bool(gpu.event_reasons)
        if not whole:
            continue
        missing = []
        if profile.gpu.ecc.value and gpu.ecc.volatile.uncorrectable is None:
            missing.append("ECC counts")
        if gpu.remapped_rows.failure is None:
            missing.append("row remapping")
        if profile.nvlink.domain.value == "rack" and gpu.fabric is None:
            missing.append("NVLink fabric")
        if missing:
            findings.append(
                Finding(
                    check="gpu.not-observable",
                    status=Status.UNKNOWN,
                    subject=name_of(gpu),
                    message=f"the driver does not tell: {', '.join(missing)}",
                    cause="driver too old for this board, or the board does not answer",
                    action=Action.INVESTIGATE,
                )
            )
    return findings
