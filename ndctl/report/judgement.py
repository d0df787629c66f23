"""A Judgement for a person: the status and what matters in one line, then what was expected, why, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from ndctl.model.findings import Finding, Judgement
from ndctl.model.status import Status
from ndctl.report.fold import Folded, fold
from ndctl.report.lines import Line
from ndctl.report.next_steps import IN_WORDS
from ndctl.report.words import BAD, STATUS_STYLE, measured, rank

_INDENT = 9
_FIELDS_SHOWN = 6


def judgement_lines(judgement: Judgement) -> Iterator[Line]:
    """`warn     16 ranks on 4 nodes, peak 378.2 GB/s — but …`: what the text holds, then the worst that is in it."""
    entries = sorted(fold(judgement.findings, {}), key=lambda entry: rank(entry.finding.status))
    content = [entry for entry in entries if entry.finding.status is Status.PASS]
    others = [entry for entry in entries if entry.finding.status is not Status.PASS]
    style = STATUS_STYLE[judgement.status]
    if not entries:
        yield _head(judgement, "no result in this text", style)
    elif not others or others[0].finding.status is Status.SKIP:
        # Nothing is wrong: everything the text shows is the answer.
        for position, entry in enumerate([*content, *others]):
            text = _said(entry)
            yield _head(judgement, text, style) if not position else _more(entry)
    else:
        first, *rest = others
        text = _said(first)
        if content:
            text = f"{content[0].finding.message} — but {text}"
        yield _head(judgement, text, style)
        yield from _details(first.finding, _INDENT)
        for entry in [*rest, *content[1:]]:
            yield _more(entry)
            yield from _details(entry.finding, _INDENT + 2)
    if judgement.unknown_fields:
        names = ", ".join(judgement.unknown_fields[:_FIELDS_SHOWN])
        more = len(judgement.unknown_fields) - _FIELDS_SHOWN
        text = f"not understood: {names}{f' and {more} more' if more > 0 else ''}"
        yield Line(" " * _INDENT + text, "dim", hang=_INDENT)


def _head(judgement: Judgement, text: str, style: str) -> Line:
    against = f" ({judgement.profile})" if judgement.profile else ""
    return Line(f"{judgement.status.value:<8} {judgement.tool}{against}: {text}", style, hang=_INDENT)


def _more(entry: Folded) -> Line:
    status = entry.finding.status
    return Line(f"{' ' * _INDENT}{status.value}: {_said(entry)}", STATUS_STYLE[status], hang=_INDENT)


def _said(entry: Folded) -> str:
    """The message, with the part in front of it where the message does not name it."""
    where = entry.where
    silent = not where or where in entry.finding.message or entry.subjects in (("text",), ("run",))
    return (
        entry.finding.message if silent or entry.finding.status is Status.PASS else f"{where}: {entry.finding.message}"
    )


def _details(finding: Finding, column: int) -> Iterator[Line]:
    if finding.status not in BAD:
        return
    told = {
        "measured ": measured(finding),
        "likely: ": finding.cause,
        "explains: ": "; ".join(finding.explains),
        "do: ": IN_WORDS.get(finding.action, ""),
    }
    for label, text in told.items():
        if text:
            yield Line(f"{' ' * column}{label}{text}", hang=column)
