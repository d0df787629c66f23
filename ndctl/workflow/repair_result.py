"""What came of a repair, node by node, and the verdict that it ends with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ndctl.model.errors import ExitCode, NdctlError, worst_exit
from ndctl.report.words import plural
from ndctl.workflow.repair_state import Entry, Phase

if TYPE_CHECKING:
    from ndctl.model.findings import Run
    from ndctl.workflow.repair_refusals import RepairRequest

REPAIR_SCHEMA = "ndctl.repair/1"
_SAID = {
    Phase.BEGUN: "nothing was changed",
    Phase.EVIDENCE: "evidence saved, nothing was changed",
    Phase.ACTING: "sent; whether it was done is not known",
    Phase.DELETED: "the old VM is deleted, no new one is there yet",
    Phase.ACTED: "done, and the node does not answer yet",
    Phase.BACK: "back",
    Phase.FAILED: "refused, nothing is under way",
    Phase.NOT_BACK: "done, and it did not come back in time",
}


@dataclass(frozen=True, slots=True)
class NodeEnd:
    """entry: how far it came, None where it was not begun; error: why it went no further; was: why it was silent."""

    node: str
    entry: Entry | None
    error: NdctlError | None = None
    was: str = ""

    @property
    def back(self) -> bool:
        return self.entry is not None and self.entry.phase is Phase.BACK

    @property
    def sent(self) -> bool:
        """Whether anything was told to Azure or the node that may go on by itself."""
        return self.entry is not None and self.entry.phase in (Phase.ACTING, Phase.DELETED, Phase.ACTED)

    @property
    def silent(self) -> bool:
        return self.entry is not None and self.entry.phase is Phase.NOT_BACK

    @property
    def said(self) -> str:
        return _SAID.get(self.entry.phase, "not begun") if self.entry is not None else "not begun"

    @property
    def same_host(self) -> bool:
        """Whether it stands on the host it stood on before; False where that is not known of both."""
        entry = self.entry
        return bool(entry and entry.after.physical_host and entry.after.physical_host == entry.before.physical_host)

    def as_dict(self) -> dict[str, Any]:
        entry = self.entry
        return {
            "node": self.node,
            "phase": entry.phase.value if entry else "",
            "said": self.said,
            "before": asdict(entry.before) if entry else {},
            "after": asdict(entry.after) if entry else {},
            "same_host": self.same_host,
            "evidence": {"folder": entry.evidence, "run": entry.run, "gap": entry.gap} if entry else {},
            "validated": bool(entry and entry.validated),
            "ended": bool(entry and entry.ended),
            "error": {"code": self.error.code, "message": self.error.message, "hint": self.error.hint}
            if self.error
            else None,
        }


@dataclass(frozen=True, slots=True)
class RepairResult:
    """runs: the nodes at standard level, then their racks at quick; empty where no node came back."""

    cluster: str
    inventory: str
    request: RepairRequest
    ends: tuple[NodeEnd, ...]
    runs: tuple[Run, ...] = ()
    interrupted: bool = False

    @property
    def exit_code(self) -> ExitCode:
        if self.interrupted:
            return ExitCode.INTERRUPTED
        codes: list[int] = [run.exit_code for run in self.runs]
        for end in self.ends:
            if end.error is not None:
                code = end.error.exit_code
                some = code is ExitCode.DEPLOY_FAILED and any(one.back for one in self.ends)
                codes.append(ExitCode.DEPLOY_PARTIAL if some else code)
            elif not end.back:
                codes.append(ExitCode.INCOMPLETE)
        return worst_exit(codes)

    @property
    def summary(self) -> str:
        """`replace of 2 nodes: 1 back, 1 not`"""
        back = sum(end.back for end in self.ends)
        rest = len(self.ends) - back
        nodes = plural(len(self.ends), "node")
        return f"{self.request.action.value} of {nodes}: {back} back" + (f", {rest} not" if rest else "")

    def as_dict(self) -> dict[str, Any]:
        return {
            "schema": REPAIR_SCHEMA,
            "cluster": self.cluster,
            "inventory": self.inventory,
            "action": self.request.action.value,
            "nodes": [end.as_dict() for end in self.ends],
            "runs": [
                {"id": run.id, "level": run.level, "racks": {rack.name: rack.verdict.value for rack in run.racks}}
                for run in self.runs
            ],
            "interrupted": self.interrupted,
            "exit_code": int(self.exit_code),
        }
