"""The files of a node that commands read as "$NDCTL_SYSROOT/sys/…", "/proc/…", "/etc/…", "/dev/…", "/var/…"."""

from __future__ import annotations

from collections.abc import Iterator

from ndctl.sim.nodes.host_files import host_files
from ndctl.sim.tools.infiniband import PHYS_STATE, STATE
from ndctl.sim.world.parts import COUNTERS, Port
from ndctl.sim.world.view import KERNEL_RELEASE, NodeView

_TESTS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "reduce")


_MODULES = {"nvidia_uvm": 1531904, "nvidia": 14606336, "mlx5_ib": 491520, "ib_umad": 45056}


def perf_tools(view: NodeView) -> list[str]:
    """Where nccl-tests' programs stand, relative to the node's root."""
    folder = view.shape.profile.nccl.tests_dir.value.strip("/")
    return [f"{folder}/{test}_perf" for test in _TESTS]


def files(view: NodeView, now: float) -> Iterator[tuple[str, str | bytes]]:
    """(path relative to the node's root, content)."""
    vm, shape = view.vm, view.shape
    for port in view.ports:
        yield from _port_files(port, view)
    yield "proc/sys/kernel/random/boot_id", vm.boot_id + "\n"
    yield "proc/uptime", f"{now - view.booted:.2f} {(now - view.booted) * shape.vcpus * 0.98:.2f}\n"
    yield "proc/loadavg", f"{view.schedulers.load:.2f} 0.18 0.12 1/1893 20417\n"
    free = shape.memory_kb - 21_400_000
    yield (
        "proc/meminfo",
        (
            f"MemTotal:       {shape.memory_kb} kB\nMemFree:        {free} kB\nMemAvailable:   {free + 4_000_000} kB\n"
            "Buffers:           91212 kB\nCached:          4120332 kB\n"
            "SwapTotal:             0 kB\nSwapFree:              0 kB\n"
        ),
    )
    yield "proc/cpuinfo", "".join(f"processor\t: {cpu}\n\n" for cpu in range(shape.vcpus))
    yield "proc/version", f"Linux version {KERNEL_RELEASE} (buildd@bos03-arm64-012)\n"
    yield "proc/driver/nvidia/version", view.driver_file
    yield "proc/modules", "".join(f"{name} {size} 0 - Live 0x0000000000000000\n" for name, size in _MODULES.items())
    yield from host_files(view)
    for gpu in view.gpus:
        # The driver takes the directory away with the GPU; the device file stays until the next boot.
        if not gpu.missing:
            yield f"proc/driver/nvidia/gpus/{gpu.pci[4:].lower()}/information", f"Model: \t\t {gpu.name}\n"
        yield f"dev/nvidia{gpu.index}", ""
        yield f"sys/bus/pci/devices/{gpu.pci[4:].lower()}/vendor", "0x10de\n"
        yield f"sys/bus/pci/devices/{gpu.pci[4:].lower()}/device", f"0x{shape.pci_device_id}\n"
        yield f"sys/bus/pci/devices/{gpu.pci[4:].lower()}/class", "0x030200\n"
        yield f"sys/bus/pci/devices/{gpu.pci[4:].lower()}/numa_node", f"{gpu.index * 2 // len(view.gpus)}\n"
    yield "dev/nvidiactl", ""
    for node in range(shape.numa_nodes):
        half = shape.vcpus // 2
        cpus = f"{node * half}-{node * half + half - 1}\n" if node < 2 else "\n"
        yield f"sys/devices/system/node/node{node}/cpulist", cpus
    if shape.imex:
        yield "dev/nvidia-caps-imex-channels/channel0", ""
        yield "etc/nvidia-imex/nodes_config.cfg", "".join(f"{peer.address}\n" for peer in view.peers[: view.listed])
        yield (
            "etc/nvidia-imex/config.cfg",
            (
                "SERVER_PORT=50000\nIMEX_CMD_PORT=50005\nIMEX_CMD_ENABLED=1\nIMEX_CONN_WAIT_TIMEOUT=70\n"
                "IMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg\n"
            ),
        )
    keys = "" if view.sshd == "key-missing" else f"{vm.admin_key}\n"
    yield f"home/{vm.admin_user}/.ssh/authorized_keys", keys
    yield "etc/hostname", vm.hostname + "\n"
    yield "etc/os-release", 'PRETTY_NAME="Ubuntu 24.04.4 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\n'
    yield (
        "var/lib/hyperv/.kvp_pool_3",
        _kvp({"PhysicalHostName": vm.physical_host, "HostName": vm.physical_host, "VirtualMachineName": vm.vm_id}),
    )


def _kvp(pairs: dict[str, str]) -> bytes:
    """Hyper-V's key-value pool: 512 bytes of key and 2,048 of value, padded with NUL."""
    return b"".join(key.encode().ljust(512, b"\0") + value.encode().ljust(2048, b"\0") for key, value in pairs.items())


def counter_folder(port: Port, name: str) -> str:
    kind = "counters" if name in COUNTERS else "hw_counters"
    return f"sys/class/infiniband/{port.device}/ports/1/{kind}/{name}"


def _port_files(port: Port, view: NodeView) -> Iterator[tuple[str, str]]:
    device = f"sys/class/infiniband/{port.device}"
    yield f"{device}/fw_ver", port.firmware + "\n"
    yield f"{device}/board_id", port.board_id + "\n"
    yield f"{device}/hca_type", port.hca_type + "\n"
    yield f"{device}/node_guid", port.node_guid + "\n"
    yield f"{device}/sys_image_guid", port.system_guid + "\n"
    yield f"{device}/node_desc", f"{view.vm.hostname} {port.device}\n"
    yield f"{device}/node_type", "1: CA\n"
    yield f"{device}/device/numa_node", f"{port.numa_node}\n"
    yield f"{device}/device/vendor", "0x15b3\n"
    yield f"{device}/device/uevent", f"DRIVER=mlx5_core\nPCI_CLASS=20700\nPCI_SLOT_NAME={port.pci}\n"
    one = f"{device}/ports/1"
    yield f"{one}/state", f"{STATE[port.state]}: {port.state}\n"
    yield f"{one}/phys_state", f"{PHYS_STATE[port.phys_state]}: {port.phys_state}\n"
    yield f"{one}/rate", view.shape.rate_text(port.rate_gbps, port.lanes) + "\n"
    yield f"{one}/link_layer", port.link_layer + "\n"
    yield f"{one}/lid", f"0x{port.lid:x}\n"
    yield f"{one}/sm_lid", f"0x{port.sm_lid:x}\n"
    yield f"{one}/lid_mask_count", "0\n"
    yield f"{one}/cap_mask", "0xa751ec48\n"
    yield f"{one}/gids/0", port.gid + "\n"
    for index, pkey in enumerate(port.pkeys):
        yield f"{one}/pkeys/{index}", f"0x{pkey:04x}\n"
    for name, value in port.counters.items():
        yield counter_folder(port, name), f"{value}\n"
    if port.infiniband:
        for folder in (f"sys/class/net/{port.netdev}", f"{device}/device/net/{port.netdev}"):
            # Off at first, then on; each loss is one off and one on.
            yield f"{folder}/carrier_changes", f"{2 + 2 * port.carrier_losses}\n"
