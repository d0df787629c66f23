"""What pairs of nodes of two racks say: of nodes, of paths between them, of what joins the racks. Pure.

A pair is as good as its worse end, so who has a good pair is good. Who is bad with two partners that are good with
others is to blame; a bad pair of two good ends is a path; where nobody is good, it is what joins the racks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from ndctl.checks.outliers import outliers
from ndctl.jobs.isolation import GroupVerdict
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status

_WORDS = {GroupVerdict.SLOW: "slow-node", GroupVerdict.ERROR: "error-node", GroupVerdict.HANG: "hang-node"}
_DOES = {GroupVerdict.SLOW: "is slow", GroupVerdict.ERROR: "fails", GroupVerdict.HANG: "hangs"}
_MOST_NAMED = 4
_PEERS = "the other pairs of these racks, in this run"


@dataclass(frozen=True, slots=True)
class PairRun:
    """One pair's run. verdict: None where nothing was measured; busbw: GB/s; behind: GB/s the other pairs reach, where
    this one stands out from them."""

    left: Node
    right: Node
    verdict: GroupVerdict | None
    busbw: float | None = None
    findings: tuple[Finding, ...] = field(default_factory=tuple)
    evidence: str = ""
    behind: float | None = None

    @property
    def bad(self) -> bool:
        return self.verdict not in (None, GroupVerdict.GOOD)

    @property
    def good(self) -> bool:
        return self.verdict is GroupVerdict.GOOD

    @property
    def ends(self) -> tuple[Node, Node]:
        return self.left, self.right

    @property
    def subject(self) -> str:
        return f"{self.left.name} ↔ {self.right.name}"

    def other(self, node: Node) -> Node:
        return self.right if node == self.left else self.left

    @property
    def worst(self) -> Finding:
        order = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.PASS, Status.SKIP)
        return min(self.findings, key=lambda finding: order.index(finding.status))

    @property
    def says(self) -> str:
        if self.behind is not None and self.busbw is not None:
            return f"NCCL {self.busbw:.0f} GB/s, the other pairs reach {self.behind:.0f}"
        return self.worst.message


def marked(runs: Sequence[PairRun]) -> list[PairRun]:
    """The runs, with those bad that stand out from the others though they hold the floor."""
    speeds = {place: run.busbw for place, run in enumerate(runs) if run.good and run.busbw is not None}
    found = {one.key: one for one in outliers(speeds)}
    return [
        replace(run, verdict=GroupVerdict.SLOW, behind=found[place].median) if place in found else run
        for place, run in enumerate(runs)
    ]


def bad_paths(runs: Sequence[PairRun]) -> list[tuple[Node, Node]]:
    """Bad pairs of two ends that are good with others, which were seen once: they are asked once more."""
    good = _good(runs)
    once = [run.ends for run in runs if run.bad and set(run.ends) <= good]
    return [ends for ends in dict.fromkeys(once) if sum(run.ends == ends for run in runs) == 1]


def judge_across(runs: Sequence[PairRun], check: str, racks: tuple[str, str]) -> list[Finding]:
    """Findings of one node carry its name, a rack's own pass that rack as subject; the rest is of both racks."""
    good = _good(runs)
    accused = _accused(runs, good)
    findings = [_node(node, mine, check) for node, mine in accused.items()]
    left_over: list[PairRun] = []
    for ends in dict.fromkeys(run.ends for run in runs if run.bad):
        same = [run for run in runs if run.ends == ends and run.verdict is not None]
        if any(node in accused for node in ends):
            continue
        if set(ends) <= good:
            findings.append(_path(same, check))
        else:
            left_over.append(next(run for run in same if run.bad))
    findings += _not_told(left_over, check, racks, nobody=not good)
    silent = [run for run in runs if run.verdict is None]
    if silent:
        findings.append(_silent(silent, check, racks))
    return findings + [one for rack in racks for one in _rack(rack, runs, good, accused, check)]


def _good(runs: Sequence[PairRun]) -> set[Node]:
    return {node for run in runs if run.good for node in run.ends}


def _accused(runs: Sequence[PairRun], good: set[Node]) -> dict[Node, list[PairRun]]:
    """Bad with two different partners that are good with others, and good with none."""
    found: dict[Node, list[PairRun]] = {}
    for node in dict.fromkeys(node for run in runs if run.bad for node in run.ends):
        telling = [run for run in runs if run.bad and node in run.ends and run.other(node) in good]
        if node not in good and len({run.other(node) for run in telling}) > 1:
            found[node] = telling
    return found


def _status(runs: Sequence[PairRun]) -> Status:
    """A warning where no run was worse; what only stands out from its peers is one."""
    failed = any(f.status is Status.FAIL for run in runs if run.bad for f in run.findings)
    return Status.FAIL if failed else Status.WARN


