"""A Run for a person: the answer first, the part by name, the number and who says so, what it explains, what to do.

Where there are several racks, their count comes first and the worst racks last: the top of a file and the bottom of
a terminal are what is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from ndctl.model.findings import Finding, NodeResult, RackResult, Run
from ndctl.model.status import Status, Verdict
from ndctl.report.fold import Folded, fold, natural, node_set
from ndctl.report.judgement import judgement_lines
from ndctl.report.lines import Line, as_plain, as_text
from ndctl.report.next_steps import azure_report, do, inventory_of, next_commands, unanswered
from ndctl.report.words import BAD, STATUS_STYLE, duration, measured, plural, rank

__all__ = ["Line", "as_plain", "as_text", "judgement_lines", "run_lines"]

_VERDICT_STYLE = {
    Verdict.ACCEPTED: "bold green",
    Verdict.DEGRADED: "bold yellow",
    Verdict.INCOMPLETE: "bold magenta",
    Verdict.REJECTED: "bold red",
}
_WORST_LAST = list(_VERDICT_STYLE)
_FINDINGS_SHOWN = 12  # of one rack, worst first; -v shows all
_CHECKS_SHOWN = 3  # that were skipped for one reason
_LABEL = 9  # columns of "measured", "explains" and a blank
_INDENT = 11  # where a finding's text begins, under its status


def run_lines(run: Run, *, verbose: bool = False) -> Iterator[Line]:
    """The whole answer, line by line. Racks that are fine take one line each.

    verbose: every finding, also those a root cause explains and those that were skipped, and every evidence
    """
    if len(run.racks) != 1:
        yield Line(_headline(run), "bold")
    if run.interrupted:
        yield Line("interrupted: this answer holds what was gathered so far", "bold magenta")
    for rack in sorted(run.racks, key=lambda rack: _WORST_LAST.index(rack.verdict)):
        yield from _rack_lines(rack, run, verbose)
    yield from _remarks(run)
    commands = next_commands(run)
    for position, command in enumerate(commands):
        code = f"   exit {run.exit_code}" if run.exit_code and position == len(commands) - 1 else ""
        yield Line(f"{'next:' if not position else '     '} {command}{code}", hang=None)
    if run.exit_code and not commands:
        yield Line(f"exit {run.exit_code}")


def _headline(run: Run) -> str:
    """ "64 racks: 63 accepted · 1 rejected (rack07)"."""
    if not run.racks:
        return "no rack was asked"
    told = []
    for verdict in _WORST_LAST:
        racks = [rack for rack in run.racks if rack.verdict is verdict]
        named = "" if verdict is Verdict.ACCEPTED else f" ({_names(racks, run)})"
        if racks:
            told.append(f"{len(racks)} {verdict.value}{named}")
    return f"{plural(len(run.racks), 'rack')}: {' · '.join(told)}"


def _names(racks: list[RackResult], run: Run) -> str:
    if len({rack.cluster for rack in run.racks}) == 1:
        return node_set(rack.name for rack in racks)
    by_cluster = groupby(sorted(racks, key=lambda rack: rack.cluster), key=lambda rack: rack.cluster)
    return ", ".join(f"{cluster} {node_set(rack.name for rack in own)}" for cluster, own in by_cluster)


def _remarks(run: Run) -> Iterator[Line]:
    """What was left out or forced, also of racks that are fine: one line for all racks of which it is said."""
    said: dict[str, list[RackResult]] = {}
    for rack in run.racks:
        remarks = rack.facts.get("remarks")
        for remark in remarks if isinstance(remarks, list | tuple) else ():
            said.setdefault(str(remark), []).append(rack)
    for remark, racks in said.items():
        yield Line(f"note: {_names(racks, run)}: {remark}", "yellow", hang=6)


def _rack_lines(rack: RackResult, run: Run, verbose: bool) -> Iterator[Line]:
    skipped = [f for f in rack.findings if f.status is Status.SKIP]
    quiet = rack.verdict is Verdict.ACCEPTED and not verbose
    yield Line(_rack_headline(rack, run, len(skipped) if quiet else 0), _VERDICT_STYLE[rack.verdict], hang=_INDENT + 1)
    if quiet and len(run.racks) > 1:
        return
    if not quiet:
        yield from _absent(rack)
        yield from _finding_lines(rack, run, verbose)
        yield from _skips(skipped, rack)
    if summary := rack.facts.get("summary"):
        yield Line(f"  {summary}", hang=2)


def _rack_headline(rack: RackResult, run: Run, skipped: int) -> str:
    usable = f"{len(rack.usable_nodes)} of {rack.expected_nodes} nodes usable"
    gpus = rack.facts.get("gpus")
    more = []
    if isinstance(gpus, Mapping) and "seen" in gpus:
        more.append(plural(int(gpus["seen"]), "GPU"))
    if rack.verdict is not Verdict.ACCEPTED:
        more.append(f"asked {len(rack.nodes)}, answered {len(rack.nodes) - len(unanswered(rack))}")
    # Passive checks alone say nothing of bandwidth: whoever pastes the line should not seem to have tested it.
    if run.level == "quick":
        more.append("quick: no bandwidth tested")
    if skipped:
        more.append(f"{plural(skipped, 'check')} skipped")
    return "   ".join(
        [f"{rack.verdict.value.upper():<10}  {rack.cluster} {rack.name}: {usable}", *more, duration(rack.seconds)]
    )


def _absent(rack: RackResult) -> Iterator[Line]:
    """Nodes that do not exist, and nodes that have no finding to say why they are not usable."""
    missing = rack.expected_nodes - len(rack.nodes)
    if missing > 0:
        verb = "is" if missing == 1 else "are"
        yield Line(
            f"  {'unknown':<8} {missing} of {rack.expected_nodes} nodes {verb} not there", STATUS_STYLE[Status.UNKNOWN]
        )
    told = {f.node for f in rack.findings if f.status in BAD}
    silent: dict[str, list[str]] = {}
    for node in rack.nodes:
        if node.status not in (Status.PASS, Status.WARN) and node.name not in told:
            reason = node.outcome if node.outcome != "ok" else f"{node.status.value}, and no finding says why"
            silent.setdefault(reason, []).append(node.name)
    for reason, names in silent.items():
        yield Line(f"  {'unknown':<8} {node_set(names)}   {reason}", STATUS_STYLE[Status.UNKNOWN], hang=_INDENT)


def _finding_lines(rack: RackResult, run: Run, verbose: bool) -> Iterator[Line]:
    known = {node.name: node for node in rack.nodes}
    addresses = {node.name: node.address for node in rack.nodes}
    standing = [f for f in rack.findings if f.status in BAD and (verbose or not f.caused_by)]
    entries = sorted(fold(standing, addresses), key=_worst_first)
    limit = len(entries) if verbose else _FINDINGS_SHOWN
    for entry in entries[:limit]:
        yield from _entry_lines(entry, run, rack.cluster, known)
    if left := entries[limit:]:
        counts = {status: sum(e.count for e in left if e.finding.status is status) for status in BAD}
        told = ", ".join(f"{count} {status.value}" for status, count in counts.items() if count)
        yield Line(f"  and {told} more: ndctl -v report {run.id}", "dim", hang=None)
    explained = sum(1 for f in rack.findings if f.status in BAD and f.caused_by)
    if explained and not verbose:
        yield Line(
            f"  {plural(explained, 'finding')} explained by the above and not counted: ndctl -v report {run.id}", "dim"
        )


def _worst_first(entry: Folded) -> tuple[object, ...]:
    f = entry.finding
    return (rank(f.status), not f.explains, natural(entry.nodes[0] if entry.nodes else ""), f.check, entry.subjects)


def _entry_lines(entry: Folded, run: Run, cluster: str, known: Mapping[str, NodeResult]) -> Iterator[Line]:
    """One finding: what and where, then measured and expected, cause, what it explains, what to do, the evidence."""
    finding, inventory = entry.finding, inventory_of(run, cluster)
    nodes = tuple(filter(None, entry.nodes))
    root = "   root cause" if finding.explains else ""
    yield Line(
        f"  {finding.status.value:<8} {entry.where}   {finding.message}{root}",
        STATUS_STYLE[finding.status],
        hang=_INDENT,
    )
    evidence = f"ndctl report {run.id} --raw {finding.evidence}" if _is_raw(finding) else finding.evidence
    for label, text, copied in (
        ("measured", measured(finding), False),
        ("cause", finding.cause, False),
        ("explains", "; ".join(finding.explains), False),
        ("because", finding.caused_by, False),
        ("do", do(finding, nodes, inventory, known), True),
        ("report", azure_report(finding, nodes, inventory, known), True),
        ("see", evidence, True),
    ):
        if text:
            hang = None if copied else _INDENT + _LABEL + 1
            yield Line(f"{' ' * _INDENT}{label:<{_LABEL}} {text}", hang=hang)


def _is_raw(finding: Finding) -> bool:
    """Evidence inside the run is NODE/COMMAND; anything else is a file's name."""
    return finding.evidence.count("/") == 1 and not finding.evidence.startswith("/")


def _skips(skipped: list[Finding], rack: RackResult) -> Iterator[Line]:
    """What was skipped, once for all checks that were for the same reason on the same nodes."""
    addresses = {node.name: node.address for node in rack.nodes}
    nodes_of: dict[tuple[str, str], list[str]] = {}
    for entry in fold(skipped, addresses):
        key = (entry.finding.check, entry.finding.message)
        nodes_of.setdefault(key, []).extend(filter(None, entry.nodes))
    checks_of: dict[tuple[str, str], list[str]] = {}
    for (check, message), nodes in sorted(nodes_of.items()):
        checks_of.setdefault((node_set(nodes), message), []).append(check)
    for (where, message), checks in checks_of.items():
        shown = ", ".join(checks[:_CHECKS_SHOWN])
        more = f" and {len(checks) - _CHECKS_SHOWN} more" if len(checks) > _CHECKS_SHOWN else ""
        where = f"  {where}" if where else ""
        yield Line(f"  {'skip':<8} {shown}{more}{where}   {message}", STATUS_STYLE[Status.SKIP], hang=_INDENT)
