"""The unattended chain for one cluster: pre-flight, plan, deploy, wait, validate, acceptance record.

Every stage may be the last of a process: what had ended is kept in the cluster's state folder, and the next try of the
same inventory goes on behind it. Plan and deploy find out by themselves what is left; a validation that was cut off is
resumed. A chain that came to its end is over: the next try begins anew.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl import __version__
from ndctl.model.bootstrapped import Bootstrapped, Stage, StageEnd
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import Event, EventSink, ignore_events
from ndctl.model.jsonable import dumps
from ndctl.model.status import Level
from ndctl.workflow.deploy import RACK_DEADLINE_S
from ndctl.workflow.state_dir import cluster_dir, write_private
from ndctl.workflow.waiting_for_nodes import wait_for_nodes

if TYPE_CHECKING:
    from ndctl.azure.faults import AzureFault
    from ndctl.inventory.loader import Loaded
    from ndctl.model.findings import Run
    from ndctl.workflow.plan import Plan
    from ndctl.workflow.writing import Writing

ACCEPTANCE_SCHEMA = "ndctl.acceptance/1"
_STATE = "bootstrap.json"
# Of a deployment that ended so, racks stand that can be validated.
_SOME_RACKS = (Stage.DEPLOY, ExitCode.DEPLOY_PARTIAL)
Interruptible = Callable[[Callable[[], None], str], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of the chain. nodes_within_s: how long nodes are waited for until they answer SSH."""

    level: Level = Level.ACCEPTANCE
    rack_deadline_s: float = RACK_DEADLINE_S
    nodes_within_s: float = 1200.0
    fanout: int = 64
    record: Path | None = None


