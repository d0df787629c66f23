"""What a healthy GB300 node says of the machine around its GPUs, in our own words, to be damaged by each test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

DISK_MODEL = "Microsoft NVMe Direct Disk v2"
DISK_SECTORS = 7501476528
MOUNTS = (
    "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0",
    "/dev/nvme0n1p1 / ext4 rw,relatime,discard,errors=remount-ro 0 0",
    "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0",
    "/dev/nvme0n1p15 /boot/efi vfat rw,relatime,fmask=0077,errors=remount-ro 0 0",
    "/dev/md127 /mnt/nvme xfs rw,noatime,attr2,inode64 0 0",
    "/dev/loop0 /snap/core22/2139 squashfs ro,nodev,relatime 0 0",
)
COMMAND_LINE = (
    "BOOT_IMAGE=/vmlinuz-6.17.0-1005-azure-nvidia root=PARTUUID=0b2c6d5e-1111-4222-8333-123456789abc ro "
    "console=tty1 console=ttyAMA0 iommu.passthrough=1"
)
COMPONENTS = {"NVIDIA": "580.95.05", "CUDA": "13.0.88", "NCCL": "2.29.7-1", "ImageVersion": "24.04.2026081401"}
SETTINGS = {
    "proc/sys/kernel/numa_balancing": "0",
    "proc/sys/vm/swappiness": "60",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
}
DRIVER = {"EnableMSI": "1", "ImexChannelCount": "2048", "CreateImexChannel0": "1", "ExcludedGpus": '""'}
DF = (
    "Filesystem     Type  1024-blocks      Used   Available Capacity Mounted on\n"
    "tmpfs          tmpfs   452404768         0   452404768       0% /dev/shm\n"
    "/dev/nvme0n1p1 ext4     64895956  31207412    33672160      49% /\n"
    "/dev/nvme0n1p15 vfat      106832      6246      100586       6% /boot/efi\n"
    "/dev/md127     xfs   15002953056 107163950 14895789106       1% /mnt/nvme\n"
    "Filesystem        Inodes  IUsed      IFree IUse% Mounted on\n"
    "tmpfs           56550596      1   56550595    1% /dev/shm\n"
    "/dev/nvme0n1p1   8192000 512233    7679767    7% /\n"
    "/dev/nvme0n1p15        0      0          0     - /boot/efi\n"
    "/dev/md127     750147648     12  750147636    1% /mnt/nvme\n"
)
CHRONY = (
    "Reference ID    : 50484330 (PHC0)\nStratum         : 1\nRef time (UTC)  : Wed Dec 02 03:10:11 2026\n"
    "System time     : 0.000001404 seconds slow of NTP time\nLast offset     : -0.000000702 seconds\n"
    "RMS offset      : 0.000003112 seconds\nRoot dispersion : 0.000012094 seconds\nLeap status     : Normal\n"
)
TASKS = "tasks 1893\ninit seen\nat 90000.10\n\n"


def files(
    *,
    disks: int = 4,
    sizes: Mapping[int, int] | None = None,
    states: Mapping[int, str] | None = None,
    mounts: Sequence[str] = MOUNTS,
    command_line: str = COMMAND_LINE,
    components: str | None = None,
    settings: Mapping[str, str] = SETTINGS,
    driver: Mapping[str, str] = DRIVER,
    numa: str = "0-33",
    online: str = "0-127",
) -> str:
    """The one listing of the host's files. `disks` counts data disks; the accelerator disk stands beside them."""
    lines = [
        f"sys/devices/system/node/online:{numa}",
        f"sys/devices/system/node/possible:{numa}",
        f"sys/devices/system/cpu/online:{online}",
        "sys/devices/system/cpu/present:0-127",
        f"sys/class/nvme/nvme0/model:{'MSFT NVMe Accelerator v1.0':<40}",
        "sys/class/nvme/nvme0/state:live",
        "sys/class/block/nvme0n1/size:134217728",
        "sys/class/block/nvme0n1p1/size:134215647",
    ]
    for index in range(1, disks + 1):
        lines += [
            f"sys/class/nvme/nvme{index}/model:{DISK_MODEL:<40}",
            f"sys/class/nvme/nvme{index}/state:{(states or {}).get(index, 'live')}",
            f"sys/class/block/nvme{index}n1/size:{(sizes or {}).get(index, DISK_SECTORS)}",
        ]
    lines.append(f"proc/cmdline:{command_line}")
    lines += [f"{path}:{value}" for path, value in settings.items()]
    lines += [f"proc/driver/nvidia/params:{name}: {value}" for name, value in driver.items()]
    versions = json.dumps(COMPONENTS, indent=2) if components is None else components
    lines += [f"opt/azurehpc/component_versions.txt:{line}" for line in versions.splitlines()]
    lines += [f"proc/mounts:{line}" for line in mounts]
    return "\n".join(lines) + "\nend\n"


def smart(index: int, **changes: int) -> str:
    values = {"critical_warning": 0, "avail_spare": 100, "spare_thresh": 10, "percent_used": 1, "media_errors": 0}
    text = json.dumps({**values, **changes}, indent=2, separators=(",", ":"))
    return f"== nvme{index} {DISK_MODEL:<40}\n{text}\n"


REFUSED = (
    f"== nvme0 {'MSFT NVMe Accelerator v1.0':<40}\n"
    "NVMe status: Invalid Field in Command: A reserved coded value(0x4002)\n"
)


def smarts(**changes: int) -> str:
    """Four disks, the second with the changes; the accelerator refuses."""
    return REFUSED + "".join(smart(index, **(changes if index == 2 else {})) for index in range(1, 5)) + "== end\n"


def healthy_host() -> dict[str, str]:
    return {
        "host-files": files(),
        "host-disk": DF,
        "host-clock": CHRONY,
        "host-units": "state=running\n",
        "host-tasks": TASKS,
        "host-smart": smarts(),
    }
