"""`nvidia-smi --query-gpu=… --format=csv` (and --query-remapped-rows): columns are found by their names in the head."""

from __future__ import annotations

import csv
import re
from functools import lru_cache

from ndctl.parse.figures import known, whole
from ndctl.parse.gpu_facts import Gpus
from ndctl.parse.gpu_leaves import Leaves, gpu_from
from ndctl.parse.nvidia_trouble import troubles
from ndctl.parse.tidy import tidy_lines

# Query name -> the same value's place in the listing of -q.
_PLACES: dict[str, tuple[str, ...]] = {
    "name": ("product name",),
    "gpu_name": ("product name",),
    "uuid": ("gpu uuid",),
    "gpu_uuid": ("gpu uuid",),
    "serial": ("serial number",),
    "gpu_serial": ("serial number",),
    "minor_number": ("minor number",),
    "vbios_version": ("vbios version",),
    "persistence_mode": ("persistence mode",),
    "pci.bus_id": ("pci", "bus id"),
    "gpu_bus_id": ("pci", "bus id"),
    "pci.device_id": ("pci", "device id"),
    "mig.mode.current": ("mig mode", "current"),
    "c2c.mode": ("gpu c2c mode",),
    "gpu_recovery_action": ("gpu recovery action",),
    "reset_status.reset_required": ("reset required",),
    "reset_status.drain_and_reset_recommended": ("drain and reset recommended",),
    "pstate": ("performance state",),
    "memory.total": ("fb memory usage", "total"),
    "memory.used": ("fb memory usage", "used"),
    "utilization.gpu": ("utilization", "gpu"),
    "ecc.mode.current": ("ecc mode", "current"),
    "ecc.mode.pending": ("ecc mode", "pending"),
    "ecc.errors.uncorrected.volatile.total": ("ecc errors", "volatile", "uncorrectable total"),
    "ecc.errors.uncorrected.aggregate.total": ("ecc errors", "aggregate", "uncorrectable total"),
    "ecc.errors.uncorrected.volatile.sram": ("ecc errors", "volatile", "sram uncorrectable"),
    "ecc.errors.uncorrected.volatile.dram": ("ecc errors", "volatile", "dram uncorrectable"),
    "ecc.errors.uncorrected.aggregate.sram": ("ecc errors", "aggregate", "sram uncorrectable"),
    "ecc.errors.uncorrected.aggregate.dram": ("ecc errors", "aggregate", "dram uncorrectable"),
    "ecc.errors.corrected.volatile.dram": ("ecc errors", "volatile", "dram correctable"),
    "ecc.errors.corrected.volatile.sram": ("ecc errors", "volatile", "sram correctable"),
    "ecc.errors.uncorrected.aggregate.sram.thresholdexceeded": ("sram threshold exceeded",),
    "retired_pages.single_bit_ecc.count": ("retired pages", "single bit ecc"),
    "retired_pages.sbe": ("retired pages", "single bit ecc"),
    "retired_pages.double_bit.count": ("retired pages", "double bit ecc"),
    "retired_pages.dbe": ("retired pages", "double bit ecc"),
    "retired_pages.pending": ("pending page blacklist",),
    "remapped_rows.correctable": ("remapped rows", "correctable error"),
    "remapped_rows.uncorrectable": ("remapped rows", "uncorrectable error"),
    "remapped_rows.pending": ("remapped rows", "pending"),
    "remapped_rows.failure": ("remapped rows", "remapping failure occurred"),
    "fabric.state": ("fabric", "state"),
    "fabric.status": ("fabric", "status"),
    "fabric.cliqueid": ("fabric", "cliqueid"),
    "fabric.clusteruuid": ("fabric", "clusteruuid"),
    "pcie.link.gen.current": ("pcie generation", "current"),
    "pcie.link.gen.gpucurrent": ("pcie generation", "current"),
    "pcie.link.gen.max": ("pcie generation", "max"),
    "pcie.link.width.current": ("link width", "current"),
    "pcie.link.width.max": ("link width", "max"),
    "temperature.gpu": ("temperature", "gpu current temp"),
    "temperature.gpu.tlimit": ("temperature", "gpu t.limit temp"),
    "temperature.memory": ("temperature", "memory current temp"),
    "power.draw": ("power readings", "power draw"),
    "power.draw.instant": ("gpu power readings", "instantaneous power draw"),
    "enforced.power.limit": ("power readings", "enforced power limit"),
    "power.limit": ("power readings", "power limit"),
    "power.max_limit": ("power readings", "max power limit"),
    **{
        f"remapped_rows.histogram.{bank}": ("bank remap availability histogram", bank)
        for bank in ("max", "high", "partial", "low", "none")
    },
}
_EVENTS = {
    "gpu_idle": "idle",
    "applications_clocks_setting": "applications clocks setting",
    "sw_power_cap": "sw power cap",
    "hw_slowdown": "hw slowdown",
    "hw_thermal_slowdown": "hw thermal slowdown",
    "hw_power_brake_slowdown": "hw power brake slowdown",
    "sync_boost": "sync boost",
    "sw_thermal_slowdown": "sw thermal slowdown",
}
for _reason, _label in _EVENTS.items():
    _PLACES[f"clocks_event_reasons.{_reason}"] = ("clocks event reasons", _label)
    _PLACES[f"clocks_throttle_reasons.{_reason}"] = ("clocks event reasons", _label)
    _PLACES[f"clocks_event_reasons_counters.{_reason}"] = ("clocks event reasons counters", _label)
