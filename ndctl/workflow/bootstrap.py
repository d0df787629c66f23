"""The unattended chain for one cluster: pre-flight, plan, deploy, wait, validate, acceptance record.

Every stage may be the last of a process: what had ended is kept in the cluster's state folder, and the next try of the
same inventory goes on behind it. Plan and deploy find out by themselves what is left; a validation that was cut off is
resumed. A chain that came to its end is over: the next try begins anew.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ndctl.model.bootstrapped import Bootstrapped, Stage, StageEnd
from ndctl.model.errors import ExitCode, ManyErrors, NdctlError
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.status import Level
from ndctl.workflow.acceptance import write_acceptance
from ndctl.workflow.bootstrap_deploy import DeployStages, Interruptible
from ndctl.workflow.bootstrap_state import ChainState
from ndctl.workflow.deploy import RACK_DEADLINE_S
from ndctl.workflow.locks import cluster_lock
from ndctl.workflow.state_dir import cluster_dir
from ndctl.workflow.waiting_for_nodes import wait_for_nodes

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.model.findings import Run

# Of a deployment that ended so, racks stand that can be validated.
_SOME_RACKS = (Stage.DEPLOY, ExitCode.DEPLOY_PARTIAL)


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of the chain. nodes_within_s: how long nodes are waited for until they answer SSH."""

    level: Level = Level.ACCEPTANCE
    rack_deadline_s: float = RACK_DEADLINE_S
    nodes_within_s: float = 1200.0
    fanout: int = 64
    record: Path | None = None


