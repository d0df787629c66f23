"""What the driver asks for, what it cannot read, and how a GPU is set up."""

from __future__ import annotations

from ndctl.checks.texts.gpu_finding import about
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.gpu_facts import Gpu
from ndctl.profiles.schema import Profile

# Driver's words, lower case -> what to do. Newer drivers add words; an unknown one warns.
_RECOVERY = {
    "reset": Action.RESET_GPU,
    "gpu reset": Action.RESET_GPU,
    "gpu reset required": Action.RESET_GPU,
    "reboot": Action.REBOOT,
    "node reboot": Action.REBOOT,
    "node reboot required": Action.REBOOT,
    "system reboot": Action.REBOOT,
    "drain p2p": Action.RESET_GPU,
    "drain and reset": Action.RESET_GPU,
    "bus reset": Action.REBOOT,
    "recover imex domain": Action.RESTART_IMEX,
}
_EARLIER = "an earlier fatal error; the kernel log names the XID"
_LOST_FIELDS = 3  # this many unreadable fields are a lost GPU, fewer a read error


def state_findings(gpu: Gpu, profile: Profile | None) -> list[Finding]:
    """Faults and warnings only."""
    return [
        *_recovery(gpu),
        *_unreadable(gpu),
        *_settings(gpu, profile),
    ]


def sees_state(gpu: Gpu) -> list[str]:
    """Which state the text shows, in words for a pass finding."""
    return ["recovery action"] if gpu.recovery_action is not None else []


def recovery_action(words: str) -> Action | None:
    """The action a driver's recovery words ask for: NONE for "None"; None for words not known."""
    text = " ".join(words.strip().lower().split())
    return Action.NONE if text in {"none", ""} else _RECOVERY.get(text)


def _recovery(gpu: Gpu) -> list[Finding]:
    words = gpu.recovery_action
    findings = []
    if words is not None:
        action = recovery_action(words)
        if action is None:
            message = f"the driver asks for '{words}', which ndctl does not know"
            findings.append(
                about(
                    gpu,
                    "gpu.recovery-action",
                    Status.WARN,
                    message,
                    value=words,
                    expected="None",
                    action=Action.INVESTIGATE,
                )
            )
        elif action is not Action.NONE:
            findings.append(
                about(
                    gpu,
                    "gpu.recovery-action",
                    Status.FAIL,
                    f"the driver asks for: {words}",
                    value=words,
                    expected="None",
                    cause=_EARLIER,
                    action=action,
                )
            )
    asked = gpu.reset_required or gpu.drain_and_reset
    if asked and not findings:
        words = "reset required" if gpu.reset_required else "drain and reset recommended"
        findings.append(
            about(
                gpu,
                "gpu.reset-required",
                Status.FAIL,
                words,
                value=words,
                expected="No",
                cause=_EARLIER,
                action=Action.RESET_GPU,
            )
        )
    return findings


def _unreadable(gpu: Gpu) -> list[Finding]:
    if not gpu.errors:
        return []
    said = " ".join(gpu.errors).lower()
    if "requires reset" in said or "gpu is lost" in said:
        message = f"the driver has lost this GPU: {'; '.join(gpu.errors[:3])}"
        cause = "GPU fallen off the bus or hung"
        return [
            about(gpu, "gpu.lost", Status.FAIL, message, value=len(gpu.errors), cause=cause, action=Action.RESET_GPU)
        ]
    if len(gpu.errors) >= _LOST_FIELDS:
        message = f"{len(gpu.errors)} fields cannot be read ({'; '.join(gpu.errors[:3])}): the GPU is lost"
        return [
            about(
                gpu,
                "gpu.lost",
                Status.FAIL,
                message,
                value=len(gpu.errors),
                unit="unreadable fields",
                cause="GPU fallen off the bus or hung",
                action=Action.REBOOT,
            )
        ]
    message = f"a field cannot be read ({'; '.join(gpu.errors)}): read again before judging"
    return [about(gpu, "gpu.unreadable-field", Status.WARN, message, value=len(gpu.errors), action=Action.WATCH)]


def _settings(gpu: Gpu, profile: Profile | None) -> list[Finding]:
    if profile is None:
        return []
    findings = []
    want = profile.gpu
    if want.persistence_mode.value and gpu.persistence is False:
        findings.append(
            about(
                gpu,
                "gpu.persistence-mode",
                Status.WARN,
                "persistence mode is off",
                value="Disabled",
                expected="Enabled",
                source=want.persistence_mode.origin,
                cause="nvidia-persistenced is not running",
                action=Action.FIX_IMAGE,
            )
        )
    if gpu.name and want.name.value.lower() not in gpu.name.lower():
        findings.append(
            about(
                gpu,
                "gpu.model",
                Status.FAIL,
                f"this is a {gpu.name}",
                value=gpu.name,
                expected=want.name.value,
                source=want.name.origin,
                action=Action.FIX_INVENTORY,
            )
        )
    if gpu.memory_total_mib is not None:
        low = want.memory_gib.value * (1 - want.memory_tolerance.value) * 1024
        if gpu.memory_total_mib < low:
            findings.append(
                about(
                    gpu,
                    "gpu.memory-size",
                    Status.FAIL,
                    f"only {gpu.memory_total_mib / 1024:.1f} GiB of memory",
                    value=round(gpu.memory_total_mib / 1024, 1),
                    unit="GiB",
                    expected=f"{want.memory_gib.value:g} GiB",
                    source=want.memory_gib.origin,
                    cause="memory taken out of use, or another model",
                    action=Action.INVESTIGATE,
                )
            )
    return findings