_KNOWN_OTHERS = {"index", "driver_version", "timestamp", "count"}
_BAD_FIELD = re.compile(r'Field "([^"]{1,80})" is not a valid field to query')
_MOST = 4096


def parse(text: str, stderr: str = "") -> Gpus:
    """Rows below a head of known names; a listing without its head is not guessed at. Never raises."""
    columns: list[str] = []
    made: list[tuple[int | None, Leaves]] = []
    shared: dict[str, str] = {}
    problems = [
        f"'{match[1]}' is not known to this driver" for match in _BAD_FIELD.finditer(f"{text[:20000]}\n{stderr}")
    ]
    cut = False
    for line in tidy_lines(text):
        cells = _cells(line)
        names = [_name(cell) for cell in cells]
        if sum(1 for name in names if name in _PLACES or name in _KNOWN_OTHERS) > len(names) / 2:
            columns = names
            continue
        if not columns or len(cells) < 2 < len(columns) or len(made) >= _MOST:
            continue
        if len(cells) > len(columns):
            problems.append("rows have more columns than the head: its beginning is cut off")
            continue
        cut = len(cells) < len(columns)
        leaves = Leaves()
        index = None
        for name, cell in zip(columns, cells, strict=False):
            if name in _PLACES:
                leaves.add(_PLACES[name], _with_unit(name, cell))
            elif name == "index":
                index = whole(cell)
            elif name == "driver_version":
                shared.setdefault(name, cell)
        made.append((index, leaves))
    gpus = tuple(gpu_from(leaves, index if index is not None else n, None) for n, (index, leaves) in enumerate(made))
    return Gpus(
        gpus=gpus,
        driver_version=known(shared.get("driver_version")),
        cut=cut,
        troubles=troubles(f"{text}\n{stderr}"),
        problems=tuple(problems[:20]),
        unknown_fields=tuple(name for name in columns if name not in _PLACES and name not in _KNOWN_OTHERS)[:40],
    )


_UNITS = (
    ("temperature.", " C"),
    ("memory.", " MiB"),
    ("power", " W"),
    ("enforced.power", " W"),
    ("pcie.link.width", "x"),
)


def _with_unit(name: str, cell: str) -> str:
    """`nounits` and some columns leave the unit to the head."""
    unit = next((unit for start, unit in _UNITS if name.startswith(start)), "")
    return f"{cell}{unit}" if unit and re.fullmatch(r"-?[\d.]+", cell) else cell


@lru_cache(maxsize=1024)
def _name(cell: str) -> str:
    """A column's name without its unit; a row's values come by here too, the same ones again and again."""
    return re.sub(r"\s*\[[^\]]*\]\s*$", "", cell).strip().lower()


def _cells(line: str) -> list[str]:
    try:
        row = next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in row]
