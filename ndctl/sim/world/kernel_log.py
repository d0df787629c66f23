"""What the kernel of a node has said since boot: the driver's start, links coming up, and what each fault leaves.

Line forms are those of real GB200/GB300 nodes (NVRM Xid lines with two blanks after "Fatal", PCI domain per GPU).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ndctl.sim.faults import Fault
from ndctl.sim.world import seeds
from ndctl.sim.world.parts import Gpu, LogLine, Port

if TYPE_CHECKING:
    from ndctl.sim.world.view import NodeView

# intrinfo of a LINK_DOWN event whose reason subcode, bits 20-25, is 4: the link's signal integrity.
# The link's number stands in bits 13-17.
_LINK_DOWN_INTRINFO = 0x004405C6
_NO_MORE = " ".join(["0x00000000"] * 5)


def boot_lines(view: NodeView) -> Iterator[LogLine]:
    """A quiet, healthy boot."""
    from ndctl.sim.world.view import DRIVER_VERSION, KERNEL_RELEASE

    start = view.booted
    yield LogLine(start, f"Linux version {KERNEL_RELEASE} (buildd@bos03-arm64-012) #5-Ubuntu SMP")
    yield LogLine(start, "Booting Linux on physical CPU 0x0000000000 [0x410fd4f0]")
    yield LogLine(start + 2.1, "hv_vmbus: Vmbus version:5.3")
    for index, port in enumerate(view.ports):
        yield LogLine(start + 6.2 + index / 10, f"mlx5_core {port.pci}: firmware version: {port.firmware}")
        if port.infiniband:
            yield LogLine(start + 8.9 + index / 10, port_line(port, "INIT"))
            yield LogLine(start + 9.5 + index / 10, port_line(port, "ACTIVE"))
    yield LogLine(start + 11.0, "nvidia: loading out-of-tree module taints kernel.")
    yield LogLine(
        start + 11.4,
        f"NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  {DRIVER_VERSION}  Release Build  (dvs-builder)",
    )
    yield LogLine(start + 12.0, "nvidia-modeset: Loading NVIDIA UNIX Open Kernel Mode Setting Driver")
    yield LogLine(start + 14.0, "EXT4-fs (nvme0n1p1): mounted filesystem ro with ordered data mode. Quota mode: none.")


def port_line(port: Port, state: str) -> str:
    """What the kernel prints since 6.15 when an RDMA port's state changes."""
    return f"mlx5_core {port.pci} {port.device}: Port: 1 Link {state}"


def fault_lines(fault: Fault, view: NodeView) -> Iterator[LogLine]:
    """The lines this fault, planted anywhere in the rack, leaves in this node's log."""
    from ndctl.sim.world.view import applies_to

    at = max(fault.since, view.booted + 60.0)
    if not applies_to(fault, view.vm):
        if fault.kind == "nvlink-down":
            for gpu in view.gpus:
                yield _sympathetic(at, gpu, view)
        return
    gpu = view.gpus[min(int(fault.where.get("gpu", 0)), len(view.gpus) - 1)]
    pci = gpu.xid_pci
    match fault.kind:
        case "nvlink-down":
            link = int(fault["link"])
            intrinfo = _LINK_DOWN_INTRINFO | link << 13
            yield LogLine(
                at, _xid(pci, 149, f"NETIR_LINK_EVT  Fatal   XC0 i0 Link {link:02d} (0x{intrinfo:08x} {_NO_MORE})")
            )
            yield LogLine(
                at + 0.001, _xid(pci, 154, "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)")
            )
            for other in view.gpus:
                if other is not gpu:
                    yield _sympathetic(at, other, view)
        case "gpu-missing":
            yield LogLine(at, f"NVRM: GPU at PCI:{pci}: {gpu.uuid}")
            yield LogLine(at, f"NVRM: GPU Board Serial Number: {gpu.serial}")
            yield LogLine(at, _xid(pci, 79, "GPU has fallen off the bus."))
            yield LogLine(at + 0.002, f"NVRM: GPU {gpu.pci[4:].lower()}: GPU has fallen off the bus.")
        case "ecc-uncorrectable":
            yield LogLine(at, _xid(pci, 95, "Uncontained: DRAM (0x0,0x1). RST: Yes, D-RST: No"))
            yield LogLine(
                at + 0.002, _xid(pci, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
            )
        case "row-remap-pending":
            yield LogLine(
                at,
                _xid(
                    pci, 63, "Row Remapper: New row (0x0000000000a3c1f2) marked for remapping, reset gpu to activate."
                ),
            )
        case "row-remap-failure":
            yield LogLine(at, _xid(pci, 64, "Row Remapper: Failed to remap row (0x0000000000a3c1f2)."))
        case "port-down":
            port = next((port for port in view.ports if port.device == fault["port"]), view.ports[0])
            yield LogLine(at, port_line(port, "DOWN"))
        case "adapter-unhealthy":
            port = next((port for port in view.ports if port.device == fault["port"]), view.ports[0])
            yield LogLine(
                at, f"mlx5_core {port.pci}: poll_health:1091:(pid 0): device's health compromised - reached miss count"
            )
        case "port-flaps":
            port = next((port for port in view.ports if port.device == fault["port"]), view.ports[0])
            for number in range(int(fault["times"])):
                for delay, state in enumerate(("DOWN", "INIT", "ACTIVE")):
                    yield LogLine(at - 100.0 * (number + 1) + delay * 4.0, port_line(port, state))
        case "ro-mount" | "oom-killed" | "d-state":
            for delay, text in enumerate(_host_lines(fault, view)):
                yield LogLine(at + delay / 1000, text)


def _host_lines(fault: Fault, view: NodeView) -> list[str]:
    match fault.kind:
        case "oom-killed":
            name, pid = fault["name"], 30_417
            return [
                f"{name} invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, "
                "oom_score_adj=0",
                "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,"
                f"mems_allowed=0-{view.shape.numa_nodes - 1},global_oom,"
                f"task_memcg=/user.slice/user-1000.slice,task={name},pid={pid},uid=1000",
                f"Out of memory: Killed process {pid} ({name}) total-vm:901775360kB, anon-rss:880033012kB, "
                "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1722348kB oom_score_adj:0",
            ]
        case "ro-mount":
            mount = next((one for one in view.host.mounts if one.point == fault["mount"]), view.host.mounts[0])
            device = mount.device.removeprefix("/dev/")
            if mount.kind != "ext4":
                return []
            return [
                f"EXT4-fs error (device {device}): ext4_journal_check_start:84: comm systemd-journal: "
                "Detected aborted journal",
                f"EXT4-fs ({device}): Remounting filesystem read-only",
            ]
    return [
        f"INFO: task {fault['name']}:31337 blocked for more than 122 seconds.",
        "      Tainted: G           OE      6.17.0-1005-azure-nvidia #5-Ubuntu",
        '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
        f"task:{fault['name']:<15} state:D stack:0     pid:31337 tgid:31337 ppid:1      flags:0x00000000",
    ]


def _sympathetic(at: float, gpu: Gpu, view: NodeView) -> LogLine:
    """Another GPU of the rack notices that a peer's link went away; non-fatal, within two seconds."""
    delay = 0.2 + seeds.number(1500, "145", *view.vm.hardware, gpu.index) / 1000
    text = f"RLW_REMAP    Nonfatal XC0 i0 Link -1 (0x00000004 0x80000000 {_NO_MORE[:-11]})"
    return LogLine(at + delay, _xid(gpu.xid_pci, 145, text))


def _xid(pci: str, number: int, text: str) -> str:
    return f"NVRM: Xid (PCI:{pci}): {number}, {text}"
