"""nvidia-smi --query-…: fields by name, as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import localtime, strftime

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import load
from ndctl.sim.world.parts import Gpu
from ndctl.sim.world.view import DRIVER_VERSION, NodeView

Field = tuple[str, Callable[[Gpu, NodeView], object]]
# What a load changes from one moment to the next: never kept.
_MOVES: dict[str, tuple[str, Callable[[load.Now], object]]] = {
    "temperature.gpu": ("", lambda now: now.celsius),
    "temperature.gpu.tlimit": ("", lambda now: 87 - now.celsius),
    "temperature.memory": ("", lambda now: now.memory_celsius),
    "utilization.gpu": ("%", lambda now: now.utilization),
    "utilization.memory": ("%", lambda now: now.utilization),
    "power.draw": ("W", lambda now: f"{now.watts:.2f}"),
    "power.draw.instant": ("W", lambda now: f"{now.watts + 0.41:.2f}"),
    "power.draw.average": ("W", lambda now: f"{now.watts:.2f}"),
    "clocks.sm": ("MHz", lambda now: now.sm_mhz),
    "clocks.current.sm": ("MHz", lambda now: now.sm_mhz),
    "clocks_event_reasons.active": ("", lambda now: f"0x{now.reasons:016x}"),
    "clocks_throttle_reasons.active": ("", lambda now: f"0x{now.reasons:016x}"),
}
_COUNTERS = "clocks_event_reasons_counters."
_REASONS = ("sw_power_cap", "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")


def _yes(value: bool) -> str:
    return "Yes" if value else "No"


def _used(gpu: Gpu) -> int:
    return sum(process.used_mib for process in gpu.processes)


# Field name -> (unit in the header, value).
_GPU: dict[str, Field] = {
    "index": ("", lambda g, v: g.index),
    "count": ("", lambda g, v: len(v.live_gpus)),
    "name": ("", lambda g, v: g.name),
    "gpu_name": ("", lambda g, v: g.name),
    "uuid": ("", lambda g, v: g.uuid),
    "gpu_uuid": ("", lambda g, v: g.uuid),
    "serial": ("", lambda g, v: g.serial),
    "gpu_serial": ("", lambda g, v: g.serial),
    "pci.bus_id": ("", lambda g, v: g.pci),
    "gpu_bus_id": ("", lambda g, v: g.pci),
    "pci.domain": ("", lambda g, v: f"0x{g.pci[4:8]}"),
    "pci.device_id": ("", lambda g, v: f"0x{v.shape.pci_device_id.upper()}10DE"),
    "driver_version": ("", lambda g, v: DRIVER_VERSION),
    "vbios_version": ("", lambda g, v: "97.10.4A.00.05"),
    "inforom.img": ("", lambda g, v: "G548.0301.00.05" if g.inforom_ok else "[N/A]"),
    "inforom.image": ("", lambda g, v: "G548.0301.00.05" if g.inforom_ok else "[N/A]"),
    "inforom.checksum_validation": ("", lambda g, v: "valid" if g.inforom_ok else "invalid"),
    "persistence_mode": ("", lambda g, v: "Enabled"),
    "compute_mode": ("", lambda g, v: "Default"),
    "pstate": ("", lambda g, v: "P0"),
    "mig.mode.current": ("", lambda g, v: "Disabled"),
    "ecc.mode.current": ("", lambda g, v: "Enabled"),
    "ecc.mode.pending": ("", lambda g, v: "Enabled"),
    "ecc.errors.corrected.volatile.total": ("", lambda g, v: 0),
    "ecc.errors.corrected.aggregate.total": ("", lambda g, v: 0),
    "ecc.errors.uncorrected.volatile.total": ("", lambda g, v: g.ecc_volatile_dram),
    "ecc.errors.uncorrected.volatile.dram": ("", lambda g, v: g.ecc_volatile_dram),
    "ecc.errors.uncorrected.volatile.sram": ("", lambda g, v: 0),
    "ecc.errors.uncorrected.aggregate.total": ("", lambda g, v: g.ecc_aggregate_dram),
    "ecc.errors.uncorrected.aggregate.dram": ("", lambda g, v: g.ecc_aggregate_dram),
    "ecc.errors.uncorrected.aggregate.sram": ("", lambda g, v: 0),
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": ("", lambda g, v: "No"),
    "remapped_rows.correctable": ("", lambda g, v: g.remap_correctable),
    "remapped_rows.uncorrectable": ("", lambda g, v: g.remap_uncorrectable),
    "remapped_rows.pending": ("", lambda g, v: _yes(g.remap_pending)),
    "remapped_rows.failure": ("", lambda g, v: _yes(g.remap_failure)),
    "gpu_recovery_action": ("", lambda g, v: g.recovery_action),
    "c2c.mode": ("", lambda g, v: "Enabled" if v.shape.arm else "Disabled"),
    "fabric.state": ("", lambda g, v: g.fabric.state),
    "fabric.status": ("", lambda g, v: g.fabric.status),
    "fabric.cliqueId": ("", lambda g, v: g.fabric.clique_id),
    "fabric.clusterUuid": ("", lambda g, v: g.fabric.cluster_uuid),
    "memory.total": ("MiB", lambda g, v: g.memory_mib),
    "memory.reserved": ("MiB", lambda g, v: 1024),
    "memory.used": ("MiB", lambda g, v: _used(g)),
    "memory.free": ("MiB", lambda g, v: g.memory_mib - 1024 - _used(g)),
    "power.limit": ("W", lambda g, v: f"{g.power_limit_w:.2f}"),
    "enforced.power.limit": ("W", lambda g, v: f"{g.power_limit_w:.2f}"),
    "power.default_limit": ("W", lambda g, v: f"{g.power_limit_w:.2f}"),
    "power.max_limit": ("W", lambda g, v: f"{g.power_limit_w:.2f}"),
    "clocks.max.sm": ("MHz", lambda g, v: load.MAX_SM_MHZ),
    "clocks.mem": ("MHz", lambda g, v: 3996),
    "pcie.link.gen.current": ("", lambda g, v: 6 if v.shape.arm else 5),
    "pcie.link.gen.max": ("", lambda g, v: 6 if v.shape.arm else 5),
    "pcie.link.width.current": ("", lambda g, v: g.pcie_lanes),
    "pcie.link.width.max": ("", lambda g, v: 16),
}
_COUNTED = {_COUNTERS + reason: reason for reason in _REASONS}
_REMAPPED = {
    name: field
    for name, field in _GPU.items()
    if name.startswith("remapped_rows.") or name in ("gpu_name", "gpu_uuid", "gpu_serial", "gpu_bus_id")
}
# Header names where they are not the field's own.
_HEADER = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
}
_APP_FIELDS = (
    "timestamp",
    "gpu_name",
    "gpu_bus_id",
    "gpu_serial",
    "gpu_uuid",
    "pid",
    "process_name",
    "name",
    "used_memory",
    "used_gpu_memory",
)


def answer(query: str, fields: str, style: str, gpus: list[Gpu], view: NodeView, now: float) -> Answer:
    """One CSV answer. An unknown field ends the whole query, as the real tool does."""
    names = [name.strip() for name in fields.split(",") if name.strip()]
    styles = {part.strip() for part in style.split(",")}
    if "csv" not in styles:
        return Answer("Specify format with --format=csv\n", code=2)
    known: Iterable[str] = (
        _APP_FIELDS
        if query == "query-compute-apps"
        else _REMAPPED
        if query == "query-remapped-rows"
        else (*_GPU, *_MOVES, *_COUNTED, "timestamp")
    )
    for name in names:
        if name not in known:
            return Answer(f'Field "{name}" is not a valid field to query.\n\n', code=2)
    if not names:
        return Answer("No fields to query.\n", code=2)
    plain = "nounits" in styles
    if query == "query-compute-apps":
        rows, units = _apps(names, gpus, view, now)
    else:
        units = [_unit(name) for name in names]
        rows = [[_cell(name, gpu, view, now) for name in names] for gpu in gpus]
    lines = [", ".join(v if plain or not u else f"{v} {u}" for v, u in zip(row, units, strict=True)) for row in rows]
    if "noheader" not in styles:
        header = [f"{_HEADER.get(n, n)} [{u}]" if u else _HEADER.get(n, n) for n, u in zip(names, units, strict=True)]
        lines.insert(0, ", ".join(header))
    moves = any(name == "timestamp" or name in _MOVES or name.startswith(_COUNTERS) for name in names)
    return Answer("".join(line + "\n" for line in lines), keep=not moves)


def _unit(name: str) -> str:
    if name in _COUNTED:
        return "us"
    return _MOVES[name][0] if name in _MOVES else _GPU[name][0] if name in _GPU else ""


def _cell(name: str, gpu: Gpu, view: NodeView, now: float) -> str:
    if name == "timestamp":
        return _stamp(now)
    if name in _COUNTED:
        return str(load.slowed(gpu, _COUNTED[name], now - view.booted))
    return str(_MOVES[name][1](load.state(gpu, now)) if name in _MOVES else _GPU[name][1](gpu, view))


def _stamp(now: float) -> str:
    return strftime("%Y/%m/%d %H:%M:%S.", localtime(now)) + f"{int(now % 1 * 1000):03d}"


def _apps(names: list[str], gpus: list[Gpu], view: NodeView, now: float) -> tuple[list[list[str]], list[str]]:
    units = ["MiB" if name in ("used_memory", "used_gpu_memory") else "" for name in names]
    rows = []
    for gpu in gpus:
        for process in gpu.processes:
            own = {
                "timestamp": _stamp(now),
                "pid": str(process.pid),
                "process_name": process.name,
                "name": process.name,
                "used_memory": str(process.used_mib),
                "used_gpu_memory": str(process.used_mib),
            }
            rows.append([own[name] if name in own else str(_GPU[name][1](gpu, view)) for name in names])
    return rows, units
