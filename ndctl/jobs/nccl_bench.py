"""Where one test's NCCL launches run: each is judged, its log and figure kept, what was left on the nodes told."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ndctl.jobs.active.base import Outcome, RackUnderTest
from ndctl.jobs.isolation import GroupVerdict
from ndctl.jobs.judge_nccl import busbw_at_large, judge, verdict
from ndctl.jobs.nccl import NcclLaunch, NcclRun, end_launch, run_side_by_side
from ndctl.jobs.nccl_asked import Asked
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Status
from ndctl.parse.nccl_tests import parse

LEFTOVERS_CHECK = "job.leftovers"
# NCCL prints its transports, its NVLink domain and NVLS under INIT.
_DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV"}
GROUP_DEADLINE_S = 150.0  # a smaller group at one size; a hang costs this much
_NO_TOKEN = re.compile(r"[^A-Za-z0-9._-]+")
LARGE = 16 * (1 << 30)  # where no floor says at which size a figure counts


class CannotGoOn(Exception):
    """A test ends without a result: interrupted, the lease lost, or nothing can be launched."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One run over one group, judged. busbw: GB/s at its large message, None where there is none."""

    run: NcclRun
    findings: tuple[Finding, ...]
    verdict: GroupVerdict | None
    command: str
    busbw: float | None = None

    @property
    def evidence(self) -> str:
        return f"{self.run.launch.head.name}/{self.command}"


class Bench:
    """The launches of one test over one rack. What they give goes into `outcome`."""

    def __init__(self, rack: RackUnderTest, outcome: Outcome) -> None:
        self.rack = rack
        self._outcome = outcome
        self._running: list[NcclLaunch] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set() or self.rack.stopping.stopped

    def stop(self) -> None:
        """End what runs and begin nothing more; from another thread than the one that runs, which then cleans up."""
        self._stopped.set()
        with self._lock:
            running = tuple(self._running)
        for launch in running:
            end_launch(self.rack.runner, launch)

    def go_on(self) -> None:
        """Raises CannotGoOn with the reason when nothing more may be started."""
        reason = "interrupted" if self.stopped else self.rack.may_go_on()
        if reason:
            raise CannotGoOn(reason)

    def run(
        self,
        asked: Asked,
        groups: Sequence[tuple[Node, ...]],
        labels: Sequence[str],
        subjects: Sequence[str],
        *,
        small: bool = False,
        deadline_s: float = GROUP_DEADLINE_S,
    ) -> list[Shown]:
        """Groups that share no node, side by side; what each showed, in order.

        small: at the one size that is judged, with `deadline_s`
        """
        launches = [
            self._launch(asked, group, label, small, deadline_s) for group, label in zip(groups, labels, strict=True)
        ]
        self.say(asked, f"over {_sizes(groups)} nodes", "running")
        with self._lock:
            self._running += launches
        try:
            runs = run_side_by_side(self.rack.runner, launches)
        finally:
            with self._lock:
                self._running = [one for one in self._running if one not in launches]
        return [self._judged(asked, run, *names) for run, *names in zip(runs, labels, subjects, strict=True)]

    def say(self, asked: Asked, message: str, status: str) -> None:
        self.rack.say(f"NCCL {asked.spoken}", message, status)

    def _launch(self, asked: Asked, nodes: Sequence[Node], label: str, small: bool, deadline_s: float) -> NcclLaunch:
        rack = self.rack
        launch = NcclLaunch(
            test=asked.test,
            nodes=tuple(nodes),
            gpus_per_node=rack.profile.gpu.count.value,
            environment={**asked.environment, **_DEBUG},
            host_keys={node.name: rack.host_keys(node) for node in nodes},
            tests_dir=rack.profile.nccl.tests_dir.value,
            token=_token(rack.token, rack.rack, asked.called, label),
        )
        if not small:
            return launch
        floor = asked.floor(rack.profile, len(launch.nodes))
        size = floor.min_bytes if floor is not None else LARGE
        return replace(launch, begin=size, end=size, deadline_s=deadline_s)

    def _judged(self, asked: Asked, run: NcclRun, label: str, subject: str) -> Shown:
        command = f"nccl-{asked.called}-{label}"
        head = run.launch.head.name
        findings = tuple(judge(run, self.rack.profile, subject, f"{head}/{command}", asked))
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
        if run.log is None:
            return Shown(run, findings, verdict(findings), command)
        self._outcome.texts.append((head, command, run.log.stdout + run.log.stderr))
        floor = asked.floor(self.rack.profile, len(run.launch.nodes))
        measured = busbw_at_large(parse(run.log.stdout), floor.min_bytes if floor else LARGE)
        if measured is not None:
            self._outcome.measurements.append(
                {
                    "node": "",
                    "metric": f"nccl.{asked.called}.busbw",
                    "subject": subject,
                    "value": measured[1],
                    "unit": "GB/s",
                }
            )
            self.say(asked, f"{measured[1]:.0f} GB/s over {len(run.launch.nodes)} nodes", "done")
        return Shown(run, findings, verdict(findings), command, measured[1] if measured else None)


def _token(*parts: str) -> str:
    """Names the launch on the nodes; a pair of racks has a name of other letters than a token may have."""
    return _NO_TOKEN.sub("-", "-".join(parts))


def _sizes(groups: Sequence[tuple[Node, ...]]) -> str:
    """ "9 + 9", "18 × 2": how large the groups are that run at once."""
    sizes = [len(group) for group in groups]
    if len(sizes) > 4 and len(set(sizes)) == 1:
        return f"{len(sizes)} × {sizes[0]}"
    return " + ".join(map(str, sizes))
