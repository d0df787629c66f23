"""NodeView: one node at one moment, healthy parts with the planted faults worked in. All tools print from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ndctl.sim.faults import Fault
from ndctl.sim.world import seeds
from ndctl.sim.world.fabric_faults import apply_fabric_fault
from ndctl.sim.world.host import HostState, build_host
from ndctl.sim.world.kernel_log import boot_lines, fault_lines
from ndctl.sim.world.parts import COUNTERS, HW_COUNTERS, IDLE_GROWTH, Fabric, Gpu, Link, LogLine, Peer, Port, Process
from ndctl.sim.world.schedulers import Schedulers, build_schedulers
from ndctl.sim.world.shape import Shape
from ndctl.sim.world.vm import VM

DRIVER_VERSION = "580.126.20"
CUDA_VERSION = "13.0"
KERNEL_RELEASE = "6.17.0-1005-azure-nvidia"
BOOT_HEAD_START_S = 900.0  # a VM has been up this long when its deployment ends


@dataclass(slots=True)
class NodeView:
    """rack_mates: every VM of the rack in the order of the IMEX node list, this one included."""

    vm: VM
    shape: Shape
    gpus: list[Gpu]
    ports: list[Port]
    peers: list[Peer]
    rack_mates: Sequence[VM]
    log: list[LogLine]
    booted: float
    host: HostState
    schedulers: Schedulers = field(default_factory=Schedulers)
    imex_running: bool = True
    fabric_manager: bool = False  # runs on the node although its switches are not there
    open_driver: bool = True
    speed: float = 1.0  # share of healthy NCCL bandwidth, over any path
    nvlink_speed: float = 1.0  # the same over NVLink only
    nvls_speed: float = 1.0  # the same of the NVLink switches' multicast only
    listed: int | None = None  # how many of its peers its IMEX node list names, None: all
    nvls: bool = True  # whether multicast is available at all
    corrupts: int = 0  # elements of a collective's result that this node spoils, in each of its GPUs' parts
    hangs: frozenset[str] = field(default_factory=frozenset)
    sshd: str = ""  # what is wrong with its SSH server: inactive, config, disk-full, key-missing

    @property
    def driver_file(self) -> str:
        """/proc/driver/nvidia/version."""
        machine = "aarch64" if self.shape.arm else "x86_64"
        kind = f"Open Kernel Module for {machine}" if self.open_driver else f"{machine} Kernel Module"
        return (
            f"NVRM version: NVIDIA UNIX {kind}  {DRIVER_VERSION}  Release Build  "
            "(dvs-builder@U22-I3-AF01-24-3)  Thu Jan 15 18:29:43 UTC 2026\n"
            "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
        )

    @property
    def live_gpus(self) -> list[Gpu]:
        return [gpu for gpu in self.gpus if not gpu.missing]

    @property
    def imex_status(self) -> str:
        if not self.peers:
            return "UP"
        up = [peer for peer in self.peers if peer.status == "READY"]
        if not self.imex_running:
            return "DOWN"
        full = len(up) == len(self.peers) and all(letter == "C" for peer in self.peers for letter in peer.to)
        return "UP" if full else "DEGRADED"


def applies_to(fault: Fault, vm: VM) -> bool:
    """Whether a node fault was planted on this VM."""
    return fault.where.get("node") == vm.hostname and fault.where.get("cluster", vm.cluster) == vm.cluster


def build_view(vm: VM, shape: Shape, mates: Sequence[VM], faults: Sequence[Fault]) -> NodeView:
    """The node as its tools see it. `faults` are the rack's."""
    own = [fault for fault in faults if applies_to(fault, vm)]
    gpus = [_gpu(vm, shape, index) for index in range(len(shape.pci))]
    ports = [_port(vm, shape, index) for index in range(len(shape.ports))]
    if seeds.number(3, "an0", *vm.hardware) == 0 or not shape.arm:
        ports.append(_ethernet_port(vm, len(shape.ports)))
    booted = vm.created - BOOT_HEAD_START_S if vm.boots == 1 else vm.created
    host = build_host(vm, shape, DRIVER_VERSION, CUDA_VERSION, KERNEL_RELEASE, own)
    view = NodeView(vm, shape, gpus, ports, [], mates, [], booted, host)
    view.schedulers = build_schedulers(own, shape.vcpus)
    for fault in own:
        _apply(fault, view)
    if shape.imex:
        view.peers = _peers(mates, faults)
        view.imex_running = not any(fault.kind == "imex-peer-missing" for fault in own)
    view.log = sorted([*boot_lines(view), *(line for fault in faults for line in fault_lines(fault, view))])
    return view


