"""What the driver asks for, and temperature, clocks, PCIe and power of one GPU mean."""

from __future__ import annotations

from ndctl.checks.texts.gpu_memory import name_of
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.gpu_facts import Gpu
from ndctl.profiles.schema import Profile

# Driver's words, lower case -> what to do. Newer drivers add words; an unknown one warns.
_RECOVERY = {
    "reset": Action.RESET_GPU,
    "gpu reset": Action.RESET_GPU,
    "gpu reset required": Action.RESET_GPU,
    "reboot": Action.REBOOT,
    "node reboot": Action.REBOOT,
    "node reboot required": Action.REBOOT,
    "system reboot": Action.REBOOT,
    "drain p2p": Action.RESET_GPU,
    "drain and reset": Action.RESET_GPU,
    "bus reset": Action.REBOOT,
    "recover imex domain": Action.RESTART_IMEX,
}
_HOT_REASONS = {
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake": "hardware power brake",
    "hw_slowdown": "hardware slowdown",
}
_LOST_FIELDS = 3  # this many unreadable fields are a lost GPU, fewer a read error


def state_findings(gpu: Gpu, profile: Profile | None) -> list[Finding]:
    """Faults and warnings only."""
    return [
        *_recovery(gpu),
        *_unreadable(gpu),
        *_clocks(gpu),
        *_temperature(gpu, profile),
        *_pcie(gpu),
        *_settings(gpu, profile),
    ]


def sees_state(gpu: Gpu) -> list[str]:
    """Which state the text shows, in words for a pass finding."""
    seen = []
    if gpu.recovery_action is not None:
        seen.append("recovery action")
    if gpu.event_reasons:
        seen.append("clock reasons")
    if gpu.temperature.t_limit is not None or (
        gpu.temperature.gpu is not None and gpu.temperature.slowdown is not None
    ):
        seen.append("temperature")
    return seen


def recovery_action(words: str) -> Action | None:
    """The action a driver's recovery words ask for: NONE for "None"; None for words not known."""
    text = " ".join(words.strip().lower().split())
    return Action.NONE if text in {"none", ""} else _RECOVERY.get(text)


def _one(
    gpu: Gpu,
    check: str,
    status: Status,
    message: str,
    *,
    value: str | float | int | None = None,
    unit: str = "",
    expected: str = "",
    source: str = "",
    cause: str = "",
    action: Action = Action.NONE,
    category: str = "",
) -> Finding:
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


def _recovery(gpu: Gpu) -> list[Finding]:
    words = gpu.recovery_action
    findings = []
    if words is not None:
        action = recovery_action(words)
        if action is None:
            message = f"the driver asks for '{words}', which ndctl does not know"
            findings.append(
                _one(
                    gpu,
                    "gpu.recovery-action",
                    Status.WARN,
                    message,
                    value=words,
                    expected="None",
                    action=Action.INVESTIGATE,
                )
            )
        elif action is not Action.NONE:
            findings.append(
                _one(
                    gpu,
                    "gpu.recovery-action",
                    Status.FAIL,
                    f"the driver asks for: {words}",
                    value=words,
                    expected="None",
                    cause="an earlier fatal error; the kernel log names the XID",
                    action=action,
                )
            )
    asked = gpu.reset_required or gpu.drain_and_reset
    if asked and not findings:
        words = "reset required" if gpu.reset_required else "drain and reset recommended"
        findings.append(
            _one(gpu, "gpu.reset-required", Status.FAIL, words, value=words, expected="No", action=Action.RESET_GPU)
        )
    return findings


def _unreadable(gpu: Gpu) -> list[Finding]:
    if not gpu.errors:
        return []
    said = " ".join(gpu.errors).lower()
    if "requires reset" in said or "gpu is lost" in said:
        message = f"the driver has lost this GPU: {'; '.join(gpu.errors[:3])}"
        return [_one(gpu, "gpu.lost", Status.FAIL, message, value=len(gpu.errors), action=Action.RESET_GPU)]
    if len(gpu.errors) >= _LOST_FIELDS:
        message = f"{len(gpu.errors)} fields cannot be read ({'; '.join(gpu.errors[:3])}): the GPU is lost"
        return [
            _one(
                gpu,
                "gpu.lost",
                Status.FAIL,
                message,
                value=len(gpu.errors),
                unit="unreadable fields",
                cause="GPU fallen off the bus or hung",
                action=Action.REBOOT,
            )
        ]
    message = f"a field cannot be read ({'; '.join(gpu.errors)}): read again before judging"
    return [_one(gpu, "gpu.unreadable-field", Status.WARN, message, value=len(gpu.errors), action=Action.WATCH)]


