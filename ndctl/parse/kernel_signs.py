"""Signs of trouble in a kernel log other than XIDs and links, as data: how each is said, and the part it names."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PCI = r"(?P<part>\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"


@dataclass(frozen=True, slots=True)
class Sign:
    """keyword: lower-case text that every such line holds, for the fast search; pattern: the sign itself."""

    kind: str
    keyword: str
    pattern: re.Pattern[str]

    def matches(self, text: str, lowered: str) -> bool:
        """lowered: the text in lower case, made once for all signs."""
        return self.keyword in lowered and self.pattern.search(text) is not None

    def subject(self, text: str) -> str:
        """The part the line names, "" if none."""
        match = self.pattern.search(text)
        return ((match.groupdict().get("part") or "") if match else "").strip(" :")[:80]


def _sign(kind: str, keyword: str, pattern: str) -> Sign:
    return Sign(kind, keyword, re.compile(pattern, re.IGNORECASE))


# The first that fits a line wins, so the special stand before the general.
SIGNS: tuple[Sign, ...] = (
    # NVIDIA driver
    _sign("gpu-init-failed", "rminitadapter", r"NVRM: (?:GPU )?(?P<part>[0-9a-f:.]{5,16})?:? ?RmInitAdapter failed"),
    _sign(
        "gpu-init-failed", "rm_init_adapter", r"NVRM: (?:GPU )?(?P<part>[0-9a-f:.]{5,16})?:? ?rm_init_adapter failed"
    ),
    _sign("driver-nouveau", "nouveau", r"NVRM: nouveau, rivafb|nouveau .{0,40}(?:DRM: |fifo: )"),
    _sign("driver-probe-not-called", "probe routine", r"NVRM: The NVIDIA probe routine was not called"),
    _sign("driver-probe-failed", "probe routine failed", r"NVRM: The NVIDIA probe routine failed"),
    _sign(
        "driver-no-adapter", "graphics adapter", r"NVRM: No NVIDIA (?:graphics adapter probed|devices probed|GPU found)"
    ),
    _sign("driver-api-mismatch", "api mismatch", r"NVRM: API mismatch"),
    _sign(
        "driver-module-rejected",
        "key was rejected",
        r"nvidia.{0,40}key was rejected by service|Loading of unsigned module",
    ),
    _sign("gpu-bar", "this pci i/o region", r"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid"),
    _sign(
        "gpu-gsp",
        "gsp",
        r"NVRM: .{0,60}(?:GSP (?:firmware|RM).{0,60}(?:failed|timed? ?out|crash)|kgspBootstrap\S* .{0,40}fail)",
    ),
    _sign("fabric-out-of-sync", "out of sync", r"NVLink fabric state cached by the driver is out of sync"),
    _sign("nvlink-discovery", "postrxdet", r"knvlink(?:UpdatePostRxDetectLinkMask|DiscoverPostRxDetLinks)"),
    _sign("imex-session", "imexsessionapi", r"Unable to notify ImexSessionApi"),
    _sign("peermem-context", "nvidia-peermem", r"nvidia-peermem .{0,80}(?:ERROR|invalid context)"),
    _sign("peermem-load", "peermem", r"nvidia[_-]peermem.{0,60}(?:disagrees|Unknown symbol|Invalid argument)"),
    # InfiniBand adapters
    _sign("mlx5-tool-noise", "access_reg", r"mlx5_core " + _PCI + r".{0,200}ACCESS_REG.{0,60}failed"),
    _sign(
        "mlx5-health",
        "mlx5_core",
        r"mlx5_core "
        + _PCI
        + r".{0,120}(?:health compromised|device's health|poll_health.{0,40}(?:device|fatal|miss)|Fatal error \d"
        + r"|firmware internal error|assert_var)",
    ),
    _sign(
        "mlx5-cable",
        "mlx5_core",
        r"mlx5_core " + _PCI + r".{0,80}Port module event.{0,60}(?:error|unplugged|high temperature|shorted)",
    ),
    _sign("mlx5-temperature", "mlx5_core", r"mlx5_core " + _PCI + r".{0,80}high temperature"),
    _sign("mlx5-power", "mlx5_core", r"mlx5_core " + _PCI + r".{0,80}insufficient power on the PCIe slot"),
    _sign(
        "mlx5-command",
        "mlx5_core",
        r"mlx5_core "
        + _PCI
        + r".{0,160}(?:timeout\. Will cause a leak|failed, status internal error|wait_func.{0,40}timeout)",
    ),
    # Host memory, PCIe, machine checks
    _sign("memory-uncorrected", "edac", r"EDAC (?P<part>MC\d+): \d+ UE\b"),
    _sign("memory-corrected", "edac", r"EDAC (?P<part>MC\d+): \d+ CE\b"),
    _sign("memory-failure", "memory failure", r"Memory failure: 0x[0-9a-f]+"),
    _sign("pcie-fatal", "severity=unco", r"" + _PCI + r".{0,40}PCIe Bus Error: severity=Uncorrect\w+ \(Fatal\)"),
    _sign(
        "pcie-nonfatal", "severity=unco", r"" + _PCI + r".{0,40}PCIe Bus Error: severity=Uncorrect\w+ \(Non-?Fatal\)"
    ),
    _sign("pcie-corrected", "severity=corr", r"" + _PCI + r".{0,40}PCIe Bus Error: severity=Correct"),
    _sign("pcie-surprise-down", "link down", r"pciehp:? .{0,40}Slot\((?P<part>[\w-]{1,20})\): Link Down"),
    _sign("pcie-surprise-down", "card not present", r"pciehp:? .{0,40}Slot\((?P<part>[\w-]{1,20})\): Card not present"),
    _sign(
        "pcie-link-degraded",
        "available pcie bandwidth",
        r"" + _PCI + r".{0,20}\d+\.\d+ Gb/s available PCIe bandwidth, limited by",
    ),
    _sign("hardware-error-fatal", "event severity", r"\[Hardware Error\]: event severity: fatal"),
    _sign("hardware-error", "event severity", r"\[Hardware Error\]: event severity: (?:recoverable|corrected)"),
    _sign("machine-check", "machine check", r"mce: .{0,60}(?:Uncorrected|Machine check: Processor context corrupt)"),
    _sign("machine-check-logged", "machine check events", r"Machine check events logged"),
    # Kernel and tasks
    _sign("panic", "kernel panic", r"Kernel panic - not syncing"),
    _sign("deliberate-crash", "trigger a crash", r"sysrq: .{0,20}Trigger a crash"),
    _sign("oops", "bug: unable to handle", r"BUG: unable to handle"),
    _sign("oops", "unable to handle kernel", r"Unable to handle kernel"),
    _sign("oops", "general protection fault", r"\bgeneral protection fault\b.{0,80}\[#\d+\]"),
    _sign("oops", "oops:", r"\b(?:Internal error: )?Oops:"),
    _sign("lockup", "lockup", r"watchdog: BUG: (?:soft|hard) lockup|NMI watchdog: (?:BUG: )?.{0,30}lockup"),
    _sign("rcu-stall", "rcu", r"rcu: .{0,20}(?:self-)?detected stall|rcu_\w+ (?:self-)?detected (?:expedited )?stall"),
    _sign("hung-task", "blocked for more than", r"INFO: task (?P<part>\S{1,60}):\d+ blocked for more than \d+ seconds"),
    _sign("out-of-memory", "out of memory", r"Out of memory: Kill(?:ed)? process \d+ \((?P<part>[^)]{1,40})\)"),
    _sign("out-of-memory", "oom-kill", r"oom-kill:constraint=.{0,200}task=(?P<part>[^,\s]{1,40})"),
    _sign("segfault", "segfault at", r"(?P<part>\S{1,60})\[\d+\]: segfault at "),
    # Disks and file systems
    _sign(
        "nvme",
        "nvme",
        r"(?P<part>nvme\d+).{0,60}(?:controller is down|I/O .{0,40}timeout|after probe failure|Device not ready)",
    ),
    _sign("disk-error", "error, dev", r"(?:I/O|critical (?:medium|target)) error, dev (?P<part>\w{2,20})"),
    _sign(
        "read-only", "remounting filesystem read-only", r"\((?P<part>[\w-]{2,20})\): Remounting filesystem read-only"
    ),
    _sign("filesystem", "-fs error", r"EXT4-fs error \(device (?P<part>[\w-]{2,20})\)"),
    # Heat, IOMMU
    _sign("cpu-throttled", "temperature above threshold", r"temperature above threshold"),
    _sign(
        "iommu",
        "iommu",
        r"\[IO_PAGE_FAULT.{0,20}device=(?P<part>[0-9a-f:.]{5,16})|arm-smmu-v3 .{0,40}event 0x(?:10|02|04)",
    ),
    _sign(
        "iommu", "dmar:", r"DMAR: \[DMA (?:Read|Write).{0,40}(?:Request device|device) \[(?P<part>[0-9a-f:.]{5,16})\]"
    ),
)