class Chain:
    """One cluster's chain. `run` never raises for what happens on the way: it is in the answer."""

    def __init__(
        self,
        loaded: Loaded,
        ask: Ask,
        *,
        on_event: EventSink = ignore_events,
        say: Callable[[str], None] = lambda text: None,
        interruptible: Interruptible = lambda stop, meaning: nullcontext(),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._loaded = loaded
        self._ask = ask
        self._pass_on = on_event
        self._now = now
        self._clock = clock
        self._sleep = sleep
        self._cluster = loaded.inventory.cluster
        self._folder = cluster_dir(loaded.inventory, loaded.path)
        self._kept = ChainState(self._folder, loaded.digest, now())
        self._azure = DeployStages(
            loaded, self._again, ask.rack_deadline_s, on_event=self._on_event, say=say, interruptible=interruptible
        )
        self._validated: Run | None = None
        self.id = self._kept.id

    def run(self) -> Bootstrapped:
        """Go through the stages until one ends the chain."""
        folder = self._folder / "bootstrap"
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            # A lock of its own: plan and deploy take the cluster's, a validation takes none.
            with cluster_lock(folder, self._cluster, "bootstrap"), self._azure.holding:
                return self._run()
        except NdctlError as error:
            if error.code != "lock.held":
                raise
            return self._end([self._refused(Stage.PREFLIGHT, error)])

    def _run(self) -> Bootstrapped:
        ends: list[StageEnd] = []
        for stage in Stage:
            if (kept := self._kept.done_before(stage)) is not None:
                end = kept
            else:
                try:
                    end = self._stage(stage, ends)
                except KeyboardInterrupt:
                    told = {"code": "interrupted", "class": "interrupted", "retryable": True}
                    end = StageEnd(stage, "failed", "interrupted", 130, self._again, told)
            interrupted = end.exit_code == ExitCode.INTERRUPTED
            over = end.status == "failed" and (stage, end.exit_code) != _SOME_RACKS and stage is not Stage.VALIDATE
            if interrupted or over or stage is Stage.DEPLOY:
                self._azure.let_go(end)
            ends.append(end)
            self._tell(end)
            if end.status == "done":
                self._kept.keep(end)
            if interrupted or over:
                if stage is Stage.WAIT and over:
                    self._kept.forget()  # what was deployed may be gone: the next try looks again
                break
        return self._end(ends)

    def _end(self, ends: list[StageEnd]) -> Bootstrapped:
        """The answer. A chain that came to its record is over: nothing of it is kept for another try."""
        reached = {end.stage for end in ends}
        stages = (*ends, *(StageEnd(stage, "not reached") for stage in Stage if stage not in reached))
        record = str(stages[-1].facts.get("file", ""))
        interrupted = any(end.exit_code == ExitCode.INTERRUPTED for end in stages)
        result = Bootstrapped(
            self._cluster, str(self._loaded.path), self.id, stages, self._verdicts(), record, interrupted
        )
        if record:
            self._kept.forget()
        self._on_event(
            Event(
                "result",
                "failed" if result.exit_code else "done",
                step="bootstrap",
                message=result.last.message,
                data=result.as_dict(),
                error=result.last.error,
                next_step=result.last.next_step,
            )
        )
        return result

    def _on_event(self, event: Event) -> None:
        """Whoever reads the streams of several clusters as one must find in each line whose it is."""
        self._pass_on(event if event.cluster else replace(event, cluster=self._cluster))

    @property
    def _again(self) -> str:
        return f"ndctl bootstrap {shlex.quote(str(self._loaded.path))} --yes   (goes on where this stopped)"

    def _stage(self, stage: Stage, before: list[StageEnd]) -> StageEnd:
        self._on_event(Event("bootstrap", "started", step=stage.value))
        work = {
            Stage.PREFLIGHT: self._azure.preflight,
            Stage.PLAN: self._azure.make_plan,
            Stage.DEPLOY: self._azure.deploy,
            Stage.WAIT: self._wait,
            Stage.VALIDATE: self._validate,
        }
        try:
            return self._record(before) if stage is Stage.RECORD else work[stage]()
        except NdctlError as error:
            return self._refused(stage, error)

    def _refused(self, stage: Stage, error: NdctlError) -> StageEnd:
        errors = error.errors if isinstance(error, ManyErrors) else [error]
        message = "; ".join(one.message for one in errors)
        told = {
            "code": errors[0].code,
            "class": "conflict" if error.exit_code is ExitCode.LOCKED_OR_STALE else errors[0].code.partition(".")[0],
            "retryable": error.exit_code is ExitCode.LOCKED_OR_STALE,
        }
        return StageEnd(stage, "failed", message, int(error.exit_code), errors[0].hint or self._again, told)

    def _wait(self) -> StageEnd:
        asked, answered, why = wait_for_nodes(
            self._loaded,
            self._ask.fanout,
            self._ask.nodes_within_s,
            on_event=self._on_event,
            clock=self._clock,
            sleep=self._sleep,
        )
        if asked < (self._loaded.inventory.racks or 0) * self._loaded.vms_per_rack:
            self._kept.forget()
        message = f"{answered} of {asked} nodes answer"
        # Who does not answer is named by the validation, rack by rack.
        return StageEnd(Stage.WAIT, "done", f"{message}: {why}" if why else message, facts={"answered": answered})

    def _validate(self) -> StageEnd:
        from ndctl.workflow.resume import cut_off_since
        from ndctl.workflow.validate import Request, validate_inventories

        request = Request(
            paths=(self._loaded.path,), level=self._ask.level, fanout=self._ask.fanout, record=self._ask.record
        )
        if cut_off_since(self._kept.began, request, self._loaded):
            request = replace(request, resume=True)
        run = validate_inventories(request, on_event=self._on_event, clock=self._clock, sleep=self._sleep)
        self._validated = run
        verdicts = self._verdicts()
        message = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        facts = {"run": run.id, "level": self._ask.level.value, "verdicts": verdicts}
        if not run.exit_code:
            return StageEnd(Stage.VALIDATE, "done", f"racks: {message}", facts=facts)
        step = self._again if run.interrupted else f"ndctl report {run.id}"
        worst = next((word for word in ("rejected", "incomplete") if verdicts.get(word)), "incomplete")
        told = {"code": f"validate.{worst}", "class": "validation", "retryable": run.interrupted}
        return StageEnd(Stage.VALIDATE, "failed", f"racks: {message}", int(run.exit_code), step, told, facts)

    def _record(self, before: list[StageEnd]) -> StageEnd:
        run = self._validated
        if run is None:
            return StageEnd(Stage.RECORD, "not reached")
        path = write_acceptance(self._folder, self._loaded, self.id, run, before, self._now())
        accepted = self._verdicts().get("accepted", 0)
        message = f"{accepted} of {len(run.racks)} racks accepted"
        return StageEnd(Stage.RECORD, "done", message, facts={"file": str(path), "run": run.id})

    def _verdicts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for rack in self._validated.racks if self._validated else ():
            found[rack.verdict.value] = found.get(rack.verdict.value, 0) + 1
        return found

    def _tell(self, end: StageEnd) -> None:
        status = "failed" if end.status == "failed" else "done"
        message = f"{end.message} (by an earlier try)" if end.status == "kept" else end.message
        self._on_event(
            Event(
                "bootstrap",
                status,
                step=end.stage.value,
                message=message,
                data=dict(end.facts),
                error=end.error,
                next_step=end.next_step,
            )
        )
