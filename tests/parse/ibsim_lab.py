"""A small InfiniBand subnet without hardware: ibsim, a real OpenSM, and the real infiniband-diags on them.

Two leaves with three hosts each under one spine. ibsim has one adapter a host, named ibsim0; it offers widths up to
12X, so that is what links have here, lest every one "could be 12X".
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

HOSTS = tuple(f"H-n{number:02d}" for number in range(1, 7))
_PROGRAMS = ("ibsim", "opensm", "ibstat", "iblinkinfo", "ibqueryerrors", "perfquery")
_LIBRARIES = ("/usr/lib/*/umad2sim/libumad2sim.so", "/usr/lib/umad2sim/libumad2sim.so", "/usr/lib64/umad2sim/*.so")
_DEADLINE_S = 30.0


def library_or_skip() -> str:
    """Where the preload library is; without all the parts a laptop skips, and CI fails."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_path()) is None]
    found = next((path for pattern in _LIBRARIES for path in sorted(glob.glob(pattern))), "")
    if not missing and found:
        return found
    reason = f"not installed: {', '.join(missing) or 'libumad2sim.so'} (ibsim-utils, infiniband-diags, opensm)"
    if os.environ.get("CI") == "true":
        raise RuntimeError(reason)
    pytest.skip(reason)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def topology() -> str:
    """ibsim's net file: each cable from both its ends."""
    cables = [(("S-leaf0", 1 + i), (host, 1)) for i, host in enumerate(HOSTS[:3])]
    cables += [(("S-leaf1", 1 + i), (host, 1)) for i, host in enumerate(HOSTS[3:])]
    cables += [(("S-leaf0", 5 + i), ("S-spine0", 1 + i)) for i in range(2)]
    cables += [(("S-leaf1", 5 + i), ("S-spine0", 3 + i)) for i in range(2)]
    ends: dict[str, list[str]] = {}
    for one, other in cables:
        for (name, port), (peer, at) in ((one, other), (other, one)):
            ends.setdefault(name, []).append(f'[{port}]\t"{peer}"[{at}] \t\t# "{peer}" lid 0 12xHDR\n')
    text = ""
    for name in sorted(ends, key=lambda name: (name.startswith("H"), name)):
        kind, ports = ("Hca", 1) if name.startswith("H") else ("Switch", 8)
        text += f'{kind}\t{ports} "{name}"\n' + "".join(sorted(ends[name])) + "\n"
    return text


class Subnet:
    """Start with `with`; `ask` runs a real tool as a host of the subnet, `say` is ibsim's console."""

    def __init__(self, folder: Path, library: str) -> None:
        self.folder = folder
        self._environment = {
            "PATH": _path(),
            "LD_PRELOAD": library,
            "IBSIM_SOCKNAME": f"ndctl{os.getpid()}",
            "OSM_TMP_DIR": str(folder),
            "OSM_CACHE_DIR": str(folder),
            "LANG": "C.UTF-8",
        }
        self._programs: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Subnet:
        try:
            (self.folder / "net").write_text(topology())
            self._simulator = self._start(["ibsim", "-s", "net"], preload=False)
            self.until(lambda: "State:" in self.ask("ibstat", host=HOSTS[0]), "ibsim to answer")
            self._start(["opensm", "-f", str(self.folder / "opensm.log"), "-s", "0"])
            self.until(
                lambda: all("State: Active" in self.ask("ibstat", host=host) for host in HOSTS),
                "all ports to be Active",
            )
            self.until(lambda: self.ask("iblinkinfo").count("Active/") == 20, "all links to be Active from both ends")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for program in reversed(self._programs):
            program.terminate()
            try:
                program.wait(2)
            except subprocess.TimeoutExpired:
                program.kill()  # opensm may wait for answers that no longer come
                program.wait(5)
            if program.stdin:
                program.stdin.close()

    def _active(self, host: str) -> bool:
        return "State: Active" in self.ask("ibstat", host=host)

    def say(self, command: str) -> None:
        assert self._simulator.stdin is not None
        self._simulator.stdin.write(command + "\n")
        self._simulator.stdin.flush()

    def ask(self, *command: str, host: str = "H-n02") -> str:
        """stdout, then stderr, of a real tool; tools that could not ask everything end with an error and still tell."""
        done = subprocess.run(
            command, cwd=self.folder, env={**self._environment, "SIM_HOST": host}, capture_output=True, text=True,
            timeout=_DEADLINE_S, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    def until(self, happened: Callable[[], bool], what: str) -> None:
        """Poll for what another process does in its own time."""
        deadline = time.monotonic() + _DEADLINE_S
        while not happened():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {_DEADLINE_S:.0f} s for {what}")
            time.sleep(0.05)

    def _start(self, command: Sequence[str], *, preload: bool = True) -> subprocess.Popen[str]:
        environment = {**self._environment, "SIM_HOST": HOSTS[0]}
        if not preload:
            del environment["LD_PRELOAD"]
        with (self.folder / f"{command[0]}.out").open("w") as said:
            program = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.PIPE, stdout=said, stderr=said, text=True
            )
        self._programs.append(program)
        return program
