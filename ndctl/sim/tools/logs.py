"""journalctl and dmesg: the kernel's log; systemctl: units."""

from __future__ import annotations

from datetime import UTC, datetime

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world.view import NodeView

_ACTIVE = (
    "chrony.service",
    "nvidia-dcgm.service",
    "nvidia-persistenced.service",
    "ssh.service",
    "walinuxagent.service",
)


def journalctl(view: NodeView, arguments: list[str]) -> Answer:
    """The kernel's messages of this boot; other journals are empty."""
    style = "short"
    for index, argument in enumerate(arguments):
        if argument.startswith("--output="):
            style = argument.partition("=")[2]
        elif argument in ("-o", "--output"):
            style = arguments[index + 1] if index + 1 < len(arguments) else style
        elif argument.startswith("-o"):
            style = argument[2:]
    if "--list-boots" in arguments:
        boot = view.vm.boot_id.replace("-", "")
        return Answer(f"IDX BOOT ID                          FIRST ENTRY\n  0 {boot} {_iso(view.booted)}\n")
    if not any(argument in ("-k", "--dmesg") or argument.startswith("-k") for argument in arguments):
        return Answer("-- No entries --\n")
    host = view.vm.hostname
    lines = []
    for line in view.log:
        moment = datetime.fromtimestamp(line.at, UTC)
        if style == "short-iso-precise":
            stamp = moment.strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")
        elif style == "short-iso":
            stamp = moment.strftime("%Y-%m-%dT%H:%M:%S+00:00")
        elif style == "short-monotonic":
            stamp = f"[{line.at - view.booted:12.6f}]"
        elif style == "cat":
            lines.append(line.text + "\n")
            continue
        else:
            stamp = moment.strftime("%b %d %H:%M:%S")
        lines.append(f"{stamp} {host} kernel: {line.text}\n")
    return Answer("".join(lines))


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%a %Y-%m-%d %H:%M:%S UTC")


def dmesg(view: NodeView, arguments: list[str]) -> Answer:
    """The ring buffer, by seconds since boot, by wall clock (-T) or as ISO times."""
    text = ""
    iso = any(a == "--time-format=iso" for a in arguments) or "iso" in arguments
    for line in view.log:
        moment = datetime.fromtimestamp(line.at, UTC)
        if iso:
            text += f"{moment.strftime('%Y-%m-%dT%H:%M:%S,%f+00:00')} {line.text}\n"
        elif "-T" in arguments or "--ctime" in arguments:
            text += f"[{moment.strftime('%a %b %e %H:%M:%S %Y')}] {line.text}\n"
        else:
            text += f"[{line.at - view.booted:12.6f}] {line.text}\n"
    return Answer(text)


def unit_state(view: NodeView, unit: str) -> tuple[str, int]:
    """What `systemctl is-active` prints, and its exit status."""
    name = unit if "." in unit else unit + ".service"
    if name in view.host.failed_units:
        return "failed", 3
    if name in ("ssh.service", "ssh.socket") and view.sshd in ("inactive", "config", "disk-full"):
        return ("inactive", 3) if name == "ssh.socket" or view.sshd == "inactive" else ("failed", 3)
    if name == "nvidia-imex.service":
        return ("active", 0) if view.shape.imex and view.imex_running else ("inactive", 3)
    if name == "nvidia-fabricmanager.service":
        # A Grace-Blackwell tray has no NVSwitch of its own, so the host's fabric manager is not installed there.
        return ("inactive", 4) if view.shape.rack_fabric and not view.fabric_manager else ("active", 0)
    return ("active", 0) if name in _ACTIVE else ("inactive", 4)


def systemctl(view: NodeView, arguments: list[str]) -> Answer:
    words = [argument for argument in arguments if not argument.startswith("-")]
    failed = dict(view.host.failed_units)
    if view.shape.imex and not view.imex_running:
        failed["nvidia-imex.service"] = "NVIDIA IMEX service"
    if "--failed" in arguments or words[:1] == ["list-units"]:
        width = max(map(len, failed), default=0)
        if "--no-legend" in arguments:
            mark = "" if "--plain" in arguments else "● "
            lines = [f"{mark}{unit:<{width}} loaded failed failed {what}\n" for unit, what in failed.items()]
            return Answer("".join(lines))
        text = "  UNIT LOAD ACTIVE SUB DESCRIPTION\n" if not failed else ""
        if failed:
            text = f"  {'UNIT':<{width}} LOAD   ACTIVE SUB    DESCRIPTION\n"
            text += "".join(f"● {unit:<{width}} loaded failed failed {what}\n" for unit, what in failed.items())
        return Answer(text + f"\n{len(failed)} loaded units listed.\n")
    if words[:1] == ["is-active"]:
        states = [unit_state(view, unit) for unit in words[1:]]
        code = max((code for _, code in states), default=1)
        return Answer("".join(f"{state}\n" for state, _ in states), code=0 if any(c == 0 for _, c in states) else code)
    if words[:1] == ["is-system-running"]:
        return Answer("degraded\n" if failed else "running\n", code=1 if failed else 0)
    if words[:1] in (["start"], ["stop"], ["restart"], ["reboot"]):
        return Answer(keep=False)  # what it does is done to the model, in sim.nodes.effects
    return Answer(err=f"Unknown command verb {words[0] if words else ''}.\n", code=1)
