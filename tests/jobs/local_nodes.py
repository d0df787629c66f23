"""Nodes that are folders: each command runs in a real /bin/sh with that node's home and file system root."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ndctl.model.answers import Command, CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.places import Node, node_name


class LocalNodes:
    """A NodeRunner. `away`: nodes that do not answer; `tools`: a folder that comes first on PATH.

    watch: called with what is asked before it runs; what it raises comes out of `ask`, as a Ctrl-C would.
    """

    user = "nobody"

    def __init__(self, folder: Path, count: int = 3, *, path: str | None = None) -> None:
        self.nodes = tuple(
            Node(node_name(1, number), "rack01", address=f"10.0.0.{number}") for number in range(1, count + 1)
        )
        self.away: set[str] = set()
        self.tools = folder / "bin"
        self.tools.mkdir()
        self.asked: list[dict[str, list[str]]] = []
        self.watch: Callable[[Mapping[Node, Sequence[Command]]], None] = lambda requests: None
        self._path = f"{self.tools}:{path or os.environ['PATH']}"
        self._folder = folder
        for node in self.nodes:
            self.home(node).mkdir(parents=True)
            (self.root(node) / "run" / "lock").mkdir(parents=True)

    def home(self, node: Node) -> Path:
        return self._folder / node.name / "home"

    def root(self, node: Node) -> Path:
        return self._folder / node.name / "root"

    def keys(self, node: Node) -> Path:
        return self.home(node) / ".ssh" / "authorized_keys"

    def tool(self, name: str, script: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> dict[Node, NodeAnswer]:
        self.asked.append({node.name: [command.id for command in commands] for node, commands in requests.items()})
        self.watch(requests)
        started = {
            node: [self._start(node, command) for command in commands]
            for node, commands in requests.items()
            if node.name not in self.away
        }
        answers = {}
        for node, commands in requests.items():
            if node.name in self.away:
                answers[node] = NodeAnswer(node, Outcome(OutcomeKind.UNREACHABLE, "no route"))
                continue
            results = [self._end(c, p, b) for c, (p, b) in zip(commands, started[node], strict=True)]
            answers[node] = NodeAnswer(node, Outcome(OutcomeKind.OK), {result.id: result for result in results})
        return answers

    def sh(self, node: Node, script: str) -> CommandResult:
        return self.ask({node: [Command("sh", script)]})[node].results["sh"]

    def _start(self, node: Node, command: Command) -> tuple[subprocess.Popen[str], float]:
        environment = {"HOME": str(self.home(node)), "NDCTL_SYSROOT": str(self.root(node)), "PATH": self._path}
        process = subprocess.Popen(
            ["/bin/sh", "-c", command.shell],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=self.home(node),
            text=True,
            start_new_session=True,
        )
        return process, time.monotonic()

    def _end(self, command: Command, process: subprocess.Popen[str], begun: float) -> CommandResult:
        try:
            out, err = process.communicate(timeout=command.timeout_s)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            code = None
        seconds = time.monotonic() - begun
        return CommandResult(command.id, code, out, err, seconds, timed_out=code is None)
