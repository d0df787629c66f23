"""How the judges of a GPU's listing name the GPU, and the one maker of their findings."""

from __future__ import annotations

from ndctl.model.findings import Finding, Value
from ndctl.model.status import Action, Status
from ndctl.parse.gpu_facts import Gpu


def name_of(gpu: Gpu) -> str:
    return f"GPU {gpu.index} ({gpu.pci})" if gpu.pci else f"GPU {gpu.index}"


def about(
    gpu: Gpu,
    check: str,
    status: Status,
    message: str,
    *,
    value: Value = None,
    unit: str = "",
    expected: str = "",
    source: str = "",
    cause: str = "",
    action: Action = Action.NONE,
    category: str = "",
) -> Finding:
    """A finding about one GPU. `category`: Azure's health category where one fits."""
    return Finding(
        check=check,
        status=status,
        subject=name_of(gpu),
        value=value,
        unit=unit,
        expected=expected,
        source=source,
        message=message,
        cause=cause,
        action=action,
        health_category=category,
    )