def _finding(check: str, kind: str, runs: Sequence[PairRun], subject: str, message: str, cause: str) -> Finding:
    run = next(one for one in runs if one.bad)
    peers = run.behind is not None
    return Finding(
        check=f"{check}.{kind}",
        status=_status(runs),
        subject=subject,
        value=round(run.busbw, 2) if run.busbw is not None else run.worst.value,
        unit="GB/s" if run.busbw is not None else run.worst.unit,
        expected=f"about {run.behind:.0f} GB/s" if run.behind is not None else run.worst.expected,
        source=_PEERS if peers else run.worst.source,
        message=message,
        cause=cause,
        action=Action.INVESTIGATE,
        evidence=run.evidence,
    )


def _node(node: Node, runs: list[PairRun], check: str) -> Finding:
    verdict = runs[-1].verdict
    word = _WORDS[verdict] if verdict in _WORDS else _WORDS[GroupVerdict.ERROR]
    does = _DOES[verdict] if verdict in _DOES else _DOES[GroupVerdict.ERROR]
    others = ", ".join(run.other(node).name for run in runs)
    message = f"{does} across racks with {others}, which are good with others: {runs[-1].says}"
    cause = "this node's InfiniBand ports, their cables or its way from GPU to port; a GPU where NVLink is slow, too"
    return replace(_finding(check, word, runs, "all_reduce across racks", message, cause), node=node.name)


def _path(runs: list[PairRun], check: str) -> Finding:
    last = runs[-1]
    if last.good:
        first = next(run for run in runs if run.bad)
        message = f"at first {first.says}; good when asked again"
        finding = _finding(check, "transient", runs, last.subject, message, "a passing disturbance")
        return replace(finding, status=Status.WARN, action=Action.WATCH)
    message = f"{last.says} together, each is good with others: a path, not a node ({len(runs)} tests)"
    return _finding(check, "path", runs, last.subject, message, "a switch, cable or route between them")


def _not_told(runs: Sequence[PairRun], check: str, racks: tuple[str, str], nobody: bool) -> list[Finding]:
    """Bad pairs with an end that was good nowhere: who of them it is stays open."""
    if not runs:
        return []
    pairs = ", ".join(run.subject for run in runs[:_MOST_NAMED])
    more = f" and {len(runs) - _MOST_NAMED} more pairs" if len(runs) > _MOST_NAMED else ""
    cause = (
        f"what joins {racks[0]} and {racks[1]}, or a whole rack: every pair is bad, so no node is to blame"
        if nobody
        else "who of them it is cannot be told: too few partners are good"
    )
    finding = _finding(check, "slow", runs, " ↔ ".join(racks), f"{pairs}{more}: {runs[0].says}", cause)
    verdict = runs[0].verdict
    kind = {GroupVerdict.ERROR: "error", GroupVerdict.HANG: "hang"}.get(verdict or GroupVerdict.SLOW, "slow")
    return [replace(finding, check=f"{check}.{kind}")]


def _silent(runs: Sequence[PairRun], check: str, racks: tuple[str, str]) -> Finding:
    pairs = ", ".join(run.subject for run in runs[:_MOST_NAMED])
    more = f" and {len(runs) - _MOST_NAMED} more" if len(runs) > _MOST_NAMED else ""
    return Finding(
        check=f"{check}.no-result",
        status=Status.UNKNOWN,
        subject=" ↔ ".join(racks),
        message=f"nothing was measured of {pairs}{more}: {runs[0].worst.message}",
        cause=runs[0].worst.cause,
        action=Action.INVESTIGATE,
        evidence=runs[0].evidence,
    )


def _rack(
    rack: str, runs: Sequence[PairRun], good: set[Node], accused: dict[Node, list[PairRun]], check: str
) -> list[Finding]:
    """The rack's pass, when each of its nodes but the accused has a good pair."""
    mine = {node for run in runs for node in run.ends if node.rack == rack}
    sound = mine & good
    if not sound or mine - good - accused.keys():
        return []
    speeds = [run.busbw for run in runs if run.good and run.busbw is not None]
    other = next(run.other(node).rack for run in runs for node in run.ends if node.rack == rack)
    finding = next(f for run in runs if run.good for f in run.findings if f.status is Status.PASS)
    shown = f", {min(speeds):.0f} to {max(speeds):.0f} GB/s" if speeds else ""
    told = f"{len(sound)} of {len(mine)} nodes good in {sum(run.good for run in runs)} pairs{shown}"
    value = round(median(speeds), 2) if speeds else None
    return [replace(finding, subject=rack, value=value, message=f"NCCL all_reduce with nodes of {other}: {told}")]