def _gpu(vm: VM, shape: Shape, index: int) -> Gpu:
    identity = ("gpu", *vm.hardware, index)
    if shape.rack_fabric:
        rack = (vm.seed, vm.cluster, vm.rack)
        fabric = Fabric(clique_id=1 + seeds.number(32766, "clique", *rack), cluster_uuid=seeds.uuid("fabric", *rack))
    else:
        # Inside one HGX board the cluster UUID is all zeros and the clique 0 (H100/H200 with fabric manager).
        fabric = Fabric()
    return Gpu(
        index=index,
        uuid="GPU-" + seeds.uuid(*identity),
        serial="165" + f"{seeds.number(10**10, 'serial', *identity):010d}",
        pci=shape.pci[index],
        name=shape.gpu_name,
        memory_mib=shape.gpu_memory_mib,
        links=[Link(link) for link in range(shape.links)],
        fabric=fabric,
        temperature=31 + seeds.number(6, "t", *identity),
        memory_temperature=30 + seeds.number(5, "m", *identity),
        power_w=round(0.14 * shape.power_limit_w + seeds.number(900, "p", *identity) / 100, 2),
        power_limit_w=shape.power_limit_w,
    )


def _guid(*parts: object) -> str:
    text = seeds.digest(*parts).hex()
    return f"0015:5dff:fe{text[:2]}:{text[2:6]}"


def _port(vm: VM, shape: Shape, index: int) -> Port:
    identity = ("port", *vm.hardware, index)
    guid = _guid(*identity)
    pkey = 0x8000 | (1 + seeds.number(0x7FF0, "pkey", vm.seed, vm.cluster))
    counters = dict.fromkeys((*COUNTERS, *HW_COUNTERS), 0)
    counters.update({name: 10_000 + seeds.number(90_000, name, *identity) * 16 for name in IDLE_GROWTH})
    counters["lifespan"] = 10
    return Port(
        device=shape.ports[index],
        link_layer="InfiniBand",
        state="ACTIVE",
        phys_state="LinkUp",
        rate_gbps=shape.rate_gbps,
        lid=100 + (vm.rack * 1000 + vm.index * 4 + index) % 40000,
        sm_lid=1,
        pkeys=[pkey, 0x7FFF, 0, 0],
        firmware="40.47.1088" if shape.rate_gbps >= 800 else "28.41.1000",
        board_id="MT_0000001222" if shape.rate_gbps >= 800 else "MSF0000000047",
        hca_type="MT4131" if shape.rate_gbps >= 800 else "MT4126",
        node_guid=guid,
        system_guid=_guid("system", *identity),
        gid="fe80:0000:0000:0000:" + guid,
        pci=f"{0x101 + index:04x}:00:00.0",
        numa_node=index // 2,
        netdev=f"ib{index}",
        counters=counters,
        growth=dict(IDLE_GROWTH),
    )


def _ethernet_port(vm: VM, index: int) -> Port:
    """mlx5_an0, the accelerated-networking function: Ethernet, and no business of an InfiniBand check."""
    guid = _guid("an0", *vm.hardware)
    return Port(
        device="mlx5_an0",
        link_layer="Ethernet",
        state="ACTIVE",
        phys_state="LinkUp",
        rate_gbps=100,
        lid=0,
        sm_lid=0,
        pkeys=[0xFFFF],
        firmware="14.30.5006",
        board_id="MSF0010110035",
        hca_type="MT4118",
        node_guid=guid,
        system_guid=guid,
        gid="fe80:0000:0000:0000:" + guid,
        pci="7870:00:02.0",
        numa_node=0,
        netdev="enP30832s1",
        counters=dict.fromkeys((*COUNTERS, *HW_COUNTERS), 0),
        growth={"port_rcv_data": 4096, "port_xmit_data": 4096},
    )


def _peers(mates: Sequence[VM], faults: Sequence[Fault]) -> list[Peer]:
    gone = {
        vm.hostname
        for vm in mates
        for fault in faults
        if fault.kind in ("imex-peer-missing", "node-down", "vm-dead") and applies_to(fault, vm)
    }
    one_way = {(fault["node"], fault["peer"]) for fault in faults if fault.kind == "imex-one-way"}
    versions = {fault["node"]: str(fault["version"]) for fault in faults if fault.kind == "imex-version"}

    def letter(a: VM, b: VM) -> str:
        if a.hostname in gone:
            return "I"
        return "N" if b.hostname in gone or (a.hostname, b.hostname) in one_way else "C"

    return [
        Peer(
            index=index,
            address=vm.address,
            hostname="" if vm.hostname in gone else vm.hostname,
            status="UNAVAILABLE" if vm.hostname in gone else "READY",
            version="" if vm.hostname in gone else versions.get(vm.hostname, DRIVER_VERSION),
            to=tuple(letter(vm, other) for other in mates),
        )
        for index, vm in enumerate(mates)
    ]


