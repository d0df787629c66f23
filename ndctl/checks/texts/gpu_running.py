"""What clocks, temperatures, PCIe and power of one GPU mean: how it runs at this moment."""

from __future__ import annotations

from ndctl.checks.texts.gpu_finding import about
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.gpu_facts import Gpu
from ndctl.profiles.schema import Profile

_HOT_REASONS = {
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake": "hardware power brake",
    "hw_slowdown": "hardware slowdown",
}


def running_findings(gpu: Gpu, profile: Profile | None) -> list[Finding]:
    """Faults and warnings only."""
    return [
        *clock_findings(gpu),
        *temperature_findings(gpu, profile),
        *pcie_findings(gpu),
        *power_findings(gpu, profile),
    ]


def sees_running(gpu: Gpu) -> list[str]:
    """What of it the text shows, in words for a pass finding."""
    seen = []
    if gpu.event_reasons:
        seen.append("clock reasons")
    if gpu.temperature.t_limit is not None or (
        gpu.temperature.gpu is not None and gpu.temperature.slowdown is not None
    ):
        seen.append("temperature")
    return seen


def on_c2c(gpu: Gpu) -> bool:
    """Whether chip-to-chip links join it to its CPU; boards without them print Disabled or N/A."""
    return (gpu.c2c_mode or "").strip().lower() == "enabled"


def clock_findings(gpu: Gpu) -> list[Finding]:
    """What holds the clocks down at this moment. Idle (0x1) and the power cap under load (0x4) are no fault."""
    active = {name for name, on in gpu.event_reasons.items() if on}
    hot = [words for name, words in _HOT_REASONS.items() if name in active]
    if len(hot) > 1 and "hardware slowdown" in hot:
        hot.remove("hardware slowdown")  # the sum of the other two
    findings = [
        about(
            gpu,
            "gpu.clocks-slowed",
            Status.FAIL,
            f"clocks are held down: {words}",
            value=words,
            cause="cooling" if "thermal" in words else "power supply or board",
            action=Action.INVESTIGATE,
        )
        for words in hot
    ]
    if "sw_thermal_slowdown" in active and not findings:
        message = "clocks are held down by the driver for temperature"
        findings.append(
            about(
                gpu,
                "gpu.clocks-slowed",
                Status.WARN,
                message,
                value="software thermal slowdown",
                cause="cooling",
                action=Action.INVESTIGATE,
            )
        )
    return findings


def temperature_findings(gpu: Gpu, profile: Profile | None) -> list[Finding]:
    """Against the GPU's own limits, and the memory's in the profile."""
    heat = gpu.temperature
    findings = []
    if heat.t_limit is not None and heat.t_limit <= 0:
        message = f"no margin left before throttling (T.Limit {heat.t_limit:g} °C)"
        findings.append(
            about(
                gpu,
                "gpu.temperature",
                Status.FAIL,
                message,
                value=heat.t_limit,
                unit="°C of margin",
                expected="above 0",
                source="the GPU itself",
                cause="cooling",
                action=Action.INVESTIGATE,
            )
        )
    elif heat.gpu is not None and heat.slowdown is not None and heat.slowdown > 0 and heat.gpu >= heat.slowdown:
        message = f"{heat.gpu:g} °C, at or above its slowdown temperature {heat.slowdown:g}"
        findings.append(
            about(
                gpu,
                "gpu.temperature",
                Status.FAIL,
                message,
                value=heat.gpu,
                unit="°C",
                expected=f"under {heat.slowdown:g} °C",
                source="the GPU itself",
                cause="cooling",
                action=Action.INVESTIGATE,
            )
        )
    limit = profile.gpu.hbm_limit_c if profile else None
    if limit and heat.memory is not None and heat.memory >= limit.value:
        message = f"memory at {heat.memory:g} °C"
        findings.append(
            about(
                gpu,
                "gpu.memory-temperature",
                Status.FAIL,
                message,
                value=heat.memory,
                unit="°C",
                expected=f"under {limit.value:g} °C",
                source=limit.origin,
                cause="cooling",
                action=Action.INVESTIGATE,
            )
        )
    return findings


def pcie_findings(gpu: Gpu) -> list[Finding]:
    """Fewer lanes than the slot has. A board on C2C links reaches its CPU by those, and its lanes say little."""
    now, best = gpu.pcie.width_current, gpu.pcie.width_max
    if now is None or best is None or now >= best or on_c2c(gpu):
        return []
    return [
        about(
            gpu,
            "gpu.pcie-width",
            Status.WARN,
            f"PCIe runs on {now} of {best} lanes",
            value=now,
            unit="lanes",
            expected=str(best),
            cause="slot, riser or lane fault; some hosts give fewer lanes by design",
            action=Action.INVESTIGATE,
        )
    ]


def power_findings(gpu: Gpu, profile: Profile | None) -> list[Finding]:
    """The enforced limit against the profile's window; what the GPU draws is nobody's fault."""
    window = profile.gpu.power_limit_w if profile else None
    if window is None or gpu.power.limit is None:
        return []
    low, high = window.value
    if low <= gpu.power.limit <= high:
        return []
    return [
        about(
            gpu,
            "gpu.power-limit",
            Status.WARN,
            f"power limit {gpu.power.limit:g} W",
            value=gpu.power.limit,
            unit="W",
            expected=f"{low:g} to {high:g} W",
            source=window.origin,
            cause="limit lowered by someone, or another variant",
            action=Action.INVESTIGATE,
        )
    ]
