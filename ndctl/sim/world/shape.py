"""Shape: what one VM size is made of, out of its hardware profile, in the numbers the tools print."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ndctl import profiles
from ndctl.profiles.schema import Profile

# PCI addresses of the four GPUs of a Grace-Blackwell tray (seen on GB200 nodes; each GPU has its own domain).
_GRACE_PCI = ("00000008:01:00.0", "00000009:01:00.0", "00000018:01:00.0", "00000019:01:00.0")

_GENERATION = {100: "EDR", 200: "HDR", 400: "NDR", 800: "XDR"}


@dataclass(frozen=True, slots=True)
class Shape:
    """gpu_memory_mib as nvidia-smi totals it; rate in Gb/s; link speed in GB/s."""

    profile: Profile
    gpu_name: str
    pci: tuple[str, ...]
    pci_device_id: str
    gpu_memory_mib: int
    power_limit_w: float
    links: int
    link_gb_per_s: float
    ports: tuple[str, ...]
    rate_gbps: int
    rack_fabric: bool
    imex: bool
    arm: bool
    vcpus: int
    memory_kb: int
    numa_nodes: int
    data_disks: int
    data_disk_model: str

    def rate_text(self, gbps: int, lanes: int = 4) -> str:
        """As sysfs prints a port's rate."""
        return f"{gbps} Gb/sec ({lanes}X {_GENERATION.get(gbps * 4 // lanes, 'NDR')})"


@lru_cache(maxsize=32)
def shape_for(vm_size: str) -> Shape:
    """NdctlError if no profile knows the size."""
    profile = profiles.for_vm_size(vm_size)
    gpu = profile.gpu
    count = gpu.count.value
    name = gpu.name.value
    grace = profile.azure.architecture == "arm64"
    pattern = profile.infiniband.device_pattern.value
    stem = pattern.split("*")[0].split("[")[0]
    numa = profile.host.numa_nodes
    return Shape(
        profile=profile,
        gpu_name=name if name.startswith("NVIDIA") else f"NVIDIA {name}",
        pci=_GRACE_PCI[:count] if grace else tuple(f"{i + 1:08X}:00:00.0" for i in range(count)),
        pci_device_id=gpu.pci_device_ids.value[0],
        gpu_memory_mib=round(gpu.memory_gib.value * 1024),
        power_limit_w=1400.0 if grace else 700.0,
        links=profile.nvlink.links_per_gpu.value,
        link_gb_per_s=profile.nvlink.link_gb_per_s.value,
        ports=tuple(f"{stem}{i}" for i in range(profile.infiniband.ports.value)),
        rate_gbps=round(profile.infiniband.rate_gbps.value),
        rack_fabric=profile.nvlink.domain.value == "rack",
        imex=profile.nvlink.imex.value,
        arm=grace,
        vcpus=profile.azure.vcpus.value,
        memory_kb=profile.host.memory_kb.value,
        numa_nodes=numa.value if numa is not None else 2,
        data_disks=profile.host.nvme_data_disks.value,
        data_disk_model=profile.host.nvme_data_model.value,
    )
