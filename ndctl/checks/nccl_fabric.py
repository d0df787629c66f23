"""The NVLink fabric as NCCL prints it at start: one clique, registration completed, no trouble in the health mask."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nccl_log import FabricGpu
from ndctl.profiles.schema import Profile

_NO_UUID = re.compile(r"^[0.\-x]*$")  # not registered; equal zeros are no common domain
# Fields of NVML's fabric health mask, two bits each from bit 0: 1 is TRUE (trouble), 2 FALSE, 0 not supported.
_HEALTH_FIELDS = ("degraded bandwidth", "route recovery", "route unhealthy", "access timeout recovery")
_FABRIC_COMPLETED = 3


def fabric_findings(gpus: tuple[FabricGpu, ...], profile: Profile | None) -> Iterator[Finding]:
    """What NCCL's MNNVL lines say of each GPU's place in the NVLink fabric."""
    registered = [gpu for gpu in gpus if not _NO_UUID.match(gpu.uuid)]
    bad = [gpu for gpu in gpus if _troubles(gpu)]
    waiting = [gpu for gpu in registered if gpu.state != _FABRIC_COMPLETED]
    for gpu in bad:
        yield _finding(
            "nccl.fabric-health",
            Status.FAIL,
            f"NVLink fabric health says {', '.join(_troubles(gpu))} (mask {gpu.health_mask:#x})",
            subject=f"GPU {gpu.bus_id}",
            node=gpu.host,
            cause="NVLink fabric of this GPU",
            action=Action.INVESTIGATE,
        )
    for gpu in waiting:
        yield _finding(
            "nccl.fabric-state",
            Status.WARN,
            f"NVLink fabric registration is not completed (state {gpu.state})",
            subject=f"GPU {gpu.bus_id}",
            node=gpu.host,
            expected=f"state {_FABRIC_COMPLETED}",
        )
    domains = sorted({(gpu.uuid, gpu.clique) for gpu in registered})
    if len(domains) > 1:
        yield _finding(
            "nccl.domains",
            Status.WARN,
            f"the ranks sit in {len(domains)} NVLink domains or cliques",
            value=len(domains),
            cause="nodes of several racks, or a partition split",
        )
    elif domains and not bad and not waiting:
        masks = ", ".join(sorted({f"{gpu.health_mask:#x}" for gpu in registered}))
        yield _finding(
            "nccl.fabric",
            Status.PASS,
            f"{len(registered)} GPU{'s' if len(registered) > 1 else ''} registered in one NVLink clique "
            f"{domains[0][1]:#x}, health mask {masks} is healthy",
        )
    if profile and profile.nvlink.domain.value == "rack" and len(registered) < len(gpus):
        yield _finding(
            "nccl.fabric-state",
            Status.FAIL,
            f"{len(gpus) - len(registered)} GPUs are in no NVLink fabric (UUID 0)",
            expected="one cluster UUID for the rack",
            cause="fabric registration, IMEX",
            action=Action.INVESTIGATE,
        )


def _troubles(gpu: FabricGpu) -> list[str]:
    fields = [(name, gpu.health_mask >> 2 * place & 3) for place, name in enumerate(_HEALTH_FIELDS)]
    return [name for name, value in fields if value == 1]


def _finding(
    check: str,
    status: Status,
    message: str,
    *,
    subject: str = "NVLink fabric",
    node: str = "",
    value: int | None = None,
    expected: str = "",
    cause: str = "",
    action: Action = Action.NONE,
) -> Finding:
    return Finding(
        check=check, status=status, subject=subject, node=node, message=message, value=value, expected=expected,
        cause=cause, action=action,
    )  # fmt: skip
