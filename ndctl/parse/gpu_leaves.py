"""From labelled values of one GPU, wherever they stood, to `Gpu`: one table of names for text and XML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from ndctl.parse.fabric_health import faults_of_mask, faults_of_words
from ndctl.parse.figures import known, real, whole, with_unit, yes
from ndctl.parse.gpu_facts import (
    Ecc,
    EccCounts,
    Fabric,
    Gpu,
    Pcie,
    Power,
    Process,
    RemappedRows,
    RetiredPages,
    Temperature,
)

_ERRORS = ("ERR!", "Unknown Error", "GPU is lost", "requires reset", "access blocked")
_ERROR_WORDS = re.compile("|".join(map(re.escape, _ERRORS)))


def normal(label: str) -> str:
    """Labels of the text and tags of the XML in one spelling: lower case, single blanks."""
    return " ".join(label.replace("_", " ").lower().split())


def tells_error(text: str) -> bool:
    """Whether some value of a listing may be an error instead of a value."""
    return any(words in text for words in _ERRORS)


class Leaves:
    """Values of one GPU by path of normalised labels, outermost first."""

    def __init__(self) -> None:
        self._by_leaf: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        self.paths: set[tuple[str, ...]] = set()
        self.processes: list[dict[str, str]] = []
        self.errors: list[str] = []

    def add(self, path: tuple[str, ...], value: str) -> None:
        if len(self.errors) < 40 and _ERROR_WORDS.search(value):
            self.errors.append(f"{path[-1]}: {value}")
        if path in self.paths:
            return
        self.paths.add(path)
        self._by_leaf.setdefault(path[-1], []).append((path[:-1], value))

    def get(self, *patterns: str) -> str | None:
        """The first value whose path ends in a pattern's last label below its other labels: "remapped rows>pending"."""
        for pattern in patterns:
            above, leaf = _steps(pattern)
            for ancestors, value in self._by_leaf.get(leaf, ()):
                if not above or (above[0] in ancestors if len(above) == 1 else _in_order(above, ancestors)):
                    return value
        return None

    def at(self, *path: str) -> str | None:
        """The value at exactly this path."""
        return next((value for above, value in self._by_leaf.get(path[-1], ()) if above == path[:-1]), None)

    def below(self, section: str) -> Iterator[tuple[str, str]]:
        """(label, value) of everything directly or deeper below a section."""
        for leaf, entries in self._by_leaf.items():
            for ancestors, value in entries:
                if section in ancestors:
                    yield leaf, value


@lru_cache(maxsize=1024)
def _steps(pattern: str) -> tuple[tuple[str, ...], str]:
    """(labels above, the last label) of a pattern; the same two hundred are asked of every GPU."""
    *above, leaf = pattern.split(">")
    return tuple(above), leaf


def _in_order(wanted: tuple[str, ...], path: tuple[str, ...]) -> bool:
    rest = iter(path)
    return all(any(step == name for step in rest) for name in wanted)


def gpu_from(leaves: Leaves, index: int, pci: str | None) -> Gpu:
    """Everything known of one GPU; what is not printed or not available is None."""
    get = leaves.get
    return Gpu(
        index=index,
        pci=pci or known(get("pci>bus id", "pci>pci bus id", "bus id", "pci bus id")),
        name=known(get("product name")),
        uuid=known(get("gpu uuid", "uuid")),
        serial=known(get("serial number", "serial")),
        minor=whole(get("minor number")),
        vbios=known(get("vbios version")),
        device_id=known(get("pci>device id", "pci device id", "device id")),
        persistence=yes(get("persistence mode")),
        mig=known(get("mig mode>current", "current mig")),
        c2c_mode=known(get("gpu c2c mode", "c2c mode")),
        performance_state=known(get("performance state")),
        recovery_action=known(get("gpu recovery action", "recovery action")),
        reset_required=yes(get("gpu reset status>reset required", "reset required")),
        drain_and_reset=yes(get("drain and reset recommended")),
        inforom=_words(leaves, "inforom version"),
        platform=_words(leaves, "platform info"),
        memory_total_mib=with_unit(get("fb memory usage>total"), "MiB"),
        memory_used_mib=real(get("fb memory usage>used")),
        utilization_percent=real(get("utilization>gpu", "gpu util")),
        ecc=_ecc(leaves),
        retired_pages=RetiredPages(
            whole(
                get("retired pages>single bit ecc", "multiple single bit retirement>retired count", "single bit ecc")
            ),
            whole(get("retired pages>double bit ecc", "double bit retirement>retired count", "double bit ecc")),
            yes(get("pending page blacklist", "retired pages>pending retirement", "pending blacklist")),
        ),
        remapped_rows=_rows(leaves),
        fabric=_fabric(leaves),
        pcie=Pcie(
            whole(get("pcie generation>current", "current link gen")),
            whole(get("pcie generation>max", "max link gen")),
            _lanes(get("link width>current", "current link width")),
            _lanes(get("link width>max", "max link width")),
            whole(get("replays since reset", "replay counter")),
        ),
        temperature=_temperature(leaves),
        power=Power(
            _first_real(leaves, _POWER_DRAW),
            _first_real(leaves, _POWER_LIMIT),
            _first_real(
                leaves, ("gpu power readings>max power limit", "power readings>max power limit", "max power limit")
            ),
        ),
        event_reasons=_reasons(leaves),
        event_counters=_counters(leaves),
        processes=_processes(leaves),
        errors=tuple(leaves.errors),
    )


