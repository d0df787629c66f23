"""What the NVLink fabric block of GPUs means: registered, in one clique, healthy."""

from __future__ import annotations

from collections.abc import Sequence

from ndctl.checks.texts.gpu_finding import name_of
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.gpu_facts import Fabric, Gpu
from ndctl.profiles.schema import Profile

_CATEGORY = "Resource.Hpc.Unhealthy.NvLink"
_UUID_LENGTH = 36
_ABSENT = {"", "n/a", "[n/a]", "not supported", "[not supported]"}
# Rack-wide boards whose fabric is more than one baseboard, known by name.
_RACK_BOARDS = ("GB200", "GB300")


def fabric_findings(gpus: Sequence[Gpu], profile: Profile | None) -> list[Finding]:
    """Faults and warnings only. Without a profile an absent fabric is nobody's fault."""
    findings = []
    for gpu in gpus:
        if gpu.fabric is not None:
            findings.extend(_of_gpu(gpu, gpu.fabric, profile))
    findings.extend(_one_clique(gpus))
    return findings


def registered(gpu: Gpu) -> bool:
    """Completed with Success: the GPU is a member of its fabric."""
    fabric = gpu.fabric
    return bool(fabric and _is(fabric.state, "completed") and _is(fabric.status, "success"))


def _is(text: str | None, word: str) -> bool:
    return (text or "").strip().lower() == word


def _make(gpu: Gpu, check: str, status: Status, value: str, message: str, cause: str, action: Action) -> Finding:
    return Finding(
        check=check,
        status=status,
        subject=name_of(gpu),
        value=value,
        expected="Completed, Success",
        message=message,
        cause=cause,
        action=action,
        health_category=_CATEGORY if status is Status.FAIL else "",
    )


def _of_gpu(gpu: Gpu, fabric: Fabric, profile: Profile | None) -> list[Finding]:
    state = (fabric.state or "").strip()
    status = (fabric.status or "").strip()
    rack_wide = profile is not None and profile.nvlink.domain.value == "rack"
    shown = f"{state or 'no state'} / {status or 'no status'}"
    findings = []
    if state.lower() in _ABSENT:
        board = any(name in (gpu.name or "") for name in _RACK_BOARDS)
        if profile is not None and (rack_wide or gpu.name is not None):
            message = f"the GPU is in no NVLink fabric (state {state or 'not shown'}; its status means nothing then)"
            verdict = Status.FAIL if state or not status else Status.UNKNOWN
            findings.append(
                _make(gpu, "fabric.state", verdict, shown, message, "driver or fabric not up", Action.INVESTIGATE)
            )
        elif board:
            message = f"{gpu.name} in no NVLink fabric: state {state or 'not shown'}"
            findings.append(
                _make(gpu, "fabric.state", Status.WARN, shown, message, "a tray without fabric", Action.INVESTIGATE)
            )
    elif _is(state, "in progress") or _is(state, "not started"):
        message = f"fabric registration {state.lower()}: normal for minutes after boot, a fault when it stays"
        cause = "fabric manager or switch trays not ready"
        findings.append(_make(gpu, "fabric.state", Status.WARN, shown, message, cause, Action.WATCH))
    elif not _is(state, "completed"):
        findings.append(
            _make(gpu, "fabric.state", Status.UNKNOWN, shown, f"unknown state '{state}'", "", Action.INVESTIGATE)
        )
    elif status.lower() in _ABSENT or (status.lower() != "success" and "success".startswith(status.lower())):
        message = "registration completed, but its status is not shown"
        findings.append(_make(gpu, "fabric.status", Status.UNKNOWN, shown, message, "text cut off?", Action.NONE))
    elif not _is(status, "success"):
        message = f"registration completed with '{status}': the fabric cannot be used from this GPU"
        cause = "the fabric has no place for this GPU: partition, switch or fabric manager"
        findings.append(_make(gpu, "fabric.status", Status.FAIL, shown, message, cause, Action.INVESTIGATE))
    findings.extend(_health(gpu, fabric))
    if rack_wide and registered(gpu):
        findings.extend(_identity(gpu, fabric, profile))
    return findings


def _health(gpu: Gpu, fabric: Fabric) -> list[Finding]:
    summary = (fabric.health or "").strip()
    faults = ", ".join(fabric.faults)
    if summary.lower() == "unhealthy" or fabric.faults:
        limited = summary.lower() == "limited capacity"
        return [
            _make(
                gpu,
                "fabric.health",
                Status.FAIL,
                faults or summary,
                f"fabric health {summary or 'not summarised'}: {faults or 'no detail given'}",
                "lost NVLink bandwidth on this GPU" if limited else "this GPU's routes or configuration in the fabric",
                Action.INVESTIGATE,
            )
        ]
    if summary.lower() == "limited capacity":
        message = "fabric health: limited capacity, no detail given"
        return [_make(gpu, "fabric.health", Status.FAIL, summary, message, "lost NVLink bandwidth", Action.INVESTIGATE)]
    if summary.lower() in {*_ABSENT, "healthy", "none", "unknown"}:
        return []
    return [
        _make(gpu, "fabric.health", Status.WARN, summary, f"unknown fabric health '{summary}'", "", Action.INVESTIGATE)
    ]


def _identity(gpu: Gpu, fabric: Fabric, profile: Profile | None) -> list[Finding]:
    if fabric.cluster_uuid is None:
        return []  # not asked
    uuid = fabric.cluster_uuid.strip()
    if uuid.strip("0-") and uuid.lower() not in _ABSENT:
        return []
    return [
        Finding(
            check="fabric.cluster-uuid",
            status=Status.FAIL if uuid else Status.UNKNOWN,
            subject=name_of(gpu),
            value=uuid,
            expected="the rack's cluster UUID",
            source=profile.nvlink.domain.origin if profile else "",
            message="the cluster UUID is empty: the GPU belongs to no rack-wide domain"
            if uuid
            else "the cluster UUID is not in the text",
            cause="the fabric manager of the switch trays has not taken this tray in",
            action=Action.INVESTIGATE,
            health_category=_CATEGORY if uuid else "",
        )
    ]


def _one_clique(gpus: Sequence[Gpu]) -> list[Finding]:
    members = {
        gpu.index: (str(gpu.fabric.cluster_uuid).lower(), str(gpu.fabric.clique_id))
        for gpu in gpus
        if gpu.fabric
        and registered(gpu)
        and len(gpu.fabric.cluster_uuid or "") == _UUID_LENGTH  # a shorter one is cut
        and gpu.fabric.clique_id is not None
    }
    if len(set(members.values())) < 2:
        return []
    shown = "; ".join(f"GPU {index}: {uuid}.{clique}" for index, (uuid, clique) in members.items())
    return [
        Finding(
            check="fabric.clique-split",
            status=Status.FAIL,
            subject="GPUs",
            value=len(set(members.values())),
            expected="one cluster UUID and clique on a node",
            message=f"the GPUs of this text are in different NVLink cliques: {shown[:400]}",
            cause="a partition that splits the node, or listings of several racks in one text",
            action=Action.INVESTIGATE,
            health_category=_CATEGORY,
        )
    ]
