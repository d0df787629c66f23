"""The parts of a node as its tools see them: GPUs, links, ports, and the kernel's log."""

from __future__ import annotations

from dataclasses import dataclass, field

# Names as sysfs has them under ports/1/counters and ports/1/hw_counters of an mlx5 device.
COUNTERS = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
)
HW_COUNTERS = (
    "duplicate_request",
    "implied_nak_seq_err",
    "lifespan",
    "local_ack_timeout_err",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "rx_atomic_requests",
    "rx_read_requests",
    "rx_write_requests",
)
# What moves by itself on a healthy idle port, and how much in a second.
IDLE_GROWTH = {
    "port_rcv_data": 2304,
    "port_rcv_packets": 32,
    "port_xmit_data": 2304,
    "port_xmit_packets": 32,
    "unicast_rcv_packets": 32,
    "unicast_xmit_packets": 32,
}


@dataclass(slots=True)
class Link:
    """One NVLink of a GPU."""

    index: int
    active: bool = True
    recoveries: int = 0
    symbol_errors: int = 0
    recovers_per_second: float = 0.0
    recovers_since: float = 0.0  # wall-clock seconds

    def recoveries_at(self, now: float) -> int:
        return self.recoveries + int(max(0.0, now - self.recovers_since) * self.recovers_per_second)


@dataclass(slots=True)
class Process:
    pid: int
    name: str
    used_mib: int


@dataclass(slots=True)
class Fabric:
    state: str = "Completed"
    status: str = "Success"
    clique_id: int = 0
    cluster_uuid: str = "00000000-0000-0000-0000-000000000000"
    summary: str = "Healthy"
    bandwidth: str = "Full"


@dataclass(slots=True)
class Gpu:
    """`pci` as nvidia-smi prints it, upper-case hex; `missing`: on the bus, unknown to the driver."""

    index: int
    uuid: str
    serial: str
    pci: str
    name: str
    memory_mib: int
    links: list[Link]
    fabric: Fabric
    temperature: int
    memory_temperature: int
    power_w: float
    power_limit_w: float
    missing: bool = False
    ecc_volatile_dram: int = 0
    ecc_aggregate_dram: int = 0
    remap_correctable: int = 0
    remap_uncorrectable: int = 0
    remap_pending: bool = False
    remap_failure: bool = False
    recovery_action: str = "None"
    inforom_ok: bool = True
    processes: list[Process] = field(default_factory=list)
    compute: float = 1.0  # shares of what a healthy one does: arithmetic, …
    memory_speed: float = 1.0
    host_link_speed: float = 1.0
    nvlink_speed: float = 1.0  # beside what its links' states say
    throttles: bool = False  # gets too hot under load
    loaded_until: float = field(default=0.0, repr=False)  # wall-clock seconds
    pcie_lanes: int = 16
    c2c_down: set[int] = field(default_factory=set)  # chip-to-chip links to the CPU that are not active
    slowing: dict[str, float] = field(default_factory=dict)  # clock event reason -> microseconds in each second
    slowed_us: dict[str, int] = field(default_factory=dict, repr=False)  # clock event counters

    @property
    def xid_pci(self) -> str:
        """As the kernel names it: 0008:01:00."""
        return self.pci[4:].rsplit(".", 1)[0].lower()


@dataclass(slots=True)
class Port:
    """One RDMA device with its single port. Rate in Gb/s. Counters are values at boot; growth is per second."""

    device: str
    link_layer: str
    state: str
    phys_state: str
    rate_gbps: int
    lid: int
    sm_lid: int
    pkeys: list[int]
    firmware: str
    board_id: str
    hca_type: str
    node_guid: str
    system_guid: str
    gid: str
    pci: str
    numa_node: int
    netdev: str
    counters: dict[str, int]
    growth: dict[str, int]
    lanes: int = 4
    carrier_losses: int = 0  # of the net device, since it was made
    carries: float = 1.0  # share of its rate that gets through between the port and GPU memory

    @property
    def infiniband(self) -> bool:
        return self.link_layer == "InfiniBand"

    @property
    def active(self) -> bool:
        return self.state == "ACTIVE"


@dataclass(frozen=True, slots=True, order=True)
class LogLine:
    """A kernel log line. `at`: wall-clock seconds."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Peer:
    """One line of the IMEX node list. `to`: connection status towards each peer by position, as a legend letter."""

    index: int
    address: str
    hostname: str
    status: str
    version: str
    to: tuple[str, ...]
