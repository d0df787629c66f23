"""NCCL tests over several nodes each, launched by mpirun on the first of them; several launches side by side.

A launch is built as data (`NcclLaunch`), then run: an ephemeral key pair is made on the head (its private half never
leaves it), its public half is admitted on the nodes for the time of the run, and the peers' host keys are handed to
mpirun's ssh in a temporary known_hosts. All of it is removed afterwards, also when the run fails or is interrupted;
should this process be killed, the key's own expiry time ends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ndctl.jobs import nccl_scripts as scripts
from ndctl.model.answers import Command, CommandResult, NodeAnswer
from ndctl.model.places import Node
from ndctl.model.runner import NodeRunner

_GB = 1 << 30
_TOKEN = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
_CLEANUPS = 2
_CommandOf = Callable[["NcclLaunch", Node], Command]


@dataclass(frozen=True, slots=True)
class NcclLaunch:
    """What to run.

    test:        nccl-tests name without `_perf`, e.g. "all_reduce"
    nodes:       in rank order; the first is the head
    environment: NCCL/UCX variables given to every rank
    host_keys:   node -> known_hosts lines ("[addr]:port type key")
    token:       names the launch on the nodes; letters, digits and ._-
    begin/end:   message sizes in bytes; factor 2 between them
    deadline_s:  of the mpirun itself
    program:     sh words of another program and its arguments in place of the nccl-test; `test` then only names it
    setup:       sh text before mpirun, on the head: sets what `program` refers to, or ends with an exit code
    """

    test: str
    nodes: tuple[Node, ...]
    gpus_per_node: int
    environment: Mapping[str, str]
    host_keys: Mapping[str, Sequence[str]]
    tests_dir: str
    token: str
    begin: int = 1 * _GB
    end: int = 16 * _GB
    iterations: int = 20
    warmup: int = 5
    check: bool = True
    deadline_s: float = 240.0
    modules: str = "mpi/hpcx"
    program: str = ""
    setup: str = ""

    def __post_init__(self) -> None:
        if not _TOKEN.match(self.token):
            raise ValueError(f"{self.token!r} cannot name a launch")

    @property
    def head(self) -> Node:
        return self.nodes[0]

    @property
    def key_minutes(self) -> int:
        """How long the key is accepted at most."""
        return int(self.deadline_s // 60) + 3


@dataclass(frozen=True, slots=True)
class NcclRun:
    """What came of a launch. `log` is None when there is no output of mpirun; `problem` then says why, and
    `blamed` names the node it lies with, where one does. `leftovers`: "node: what could not be removed"."""

    launch: NcclLaunch
    log: CommandResult | None
    problem: str = ""
    blamed: str = ""
    leftovers: tuple[str, ...] = field(default=())


def run_nccl(runner: NodeRunner, launch: NcclLaunch) -> NcclRun:
    """One launch; see `run_side_by_side`."""
    return run_side_by_side(runner, [launch])[0]


def run_side_by_side(runner: NodeRunner, launches: Sequence[NcclLaunch]) -> list[NcclRun]:
    """Launches that share no node, at the same time; a run for each, in order.

    Always cleans up. Raises ValueError for launches that share a node, and what the runner itself raises (Ctrl-C),
    after the clean-up.
    """
    names = [node.name for launch in launches for node in launch.nodes]
    if len(names) != len(set(names)):
        raise ValueError("launches that run side by side share a node")
    stage = _Stage(runner, launches)
    leftovers: dict[str, str] = {}
    try:
        stage.check_host_keys()
        stage.prepare()
        stage.admit()
        logs = stage.run()
    finally:
        leftovers = clean_up(runner, launches)
    return [
        NcclRun(
            launch,
            logs.get(launch.token),
            *stage.problems.get(launch.token, ("", "")),
            tuple(f"{n.name}: {leftovers[n.name]}" for n in launch.nodes if n.name in leftovers),
        )
        for launch in launches
    ]


def clean_up(runner: NodeRunner, launches: Sequence[NcclLaunch]) -> dict[str, str]:
    """End and remove all of the launches; node name -> what is left there. A Ctrl-C is raised when it is done."""
    waiting = {
        node: Command("nccl-cleanup", scripts.cleanup_script(launch.token), timeout_s=30, cap_bytes=4_000)
        for launch in launches
        for node in launch.nodes
    }
    left: dict[str, str] = {node.name: "not reached" for node in waiting}
    interrupted: KeyboardInterrupt | None = None
    for _ in range(_CLEANUPS):
        if not waiting:
            break
        try:
            answers = runner.ask({node: [command] for node, command in waiting.items()})
        except KeyboardInterrupt as error:  # one more try: keys and processes matter more than a second
            interrupted = error
            continue
        for node, answer in answers.items():
            done = answer.results.get("nccl-cleanup")
            if done is not None and done.exit_code == 0:
                left.pop(node.name)
                waiting.pop(node)
            else:
                left[node.name] = _said(answer, done)
    if interrupted is not None:
        raise interrupted
    return left


def end_launch(runner: NodeRunner, launch: NcclLaunch) -> None:
    """End the processes of a launch that another thread is running; that thread then cleans up."""
    command = Command("nccl-end", scripts.end_script(launch.token), timeout_s=20, cap_bytes=4_000)
    runner.ask({node: [command] for node in launch.nodes})


class _Stage:
    """The steps before and of the run, for several launches at once. Who fails a step takes no further part."""

    def __init__(self, runner: NodeRunner, launches: Sequence[NcclLaunch]) -> None:
        self._runner = runner
        self._launches = launches
        self._keys: dict[str, str] = {}
        self.problems: dict[str, tuple[str, str]] = {}  # token -> (what, node)

    @property
    def _ready(self) -> list[NcclLaunch]:
        return [launch for launch in self._launches if launch.token not in self.problems]

    def check_host_keys(self) -> None:
        for launch in self._launches:
            without = [node.name for node in launch.nodes[1:] if not launch.host_keys.get(node.name)]
            if without:
                text = f"no host key is known for {', '.join(without)}, so mpirun's ssh could not verify them"
                self.problems[launch.token] = (text, without[0] if len(without) == 1 else "")

    def prepare(self) -> None:
        def command(launch: NcclLaunch, node: Node) -> Command:
            script = scripts.prepare_script(launch) if node == launch.head else scripts.peer_script(launch)
            return Command("nccl-prepare", script, timeout_s=20, cap_bytes=10_000)

        for launch, answers in self._ask_all(command):
            for node, answer in answers.items():
                result = answer.results.get("nccl-prepare")
                printed = node != launch.head or (result is not None and result.stdout.startswith("ssh-"))
                if result is None or result.exit_code != 0 or not printed:
                    self._fail(launch, node, "preparing the launch failed", answer, result)
                elif node == launch.head:
                    self._keys[launch.token] = result.stdout.strip()

    def admit(self) -> None:
        def command(launch: NcclLaunch, node: Node) -> Command:
            script = scripts.admit_script(launch, self._keys[launch.token])
            return Command("nccl-admit", script, timeout_s=20, cap_bytes=4_000)

        for launch, answers in self._ask_all(command):
            for node, answer in answers.items():
                result = answer.results.get("nccl-admit")
                if result is None or result.exit_code != 0:
                    self._fail(launch, node, "the key for this run could not be admitted", answer, result)

    def run(self) -> dict[str, CommandResult]:
        """Token -> mpirun's output, of those that gave one."""
        cap = scripts.LOG_HEAD_BYTES + scripts.LOG_TAIL_BYTES + 1_000
        requests = {
            launch.head: [
                Command(
                    f"nccl-{launch.test}",
                    scripts.run_script(launch),
                    timeout_s=launch.deadline_s + 30,
                    cap_bytes=cap,
                )
            ]
            for launch in self._ready
        }
        answers = self._runner.ask(requests) if requests else {}
        logs = {}
        for launch in self._ready:
            result = answers[launch.head].results.get(f"nccl-{launch.test}")
            if result is None:
                self._fail(launch, launch.head, "the head was lost during the run", answers[launch.head], None)
            else:
                logs[launch.token] = result
        return logs

    def _ask_all(self, command: _CommandOf) -> list[tuple[NcclLaunch, dict[Node, NodeAnswer]]]:
        """One command on every node of the launches that are still in it."""
        ready = self._ready
        requests = {node: [command(launch, node)] for launch in ready for node in launch.nodes}
        answers = self._runner.ask(requests) if requests else {}
        return [(launch, {node: answers[node] for node in launch.nodes}) for launch in ready]

    def _fail(
        self, launch: NcclLaunch, node: Node, what: str, answer: NodeAnswer, result: CommandResult | None
    ) -> None:
        self.problems.setdefault(launch.token, (f"{node.name}: {what}: {_said(answer, result)}", node.name))


def _said(answer: NodeAnswer, result: CommandResult | None) -> str:
    """Why a step failed, in the node's words."""
    if result is None:
        return f"{answer.outcome.kind.value} {answer.outcome.detail}".strip()[:300]
    if result.timed_out:
        return f"no answer within {result.seconds:.0f} s"
    said = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return (said[-1] if said else f"exit code {result.exit_code}").removeprefix("left: ")[:300]