def _named_port(view: NodeView, name: str) -> Port:
    return next((port for port in view.ports if port.device == name), view.ports[0])


def _apply(fault: Fault, view: NodeView) -> None:
    """Work one fault of this node into its parts."""
    gpu = view.gpus[min(int(fault.where.get("gpu", 0)), len(view.gpus) - 1)]
    match fault.kind:
        case "gpu-missing":
            gpu.missing = True
        case "nvlink-down":
            link = gpu.links[min(int(fault["link"]), len(gpu.links) - 1)]
            link.active, link.recoveries, link.symbol_errors = False, 7, 1893
            gpu.recovery_action = "Drain and Reset"
            gpu.fabric.summary, gpu.fabric.bandwidth = "Unhealthy", "Degraded"
        case "port-half-rate":
            port = _named_port(view, fault["port"])
            port.rate_gbps = view.shape.rate_gbps // 2
        case "port-down":
            port = _named_port(view, fault["port"])
            port.state, port.phys_state, port.sm_lid, port.lid = "DOWN", "Polling", 0, 65535
            port.rate_gbps = 10
            port.growth = {}
            port.counters["link_downed"] = 1
        case "wrong-pkey":
            for port in view.ports:
                if port.infiniband:
                    port.pkeys[0] = int(str(fault["pkey"]), 16)
        case "symbol-errors":
            _named_port(view, fault["port"]).growth["symbol_error"] = int(fault["per_second"])
        case "clique-split":
            for each in view.gpus:
                each.fabric.clique_id = int(fault["clique"])
        case "fabric-unregistered":
            for each in view.gpus:
                each.fabric = Fabric(status="Insufficient Resources", summary="Unhealthy", bandwidth="N/A")
        case "slow-node":
            _slow(view, str(fault.where.get("layer", "host")), float(fault["factor"]))
        case "rail-gdr-slow":
            _named_port(view, fault["port"]).carries = float(fault["factor"])
        case "corrupts-data":
            view.corrupts = int(fault["count"])
        case "nvls-unavailable":
            view.nvls = False
        case "hung-nvidia-smi":
            view.hangs |= {"nvidia-smi"}
        case "sshd-broken":
            view.sshd = str(fault["how"])
            if view.sshd == "disk-full":
                view.host.mounts[0].used = view.host.mounts[0].total - view.host.mounts[0].reserved
        case "hung-dcgmi":
            view.hangs |= {"dcgmi"}
        case "slow-gpu":
            gpu.compute = float(fault["factor"])
        case "hbm-slow":
            gpu.memory_speed = float(fault["factor"])
        case "host-link-slow":
            gpu.host_link_speed = float(fault["factor"])
        case "gpu-nvlink-slow":
            gpu.nvlink_speed = float(fault["factor"])
        case "gpu-throttles":
            gpu.throttles = True
        case "gpu-hot":
            gpu.temperature += int(fault["degrees"])
            gpu.memory_temperature += int(fault["degrees"])
        case "gpu-throttled":
            gpu.slowing["hw_thermal_slowdown"] = float(fault["us_per_s"])
        case "power-limit-differs":
            gpu.power_limit_w = float(fault["watts"])
        case "c2c-link-down":
            gpu.c2c_down.add(int(fault["link"]))
        case "pcie-narrow":
            gpu.pcie_lanes = int(fault["lanes"])
        case "ecc-uncorrectable":
            gpu.ecc_volatile_dram = gpu.ecc_aggregate_dram = int(fault["count"])
            gpu.recovery_action = "Reset"
        case "row-remap-pending":
            gpu.remap_pending, gpu.remap_uncorrectable = True, 1
            gpu.recovery_action = "Reset"
        case "row-remap-failure":
            gpu.remap_failure, gpu.remap_uncorrectable = True, 9
        case "inforom-corrupt":
            gpu.inforom_ok = False
        case "gpu-busy":
            gpu.processes.append(Process(40_000 + gpu.index, str(fault["name"]), 181_250))
        case _:
            apply_fabric_fault(fault, view)


def _slow(view: NodeView, layer: str, factor: float) -> None:
    """The node's share of healthy NCCL bandwidth, of what one layer carries or of everything."""
    match layer:
        case "nvlink":
            view.nvlink_speed = min(view.nvlink_speed, factor)
        case "nvls":
            view.nvls_speed = min(view.nvls_speed, factor)
        case "infiniband":
            for port in view.ports:
                port.carries = min(port.carries, factor)
        case _:
            view.speed = min(view.speed, factor)
