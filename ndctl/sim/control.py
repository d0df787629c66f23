"""Starting and ending a region from outside its process, each with a deadline."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.sim.state import Running, SimDirectory, write_file

START_DEADLINE_S = 30.0
END_DEADLINE_S = 15.0
_NEEDED = ("asyncssh", "starlette", "trustme", "uvicorn")
_LOOK_S = 0.02


def need_extra() -> None:
    """NdctlError when the packages of the sim extra are not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise NdctlError(
            "sim.extra-missing",
            f"the embedded region needs packages that are not installed: {', '.join(missing)}",
            hint="install ndctl with its extra 'sim', from where ndctl came: pip install '.[sim]'",
            exit_code=ExitCode.USAGE,
        )


def prepare(directory: SimDirectory, settings: Mapping[str, Any]) -> None:
    """Claim the directory and write what the process will read. NdctlError when a region runs there."""
    need_extra()
    directory.claim()
    if directory.alive():
        running = directory.running()
        at = f" at {running.endpoint}" if running else ""
        raise NdctlError(
            "sim.running",
            f"a region is running in {directory.path} already{at}",
            hint="ndctl sim status; another one beside it: --dir, --port 0 --ssh-port 0",
            exit_code=ExitCode.USAGE,
        )
    write_file(directory.file("settings.json"), json.dumps(dict(settings)) + "\n")


def start(
    directory: SimDirectory,
    settings: Mapping[str, Any],
    *,
    deadline_s: float = START_DEADLINE_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Running:
    """Start the process in the background and wait until it answers.

    `settings`: port and ssh_port (0: a free one), and any other field of `arm.settings.Settings`.
    """
    prepare(directory, settings)
    directory.file("sim.json").unlink(missing_ok=True)
    log_path = directory.file("sim.log")
    with log_path.open("ab") as log:
        begin = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "ndctl.sim.server", str(directory.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": _search_path()},
        )
    end = clock() + deadline_s
    while clock() < end:
        running = directory.running()
        if running is not None and running.pid == process.pid:
            return running
        if process.poll() is not None:
            break
        sleep(_LOOK_S)
    code = process.poll()
    if code is None:
        process.kill()
        process.wait()
    said = _said(log_path, begin)
    message = "the region did not start" if code is None else f"the region ended while starting (status {code})"
    raise NdctlError(
        "sim.start",
        f"{message}: {said}" if said else message,
        hint=f"its log: {log_path}; take the rest away with: ndctl sim down --dir {directory.path}",
        exit_code=ExitCode.USAGE if code == ExitCode.USAGE else ExitCode.INTERNAL,
    )


def end(
    directory: SimDirectory,
    *,
    deadline_s: float = END_DEADLINE_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """End the process if it lives and remove the directory; whether a process was ended."""
    directory.need()
    running = directory.running()
    lived = directory.alive()
    if lived:
        if running is None:
            raise NdctlError(
                "sim.starting",
                f"a region is starting or ending in {directory.path}",
                hint="try again in a moment",
                exit_code=ExitCode.LOCKED_OR_STALE,
            )
        _signal(running.pid, signal.SIGTERM)
        limit = clock() + deadline_s
        while directory.alive() and clock() < limit:
            sleep(_LOOK_S)
        if directory.alive():
            _signal(running.pid, signal.SIGKILL)
            while directory.alive() and clock() < limit + deadline_s:
                sleep(_LOOK_S)
    _remove_socket(directory)
    directory.remove()
    return lived


def _remove_socket(directory: SimDirectory) -> None:
    """A crashed process leaves the tools' socket behind, and with a long path that lies outside the directory."""
    from ndctl.sim.nodes.service import socket_path
    from ndctl.sim.world import World

    Path(socket_path(World(directory.path))).unlink(missing_ok=True)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _said(log_path: Path, begin: int) -> str:
    """The last words of a process that failed, in one line."""
    with log_path.open("rb") as log:
        log.seek(begin)
        lines = log.read().decode("utf-8", "replace").strip().splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return errors[-1] if errors else (lines[-1] if lines else "")


def _search_path() -> str:
    """The process runs from another folder, so relative entries of the search path would not be found."""
    return os.pathsep.join(os.path.abspath(one) for one in sys.path if one)
