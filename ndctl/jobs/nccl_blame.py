"""From an isolation to findings: the node, path or passing disturbance behind a failing collective."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ndctl.jobs.isolation import Culprit, GroupVerdict, Isolation, Path
from ndctl.jobs.nccl_asked import Asked
from ndctl.jobs.nccl_layers import Told
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status

_WORDS = {
    GroupVerdict.SLOW: ("slow-node", "makes NCCL slow"),
    GroupVerdict.ERROR: ("error-node", "makes NCCL fail"),
    GroupVerdict.HANG: ("hang-node", "makes NCCL hang"),
}
_FALLS_BACK = ("fall-back-node", "makes NCCL fall back")
_BAD = (Status.FAIL, Status.WARN)


@dataclass(frozen=True, slots=True)
class Blame:
    """What an isolation says of the findings of the run that asked for it.

    known:    findings of that run; their worst status is the culprit's
    without:  nodes that were left out of it, since passive checks suspect them
    of_group: the findings of the run over these nodes
    layers:   names of the nodes of a culprit, path or set -> which layer it is
    """

    asked: Asked
    found: Isolation[Node]
    known: tuple[Finding, ...]
    rack: str
    without: tuple[str, ...]
    evidence: str
    of_group: Callable[[Sequence[Node]], tuple[Finding, ...]]
    layers: Mapping[frozenset[str], Told] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """One line for progress: "rack01-n15 makes NCCL slow (11 tests)"."""
        found = self.found
        who = [f"{f.node} {f.message.partition(':')[0]}" for f in map(self._node, found.culprits)]
        who += [f"{_ends(path)}: a path, not a node" for path in found.paths]
        if found.transient:
            who.append("a passing disturbance")
        return f"{'; '.join(who) or 'no single node or path explains it'} ({self._spent})"

    def applied_to(self, findings: Sequence[Finding]) -> list[Finding]:
        """The rack's findings with the isolation's own among them."""
        if self.found.transient:
            # The full group was run once more, and was good: that run is the one that counts.
            kept = [f for f in findings if f not in self.known]
            again = [replace(f, subject=self._worst.subject) for f in self.of_group(self.found.group)]
            return [*kept, *again, self._transient()]
        own = [self._node(culprit) for culprit in self.found.culprits]
        own += [self._path(path) for path in self.found.paths]
        rest = self._rest() if self.found.rest else []
        return [*(self._told(f) if f in self.known else f for f in findings), *own, *rest]

    @property
    def _spent(self) -> str:
        return f"{self.found.tests} tests in {self.found.rounds} rounds"

    @property
    def _worst(self) -> Finding:
        return next((f for f in self.known if f.status is Status.FAIL), self.known[0])

    @property
    def _status(self) -> Status:
        return Status.FAIL if self._worst.status is Status.FAIL else Status.WARN

    def _rest(self) -> list[Finding]:
        """The proof: without the culprits the others are good."""
        names = sorted({*(culprit.node.name for culprit in self.found.culprits), *self.without})
        subject = f"{self.rack} without {', '.join(names)}"
        return [replace(f, subject=subject) for f in self.of_group(self.found.rest)]

    def _node(self, culprit: Culprit[Node]) -> Finding:
        shown = next((f for f in self.of_group((culprit.node, *culprit.partners)) if f.status in _BAD), self._worst)
        kind = shown.check.rpartition(".")[2]
        word, does = _FALLS_BACK if kind in ("transport", "nvls") else _WORDS[culprit.verdict]
        # A figure or wrong data is this node's hardware; what ends in an error or hangs may be its software.
        hardware = kind in ("slow", "wrong") and self._status is Status.FAIL
        rest = next((f.message for f in self._rest() if f.status is Status.PASS), "") if self.found.rest else ""
        others = ", ".join(node.name for node in culprit.partners[:3])
        more = f" and {len(culprit.partners) - 3} more" if len(culprit.partners) > 3 else ""
        whom = "it" if len(self.found.culprits) == 1 else "the culprits"
        layer = self._layer((culprit.node,))
        cause = f"no passive check shows it; {layer or 'a GPU, NVLink or memory of this node that fails under load'}"
        return Finding(
            check=f"{self.asked.check}.{word}",
            status=self._status,
            subject=self.asked.spoken,
            node=culprit.node.name,
            value=shown.value,
            unit=shown.unit,
            expected=shown.expected,
            source=shown.source,
            message=f"{does}: with {others}{more} {shown.message}"
            + (f"; without {whom}, {rest}" if rest else "")
            + f"; tests spent: {self._spent}",
            cause=cause if kind in ("slow", "wrong") else _joined(f"on this node: {shown.cause}", layer),
            action=Action.REPLACE_AND_REPORT if hardware else shown.action,
            evidence=self.evidence,
            health_category="Resource.Hpc.Unhealthy.HpcGenericFailure" if hardware else "",
        )

    def _path(self, path: Path[Node]) -> Finding:
        shown = next((f for f in self.of_group((*path.left, *path.right)) if f.status in _BAD), self._worst)
        left_out = f", without {', '.join(self.without)}" if self.without else ""
        return Finding(
            check=f"{self.asked.check}.path",
            status=self._status,
            subject=f"{_ends(path)}{left_out}",
            value=shown.value,
            unit=shown.unit,
            expected=shown.expected,
            source=shown.source,
            message=f"{shown.message} together, while each is good with others: a path, not a node; "
            f"tests spent: {self._spent}",
            cause=_joined("a switch or cable between them", self._layer((*path.left, *path.right))),
            action=Action.INVESTIGATE,
            evidence=self.evidence,
        )

    def _layer(self, nodes: Sequence[Node]) -> str:
        told = self.layers.get(frozenset(node.name for node in nodes))
        return told.sentence if told is not None else ""

    def _transient(self) -> Finding:
        return Finding(
            check=f"{self.asked.check}.transient",
            status=Status.WARN,
            subject=self.rack,
            value=self._worst.value,
            unit=self._worst.unit,
            expected=self._worst.expected,
            source=self._worst.source,
            message=f"at first {self._worst.message}; every part and the whole were good when asked again; "
            f"tests spent: {self._spent}",
            cause="a passing disturbance",
            action=Action.WATCH,
            evidence=self.evidence,
        )

    def _told(self, finding: Finding) -> Finding:
        """The rack's own finding: what is known of its cause."""
        if finding.status not in _BAD:
            return finding
        parts = [culprit.node.name for culprit in self.found.culprits] + [_ends(path) for path in self.found.paths]
        for nodes in self.found.together:
            parts.append(_joined("it fails only as a whole: no node and no path alone explains it", self._layer(nodes)))
        if self.found.undecided:
            names = ", ".join(node.name for node in self.found.undecided[:6])
            more = f" and {len(self.found.undecided) - 6} more" if len(self.found.undecided) > 6 else ""
            whole = f"{names}{more} cannot be told apart: too few nodes are proven good"
            parts.append(_joined(whole, self._layer(self.found.undecided)))
        return replace(finding, cause=f"{'; '.join(parts)} ({self._spent})") if parts else finding


def _ends(path: Path[Node]) -> str:
    return " ↔ ".join(", ".join(node.name for node in side) for side in (path.left, path.right))


def _joined(*texts: str) -> str:
    return "; ".join(text for text in texts if text)