def distinct(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Numbered anew; the same GPU pasted twice with the same values counts once."""
    found = list(gpus)
    bearing = Counter(gpu.pci for gpu in found)
    kept: dict[str, Gpu] = {}
    for number, gpu in enumerate(found):
        again = gpu.pci is not None and bearing[gpu.pci] > 1
        kept.setdefault(repr(replace(gpu, index=0)) if again else str(number), gpu)
    return tuple(gpu if gpu.index == at else replace(gpu, index=at) for at, gpu in enumerate(kept.values()))


_POWER_DRAW = (
    "gpu power readings>instantaneous power draw",
    "gpu power readings>instant power draw",
    "gpu power readings>average power draw",
    "gpu power readings>power draw",
    "power readings>power draw",
    "power draw",
)
_POWER_LIMIT = (
    "gpu power readings>current power limit",
    "gpu power readings>enforced power limit",
    "power readings>enforced power limit",
    "power readings>power limit",
    "current power limit",
)


def _first_real(leaves: Leaves, patterns: tuple[str, ...]) -> float | None:
    """The first that is a figure: newer drivers print N/A under the older names."""
    return next((figure for pattern in patterns if (figure := with_unit(leaves.get(pattern), "W")) is not None), None)


def _words(leaves: Leaves, section: str) -> Mapping[str, str]:
    return {label: text for label, value in leaves.below(section) if (text := known(value)) is not None}


def _ecc(leaves: Leaves) -> Ecc:
    get = leaves.get
    return Ecc(
        mode_current=known(get("ecc mode>current", "current ecc")),
        mode_pending=known(get("ecc mode>pending", "pending ecc")),
        volatile=_counts(leaves, "volatile"),
        aggregate=_counts(leaves, "aggregate"),
        sram_threshold_exceeded=yes(get("sram threshold exceeded")),
        sram_sources={
            label.removeprefix("sram "): count
            for label, value in leaves.below("aggregate uncorrectable sram sources")
            if (count := whole(value)) is not None
        },
        unrepairable_memory=yes(get("unrepairable memory")),
        channel_repair_pending=yes(get("channel repair pending")),
        tpc_repair_pending=yes(get("tpc repair pending")),
    )


def _counts(leaves: Leaves, when: str) -> EccCounts:
    def count(*patterns: str) -> int | None:
        return whole(leaves.get(*patterns))

    return EccCounts(
        sram_correctable=count(f"{when}>sram correctable"),
        sram_uncorrectable=count(f"{when}>sram uncorrectable"),
        sram_uncorrectable_parity=count(f"{when}>sram uncorrectable parity"),
        sram_uncorrectable_secded=count(f"{when}>sram uncorrectable sec-ded", f"{when}>sram uncorrectable secded"),
        dram_correctable=count(f"{when}>dram correctable"),
        dram_uncorrectable=count(f"{when}>dram uncorrectable"),
        single_bit_total=count(f"{when}>single bit>total"),
        double_bit_total=count(f"{when}>double bit>total"),
        uncorrectable_total=count(f"{when}>uncorrectable total"),
    )


_BANKS = ("max", "high", "partial", "low", "none")


def _rows(leaves: Leaves) -> RemappedRows:
    get = leaves.get
    histogram = {}
    for bank in _BANKS:
        count = whole(get(f"bank remap availability histogram>{bank}", f"row remapper histogram {bank}"))
        if count is not None:
            histogram[bank] = count
    return RemappedRows(
        correctable=whole(get("remapped rows>correctable error", "remapped row corr", "correctable error")),
        uncorrectable=whole(get("remapped rows>uncorrectable error", "remapped row unc", "uncorrectable error")),
        pending=yes(get("remapped rows>pending", "remapped row pending") or _bare_pending(leaves)),
        failure=yes(get("remapping failure occurred", "remapped row failure")),
        histogram=histogram,
    )


def _bare_pending(leaves: Leaves) -> str | None:
    """`grep Pending` loses the section; yes and no are row remapping's words, modes say Enabled and Disabled."""
    value = leaves.at("pending")
    return value if value is not None and value.strip().lower() in {"yes", "no"} else None


_FABRIC_STATES = {"completed", "in progress", "not started", "not supported"}


def _fabric(leaves: Leaves) -> Fabric | None:
    get = leaves.get
    state, status = get("fabric>state"), get("fabric>status")
    bare = leaves.at("state")
    if state is None and bare is not None and bare.strip().lower() in _FABRIC_STATES:
        state, status = bare, leaves.at("status")  # a grep that lost the section's name
    clique = get("fabric>cliqueid", "fabric>clique id", "cliqueid")
    uuid = get("fabric>clusteruuid", "fabric>cluster uuid", "clusteruuid")
    if state is None and status is None and clique is None and uuid is None:
        return None
    details = dict(leaves.below("health"))
    mask = whole(get("fabric>health mask", "fabric>healthmask", "health>health mask", "health>healthmask"))
    faults = dict.fromkeys((*faults_of_words(details), *(faults_of_mask(mask) if mask is not None else ())))
    number = whole(clique)
    return Fabric(
        state=state,
        status=status,
        clique_id=number if number is not None else clique,
        cluster_uuid=uuid,
        health=get("health>summary", "fabric>health summary", "fabric>health"),
        details=details,
        health_mask=mask,
        faults=tuple(faults),
    )


def _lanes(value: str | None) -> int | None:
    lanes = with_unit(value, "x")
    return int(lanes) if lanes is not None else None


def _degrees(value: str | None) -> float | None:
    return with_unit(value, "C")


def _temperature(leaves: Leaves) -> Temperature:
    get = leaves.get
    return Temperature(
        gpu=_degrees(get("temperature>gpu current temp", "temperature>gpu temp", "gpu current temp")),
        t_limit=_degrees(get("temperature>gpu t.limit temp", "temperature>gpu temp tlimit", "gpu t.limit temp")),
        memory=_degrees(get("temperature>memory current temp", "temperature>memory temp", "memory current temp")),
        slowdown=_degrees(get("temperature>gpu slowdown temp", "temperature>gpu temp slow threshold")),
        shutdown=_degrees(get("temperature>gpu shutdown temp", "temperature>gpu temp max threshold")),
    )


# Our name of a reason → how labels and tags name it, after their common beginning is taken off.
_REASONS = {
    "idle": ("idle", "gpu idle"),
    "applications_clocks_setting": ("applications clocks setting",),
    "sw_power_cap": ("sw power cap", "sw power capping"),
    "hw_slowdown": ("hw slowdown",),
    "hw_thermal_slowdown": ("hw thermal slowdown", "hw therm slowdown"),
    "hw_power_brake": ("hw power brake slowdown", "hw power braking", "hw power brake"),
    "sync_boost": ("sync boost",),
    "sw_thermal_slowdown": ("sw thermal slowdown", "sw therm slowdown"),
    "display_clocks_setting": ("display clock setting", "display clocks setting"),
}
_REASON_OF = {label: name for name, labels in _REASONS.items() for label in labels}
_PREFIXES = (
    "clocks event reasons counters ",
    "clocks throttle reasons counters ",
    "clocks event reason ",
    "clocks throttle reason ",
)


@lru_cache(maxsize=256)
def _reason_name(label: str) -> str | None:
    for prefix in _PREFIXES:
        label = label.removeprefix(prefix)
    return _REASON_OF.get(label)


def _reasons(leaves: Leaves) -> Mapping[str, bool]:
    found = {}
    for section in ("clocks event reasons", "clocks throttle reasons"):
        for label, value in leaves.below(section):
            name, active = _reason_name(label), yes(value)
            if name is not None and active is not None:
                found[name] = active
    return found


def _counters(leaves: Leaves) -> Mapping[str, int]:
    found = {}
    for section in ("clocks event reasons counters", "clocks throttle reasons counters"):
        for label, value in leaves.below(section):
            name, microseconds = _reason_name(label), whole(value)
            if name is not None and microseconds is not None:
                found[name] = microseconds
    return found


def _processes(leaves: Leaves) -> tuple[Process, ...]:
    made = []
    for entry in leaves.processes:
        pid = whole(entry.get("process id") or entry.get("pid"))
        if pid is None:
            continue
        made.append(
            Process(
                pid=pid,
                kind=entry.get("type", ""),
                name=entry.get("name") or entry.get("process name") or "",
                memory_mib=real(entry.get("used gpu memory") or entry.get("used memory")),
            )
        )
    return tuple(made)
