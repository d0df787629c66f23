"""ActiveCheck: a test that uses the GPUs or the fabric of a rack, and what it is given and gives back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ndctl.model.answers import Command, NodeAnswer, OutcomeKind
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.runner import NodeRunner
from ndctl.model.status import Group, Level, Status
from ndctl.profiles.schema import Profile

INTERRUPTED = "interrupted"


@dataclass(slots=True)
class Outcome:
    """What one active check gave.

    texts:        (node, command id, text) to keep as evidence
    measurements: {node, metric, subject, value, unit} to record; history is kept of them
    """

    findings: list[Finding] = field(default_factory=list)
    texts: list[tuple[str, str, str]] = field(default_factory=list)
    measurements: list[dict[str, Any]] = field(default_factory=list)

    def skip(self, check: str, subject: str, reason: str) -> Outcome:
        """The same outcome, with a skip that says why."""
        self.findings.append(Finding(check=check, status=Status.SKIP, subject=subject, message=reason))
        return self


class Stopping:
    """Ends what runs when somebody interrupts: whoever starts something says how it is ended while it runs.

    whole: what this is a part of, such as one rack of several; it is stopped with it
    """

    def __init__(self, whole: Stopping | None = None) -> None:
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._enders: list[Callable[[], None]] = []
        self._whole = whole

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set() or (self._whole is not None and self._whole.stopped)

    def notice(self) -> None:
        """An answer shows that it was stopped: that is how a run that is made again comes to know."""
        self._stopped.set()

    def stop(self) -> None:
        """End everything that runs; from another thread than those that run it, which then clean up."""
        self._stopped.set()
        with self._lock:
            enders = tuple(self._enders)
        for end in enders:
            end()

    @contextmanager
    def ended_by(self, end: Callable[[], None]) -> Iterator[None]:
        """While inside, `stop` calls `end`."""
        if self._whole is not None:
            with self._whole.ended_by(end):
                yield
            return
        with self._lock:
            self._enders.append(end)
        try:
            yield
        finally:
            with self._lock:
                self._enders.remove(end)


class Watched:
    """A runner for one test, which notices when a stop cut one of its answers short."""

    def __init__(self, runner: NodeRunner, stopping: Stopping) -> None:
        self._runner = runner
        self._stopping = stopping
        self._cut = False

    @property
    def user(self) -> str:
        return self._runner.user

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        answers = self._runner.ask(requests)
        if any(answer.outcome.kind is OutcomeKind.INTERRUPTED for answer in answers.values()):
            self._cut = True
            self._stopping.notice()
        return answers

    def told(self, outcome: Outcome, check: str, subject: str) -> Outcome:
        """The test's outcome, in which what the stop left unknown is said to be that, and not laid to a node."""
        if not self._cut:
            return outcome
        outcome.findings = [finding for finding in outcome.findings if finding.status is not Status.UNKNOWN]
        if not any(finding.status is Status.SKIP and finding.message == INTERRUPTED for finding in outcome.findings):
            outcome.skip(check, subject, INTERRUPTED)
        return outcome


@dataclass(frozen=True, slots=True)
class RackUnderTest:
    """What an active check is given.

    nodes:       those that may be tested now, the lease on them is held
    suspects:    names of nodes that failed a passive check
    environment: scope ("rack" or "infiniband") -> NCCL environment, the inventory's overrides included
    host_keys:   known_hosts lines by which peers verify a node
    token:       names what this run starts on the nodes; letters, digits and ._-
    may_go_on:   why the test may not go on (interrupted, lease lost), "" when it may; asked before each new step
    say:         tells progress: step, message, event status ("running", "done", "failed", "waiting")
    shared:      what a test of this rack leaves for the ones after it, by a name of its own: one load, two judges
    """

    rack: str
    nodes: tuple[Node, ...]
    suspects: frozenset[str]
    profile: Profile
    runner: NodeRunner
    environment: Callable[[str], dict[str, str]]
    host_keys: Callable[[Node], Sequence[str]]
    token: str
    may_go_on: Callable[[], str]
    say: Callable[[str, str, str], None]
    stopping: Stopping
    answers: Mapping[Node, Any] = field(default_factory=dict)  # the passive answers (NodeAnswer) of the rack
    shared: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActiveCheck:
    """One active test.

    id:       prefix of its findings' ids
    cost_s:   seconds a healthy rack takes, for --budget and `ndctl checks`
    texts:    ids of what it keeps, as `ndctl report RUN --raw NODE/ID` names them; capitals stand for what varies
    required: without its answer a rack is incomplete at this level
    smallest: how many nodes it needs
    run:      never raises for what nodes do; raises what the runner raises (Ctrl-C), after cleaning up
    applies:  whether it makes sense on this hardware
    across:   is given the nodes of two racks; where only one rack is under test it is not asked for
    """

    id: str
    group: Group
    level: Level
    title: str
    cost_s: float
    run: Callable[[RackUnderTest], Outcome]
    texts: tuple[str, ...] = ()
    required: bool = True
    smallest: int = 2
    applies: Callable[[Profile], bool] = field(default=lambda profile: True)
    across: bool = False
