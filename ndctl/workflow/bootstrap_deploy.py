"""The stages of the chain that ask and change Azure: pre-flight, plan and deploy, under one hold of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ndctl.model.bootstrapped import Stage, StageEnd
from ndctl.model.events import EventSink

if TYPE_CHECKING:
    from ndctl.azure.faults import AzureFault
    from ndctl.inventory.loader import Loaded
    from ndctl.workflow.plan import Plan
    from ndctl.workflow.writing import Writing

Interruptible = Callable[[Callable[[], None], str], AbstractContextManager[None]]


class DeployStages:
    """again: the command that goes on with the chain; `holding` is left when the chain is."""

    def __init__(
        self,
        loaded: Loaded,
        again: str,
        rack_deadline_s: float,
        *,
        on_event: EventSink,
        say: Callable[[str], None],
        interruptible: Interruptible,
    ) -> None:
        self._loaded = loaded
        self._again = again
        self._rack_deadline_s = rack_deadline_s
        self._on_event = on_event
        self._say = say
        self._interruptible = interruptible
        self.holding = ExitStack()
        self._held: Writing | None = None
        self._rendered: Any = None
        self._plan: Plan | None = None

    def let_go(self, end: StageEnd) -> None:
        """Of the cluster, with a word in its audit lines of how that came about, where nobody has said one."""
        held, self._held = self._held, None
        if held is not None and not held.line.told:
            held.line.ended(end.error.get("code") or end.message or end.status, end.exit_code)
        self.holding.close()

    def preflight(self) -> StageEnd:
        from ndctl.workflow.preflight import preflight

        found = preflight(self._loaded, on_event=self._on_event)
        counts = found.as_dict()["counts"]
        message = ", ".join(f"{count} {standing}" for standing, count in counts.items())
        if found.refused:
            first = found.refused[0]
            told = {"code": first.id, "class": "preflight", "retryable": False}
            message = f"{first.title}: {' '.join(first.message.split())}"
            return StageEnd(Stage.PREFLIGHT, "failed", message, int(found.exit_code), first.next_step, told, counts)
        return StageEnd(Stage.PREFLIGHT, "done", message, facts=counts)

    def make_plan(self) -> StageEnd:
        """The cluster is held from here to the end of the deployment: what is planned is what is done."""
        from ndctl.workflow.plan import make_plan
        from ndctl.workflow.prepare import render_to_deploy
        from ndctl.workflow.unfinished import tell_unfinished
        from ndctl.workflow.writing import writing

        self._rendered = render_to_deploy(self._loaded)
        held = self._held = self.holding.enter_context(writing(self._loaded, "bootstrap", say=self._say))
        tell_unfinished(held.clients, self._loaded.inventory.cluster, self._say)
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

    def deploy(self) -> StageEnd:
        from ndctl.workflow.deploy import deploy

        held, plan = self._held, self._plan
        if held is None or plan is None:
            raise AssertionError("deployed is what was planned")
        by_ctrl_c: list[bool] = []

        def stop() -> None:
            by_ctrl_c.append(True)
            held.lock.stop.set()

        with self._interruptible(stop, f"Azure goes on with what was sent; go on with: {self._again}"):
            result = deploy(
                self._loaded,
                self._rendered,
                plan,
                held.clients,
                on_event=self._on_event,
                stop=held.lock.stop,
                rack_deadline_s=self._rack_deadline_s,
                on_group=held.lock.acquire,
            )
        # A lock that was lost sets the same stop, and is no Ctrl-C.
        result = replace(result, interrupted=result.interrupted or bool(by_ctrl_c))
        held.line.ended(result.summary, result.exit_code, digest=plan.digest, racks=result.fates)
        calls = held.clients.tally.calls()
        self._say(calls.line())
        facts = {"run": held.run, "digest": plan.digest, "racks": result.fates, "calls": calls.as_dict()}
        if not result.exit_code:
            return StageEnd(Stage.DEPLOY, "done", result.summary, facts=facts)
        fault = next((one.fault for one in (result.foundation, *result.racks) if one.fault), None)
        message = f"{result.summary}: {fault.summary}" if fault else result.summary
        return StageEnd(Stage.DEPLOY, "failed", message, int(result.exit_code), self._again, _error(fault), facts)


def _error(fault: AzureFault | None) -> dict[str, Any]:
    if fault is None:
        return {}
    return {"code": fault.innermost_code, "class": fault.fault_class.value, "retryable": fault.retryable}
