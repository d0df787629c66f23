"""The shape of a hardware profile: what one VM size promises, every number with its source and date."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

T = TypeVar("T")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Known(Strict, Generic[T]):
    """A value and who says so.

    mark: V read in a primary source, I inference, U sources disagree
    date: when the source was written or read, YYYY, YYYY-MM or YYYY-MM-DD
    note: what a careful reader must know: other sources' values, how an inference was made
    """

    value: T
    unit: str = ""
    source: str = Field(min_length=1)
    date: str = Field(pattern=r"^\d{4}(-\d{2}){0,2}$")
    mark: Literal["V", "I", "U"] = "V"
    note: str = ""

    @property
    def origin(self) -> str:
        """Source and date in one phrase, for a finding's `source`."""
        doubt = {"V": "", "I": ", inferred", "U": ", sources disagree"}[self.mark]
        return f"{self.source}, {self.date}{doubt}"


class AzureSize(Strict):
    """How Azure names and places this hardware. Everything here can be overridden by an inventory."""

    vm_sizes: tuple[str, ...]
    architecture: Literal["arm64", "x86_64"]
    vcpus: Known[int]
    quota_family: Known[str]
    image: Known[str]  # publisher:offer:sku:version
    orchestration_mode: Known[Literal["Uniform", "Flexible"]]
    single_placement_group: Known[bool]
    platform_fault_domain_count: Known[int]
    placement: Known[Literal["interconnect-block", "none"]]
    disk_controller: Known[Literal["NVMe", "SCSI"]]
    ephemeral_os_disk: Known[bool]
    accelerated_networking: Known[bool]


class Bounds(Strict):
    """An expected figure, and the floors under which it is a warning or a failure."""

    expected: Known[float]
    warn_below: Known[float]
    fail_below: Known[float]
    note: str = ""

    @model_validator(mode="after")
    def _ordered(self) -> Bounds:
        if not self.fail_below.value <= self.warn_below.value <= self.expected.value:
            raise ValueError("fail_below, warn_below and expected must rise in this order")
        return self


class Gpu(Strict):
    count: Known[int]  # per VM
    name: Known[str]  # a part of the product name nvidia-smi prints
    pci_device_ids: Known[tuple[str, ...]]  # lower-case hex, lspci vendor 10de
    memory_gib: Known[float]
    memory_tolerance: Known[float]  # fraction
    ecc: Known[bool]
    persistence_mode: Known[bool]
    gemm_tflops: Bounds | None = None  # per GPU, ubergemm for 60 s
    hbm_gb_per_s: Known[float] | None = None  # device-local copy, per GPU
    local_copy_gb_per_s: Bounds | None = None  # nvbandwidth device_local_copy: half of what memory moves
    device_to_host_gb_per_s: Known[float] | None = None  # over C2C or PCIe, per GPU
    host_to_device_gb_per_s: Known[float] | None = None  # the same link, the other way
    hbm_limit_c: Known[float] | None = None  # at or above it memory throttles
    limit_c: Known[float] | None = None  # GPU temperature at which it has no margin left (T.Limit 0)
    pcie_lanes: Known[int] | None = None  # fewest lanes that are right
    c2c_links: Known[int] | None = None  # chip-to-chip links of a GPU to its CPU; None: it has none
    c2c_link_gb_per_s: Known[float] | None = None  # of one such link as `nvidia-smi c2c --status` prints it
    power_limit_w: Known[tuple[float, float]] | None = None  # lowest and highest enforced limit that is right


class NvLink(Strict):
    links_per_gpu: Known[int]
    link_gb_per_s: Known[float]  # GB/s per link as `nvidia-smi nvlink --status` prints it
    domain: Known[Literal["rack", "node"]]  # how far NVLink reaches
    imex: Known[bool]
    host_fabric_manager: Known[Literal["absent", "required", "optional"]]
    device_to_device_gb_per_s: Known[float] | None = None  # nvbandwidth, one direction


class InfiniBand(Strict):
    ports: Known[int]  # per VM
    rate_gbps: Known[float]  # Gb/s per port
    device_pattern: Known[str]  # shell pattern of the InfiniBand devices
    ignore_devices: Known[tuple[str, ...]]  # shell patterns, e.g. mlx5_an*
    write_bw_fraction: Known[float]  # floor of ib_write_bw as a fraction of the port's rate
    counter_limits: dict[str, Known[int]]  # counter name -> largest delta of one run that is no finding
    link_losses: Known[int] | None = None  # losses of a port's link within link_loss_window_s that are a failure
    link_loss_window_s: Known[float] | None = None
    carrier_losses: Known[int] | None = None  # losses of IPoIB's carrier since boot; more is a warning


class BandwidthFloor(Bounds):
    """A collective's expected bus bandwidth in GB/s at one message size and transport."""

    test: Literal["all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv"]
    scope: Literal["node", "rack", "infiniband"]
    min_bytes: int  # rows at least this large are judged
    min_nodes: int = 1


class Nccl(Strict):
    floors: tuple[BandwidthFloor, ...] = ()
    environment: dict[Literal["common", "rack", "infiniband"], dict[str, str]] = Field(default_factory=dict)
    tests_dir: Known[str]  # where *_perf live on the image


class Host(Strict):
    memory_kb: Known[int]
    memory_tolerance: Known[float]
    numa_nodes: Known[int] | None = None
    nvme_data_disks: Known[int]
    nvme_data_model: Known[str]  # substring of the data disks' model
    free_fraction: Known[float] | None = None  # of a file system's space or inodes; less is a warning
    clock_offset_s: Known[float] | None = None  # distance from NTP time; more is a warning
    clock_offset_fail_s: Known[float] | None = None  # at or beyond it a failure
    zombies: Known[int] | None = None  # dead processes nobody waits for; more is a warning


class Profile(Strict):
    """One VM size's promises; `ndctl/profiles/data/<name>.yaml`."""

    name: str
    title: str
    vms_per_rack: Known[int]
    azure: AzureSize
    gpu: Gpu
    nvlink: NvLink
    infiniband: InfiniBand
    nccl: Nccl
    host: Host

    def floor(self, test: str, scope: str, nodes: int) -> BandwidthFloor | None:
        """The floor that fits a run over `nodes` nodes best: the largest `min_nodes` not above it."""
        fitting = [f for f in self.nccl.floors if f.test == test and f.scope == scope and f.min_nodes <= nodes]
        return max(fitting, key=lambda f: f.min_nodes, default=None)
