"""Run one command as the node: a real /bin/sh with the node's tools, root and home, in a process group of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess

from ndctl.sim.nodes.tree import NodeTrees
from ndctl.sim.world import VM

# A Run Command script names the node's own files by absolute path; these are the ones it may read.
_OWN_PATHS = re.compile(
    r"(?<![\w}/.])/(etc/ssh|etc/nvidia-imex|var/lib/hyperv|sys/class|proc/sys|proc/uptime|opt/azurehpc)\b"
)


async def start(
    trees: NodeTrees, vm: VM, command: str | None, extra: dict[str, str] | None = None
) -> asyncio.subprocess.Process:
    """Start `sh -c command`, or `sh -s` reading a script from stdin when there is none."""
    folder = trees.prepare(vm)
    environment = trees.environment(vm, folder) | (extra or {})
    arguments = ["-c", command] if command is not None else ["-s"]
    return await asyncio.create_subprocess_exec(
        "/bin/sh",
        *arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=folder / "home",
        start_new_session=True,
    )


def end(process: asyncio.subprocess.Process) -> None:
    """End the command and all it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def run(trees: NodeTrees, vm: VM, script: str, timeout_s: float = 90.0) -> tuple[int, str, str]:
    """Run a script as the control plane's Run Command does: as root, with the node's own absolute paths."""
    folder = trees.prepare(vm)
    text = _OWN_PATHS.sub(r'"$NDCTL_SYSROOT"/\1', script)
    process = subprocess.Popen(
        ["/bin/sh", "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=trees.environment(vm, folder),
        cwd=folder / "home",
        start_new_session=True,
        text=True,
        errors="replace",
    )
    try:
        out, err = process.communicate(text, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return 124, out, err + f"\nended after {timeout_s:.0f} s\n"
    return process.returncode, out, err
