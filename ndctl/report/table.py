"""A Run or a Judgement for a person: the answer first, the part by name, the number and who says so, what next.

Plain text with a few styles; `rich` turns them into colour on a terminal and into nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ndctl.model.findings import Finding, Judgement, RackResult, Run
from ndctl.model.status import Action, Status, Verdict

if TYPE_CHECKING:
    from rich.text import Text

_STYLE = {
    Verdict.ACCEPTED: "bold green",
    Verdict.DEGRADED: "bold yellow",
    Verdict.REJECTED: "bold red",
    Verdict.INCOMPLETE: "bold magenta",
}
_STATUS_STYLE = {
    Status.PASS: "green",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.UNKNOWN: "magenta",
    Status.SKIP: "dim",
}
Line = tuple[str, str]  # text, style


def run_lines(run: Run, *, verbose: bool = False) -> Iterator[Line]:
    """The whole answer, line by line. Racks that are fine take one line each."""
    for rack in run.racks:
        yield from _rack_lines(rack, run.id, verbose)
    counts = {verdict: sum(1 for r in run.racks if r.verdict is verdict) for verdict in Verdict}
    said = " · ".join(f"{number} {verdict.value}" for verdict, number in counts.items() if number)
    if run.interrupted:
        yield "interrupted: this answer holds what was gathered so far", "bold magenta"
    yield f"{len(run.racks)} rack{'s' if len(run.racks) != 1 else ''}: {said or 'none asked'}", "bold"
    yield from _next_steps(run)


def _rack_lines(rack: RackResult, run_id: str, verbose: bool) -> Iterator[Line]:
    asked = len(rack.nodes)
    answered = sum(1 for node in rack.nodes if node.outcome == "ok")
    usable = f"{len(rack.usable_nodes)} of {rack.expected_nodes} nodes usable"
    yield (
        f"{rack.verdict.value.upper()}  {rack.cluster} {rack.name}: {usable}   "
        f"asked {asked}, answered {answered}   {_duration(rack.seconds)}",
        _STYLE[rack.verdict],
    )
    missing = rack.expected_nodes - asked
    if missing > 0:
        yield f"  {missing} of {rack.expected_nodes} nodes are not there", "magenta"
    shown = [f for f in rack.findings if f.status in (Status.FAIL, Status.UNKNOWN, Status.WARN) and not f.caused_by]
    for finding in sorted(shown, key=lambda f: (_rank(f.status), f.node, f.check, f.subject)):
        yield from finding_lines(finding)
    explained = sum(1 for f in rack.findings if f.caused_by)
    if explained:
        yield f"  {explained} more finding{'s' if explained > 1 else ''} explained by the above", "dim"
    yield from _skips(rack, verbose)
    if rack.facts.get("summary"):
        yield f"  {rack.facts['summary']}", ""


def _skips(rack: RackResult, verbose: bool) -> Iterator[Line]:
    skipped = [f for f in rack.findings if f.status is Status.SKIP]
    if verbose:
        for finding in skipped:
            yield f"  skip     {finding.check} {finding.node or finding.subject}: {finding.message}", "dim"
        return
    reasons: dict[tuple[str, str], int] = {}
    for finding in skipped:
        reasons[(finding.check, finding.message)] = reasons.get((finding.check, finding.message), 0) + 1
    for (check, message), number in sorted(reasons.items()):
        yield f"  skip     {check}{f' ×{number}' if number > 1 else ''}: {message}", "dim"


def finding_lines(finding: Finding) -> Iterator[Line]:
    """One finding: what and where, then measured/expected, cause, what it explains, what to do."""
    where = " ".join(part for part in (finding.node, finding.subject) if part)
    root = "   root cause" if finding.explains else ""
    yield f"  {finding.status.value:<8} {where}   {finding.message}{root}", _STATUS_STYLE[finding.status]
    if finding.value is not None or finding.expected:
        value = "" if finding.value is None else f"{_number(finding.value)} {finding.unit}".strip()
        expected = f"expected {finding.expected}" if finding.expected else ""
        source = f" ({finding.source})" if finding.source else ""
        yield f"           measured  {', '.join(p for p in (value, expected) if p)}{source}", ""
    if finding.cause:
        yield f"           cause     {finding.cause}", ""
    if finding.explains:
        yield f"           explains  {'; '.join(finding.explains)}", ""
    if finding.action is not Action.NONE:
        yield f"           do        {finding.action.value}   ({finding.check})", ""


def judgement_lines(judgement: Judgement) -> Iterator[Line]:
    """`warn   …`: the status word first, then what matters."""
    passed = [f for f in judgement.findings if f.status is Status.PASS]
    shown = [f for f in judgement.findings if f.status is not Status.PASS] or passed
    text = shown[0].message if shown else "no result in this text"
    if passed and shown is not passed:
        text = f"{passed[0].message} — but {text}"
    yield f"{judgement.status.value:<6} {judgement.tool}: {text}", _STATUS_STYLE[judgement.status]
    for position, finding in enumerate(shown):
        if position:
            yield f"       {finding.status.value}: {finding.subject}: {finding.message}", _STATUS_STYLE[finding.status]
        if finding.expected:
            yield f"       expected {finding.expected}{f' ({finding.source})' if finding.source else ''}", ""
        if finding.cause:
            yield f"       likely: {finding.cause}", ""
        if finding.action is not Action.NONE:
            yield f"       do: {finding.action.value}", ""
    if judgement.unknown_fields:
        names = ", ".join(judgement.unknown_fields[:6])
        more = len(judgement.unknown_fields) - 6
        yield f"       not understood: {names}{f' and {more} more' if more > 0 else ''}", "dim"


def _next_steps(run: Run) -> Iterator[Line]:
    bad = [r for r in run.racks if r.verdict is not Verdict.ACCEPTED]
    if bad:
        yield f"next: ndctl report {run.id} -o json   (all findings; raw text is kept with them)", ""


def _rank(status: Status) -> int:
    return [Status.FAIL, Status.UNKNOWN, Status.WARN, Status.SKIP, Status.PASS].index(status)


def _number(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def as_text(lines: Iterator[Line]) -> Text:
    """The lines as one rich Text, so that a Console decides about colour and never folds a line."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ignore")
    for line, style in lines:
        text.append(line + "\n", style=style or None)
    return text
