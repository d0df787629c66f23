"""NVIDIA XIDs as data: what each means and what it asks for.

Source: NVIDIA's public XID catalogue and XID errors guide, read 2026-12-02; names in our own words.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ndctl.model.status import Action

SOURCE = "NVIDIA XID catalogue, 2026-12-02"


class Tier(StrEnum):
    """How much a lone XID says about the hardware."""

    INFO = "informational"
    NOTICE = "worth watching"
    APPLICATION = "application"
    RESET = "reset the GPU"
    RESTART = "restart"
    NVLINK5 = "NVLink 5 event"
    RECOVERY = "recovery action"
    SUPPORT = "contact support"


@dataclass(frozen=True, slots=True)
class Xid:
    number: int
    meaning: str
    tier: Tier
    action: Action
    category: str = ""


def _rows(tier: Tier, action: Action, meanings: dict[int, str]) -> dict[int, Xid]:
    return {number: Xid(number, meaning, tier, action) for number, meaning in meanings.items()}


_INFO = {
    37: "driver firmware error",
    38: "driver firmware error",
    43: "an application's channel was stopped after the application's own error",
    44: "graphics engine fault while contexts were switched",
    66: "illegal access by the driver",
    67: "illegal access by the driver",
    106: "test message of the board's management bus",
    107: "test message of the board's management bus",
    108: "NVLink remote translation error, no longer used",
    137: "NVLink privilege error: as a rule an application's illegal access to a peer",
    141: "CUDA fast path error",
    152: "deep learning accelerator SMMU error",
    153: "deep learning accelerator time-out",
}
_NOTICE = {
    63: "a memory row was remapped or a page retired: takes effect with the next reset",
    92: "many corrected single-bit errors",
    93: "the InfoROM may not be written more often: its wear limit is reached",
    121: "corrected error of the chip-to-chip link to the CPU",
    157: "memory could not be repaired for lack of spares; the same error may come back",
    160: "a memory channel is to be taken out of use",
    161: "a memory channel could not be taken out of use",
}
_COPY = dict.fromkeys((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), "copy engine error")
_VIDEO = dict.fromkeys((68, 82, 83, 84, 88, 89, *range(96, 106)), "video or JPEG engine error")
_APPLICATION = {
    **_COPY,
    **_VIDEO,
    8: "GPU stopped processing: an application's work timed out",
    11: "invalid or corrupted command stream of an application",
    13: "graphics engine exception: as a rule an application's bad access",
    14: "channel error of an old driver",
    18: "bus mastering was switched off",
    25: "invalid or illegal command stream",
    31: "GPU memory page fault: as a rule an application's bad address",
    32: "invalid or corrupted push buffer",
    45: "channels were stopped early: a consequence of another error, or of a killed process",
    59: "internal controller error of an old driver",
    60: "security engine exception",
    69: "graphics engine class error",
    80: "corrupted data sent to the GPU",
    86: "optical flow engine exception",
    94: "contained memory error: one application was stopped, the GPU works on; reset it when convenient",
    139: "optical flow engine exception",
}
_RESET = {
    46: "GPU stopped processing",
    61: "internal micro-controller stopped at a breakpoint",
    62: "internal micro-controller halted",
    64: "row remapping or page retirement failed",
    95: "uncontained memory error: every application on the GPU is hit",
    109: "context switch time-out",
    110: "security fault: uncommon without a hardware failure",
    119: "the GPU system processor (GSP) does not answer",
    120: "the GPU system processor (GSP) failed",
    136: "NVLink training failed",
    140: "uncorrectable memory error that could not be recorded for repair",
    143: "GPU initialisation failed",
    155: "NVLink taken down by software, also when it was meant",
    156: "memory is to be repaired at the next reset",
    158: "GPU fatal time-out",
}
_RESTART = {
    79: "GPU has fallen off the bus",
    151: "key rotation error: restart the VM",
}
_CORRELATE = {
    48: "double-bit ECC error in memory or SRAM",
    54: "auxiliary power is not connected",
    56: "display engine error",
    57: "error of the link to board memory",
    58: "unstable board memory, or memory interface error",
    65: "video engine exception",
    73: "video engine exception",
    74: "NVLink error",
    78: "vGPU start error: software or firmware mismatch",
}
_NVLINK5 = {
    144: "NVLink event (SAW)",
    145: "NVLink event (RLW)",
    146: "NVLink event (TLW)",
    147: "NVLink event (TREX)",
    148: "NVLink event (NVLPW)",
    149: "NVLink event (NETIR: the link itself)",
    150: "NVLink event (MSE: the link's management engine)",
}
_SUPPORT = {
    142: "video engine exception",
    159: "error on the chip-to-chip interface: sympathetic, as a rule",
    162: "power smoothing came back",
    163: "power smoothing was switched off",
    164: "power smoothing hardware is near the end of its life",
    165: "power smoothing hardware is at the end of its life",
    166: "confidential computing: traffic before the link was configured",
    167: "PCIe fatal time-out",
    168: "less GPU memory than the board has: errors in a protected region",
    169: "internal micro-controller (SEC2) halted",
    170: "confidential computing: interrupt",
    171: "detail of a double-bit error: in DRAM",
    172: "detail of a double-bit error: in SRAM",
}
_UNUSED = dict.fromkeys(
    (81, 87, 90, 91, *range(111, 119), *range(122, 126), 138), "a number the catalogue calls unused"
)
XIDS: dict[int, Xid] = {
    **_rows(Tier.INFO, Action.NONE, _INFO),
    **_rows(Tier.NOTICE, Action.WATCH, _NOTICE),
    **_rows(Tier.APPLICATION, Action.NONE, _APPLICATION),
    **_rows(Tier.RESET, Action.RESET_GPU, _RESET),
    **_rows(Tier.RESTART, Action.REPLACE_AND_REPORT, _RESTART),
    **_rows(Tier.SUPPORT, Action.INVESTIGATE, _UNUSED | _CORRELATE | _SUPPORT),
    **_rows(Tier.NVLINK5, Action.INVESTIGATE, _NVLINK5),
    154: Xid(154, "the GPU's recovery action changed", Tier.RECOVERY, Action.NONE),
}
# Numbers of the support tier that are a fault by themselves; the others warn.
HARDWARE = frozenset({48, 54, 57, 58, 74, 165, 167, 168, 169, 171, 172})
CATEGORY = {
    48: "Resource.Hpc.Unhealthy.XID48DoubleBitECC",
    64: "Resource.Hpc.Unhealthy.HpcRowRemapFailure",
    74: "Resource.Hpc.Unhealthy.NvLink",
    79: "Resource.Hpc.Unhealthy.XID79FallenOffBus",
    95: "Resource.Hpc.Unhealthy.XID95UncontainedECCError",
    149: "Resource.Hpc.Unhealthy.NvLink",
}

# Reason of a NETIR link-down event, (intrinfo >> 20) & 0x3f.
SIGNAL = frozenset({2, 4, 10})
SOFTWARE = frozenset({15, 17, 22, 38})
SOFTWARE_OR_SIGNAL = frozenset({16, 18})
PEER = frozenset({21, 32, 33, 34, 35, 36, 37})
HOST = frozenset({40})
SIGNAL_AND_CABLES = frozenset({42, 43})


def link_down_cause(subcode: int) -> str:
    """Where a link-down event of XID 149 says to look."""
    if subcode in PEER:
        return "the peer: the other end of the link went down first; this GPU is not to blame"
    if subcode in SIGNAL:
        return "link signal integrity"
    if subcode in SIGNAL_AND_CABLES:
        return "link signal integrity and cables"
    if subcode in SOFTWARE:
        return "software, or an operator, took the link down"
    if subcode in SOFTWARE_OR_SIGNAL:
        return "software or link signal integrity"
    if subcode in HOST:
        return "the host"
    if subcode == 0:
        return "not told: another event is to explain it, else the link itself"
    if subcode == 1:
        return "noise unless it comes more than once a day"
    return "the link: fatal"
