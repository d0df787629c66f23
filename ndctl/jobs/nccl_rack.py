"""NCCL over one rack: the full run, and who is to blame when it is slow, wrong or hangs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ndctl.jobs.active.base import Outcome
from ndctl.jobs.isolate import isolate
from ndctl.jobs.isolation import GroupVerdict
from ndctl.jobs.judge_nccl import busbw_at_large, judge, verdict
from ndctl.jobs.nccl import NcclLaunch, NcclRun, end_launch, run_side_by_side
from ndctl.jobs.nccl_blame import Blame
from ndctl.jobs.nccl_hints import hints
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.runner import NodeRunner
from ndctl.model.status import Status
from ndctl.parse.nccl_tests import parse
from ndctl.profiles.schema import Profile

LEFTOVERS_CHECK = "job.leftovers"
_TEST = "all_reduce"
# NCCL prints its transports, its NVLink domain and NVLS under INIT.
_DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV"}
_GROUP_DEADLINE_S = 150.0  # a smaller group at one size; a hang costs this much
_SHARPNESS = 0.03  # how much looser a small group's floor may be than the full group's


class CannotGoOn(Exception):
    """The isolation ends without a result: interrupted, the lease lost, or nothing can be launched."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One run over one group, judged."""

    run: NcclRun
    findings: tuple[Finding, ...]
    verdict: GroupVerdict | None
    command: str


