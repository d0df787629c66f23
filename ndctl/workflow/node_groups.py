"""What `@failed` and `@incomplete` stand for: nodes of the last recorded run of a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.findings import Finding, RackResult, Run
from ndctl.model.status import Status, Verdict

ALL = "all"
FAILED = "failed"
INCOMPLETE = "incomplete"
GROUPS = (ALL, FAILED, INCOMPLETE)

LastRun = Callable[[str], "Run | None"]
"""Cluster -> its newest finished run, None when there is none."""


def no_run(cluster: str) -> Run | None:
    """A `LastRun` of a caller that keeps no record."""
    return None


def recorded_runs(record: Path | None) -> LastRun:
    """From the record at `record` (None: the usual one). Where nothing was ever recorded, no cluster has a run."""

    def last(cluster: str) -> Run | None:
        from ndctl.record.store import Store

        try:
            with Store(record, create=False) as store:
                return store.last_run(cluster)
        except NdctlError as error:
            if error.code == "record.none" and record is None:
                return None
            raise

    return last


def the_last_run(cluster: str, last: LastRun, group: str) -> Run:
    """The run that `group` is read from. Raises NdctlError exit 2 when the cluster has none."""
    run = last(cluster)
    if run is None:
        raise NdctlError(
            "select.no-run",
            f"@{group} is read from the last recorded validation of {cluster}, and there is none",
            hint="validate it first: ndctl validate INVENTORY; or name nodes: --nodes 'rack01-n[01-18]'",
            exit_code=ExitCode.USAGE,
        )
    return run


def members(group: str, run: Run, cluster: str, names_of: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Node names of @failed or @incomplete.

    names_of: rack -> names of its nodes as of now, those included that are planned and not there
    """
    judged = _failed if group == FAILED else _incomplete
    found = (judged(rack, names_of.get(rack.name, ())) for rack in run.racks if rack.cluster == cluster)
    return frozenset(name for names in found for name in names)


def _failed(rack: RackResult, now: Collection[str]) -> Collection[str]:
    """The nodes that a rejection names, as a finding's node or in its subject (a pair); all when it names none."""
    if rack.verdict is not Verdict.REJECTED:
        return ()
    all_of_it = {node.name for node in rack.nodes} | set(now if not rack.nodes else ())
    own = [finding for finding in rack.findings if finding.status is Status.FAIL and not finding.caused_by]
    return {name for finding in own for name in _named(finding, all_of_it)} or all_of_it


def _named(finding: Finding, nodes: Collection[str]) -> Collection[str]:
    if finding.node:
        return (finding.node,)
    return set(re.findall(r"[\w-]+", finding.subject)) & set(nodes)


def _incomplete(rack: RackResult, now: Collection[str]) -> Collection[str]:
    """The nodes that gave no usable answer and those that were not there; all when it lies with none of them."""
    if rack.verdict is not Verdict.INCOMPLETE:
        return ()
    listed = {node.name for node in rack.nodes}
    silent = {node.name for node in rack.nodes if node.status is Status.UNKNOWN}
    # A run of chosen nodes expected only those; where more were expected than are listed, the others were missing.
    missing = set(now) - listed if len(listed) < rack.expected_nodes or not listed else set()
    return silent | missing or listed
