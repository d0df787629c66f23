"""A rack's report on its way between two processes: every text once, compressed as the record keeps it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ndctl.model.answers import CommandResult, NodeAnswer
from ndctl.record.packed import Packer, Unpacker
from ndctl.workflow.remote_rack import RackReport

_Texts = list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class PackedRack:
    """Picklable. In `report` names stand for texts; bodies: name -> compressed text."""

    report: RackReport
    bodies: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class SentRack:
    """As it was reported; `unpacker` gives its texts packed to the record."""

    report: RackReport
    unpacker: Unpacker


def packed(report: RackReport) -> PackedRack:
    packer = Packer()
    return PackedRack(_changed(report, packer.result, packer.name), packer.bodies)


def unpacked(sent: PackedRack) -> SentRack:
    """Raises ValueError or KeyError for what `packed` did not make."""
    unpacker = Unpacker(sent.bodies)
    return SentRack(_changed(sent.report, unpacker.result, unpacker.text), unpacker)


def _changed(
    report: RackReport, result: Callable[[CommandResult], CommandResult], text: Callable[[str], str]
) -> RackReport:
    def of(answer: NodeAnswer) -> NodeAnswer:
        outcome = replace(answer.outcome, stdout=text(answer.outcome.stdout), stderr=text(answer.outcome.stderr))
        return NodeAnswer(answer.node, outcome, {name: result(one) for name, one in answer.results.items()})

    def texts(those: _Texts) -> _Texts:
        return [(node, command, text(body)) for node, command, body in those]

    active = report.active
    return replace(
        report,
        answers={node: of(answer) for node, answer in report.answers.items()},
        askings=[(commands, of(answer)) for commands, answer in report.askings],
        texts=texts(report.texts),
        active=replace(active, texts=texts(active.texts)) if active is not None else None,
    )
