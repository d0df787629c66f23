"""HostState: the machine around the GPUs, as its files and tools show it: disks, mounts, units, tasks, clock, settings.

Healthy nodes of one size differ only in serials and disk numbers; the planted faults are worked in at the end.
Where a form is taken from: model names and kernel settings of live ND GB300 v6 nodes, the names of versions from the
scripts that build Azure's HPC images, ext4's `emergency_ro` from kernels since 6.15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ndctl.sim.faults import Fault
from ndctl.sim.world import seeds
from ndctl.sim.world.shape import Shape
from ndctl.sim.world.vm import VM

HOST_FAULTS = (
    "nvme-missing",
    "nvme-media-errors",
    "ro-mount",
    "disk-full",
    "clock-skew",
    "failed-unit",
    "d-state",
    "component-drift",
    "setting-drift",
    "cpus-offline",
)
_ACCELERATOR = "MSFT NVMe Accelerator v1.0"


@dataclass(slots=True)
class Disk:
    """size in bytes; the first disk of a Grace-Blackwell node is the accelerator that carries the system."""

    index: int
    model: str
    serial: str
    size: int
    media_errors: int = 0
    critical_warning: int = 0
    percent_used: int = 1


@dataclass(slots=True)
class Mount:
    """space in KiB and inodes, used and in all, as df prints them; reserved: KiB only root may use."""

    device: str
    point: str
    kind: str
    options: str
    total: int
    used: int
    inodes: int
    inodes_used: int
    reserved: int = 0

    @property
    def available(self) -> int:
        return max(0, self.total - self.reserved - self.used)


@dataclass(slots=True)
class Task:
    """state: a letter of /proc/PID/stat."""

    pid: int
    name: str
    state: str
    parent: int
    flags: int = 0x400000
    wchan: str = "0"
    switches: int = 1500
    started: int = 90_000  # clock ticks after boot


@dataclass(slots=True)
class HostState:
    disks: list[Disk]
    mounts: list[Mount]
    tasks: list[Task]
    command_line: str
    settings: dict[str, str]  # path under /proc/sys or /sys -> its text
    nvidia_parameters: dict[str, str]
    components: dict[str, str]
    online_cpus: str
    failed_units: dict[str, str] = field(default_factory=dict)  # unit -> description
    clock_offset_s: float = 0.0


def build_host(vm: VM, shape: Shape, driver: str, cuda: str, kernel: str, faults: Sequence[Fault]) -> HostState:
    """`faults` are this node's own; others than the host's are passed over."""
    host = HostState(
        disks=_disks(vm, shape),
        mounts=_mounts(shape),
        tasks=_tasks(vm, shape),
        command_line=(
            f"BOOT_IMAGE=/vmlinuz-{kernel} root=PARTUUID={seeds.uuid('root', *vm.hardware)} ro console=tty1 "
            f"console={'ttyAMA0' if shape.arm else 'ttyS0'} nvme_core.io_timeout=240 init_on_alloc=0 "
            "iommu.passthrough=1 panic=-1"
        ),
        settings=dict(_SETTINGS),
        nvidia_parameters={**_NVIDIA_PARAMETERS, "CreateImexChannel0": "1" if shape.imex else "0"},
        components=_components(shape, driver, cuda, kernel),
        online_cpus=f"0-{shape.vcpus - 1}",
        clock_offset_s=seeds.number(900, "chrony", *vm.hardware) / 1e8,
    )
    for fault in faults:
        if fault.kind in HOST_FAULTS:
            _apply(fault, host, shape)
    return host


def _disks(vm: VM, shape: Shape) -> list[Disk]:
    def serial(index: int) -> str:
        return seeds.digest("nvme", *vm.hardware, index).hex()[:12].upper()

    data = [
        Disk(index, f"{shape.data_disk_model} v2", serial(index), 3_840_755_982_336)
        for index in range(1, shape.data_disks + 1)
    ]
    return [Disk(0, _ACCELERATOR, serial(0), 68_719_476_736, percent_used=0), *data]


def _mounts(shape: Shape) -> list[Mount]:
    memory = shape.memory_kb // 2
    data = shape.data_disks * 3_840_755_982_336 // 1024
    return [
        Mount(
            "/dev/nvme0n1p1", "/", "ext4", "rw,relatime,discard,errors=remount-ro",
            64_895_956, 31_207_412, 8_192_000, 512_233, reserved=16_384,
        ),
        Mount("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev", memory, 0, memory // 8, 1),
        Mount("tmpfs", "/run", "tmpfs", "rw,nosuid,nodev,size=20%,mode=755", memory // 5, 4_120, 819_200, 1_190),
        Mount("tmpfs", "/run/lock", "tmpfs", "rw,nosuid,nodev,noexec,relatime,size=5120k", 5_120, 0, memory // 8, 3),
        Mount("/dev/nvme0n1p13", "/boot", "ext4", "rw,relatime", 902_760, 214_112, 58_496, 625),
        Mount(
            "/dev/nvme0n1p15", "/boot/efi", "vfat", "rw,relatime,fmask=0077,dmask=0077,errors=remount-ro",
            106_832, 6_246, 0, 0,
        ),
        Mount("/dev/md127", "/mnt/nvme", "xfs", "rw,noatime,attr2,inode64,noquota", data, data // 140, data // 2, 12),
    ]  # fmt: skip


def _tasks(vm: VM, shape: Shape) -> list[Task]:
    names = ["kthreadd", "rcu_preempt", "kworker/0:1-events", "migration/0"]
    kernel = [Task(index, name, "I" if "rcu" in name else "S", 0, 0x208040) for index, name in enumerate(names, 2)]
    services = ["systemd-journal", "chronyd", "nvidia-persiste", "sshd"] + (["nvidia-imex"] if shape.imex else [])
    users = [
        Task(800 + seeds.number(90, name, *vm.hardware) + 100 * index, name, "S", 1)
        for index, name in enumerate(services)
    ]
    return [Task(1, "systemd", "S", 0), *kernel, *users]


def _components(shape: Shape, driver: str, cuda: str, kernel: str) -> dict[str, str]:
    versions = {
        "DOCA": "3.2.2",
        "OFED": "OFED-internal-25.10-3.2.2",
        "HPCX": "2.25.1",
        "PMIX": "4.2.9-1",
        "NVIDIA": driver,
        "CUDA": f"{cuda}.88",
        "NCCL": "2.29.7-1",
        "NVIDIA_FABRIC_MANAGER": f"{driver}-1",
        "DCGM": "1:4.5.3-1",
        "MOBY_ENGINE": "29.4.3-ubuntu24.04u1",
        "WAAGENT": "2.15.0.1",
        "AZ_HEALTH_CHECKS": "0.4.5",
        "KERNEL": kernel,
        "ImageVersion": "24.04.2026081401",
    }
    if shape.imex:
        versions["IMEX"] = driver
    return versions


def _apply(fault: Fault, host: HostState, shape: Shape) -> None:
    match fault.kind:
        case "nvme-missing":
            host.disks = [disk for disk in host.disks if disk.index != int(fault["disk"])]
        case "nvme-media-errors":
            for disk in host.disks:
                if disk.index == int(fault["disk"]):
                    disk.media_errors = int(fault["count"])
        case "ro-mount":
            mount = _mount(host, str(fault["mount"]))
            # Since 6.15 ext4 says so with a word of its own and stays "rw"; others show the plain flag.
            mount.options = (
                mount.options + ",emergency_ro" if mount.kind == "ext4" else mount.options.replace("rw", "ro", 1)
            )
        case "disk-full":
            mount = _mount(host, str(fault["mount"]))
            mount.used = mount.total - mount.reserved
        case "clock-skew":
            host.clock_offset_s = float(fault["seconds"])
        case "failed-unit":
            unit = str(fault["unit"])
            host.failed_units[unit] = _DESCRIPTIONS.get(unit, unit.partition(".")[0].replace("-", " "))
        case "d-state":
            name = str(fault["name"])
            host.tasks.append(Task(31_337, name, "D", 1, wchan="folio_wait_bit_common", switches=4_211))
        case "component-drift":
            host.components[str(fault["component"])] = str(fault["version"])
        case "setting-drift":
            host.settings[str(fault["setting"])] = str(fault["value"])
        case "cpus-offline":
            last = shape.vcpus - 1 - int(fault["cpus"])
            host.online_cpus = f"0-{last}"


def _mount(host: HostState, point: str) -> Mount:
    return next((mount for mount in host.mounts if mount.point == point), host.mounts[0])


_DESCRIPTIONS = {
    "nvidia-persistenced.service": "NVIDIA Persistence Daemon",
    "nvidia-imex.service": "NVIDIA IMEX service",
    "nvidia-dcgm.service": "NVIDIA DCGM service",
    "chrony.service": "chrony, an NTP client/server",
    "openibd.service": "openibd - configure Mellanox devices",
}
_SETTINGS = {
    "proc/sys/kernel/numa_balancing": "0",
    "proc/sys/kernel/yama/ptrace_scope": "1",
    "proc/sys/kernel/perf_event_paranoid": "4",
    "proc/sys/kernel/hung_task_timeout_secs": "120",
    "proc/sys/kernel/panic": "-1",
    "proc/sys/kernel/panic_on_oops": "0",
    "proc/sys/kernel/randomize_va_space": "2",
    "proc/sys/kernel/sched_rt_runtime_us": "950000",
    "proc/sys/kernel/pid_max": "4194304",
    "proc/sys/kernel/shmmax": "18446744073692774399",
    "proc/sys/kernel/watchdog": "1",
    "proc/sys/vm/overcommit_memory": "0",
    "proc/sys/vm/swappiness": "60",
    "proc/sys/vm/zone_reclaim_mode": "1",
    "proc/sys/vm/max_map_count": "1048576",
    "proc/sys/vm/nr_hugepages": "0",
    "proc/sys/vm/compaction_proactiveness": "20",
    "proc/sys/net/core/rmem_max": "212992",
    "proc/sys/net/core/wmem_max": "212992",
    "proc/sys/net/core/somaxconn": "4096",
    "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t33554432",
    "proc/sys/net/ipv4/tcp_wmem": "4096\t16384\t4194304",
    "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999",
    "proc/sys/net/ipv4/conf/all/rp_filter": "2",
    "proc/sys/net/ipv4/conf/all/arp_ignore": "0",
    "proc/sys/net/ipv4/conf/all/arp_announce": "0",
    "proc/sys/net/ipv4/neigh/default/gc_thresh3": "30000",
    "proc/sys/fs/nr_open": "1048576",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "sys/kernel/mm/transparent_hugepage/defrag": "always defer defer+madvise [madvise] never",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "arch_sys_counter",
}
# In the order the driver prints them.
_NVIDIA_PARAMETERS = {
    "ResmanDebugLevel": "4294967295",
    "RmLogonRC": "1",
    "ModifyDeviceFiles": "1",
    "DeviceFileUID": "0",
    "DeviceFileGID": "0",
    "DeviceFileMode": "438",
    "InitializeSystemMemoryAllocations": "1",
    "UsePageAttributeTable": "4294967295",
    "EnableMSI": "1",
    "EnablePCIeGen3": "0",
    "MemoryPoolSize": "0",
    "KMallocHeapMaxSize": "0",
    "VMallocHeapMaxSize": "0",
    "IgnoreMMIOCheck": "0",
    "EnableStreamMemOPs": "0",
    "EnableUserNUMAManagement": "1",
    "NvLinkDisable": "0",
    "RmProfilingAdminOnly": "1",
    "PreserveVideoMemoryAllocations": "1",
    "EnableS0ixPowerManagement": "0",
    "DynamicPowerManagement": "3",
    "RegisterPCIDriver": "1",
    "EnablePCIERelaxedOrderingMode": "0",
    "EnableResizableBar": "0",
    "EnableGpuFirmware": "18",
    "EnableGpuFirmwareLogs": "2",
    "RmNvlinkBandwidthLinkCount": "0",
    "EnableDbgBreakpoint": "0",
    "OpenRmEnableUnsupportedGpus": "1",
    "DmaRemapPeerMmio": "1",
    "ImexChannelCount": "2048",
    "CreateImexChannel0": "1",
    "GrdmaPciTopoCheckOverride": "0",
    "CoherentGPUMemoryMode": '""',
    "RegistryDwords": '""',
    "RegistryDwordsPerDevice": '""',
    "RmMsg": '""',
    "GpuBlacklist": '""',
    "TemporaryFilePath": '"/var/tmp"',
    "ExcludedGpus": '""',
}