def _error(fault: AzureFault | None) -> dict[str, Any]:
    if fault is None:
        return {}
    return {"code": fault.innermost_code, "class": fault.fault_class.value, "retryable": fault.retryable}


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
        self._on_event = on_event
        self._say = say
        self._interruptible = interruptible
        self._now = now
        self._clock = clock
        self._sleep = sleep
        self._cluster = loaded.inventory.cluster
        self._folder = cluster_dir(loaded.inventory, loaded.path)
        self._kept = self._read()
        self._holding = ExitStack()
        self._held: Writing | None = None
        self._rendered: Any = None
        self._plan: Plan | None = None
        self._validated: Run | None = None
        self.id, self._began = str(self._kept["id"]), str(self._kept["began"])

    def run(self) -> Bootstrapped:
        """Go through the stages until one ends the chain."""
        with self._holding:
            return self._run()

    def _run(self) -> Bootstrapped:
        ends: list[StageEnd] = []
        interrupted = over = False
        for stage in Stage:
            if interrupted or over:
                ends.append(StageEnd(stage, "not reached"))
                continue
            if (kept := self._done_before(stage)) is not None:
                end = kept
            else:
                try:
                    end = self._stage(stage, ends)
                except KeyboardInterrupt:
                    end = StageEnd(stage, "failed", "interrupted", 130, next_step=self._again)
            interrupted = end.exit_code == ExitCode.INTERRUPTED
            over = end.status == "failed" and (stage, end.exit_code) != _SOME_RACKS and stage is not Stage.VALIDATE
            if over or stage is Stage.DEPLOY:
                self._holding.close()
            ends.append(end)
            self._tell(end)
            if end.status == "done":
                self._keep(end)
        verdicts = self._verdicts()
        record = str(ends[-1].facts.get("file", ""))
        result = Bootstrapped(
            self._cluster, str(self._loaded.path), self.id, tuple(ends), verdicts, record, interrupted
        )
        if record:
            (self._folder / _STATE).unlink(missing_ok=True)
        self._on_event(
            Event(
                "result",
                "failed" if result.exit_code else "done",
                cluster=self._cluster,
                message=result.last.message,
                data=result.as_dict(),
                error=result.last.error,
                next_step=result.last.next_step,
            )
        )
        return result

    @property
    def _again(self) -> str:
        return f"ndctl bootstrap {self._loaded.path} --yes   (goes on where this stopped)"

    def _stage(self, stage: Stage, before: list[StageEnd]) -> StageEnd:
        self._on_event(Event("bootstrap", "started", cluster=self._cluster, step=stage.value))
        work = {
            Stage.PREFLIGHT: self._preflight,
            Stage.PLAN: self._make_plan,
            Stage.DEPLOY: self._deploy,
            Stage.WAIT: self._wait,
            Stage.VALIDATE: self._validate,
        }
        try:
            return self._record(before) if stage is Stage.RECORD else work[stage]()
        except NdctlError as error:
            hint = error.hint or self._again
            told = {"code": error.code, "class": error.code.partition(".")[0], "retryable": False}
            return StageEnd(stage, "failed", error.message, int(error.exit_code), hint, told)

    def _preflight(self) -> StageEnd:
        from ndctl.workflow.preflight import preflight

        found = preflight(self._loaded, on_event=self._on_event)
        counts = found.as_dict()["counts"]
        message = ", ".join(f"{count} {standing}" for standing, count in counts.items())
        if found.refused:
            first = found.refused[0]
            told = {"code": first.id, "class": "preflight", "retryable": False}
            message = f"{first.title}: {first.message.splitlines()[0]}"
            return StageEnd(Stage.PREFLIGHT, "failed", message, int(found.exit_code), first.next_step, told, counts)
        return StageEnd(Stage.PREFLIGHT, "done", message, facts=counts)

    def _make_plan(self) -> StageEnd:
        """The cluster is held from here to the end of the deployment: what is planned is what is done."""
        from ndctl.workflow.plan import make_plan
        from ndctl.workflow.prepare import render_to_deploy
        from ndctl.workflow.unfinished import tell_unfinished
        from ndctl.workflow.writing import writing

        self._rendered = render_to_deploy(self._loaded)
        held = self._held = self._holding.enter_context(writing(self._loaded, "bootstrap", say=self._say))
        tell_unfinished(held.clients, self._cluster, self._say)
        plan = self._plan = make_plan(self._loaded, self._rendered, held.clients, self._on_event)
        acts = Counter(step.act.value for step in plan.racks)
        message = "racks: " + " · ".join(f"{count} {act}" for act, count in acts.items())
        facts = {"digest": plan.digest, "racks": dict(acts)}
        if not plan.exit_code:
            return StageEnd(Stage.PLAN, "done", message, facts=facts)
        held.line.ended("refused by the plan", plan.exit_code, digest=plan.digest)
        fault = next((step.fault for step in (plan.foundation, *plan.racks) if step.fault), None)
        said, step = (fault.summary, fault.next_step) if fault else (message, "")
        return StageEnd(Stage.PLAN, "failed", said, int(plan.exit_code), step, _error(fault), facts)

    def _deploy(self) -> StageEnd:
        from ndctl.workflow.deploy import deploy

        held, plan = self._held, self._plan
        if held is None or plan is None:
            raise AssertionError("deployed is what was planned")
        with self._interruptible(held.lock.stop.set, f"Azure goes on with what was sent; go on with: {self._again}"):
            result = deploy(
                self._loaded,
                self._rendered,
                plan,
                held.clients,
                on_event=self._on_event,
                stop=held.lock.stop,
                rack_deadline_s=self._ask.rack_deadline_s,
                on_group=held.lock.acquire,
            )
        held.line.ended(result.summary, result.exit_code, digest=plan.digest, racks=result.fates)
        calls = held.clients.tally.calls()
        self._holding.close()
        self._say(calls.line())
        facts = {"run": held.run, "digest": plan.digest, "racks": result.fates, "calls": calls.as_dict()}
        if not result.exit_code:
            return StageEnd(Stage.DEPLOY, "done", result.summary, facts=facts)
        fault = next((one.fault for one in (result.foundation, *result.racks) if one.fault), None)
        message = f"{result.summary}: {fault.summary}" if fault else result.summary
        return StageEnd(Stage.DEPLOY, "failed", message, int(result.exit_code), self._again, _error(fault), facts)

    def _wait(self) -> StageEnd:
        asked, answered, why = wait_for_nodes(
            self._loaded,
            self._ask.fanout,
            self._ask.nodes_within_s,
            on_event=self._on_event,
            clock=self._clock,
            sleep=self._sleep,
        )
        message = f"{answered} of {asked} nodes answer"
        # Who does not answer is named by the validation, rack by rack.
        return StageEnd(Stage.WAIT, "done", f"{message}: {why}" if why else message, facts={"answered": answered})

    def _validate(self) -> StageEnd:
        from ndctl.workflow.resume import cut_off_since
        from ndctl.workflow.validate import Request, validate_inventories

        request = Request(
            paths=(self._loaded.path,), level=self._ask.level, fanout=self._ask.fanout, record=self._ask.record
        )
        if cut_off_since(self._began, request, self._loaded):
            request = replace(request, resume=True)
        run = validate_inventories(request, on_event=self._on_event)
        self._validated = run
        verdicts = self._verdicts()
        message = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        facts = {"run": run.id, "level": self._ask.level.value, "verdicts": verdicts}
        step = f"ndctl report {run.id}" if run.exit_code else ""
        if run.interrupted:
            step = self._again
        status = "failed" if run.exit_code else "done"
        return StageEnd(Stage.VALIDATE, status, f"racks: {message}", int(run.exit_code), step, facts=facts)

    def _record(self, before: list[StageEnd]) -> StageEnd:
        """The acceptance record: one file that says what was asked, what stands, and rack by rack how it was found."""
        run = self._validated
        if run is None:
            return StageEnd(Stage.RECORD, "not reached")
        told = {
            "schema": ACCEPTANCE_SCHEMA,
            "id": self.id,
            "cluster": self._cluster,
            "time": self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "ndctl": __version__,
            "inventory": {"path": str(self._loaded.path), "digest": self._loaded.digest},
            "profile": self._loaded.profile.name,
            "stages": {end.stage.value: {"message": end.message, **end.facts} for end in before},
            "run": run.id,
            "level": run.level,
            "racks": [
                {
                    "name": rack.name,
                    "verdict": rack.verdict.value,
                    "usable_nodes": len(rack.usable_nodes),
                    "expected_nodes": rack.expected_nodes,
                }
                for rack in run.racks
            ],
            "exit_code": int(run.exit_code),
        }
        path = self._folder / f"acceptance-{run.id}.json"
        write_private(path, dumps(told) + "\n")
        accepted = self._verdicts().get("accepted", 0)
        message = f"{accepted} of {len(run.racks)} racks accepted"
        return StageEnd(Stage.RECORD, "done", message, facts={"file": str(path), "run": run.id})

    def _done_before(self, stage: Stage) -> StageEnd | None:
        """What an earlier try of this chain did and need not be done again: all up to the deployment, once that is
        done. Before it is, what it needs may have changed since."""
        kept = self._kept["stages"].get(stage.value)
        up_to_deploy = (Stage.PREFLIGHT, Stage.PLAN, Stage.DEPLOY)
        if kept is None or stage not in up_to_deploy or Stage.DEPLOY.value not in self._kept["stages"]:
            return None
        return StageEnd(stage, "kept", kept["message"], int(kept["exit_code"]), facts=kept["facts"])

    def _verdicts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for rack in self._validated.racks if self._validated else ():
            found[rack.verdict.value] = found.get(rack.verdict.value, 0) + 1
        return found

    def _tell(self, end: StageEnd) -> None:
        status = "failed" if end.status == "failed" else "done"
        message = f"{end.message} ({end.status})" if end.status == "kept" else end.message
        self._on_event(
            Event(
                "bootstrap",
                status,
                cluster=self._cluster,
                step=end.stage.value,
                message=message,
                data=dict(end.facts),
                error=end.error,
                next_step=end.next_step,
            )
        )

    def _read(self) -> dict[str, Any]:
        """What an earlier try kept, of the same inventory; else a new chain."""
        fresh: dict[str, Any] = {
            "id": f"{self._now().astimezone(UTC):%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}",
            "began": self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "inventory": self._loaded.digest,
            "stages": {},
        }
        try:
            kept = json.loads((self._folder / _STATE).read_text(encoding="utf-8"))
            whole = isinstance(kept["id"], str) and isinstance(kept["began"], str) and isinstance(kept["stages"], dict)
        except (OSError, ValueError, KeyError, TypeError):
            return fresh
        return kept if whole and kept.get("inventory") == self._loaded.digest else fresh

    def _keep(self, end: StageEnd) -> None:
        kept = {"message": end.message, "exit_code": end.exit_code, "facts": dict(end.facts)}
        self._kept["stages"][end.stage.value] = kept
        write_private(self._folder / _STATE, dumps(self._kept) + "\n")