def _clocks(gpu: Gpu) -> list[Finding]:
    active = {name for name, on in gpu.event_reasons.items() if on}
    hot = [words for name, words in _HOT_REASONS.items() if name in active]
    if len(hot) > 1 and "hardware slowdown" in hot:
        hot.remove("hardware slowdown")  # the sum of the other two
    findings = [
        _one(
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
            _one(gpu, "gpu.clocks-slowed", Status.WARN, message, value="software thermal slowdown", cause="cooling")
        )
    return findings


def _temperature(gpu: Gpu, profile: Profile | None) -> list[Finding]:
    heat = gpu.temperature
    findings = []
    if heat.t_limit is not None and heat.t_limit <= 0:
        message = f"no margin left before throttling (T.Limit {heat.t_limit:g} °C)"
        findings.append(
            _one(
                gpu,
                "gpu.temperature",
                Status.FAIL,
                message,
                value=heat.t_limit,
                unit="°C of margin",
                expected="above 0",
                cause="cooling",
                action=Action.INVESTIGATE,
            )
        )
    elif heat.gpu is not None and heat.slowdown is not None and heat.slowdown > 0 and heat.gpu >= heat.slowdown:
        message = f"{heat.gpu:g} °C, at or above its slowdown temperature {heat.slowdown:g}"
        findings.append(_one(gpu, "gpu.temperature", Status.FAIL, message, value=heat.gpu, unit="°C", cause="cooling"))
    limit = profile.gpu.hbm_limit_c if profile else None
    if limit and heat.memory is not None and heat.memory >= limit.value:
        message = f"memory at {heat.memory:g} °C"
        findings.append(
            _one(
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


def _pcie(gpu: Gpu) -> list[Finding]:
    now, best = gpu.pcie.width_current, gpu.pcie.width_max
    if now is None or best is None or now >= best or gpu.c2c_mode is not None:
        return []  # on C2C boards the host path is not PCIe
    return [
        _one(
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


def _settings(gpu: Gpu, profile: Profile | None) -> list[Finding]:
    if profile is None:
        return []
    findings = []
    want = profile.gpu
    if want.persistence_mode.value and gpu.persistence is False:
        findings.append(
            _one(
                gpu,
                "gpu.persistence-mode",
                Status.WARN,
                "persistence mode is off",
                value="Disabled",
                expected="Enabled",
                source=want.persistence_mode.origin,
                cause="nvidia-persistenced is not running",
                action=Action.FIX_IMAGE,
            )
        )
    if gpu.name and want.name.value.lower() not in gpu.name.lower():
        findings.append(
            _one(
                gpu,
                "gpu.model",
                Status.FAIL,
                f"this is a {gpu.name}",
                value=gpu.name,
                expected=want.name.value,
                source=want.name.origin,
                action=Action.FIX_INVENTORY,
            )
        )
    if gpu.memory_total_mib is not None:
        low = want.memory_gib.value * (1 - want.memory_tolerance.value) * 1024
        if gpu.memory_total_mib < low:
            findings.append(
                _one(
                    gpu,
                    "gpu.memory-size",
                    Status.FAIL,
                    f"only {gpu.memory_total_mib / 1024:.1f} GiB of memory",
                    value=round(gpu.memory_total_mib / 1024, 1),
                    unit="GiB",
                    expected=f"{want.memory_gib.value:g} GiB",
                    source=want.memory_gib.origin,
                    cause="memory taken out of use, or another model",
                    action=Action.INVESTIGATE,
                )
            )
    if want.power_limit_w and gpu.power.limit is not None:
        low, high = want.power_limit_w.value
        if not low <= gpu.power.limit <= high:
            findings.append(
                _one(
                    gpu,
                    "gpu.power-limit",
                    Status.WARN,
                    f"power limit {gpu.power.limit:g} W",
                    value=gpu.power.limit,
                    unit="W",
                    expected=f"{low:g} to {high:g} W",
                    source=want.power_limit_w.origin,
                    cause="limit lowered by someone, or another variant",
                    action=Action.INVESTIGATE,
                )
            )
    return findings
