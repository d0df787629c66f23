"""What each sign of a kernel log other than an XID means, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.kernel_log import KernelEvent


@dataclass(frozen=True, slots=True)
class _Meaning:
    status: Status
    subject: str
    message: str
    cause: str = ""
    action: Action = Action.NONE
    category: str = ""


_F, _W = Status.FAIL, Status.WARN
_DRIVER = "NVIDIA driver"
MEANINGS: dict[str, _Meaning] = {
    "gpu-init-failed": _Meaning(
        _F,
        "GPU",
        "the driver cannot initialise this GPU",
        "GPU fault, or firmware and driver that do not fit",
        Action.REBOOT,
        "Resource.Hpc.Unhealthy.HpcMissingGpu",
    ),
    "driver-nouveau": _Meaning(
        _F, _DRIVER, "nouveau owns the GPUs", "nouveau is not on the block list of the image", Action.FIX_IMAGE
    ),
    "driver-probe-not-called": _Meaning(
        _F,
        _DRIVER,
        "the driver was not given its devices",
        "another driver (nouveau, vfio) owns them",
        Action.FIX_IMAGE,
    ),
    "driver-probe-failed": _Meaning(
        _F, _DRIVER, "the driver failed on its devices", "GPU fault, or a driver that does not fit", Action.INVESTIGATE
    ),
    "driver-no-adapter": _Meaning(
        _F, _DRIVER, "the driver loaded and got no GPU", "no GPU, or another driver owns it", Action.INVESTIGATE
    ),
    "driver-api-mismatch": _Meaning(
        _F,
        _DRIVER,
        "programs and kernel module are of different driver versions",
        "upgraded under a running module, or a container with its own library",
        Action.REBOOT,
    ),
    "driver-module-rejected": _Meaning(
        _F, _DRIVER, "the kernel refuses the module's signature", "Secure Boot and an unsigned module", Action.FIX_IMAGE
    ),
    "gpu-bar": _Meaning(
        _F, "GPU", "the GPU's memory window is invalid", "firmware gave it no address space", Action.INVESTIGATE
    ),
    "gpu-gsp": _Meaning(_F, "GPU", "the GPU system processor failed", "firmware or GPU fault", Action.RESET_GPU),
    "fabric-out-of-sync": _Meaning(
        _F,
        "NVLink fabric",
        "the driver's picture of the NVLink fabric is out of date",
        "fabric manager restarted under running GPUs: restart it and reset the GPUs, or reboot",
        Action.REBOOT,
        "Resource.Hpc.Unhealthy.NvLink",
    ),
    "nvlink-discovery": _Meaning(
        _F, "NVLink", "NVLink discovery failed", "a link or its other end does not answer", Action.REBOOT
    ),
    "imex-session": _Meaning(_W, "IMEX", "the driver could not notify IMEX", "nvidia-imex not running", Action.WATCH),
    "peermem-context": _Meaning(
        _W, "nvidia-peermem", "peermem met an invalid context: harmless when a process ends", "process teardown"
    ),
    "peermem-load": _Meaning(
        _W, "nvidia-peermem", "nvidia-peermem cannot be loaded", "no matching RDMA stack; NCCL may use DMABUF"
    ),
    "mlx5-tool-noise": _Meaning(
        _W,
        "adapter",
        "an adapter refused a register read by a monitoring tool: no fault of the port",
        "a tool asks a port it may not manage",
    ),
    "mlx5-health": _Meaning(
        _F,
        "adapter",
        "the adapter's firmware reports a failure",
        "adapter firmware or hardware",
        Action.REPLACE_AND_REPORT,
        "Resource.Hpc.Unhealthy.HpcGenericFailure",
    ),
    "mlx5-cable": _Meaning(_F, "adapter", "cable or transceiver trouble", "cable or transceiver", Action.INVESTIGATE),
    "mlx5-temperature": _Meaning(_W, "adapter", "the adapter is hot", "cooling", Action.INVESTIGATE),
    "mlx5-power": _Meaning(
        _W, "adapter", "the adapter finds its slot's power low", "often a wrong reading", Action.WATCH
    ),
    "mlx5-command": _Meaning(_F, "adapter", "the adapter does not answer commands", "firmware", Action.REBOOT),
    "memory-uncorrected": _Meaning(
        _F, "host memory", "an uncorrected error in host memory", "a memory module", Action.REPLACE_AND_REPORT
    ),
    "memory-corrected": _Meaning(_W, "host memory", "corrected errors in host memory", "a memory module", Action.WATCH),
    "memory-failure": _Meaning(
        _F, "memory", "the kernel took a broken page out of use", "host or GPU memory fault", Action.INVESTIGATE
    ),
    "pcie-fatal": _Meaning(_F, "PCIe device", "fatal PCIe error", "PCIe link or device", Action.REPLACE_AND_REPORT),
    "pcie-nonfatal": _Meaning(
        _W, "PCIe device", "uncorrected, not fatal PCIe error", "PCIe link or device", Action.WATCH
    ),
    "pcie-corrected": _Meaning(
        _W, "PCIe device", "corrected PCIe errors: a link to watch, no dead device", "signal integrity", Action.WATCH
    ),
    "pcie-surprise-down": _Meaning(
        _F, "PCIe slot", "a PCIe device vanished", "link, power or device", Action.INVESTIGATE
    ),
    "pcie-link-degraded": _Meaning(
        _W, "PCIe device", "a PCIe link runs below what the device can do", "", Action.WATCH
    ),
    "hardware-error-fatal": _Meaning(
        _F, "host", "the firmware reports a fatal hardware error", "see the lines below it", Action.REPLACE_AND_REPORT
    ),
    "hardware-error": _Meaning(
        _W, "host", "the firmware reports a recovered hardware error", "see the lines below it", Action.WATCH
    ),
    "machine-check": _Meaning(_F, "host", "an uncorrected machine check", "CPU or memory", Action.REPLACE_AND_REPORT),
    "machine-check-logged": _Meaning(
        _W, "host", "machine check events were logged", "see mcelog or rasdaemon", Action.WATCH
    ),
    "panic": _Meaning(_F, "kernel", "the kernel panicked", "see the lines before it", Action.REBOOT),
    "deliberate-crash": _Meaning(_W, "kernel", "the crash was triggered on purpose (sysrq)", "an operator or a test"),
    "oops": _Meaning(_F, "kernel", "the kernel stumbled over its own error", "kernel or driver", Action.REBOOT),
    "lockup": _Meaning(_F, "kernel", "a CPU was locked up", "kernel, driver or a stolen CPU", Action.REBOOT),
    "rcu-stall": _Meaning(_W, "kernel", "a CPU stalled", "kernel, driver or a stolen CPU", Action.WATCH),
    "hung-task": _Meaning(
        _W, "task", "a task hangs in the kernel (D state)", "a driver or file system that waits", Action.WATCH
    ),
    "out-of-memory": _Meaning(_W, "task", "killed for lack of memory", "an application's use of memory"),
    "segfault": _Meaning(_W, "task", "a program crashed: software, no hardware fault", "an application or library"),
    "nvme": _Meaning(_W, "NVMe disk", "an NVMe disk did not answer in time", "disk", Action.INVESTIGATE),
    "disk-error": _Meaning(_W, "disk", "a disk reports read or write errors", "disk", Action.INVESTIGATE),
    "read-only": _Meaning(_F, "file system", "a file system became read-only", "disk", Action.REIMAGE),
    "filesystem": _Meaning(_F, "file system", "a file system is damaged", "disk", Action.REIMAGE),
    "cpu-throttled": _Meaning(_W, "host", "a CPU was too hot", "cooling", Action.INVESTIGATE),
    "iommu": _Meaning(_W, "IOMMU", "a device touched memory it may not", "driver or device", Action.WATCH),
}
_CONSEQUENCES = {"driver-no-adapter": "driver-probe-not-called", "driver-probe-not-called": "driver-nouveau"}


def event_findings(events: Sequence[KernelEvent], pstore: bool) -> list[Finding]:
    """One finding for each sign and part. A crash on purpose, or kept from an earlier boot, only warns."""
    kinds = {event.kind for event in events}
    deliberate = "deliberate-crash" in kinds
    findings = []
    for event in events:
        meaning = MEANINGS[event.kind]
        crash = event.kind in {"panic", "oops"}
        status = Status.WARN if crash and (deliberate or pstore) else meaning.status
        cause = meaning.cause
        if crash and deliberate:
            cause = "triggered on purpose (sysrq)"
        elif crash and pstore:
            cause = "a crash record, as a rule of an earlier boot"
        why = _CONSEQUENCES.get(event.kind)
        often = f" ({event.count} lines)" if event.count > 1 else ""
        findings.append(
            Finding(
                check=f"kernel.{event.kind}",
                status=status,
                subject=f"{meaning.subject} {event.subject}".strip(),
                value=event.count,
                unit="lines",
                message=f"{meaning.message}{often}: “{event.text[:160]}”",
                cause=cause,
                action=meaning.action if status is meaning.status else Action.WATCH,
                health_category=meaning.category if status is Status.FAIL else "",
                caused_by=f"kernel.{why}@{MEANINGS[why].subject}" if why in kinds else "",
            )
        )
    return findings
