"""What nvidia-smi tells of GPUs, in one shape for `-q`, `-q -x` and `--query-gpu`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ndctl.parse.nvidia_trouble import Trouble

Histogram = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EccCounts:
    """Counts since driver load (volatile) or ever (aggregate); None where the text has none."""

    sram_correctable: int | None = None
    sram_uncorrectable: int | None = None
    sram_uncorrectable_parity: int | None = None
    sram_uncorrectable_secded: int | None = None
    dram_correctable: int | None = None
    dram_uncorrectable: int | None = None
    single_bit_total: int | None = None  # before Ampere
    double_bit_total: int | None = None
    uncorrectable_total: int | None = None  # where only the sum is printed

    @property
    def uncorrectable(self) -> int | None:
        """All uncorrectable errors; None where no such count was printed."""
        parts = (
            self.sram_uncorrectable,
            self.sram_uncorrectable_parity,
            self.sram_uncorrectable_secded,
            self.dram_uncorrectable,
            self.double_bit_total,
        )
        read = [part for part in parts if part is not None]
        return sum(read) if read else self.uncorrectable_total


@dataclass(frozen=True, slots=True)
class Ecc:
    mode_current: str | None = None
    mode_pending: str | None = None
    volatile: EccCounts = EccCounts()
    aggregate: EccCounts = EccCounts()
    sram_threshold_exceeded: bool | None = None
    sram_sources: Mapping[str, int] = field(default_factory=dict)
    unrepairable_memory: bool | None = None
    channel_repair_pending: bool | None = None
    tpc_repair_pending: bool | None = None


@dataclass(frozen=True, slots=True)
class RetiredPages:
    """Before Ampere: 4 KiB pages taken out of use."""

    single_bit: int | None = None
    double_bit: int | None = None
    pending: bool | None = None


@dataclass(frozen=True, slots=True)
class RemappedRows:
    """Since Ampere. histogram: banks by how many spare rows they have left (max, high, partial, low, none)."""

    correctable: int | None = None
    uncorrectable: int | None = None
    pending: bool | None = None
    failure: bool | None = None
    histogram: Histogram = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fabric:
    """state, status: as printed. health: the summary as printed. details: the sub-fields as printed, by label.

    faults: what the sub-fields or the health mask say is wrong; empty means nothing said so.
    """

    state: str | None = None
    status: str | None = None
    clique_id: int | str | None = None
    cluster_uuid: str | None = None
    health: str | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    health_mask: int | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pcie:
    gen_current: int | None = None
    gen_max: int | None = None
    width_current: int | None = None
    width_max: int | None = None
    replays: int | None = None


@dataclass(frozen=True, slots=True)
class Temperature:
    """Degrees Celsius. t_limit is the margin left before throttling, not a temperature."""

    gpu: float | None = None
    t_limit: float | None = None
    memory: float | None = None
    slowdown: float | None = None
    shutdown: float | None = None


@dataclass(frozen=True, slots=True)
class Power:
    """Watts."""

    draw: float | None = None
    limit: float | None = None
    max_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    kind: str
    name: str
    memory_mib: float | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """index: place in the listing. None means that the text does not say, or says N/A.

    event_reasons: clocks event (throttle) reason → active; event_counters: reason → microseconds since driver load.
    errors: fields whose value is an error text (`ERR!`, `Unknown Error`), as "label: value".
    """

    index: int
    pci: str | None = None
    name: str | None = None
    uuid: str | None = None
    serial: str | None = None
    minor: int | None = None
    vbios: str | None = None
    device_id: str | None = None
    persistence: bool | None = None
    mig: str | None = None
    c2c_mode: str | None = None
    performance_state: str | None = None  # P0 the fastest, P8 and more idle
    recovery_action: str | None = None
    reset_required: bool | None = None
    drain_and_reset: bool | None = None
    inforom: Mapping[str, str] = field(default_factory=dict)
    platform: Mapping[str, str] = field(default_factory=dict)
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    utilization_percent: float | None = None
    ecc: Ecc = Ecc()
    retired_pages: RetiredPages = RetiredPages()
    remapped_rows: RemappedRows = RemappedRows()
    fabric: Fabric | None = None
    pcie: Pcie = Pcie()
    temperature: Temperature = Temperature()
    power: Power = Power()
    event_reasons: Mapping[str, bool] = field(default_factory=dict)
    event_counters: Mapping[str, int] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gpus:
    """attached: how many GPUs the tool says there are. cut: the text stops within a GPU."""

    gpus: tuple[Gpu, ...]
    driver_version: str | None = None
    cuda_version: str | None = None
    attached: int | None = None
    timestamp: str | None = None
    cut: bool = False
    troubles: tuple[Trouble, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()