class NcclOverRack:
    """Tests one rack once.

    renew: called before each round of the isolation; returns why it may not go on, "" when it may
    say:   called with a message and an event status
    """

    def __init__(
        self,
        runner: NodeRunner,
        profile: Profile,
        *,
        rack: str,
        token: str,
        environment: dict[str, str],
        host_keys: Callable[[Node], Sequence[str]],
        renew: Callable[[], str],
        say: Callable[[str, str], None],
    ) -> None:
        self._runner = runner
        self._profile = profile
        self._rack = rack
        self._token = token
        self._environment = environment
        self._host_keys = host_keys
        self._renew = renew
        self._say = say
        self._scope = "rack" if profile.nvlink.domain.value == "rack" else "infiniband"
        self._running: list[NcclLaunch] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._groups: dict[frozenset[Node], list[Shown]] = {}
        self._numbers = itertools.count(1)
        self._outcome = Outcome()

    def stop(self) -> None:
        """End what runs and begin nothing more; from another thread than the one in `test`, which then cleans up."""
        self._stopped.set()
        with self._lock:
            running = tuple(self._running)
        for launch in running:
            end_launch(self._runner, launch)

    def test(self, nodes: Sequence[Node], suspects: frozenset[str]) -> Outcome:
        """The full run; where it fails, without the suspects of the passive checks, then by isolation."""
        everyone = tuple(nodes)
        full = self._run([everyone], ["all"], [self._rack])[0]
        self._outcome.findings += full.findings
        if full.verdict in (None, GroupVerdict.GOOD) or self._stopped.is_set():
            return self._outcome
        group, known = everyone, full
        without = sorted(node.name for node in everyone if node.name in suspects)
        sound = tuple(node for node in everyone if node.name not in suspects)
        if without and len(sound) >= 2:
            subject = f"{self._rack} without {', '.join(without)}"
            group, known = sound, self._run([sound], ["without"], [subject])[0]
            self._outcome.findings += known.findings
            if known.verdict in (None, GroupVerdict.GOOD):
                self._explain(full, f"{', '.join(without)}; without, {known.findings[0].message}")
                return self._outcome
        self._isolate(group, known, without)
        return self._outcome

    def _isolate(self, group: tuple[Node, ...], known: Shown, without: Sequence[str]) -> None:
        self._groups[frozenset(group)] = [known]
        self._say("looking for the culprit", "running")
        try:
            found = isolate(
                group,
                self._test_groups,
                known=known.verdict,
                hints=hints(known.run),
                minimum=self._smallest_sharp_group(len(group)),
                name=lambda node: node.name,
            )
        except CannotGoOn as reason:
            self._explain(known, f"who it is was not found: {reason}")
            return
        command = "nccl-isolation"
        head = group[0].name
        self._outcome.texts.append((head, command, "\n".join(found.reasoning) + "\n"))
        blame = Blame(
            found=found,
            known=known.findings,
            rack=self._rack,
            without=tuple(without),
            evidence=f"{head}/{command}",
            of_group=self._shown_of,
        )
        self._outcome.findings = blame.applied_to(self._outcome.findings)
        self._say(blame.summary, "failed" if found.culprits or found.paths else "done")

    def _shown_of(self, members: Sequence[Node]) -> tuple[Finding, ...]:
        """The findings of the last run over exactly these nodes, else of the smallest failing one that holds them."""
        wanted = frozenset(members)
        exact = self._groups.get(wanted)
        if exact:
            return exact[-1].findings
        holding = [
            (len(group), shown[-1])
            for group, shown in self._groups.items()
            if wanted & group and shown[-1].verdict is not GroupVerdict.GOOD
        ]
        return min(holding, key=lambda one: one[0])[1].findings if holding else ()

    def _test_groups(self, groups: list[tuple[Node, ...]]) -> list[GroupVerdict]:
        """The callback of the isolation. What could not be launched is tried once more from another head."""
        reason = "interrupted" if self._stopped.is_set() else self._renew()
        if reason:
            raise CannotGoOn(reason)
        # Partners that are proven good stand last: one of them is the safest head.
        turned = [(group[-1], *group[:-1]) for group in groups]
        shown = self._numbered(turned)
        again = [place for place, one in enumerate(shown) if one.verdict is None]
        if again and not self._stopped.is_set():
            for place, one in zip(again, self._numbered([groups[place] for place in again]), strict=True):
                shown[place] = one
        verdicts = []
        for group, one in zip(groups, shown, strict=True):
            if one.verdict is None:
                raise CannotGoOn("interrupted" if self._stopped.is_set() else one.findings[0].message)
            self._groups.setdefault(frozenset(group), []).append(one)
            verdicts.append(one.verdict)
        return verdicts

    def _numbered(self, groups: Sequence[tuple[Node, ...]]) -> list[Shown]:
        number = next(self._numbers)
        labels = [f"r{number}" if len(groups) == 1 else f"r{number}-{index}" for index, _ in enumerate(groups, 1)]
        subjects = [", ".join(sorted(node.name for node in group)) for group in groups]
        return self._run(groups, labels, subjects, small=True)

    def _run(
        self, groups: Sequence[tuple[Node, ...]], labels: Sequence[str], subjects: Sequence[str], small: bool = False
    ) -> list[Shown]:
        launches = [self._launch(group, label, small) for group, label in zip(groups, labels, strict=True)]
        self._say(f"over {' + '.join(str(len(group)) for group in groups)} nodes", "running")
        with self._lock:
            self._running += launches
        try:
            runs = run_side_by_side(self._runner, launches)
        finally:
            with self._lock:
                self._running = [one for one in self._running if one not in launches]
        return [self._judged(run, *names) for run, *names in zip(runs, labels, subjects, strict=True)]

    def _judged(self, run: NcclRun, label: str, subject: str) -> Shown:
        command = f"nccl-{_TEST}-{label}"
        head = run.launch.head.name
        findings = judge(run, self._profile, subject, f"{head}/{command}", self._scope)
        if run.leftovers:
            self._outcome.findings.append(
                Finding(
                    check=LEFTOVERS_CHECK,
                    status=Status.WARN,
                    subject=subject,
                    message=f"after the NCCL run there may be left on {'; '.join(run.leftovers)}",
                    cause=f"the key there ends by itself within {run.launch.key_minutes} minutes",
                    evidence=f"{head}/{command}",
                )
            )
        if run.log is not None:
            self._outcome.texts.append((head, command, run.log.stdout + run.log.stderr))
            self._measure(run, subject)
        return Shown(run, tuple(findings), verdict(findings), command)

    def _measure(self, run: NcclRun, subject: str) -> None:
        nodes = run.launch.nodes
        floor = self._profile.floor(_TEST, self._scope, len(nodes))
        measured = busbw_at_large(parse(run.log.stdout), floor) if run.log is not None and floor else None
        if measured is None:
            return
        row = {
            "node": "",
            "metric": f"nccl.{_TEST}.busbw",
            "subject": subject,
            "value": measured[1],
            "unit": "GB/s",
        }
        self._outcome.measurements.append(row)
        self._say(f"{measured[1]:.0f} GB/s over {len(nodes)} nodes", "done")

    def _launch(self, nodes: Sequence[Node], label: str, small: bool) -> NcclLaunch:
        launch = NcclLaunch(
            test=_TEST,
            nodes=tuple(nodes),
            gpus_per_node=self._profile.gpu.count.value,
            environment={**self._environment, **_DEBUG},
            host_keys={node.name: self._host_keys(node) for node in nodes},
            tests_dir=self._profile.nccl.tests_dir.value,
            token=f"{self._token}-{self._rack}-{label}",
        )
        floor = self._profile.floor(_TEST, self._scope, len(launch.nodes))
        if not small or floor is None:
            return launch
        return replace(launch, begin=floor.min_bytes, end=floor.min_bytes, deadline_s=_GROUP_DEADLINE_S)

    def _smallest_sharp_group(self, size: int) -> int:
        """The smallest group whose floor is about as tight as the full group's: what is slow in the one must show in
        the other."""
        full = self._profile.floor(_TEST, self._scope, size)
        for count in range(2, size):
            floor = self._profile.floor(_TEST, self._scope, count)
            if full is None or floor is None:
                continue
            tightness = [one.warn_below.value / one.expected.value for one in (full, floor)]
            if tightness[1] >= tightness[0] - _SHARPNESS:
                return count
        return 2

    def _explain(self, shown: Shown, cause: str) -> None:
        """Say the cause on the findings of a run that stand as they are."""
        self._outcome.findings = [
            replace(f, cause=cause) if f in shown.findings and f.status in (Status.FAIL, Status.WARN) else f
            for f in self._outcome.findings
        ]
