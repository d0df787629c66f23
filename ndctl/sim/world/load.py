"""A GPU under load: what its clock, temperatures, power and counters do while a program computes on it.

Healthy figures: GB300 trays on Azure show 1,824 to 1,875 TFLOPS with the first GPU of a tray a little behind; the sim
spreads GPUs by 1 % and runs by 0.4 %. A GPU that throttles loses clock, and its counters grow.
"""

from __future__ import annotations

from dataclasses import dataclass

from ndctl.sim.world import seeds
from ndctl.sim.world.parts import Gpu

MAX_SM_MHZ = 2032
_LOADED_SM_MHZ = 1815  # under the power cap
THROTTLED_CLOCK = 0.88  # of it, when too hot
THROTTLED_SHARE = 0.35  # of the time


@dataclass(frozen=True, slots=True)
class Now:
    """What nvidia-smi tells of a GPU at one moment."""

    loaded: bool
    celsius: int
    memory_celsius: int
    sm_mhz: int
    watts: float
    utilization: int
    reasons: int


def is_loaded(gpu: Gpu, now: float) -> bool:
    return now < gpu.loaded_until


def state(gpu: Gpu, now: float) -> Now:
    """Idle figures are the GPU's own; under load heat and power follow from them."""
    if not is_loaded(gpu, now):
        busy = bool(gpu.processes)
        return Now(
            False, gpu.temperature, gpu.memory_temperature, 1920, gpu.power_w, 97 if busy else 0, 0 if busy else 1
        )
    celsius = gpu.temperature + 28 + seeds.number(4, "heat", gpu.uuid)
    memory = gpu.memory_temperature + 34 + seeds.number(4, "memory heat", gpu.uuid)
    clock = _LOADED_SM_MHZ * gpu.compute * seeds.noise(0.004, "clock", gpu.uuid)
    reasons = 0x4
    if gpu.throttles:
        celsius, memory, clock, reasons = 87, max(memory + 28, 97), clock * THROTTLED_CLOCK, 0x4 | 0x8 | 0x40
    watts = gpu.power_limit_w * 0.985 * seeds.noise(0.008, "watts", gpu.uuid, int(now * 4))
    return Now(True, celsius, memory, int(clock // 15 * 15), round(watts, 2), 100, reasons)


def slowed(gpu: Gpu, reason: str, up_s: float) -> int:
    """Microseconds that a clock event counter shows after so many seconds since boot."""
    return gpu.slowed_us.get(reason, 0) + int(gpu.slowing.get(reason, 0.0) * max(0.0, up_s))


def speed(gpu: Gpu) -> float:
    """The share of a healthy GPU's arithmetic that this one does."""
    return gpu.compute * (THROTTLED_CLOCK if gpu.throttles else 1.0)


def end_load(gpu: Gpu, seconds: float) -> None:
    """A load of so many seconds (of the node's, not of the simulator's) has ended: its counters have grown."""
    gpu.loaded_until = 0.0
    gpu.slowed_us["sw_power_cap"] = gpu.slowed_us.get("sw_power_cap", 0) + int(seconds * 0.91e6)
    if gpu.throttles:
        gpu.slowed_us["hw_thermal_slowdown"] = gpu.slowed_us.get("hw_thermal_slowdown", 0) + int(
            seconds * THROTTLED_SHARE * 1e6
        )
