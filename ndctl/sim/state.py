"""The directory of one embedded region: what lies in it, whether its process lives, and how it is taken away again.

.ndctl-sim         marks a directory as ours: what `sim down` may remove
sim.json           pid and ports, written when the region is ready
lock               held by the process while it lives: a crashed one lets go of it
settings.json      ports and pace it was started with
ca.pem             signs the endpoint; server.pem, signing.key, federated.jwt: secrets of the region, 0600
identity.json      {tenant_id, client_id, token_file} for a workload identity
id_ed25519(.pub)   SSH key pair for the nodes
inventory.yaml     two racks on this region, ready to use
arm.jsonl, world.jsonl, faults.json, ledger.json, requests.jsonl, sim.log, nodes/, bin/
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ndctl.model.errors import ExitCode, NdctlError

_MARKER = ".ndctl-sim"


@dataclass(frozen=True, slots=True)
class Running:
    """What sim.json holds."""

    pid: int
    endpoint: str
    ssh_port: int


@dataclass(frozen=True, slots=True)
class SimDirectory:
    """A directory that is, or will be, one region's."""

    path: Path

    def file(self, name: str) -> Path:
        return self.path / name

    @property
    def ours(self) -> bool:
        return self.file(_MARKER).is_file()

    def claim(self) -> None:
        """Make the directory and mark it. NdctlError when it holds something that is not a region's."""
        if self.ours:
            return
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise NdctlError(
                "sim.directory-not-ours",
                f"{self.path} is not empty and was not made by ndctl sim",
                hint="give another place with --dir",
                exit_code=ExitCode.USAGE,
            )
        made = [str(one) for one in (self.path, *self.path.parents) if not one.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.file(_MARKER).write_text(json.dumps({"made": made}) + "\n")
        except OSError as error:
            raise NdctlError(
                "sim.directory",
                f"{self.path} cannot be made: {error.strerror}",
                hint="give another place with --dir",
                exit_code=ExitCode.USAGE,
            ) from None

    def need(self) -> None:
        """NdctlError unless a region lives or lived here."""
        if not self.ours:
            raise NdctlError(
                "sim.none",
                f"there is no region in {self.path}",
                hint="start one: ndctl sim up",
                exit_code=ExitCode.USAGE,
            )

    def alive(self) -> bool:
        """Whether a process holds the lock; a pid alone could be somebody else's by now."""
        try:
            handle = os.open(self.file("lock"), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def hold(self) -> int:
        """Take the lock for as long as this process lives. NdctlError when another has it."""
        handle = os.open(self.file("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise NdctlError(
                "sim.running",
                f"a region is running in {self.path} already",
                hint="ndctl sim status; another one: --dir",
                exit_code=ExitCode.USAGE,
            ) from None
        return handle

    def running(self) -> Running | None:
        """What sim.json says, whether or not that process still lives."""
        try:
            told = json.loads(self.file("sim.json").read_text())
            return Running(int(told["pid"]), str(told["endpoint"]), int(told["ssh_port"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def say_ready(self, running: Running) -> None:
        write_file(self.file("sim.json"), json.dumps(asdict(running)) + "\n")

    def remove(self) -> None:
        """Take away everything that was made here, and the directories made on the way. NdctlError if not ours."""
        self.need()
        try:
            made: list[str] = json.loads(self.file(_MARKER).read_text())["made"]
        except (ValueError, KeyError):
            made = []
        if str(self.path) in made:
            shutil.rmtree(self.path)
        else:
            # It was there before, empty: leave it so. The marker goes last, so that a second try still may.
            for one in sorted(self.path.iterdir(), key=lambda entry: entry.name == _MARKER):
                shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()
        for parent in made[1:]:
            try:
                Path(parent).rmdir()
            except OSError:
                break  # somebody else uses it by now


def write_file(path: Path, text: str, mode: int = 0o644) -> None:
    """Whole or not at all, with its final permissions from the start."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def read_settings(directory: SimDirectory) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(directory.file("settings.json").read_text())
    return found
