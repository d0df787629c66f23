"""What nvidia-smi's own failure sentences mean, for every judge of its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nvidia_trouble import Trouble

# kind -> (status, subject, what it means, likely cause, action, Azure category)
_MEANING: dict[str, tuple[Status, str, str, str, Action, str]] = {
    "driver-not-loaded": (
        Status.FAIL,
        "NVIDIA driver",
        "the driver does not answer, so no GPU of this node can be used",
        "the kernel module is not loaded (failed build, nouveau, Secure Boot, no GPU on the bus): see the kernel log",
        Action.FIX_IMAGE,
        "",
    ),
    "library-missing": (
        Status.FAIL,
        "NVIDIA driver",
        "the driver's library is missing",
        "driver not or only partly installed",
        Action.FIX_IMAGE,
        "",
    ),
    "version-mismatch": (
        Status.FAIL,
        "NVIDIA driver",
        "kernel module and library are of different driver versions",
        "the driver was upgraded under a running module; reboot or reload the module",
        Action.REBOOT,
        "",
    ),
    "nvml-failed": (
        Status.FAIL,
        "NVIDIA driver",
        "NVML cannot start",
        "driver trouble, or a container that lost its devices",
        Action.INVESTIGATE,
        "",
    ),
    "no-devices": (
        Status.FAIL,
        "GPUs",
        "the driver runs but finds no GPU",
        "GPUs off the bus or not attached; compare with lspci -d 10de:",
        Action.INVESTIGATE,
        "Resource.Hpc.Unhealthy.HpcMissingGpu",
    ),
    "no-permission": (Status.UNKNOWN, "text", "not allowed to ask", "run it as root", Action.NONE, ""),
    "gpu-unreachable": (
        Status.FAIL,
        "GPU",
        "the driver has lost this GPU",
        "fallen off the bus or failed initialisation; the kernel log names the XID",
        Action.REPLACE_AND_REPORT,
        "Resource.Hpc.Unhealthy.HpcMissingGpu",
    ),
    "gpu-lost": (
        Status.FAIL,
        "GPU",
        "the driver has lost a GPU",
        "fallen off the bus (XID 79)",
        Action.REPLACE_AND_REPORT,
        "Resource.Hpc.Unhealthy.HpcMissingGpu",
    ),
    "gpu-requires-reset": (
        Status.FAIL,
        "GPU",
        "a GPU requires a reset before use",
        "an earlier fatal error; the kernel log names the XID",
        Action.RESET_GPU,
        "",
    ),
    "inforom-corrupt": (
        Status.FAIL,
        "GPU",
        "the InfoROM is corrupt",
        "corrupted InfoROM",
        Action.REPLACE_AND_REPORT,
        "Resource.Hpc.Unhealthy.HpcInforomCorruption",
    ),
    "tool-missing": (
        Status.UNKNOWN,
        "text",
        "nvidia-smi is not installed here, so nothing was measured",
        "not a GPU node, or no driver package",
        Action.NONE,
        "",
    ),
    "handle-failed": (
        Status.FAIL,
        "GPU",
        "NVML cannot open a GPU",
        "driver has lost it, or its initialisation failed",
        Action.INVESTIGATE,
        "",
    ),
}


_SAYS_IT_ALL = ("inforom-corrupt", "gpu-requires-reset")  # sentences that hold no more than their meaning here


def trouble_findings(found: Iterable[Trouble]) -> Sequence[Finding]:
    """One finding for each failure sentence."""
    findings = []
    for trouble in found:
        status, subject, message, cause, action, category = _MEANING[trouble.kind]
        findings.append(
            Finding(
                check=f"gpu.{trouble.kind}",
                status=status,
                subject=f"GPU {trouble.pci}" if trouble.pci else subject,
                message=message if trouble.kind in _SAYS_IT_ALL else f"{message}: “{trouble.text}”",
                cause=cause,
                action=action,
                health_category=category,
            )
        )
    return findings
