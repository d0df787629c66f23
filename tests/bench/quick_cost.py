"""What quick level costs a node: `python -m tests.bench.quick_cost` (or `make bench`).

The very script that `ndctl validate --level quick` sends runs on a stand-in node, and the user and system CPU of its
whole process tree is taken from `wait4`. The stand-in tools answer from files: what nvidia-smi, journalctl and the
like burn themselves on a real node cannot be measured here, nor can sshd's share of the login; what the stand-ins
cost is measured apart, by running the script once more with tools that end at once.

Prints the dearest commands, then `BAR quick-cpu-s value limit ok|MISSED`; exit 1 when it is missed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from ndctl.checks.registry import catalogue
from ndctl.model.answers import Command
from ndctl.model.status import Level
from ndctl.profiles import load
from ndctl.sim.nodes.server import serve
from ndctl.sim.tools.registry import TOOLS
from ndctl.sim.world import VM, World
from ndctl.ssh.script import in_order, new_nonce, script_text
from ndctl.workflow.rack_work import commands_of

LIMIT_S = 1.0
ROUNDS = 7
SHOWN = 12
TASKS = 3000  # what runs on a node of 128 CPUs and 4 GPUs, most of it kernel threads


def quick_commands(profile: str = "gb300") -> tuple[Command, ...]:
    """What a node of this profile is asked at quick level, as `validate` puts it together."""
    hardware = load(profile)
    checks = [check for check in catalogue() if Level.QUICK.includes(check.level) and check.applies(hardware)]
    return in_order(commands_of(checks))


class StandIn:
    """One node of the embedded region; its answers are made once, so that only showing them is measured."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder / "world")
        for index in range(1, 19):
            vm = self.world.add_vm(
                "bench", 1, index, vmss="bench", instance_id=str(index), address=f"127.99.1.{10 + index}",
                admin_user="azureuser", admin_key="ssh-ed25519 AAAA",
            )  # fmt: skip
        self.vm: VM = vm
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(serve(self.world, 0), self._loop).result(60)
        for task in range(2, TASKS):
            place = self.world.trees.prepare(self.vm) / f"root/proc/{task}"
            place.mkdir(exist_ok=True)
            (place / "stat").write_text(f"{task} (kworker/{task % 128}:1-events) I 2 0 0 0 -1 69238880 {'0 ' * 43}\n")
        self._idle = folder / "idle"
        self._idle.mkdir()
        quick = shutil.which("true") or "/bin/true"
        for tool in TOOLS:
            (self._idle / tool).symlink_to(quick)

    def cpu_s(self, commands: Sequence[Command], *, idle_tools: bool = False) -> float:
        """User and system seconds of the script and all it started. Raises RuntimeError when it did not end well."""
        folder = self.world.trees.prepare(self.vm)
        environment = self.world.trees.environment(self.vm, folder)
        if idle_tools:
            environment["PATH"] = f"{self._idle}:{environment['PATH']}"
        nonce = new_nonce()
        arguments = ["/bin/sh", "-c", script_text(tuple(commands)), "sh", nonce]
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=said, env=environment, cwd=folder / "home"
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            if not said.read().endswith(f"{nonce} end\n".encode()):
                raise RuntimeError(f"the script did not end (exit code {process.returncode})")
        return used.ru_utime + used.ru_stime

    def median_s(self, commands: Sequence[Command], rounds: int = ROUNDS, *, idle_tools: bool = False) -> float:
        return statistics.median(self.cpu_s(commands, idle_tools=idle_tools) for _ in range(rounds))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)


def main() -> int:
    commands = quick_commands()
    with tempfile.TemporaryDirectory() as name:
        node = StandIn(Path(name))
        try:
            node.cpu_s(commands)  # the answers are made now
            whole = node.median_s(commands)
            without = node.median_s(commands, idle_tools=True)
            empty = node.median_s([Command("nothing", ":")])
            each = {command.id: node.median_s([command], 3) - empty for command in commands}
        finally:
            node.close()
    print(f"quick level: {len(commands)} commands in one script on a stand-in node, CPU seconds (user + system)")
    print(f"  whole script {whole:.3f}   of it what the stand-in tools cost {max(0.0, whole - without):.3f}")
    print(f"  with {TASKS} tasks under /proc as plain files, which are a little cheaper to read than the kernel's own")
    print("  not in it: what nvidia-smi and other tools of a real node cost themselves, and sshd's share of the login")
    for command, seconds in sorted(each.items(), key=lambda one: -one[1])[:SHOWN]:
        print(f"  {command:<28} {max(0.0, seconds):.3f}")
    ok = whole < LIMIT_S
    print(f"BAR quick-cpu-s {whole:.3f} {LIMIT_S} {'ok' if ok else 'MISSED'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
