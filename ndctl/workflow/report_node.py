"""The Guest Health Report of one node: made from a finding that still holds, sent once per host and category.

Identifiers are those the finding's own run read. When the VM was rebooted, moved or replaced since, the finding speaks
of a node that is no more, and nothing is reported.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.checks import commands
from ndctl.checks.health_categories import PREFIX, categories, category_of, is_category
from ndctl.checks.verdict import belongs
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.findings import Finding, NodeResult, Run
from ndctl.model.places import Node
from ndctl.model.status import Action, Status
from ndctl.parse import key_values
from ndctl.record.store import Store
from ndctl.workflow.named_nodes import named_nodes, part_of
from ndctl.workflow.repair_state import Repairs
from ndctl.workflow.state_dir import cluster_dir, write_private
from ndctl.workflow.validate import stamp

if TYPE_CHECKING:
    from ndctl.azure.clients import AzureClients
    from ndctl.azure.impact import Insight
    from ndctl.inventory.loader import Loaded

REPORT_SCHEMA = "ndctl.health-report/1"
WAIT_S = 3600.0
ASK_EVERY_S = 30.0
_SERIAL = re.compile(r"serial (\w{6,})")
_PCI = re.compile(r"\b([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\b")


@dataclass(frozen=True, slots=True)
class Report:
    """What would be sent, and why. name: the report's own id, the same for the same finding of the same run.
    already: name of an earlier report of this host and category; unverified: why it is not known to hold still."""

    node: Node
    run: str
    finding: Finding
    category: str
    host: str
    name: str
    properties: Mapping[str, Any]
    already: str = ""
    unverified: str = ""
    sent: bool = False
    insights: tuple[Insight, ...] = field(default_factory=tuple)

    @property
    def body(self) -> dict[str, Any]:
        """Exactly what is put."""
        return {"properties": dict(self.properties)}

    @property
    def ended(self) -> bool:
        return any(one.last for one in self.insights)


def make_report(
    loaded: Loaded,
    name: str,
    clients: AzureClients,
    *,
    check: str = "",
    category: str = "",
    record: Path | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Report:
    """The report of the node's worst finding in the last run that asked it, or of `check`'s. Raises NdctlError: 4 when
    there is nothing to report or it may no longer hold, 2 for words that are none."""
    from ndctl.workflow.nodes import discover

    if category and not is_category(category if category.startswith(PREFIX) else PREFIX + category):
        known = ", ".join(categories().known)
        raise NdctlError(
            "report.category",
            f"{category} is no category of Azure's",
            hint=f"there are: {known}",
            exit_code=ExitCode.USAGE,
        )
    cluster = discover(loaded, clients)
    (node,) = named_nodes(cluster, [name])
    with closing(Store(record, create=False)) as store:
        run, result = _last_run(store, loaded, name)
        finding = _finding(run, name, check)
        boot = store.raw_one(run.id, name, commands.IDENTITY.id)
    told = category if category.startswith(PREFIX) or not category else PREFIX + category
    told = told or category_of(finding)
    if not told:
        raise _refused("report.no-category", f"{finding.check} belongs to no category", "name one: --category …")
    if not result.physical_host or not result.vm_id:
        lacking = "PhysicalHostName" if not result.physical_host else "VM id"
        raise _refused(
            "report.identifiers",
            f"{name}: run {run.id} did not read its {lacking}, without which Azure takes no report",
            f"ndctl validate {loaded.path} --nodes {name} --level quick",
        )
    old = key_values.parse(boot.stdout).get("boot_id", "") if boot else ""
    unverified = _still_holds(loaded, part_of(cluster, [node]), node, run, result, old, clients)
    mark = uuid.uuid5(uuid.NAMESPACE_URL, f"{result.physical_host}|{told}|{run.id}")
    report = Report(
        node,
        run.id,
        finding,
        told,
        result.physical_host,
        str(mark),
        _properties(node, run, result, finding, told, stamp(now())),
        unverified=unverified,
    )
    earlier = _reports(loaded).get(f"{report.host}|{told}", {}).get("name", "")
    from dataclasses import replace

    return replace(report, already=str(earlier))


def send(
    loaded: Loaded,
    report: Report,
    clients: AzureClients,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Report:
    """Put it, unless this host was reported in this category before: by this state folder, or by anybody in the
    subscription. Raises NdctlError."""
    from dataclasses import replace

    from ndctl.azure.impact import list_reports, put_report, refuse_unregistered

    with clients.telling(f"reporting {report.node.name}"):
        refuse_unregistered(clients)
        already = report.already or _known_to_azure(list_reports(clients), report)
        if already:
            return replace(report, already=already)
        put_report(clients, report.name, report.properties)
    path = cluster_dir(loaded.inventory, loaded.path) / "reports.json"
    kept = _reports(loaded)
    kept[f"{report.host}|{report.category}"] = {
        "name": report.name,
        "node": report.node.name,
        "run": report.run,
        "at": stamp(now()),
    }
    write_private(path, json.dumps(kept, indent=1, sort_keys=True) + "\n")
    return replace(report, sent=True)


def follow(
    report: Report,
    clients: AzureClients,
    *,
    wait_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Report:
    """Ask what Azure makes of it until it says its last word or `wait_s` passed."""
    from dataclasses import replace

    from ndctl.azure.impact import insights

    until = clock() + wait_s
    while True:
        with clients.telling(f"asking what became of the report of {report.node.name}"):
            report = replace(report, insights=insights(clients, report.already or report.name))
        if report.ended or clock() >= until:
            return report
        sleep(ASK_EVERY_S / clients.cloud.speed)


def _last_run(store: Store, loaded: Loaded, node: str) -> tuple[Run, NodeResult]:
    cluster = loaded.inventory.cluster
    for line in store.runs(200):
        if cluster in line.clusters and line.finished:
            run = store.load(line.id)
            for rack in run.racks:
                for one in rack.nodes:
                    if rack.cluster == cluster and one.name == node:
                        return run, one
    raise _refused(
        "report.no-run", f"no recorded run asked {node}", f"ndctl validate {loaded.path} --nodes {node} --level quick"
    )


def _finding(run: Run, node: str, check: str) -> Finding:
    """A failure of the node's own that nothing else explains; one that wants its host replaced before others."""
    failed = [
        one
        for rack in run.racks
        for one in rack.findings
        if one.node == node and one.status is Status.FAIL and (not check or belongs(one.check, check))
    ]
    roots = [one for one in failed if not one.caused_by]
    if not roots:
        what = f"no failure of {check}" if check else "no failure"
        why = f", only what {failed[0].caused_by} explains" if failed else ""
        raise _refused(
            "report.nothing", f"run {run.id} found {what} on {node}{why}", f"ndctl report {run.id} shows what it found"
        )
    return min(roots, key=lambda one: (one.action is not Action.REPLACE_AND_REPORT, -len(one.explains), one.check))


def _still_holds(
    loaded: Loaded, cluster: Any, node: Node, run: Run, result: NodeResult, boot_id: str, clients: AzureClients
) -> str:
    """ "" when the VM is known to run as it did in the run, else why that is not known. Raises NdctlError (exit 4)."""
    from ndctl.workflow.jump_hosts import learn_jump_host
    from ndctl.workflow.nodes import learn_host_keys
    from ndctl.workflow.transport import open_transport

    again = f"ndctl validate {loaded.path} --nodes {node.name}"

    def old(what: str) -> NdctlError:
        return _refused("report.too-old", f"{node.name} {what} since run {run.id}: its finding may be over", again)

    if node.vm_id != result.vm_id:
        raise old("was replaced")
    entry = Repairs(cluster_dir(loaded.inventory, loaded.path)).get(node.name)
    if entry is not None and not entry.action.on_the_node and max(entry.began, entry.ended) > run.finished:
        raise old(f"was repaired ({entry.action.value})")
    learn_host_keys(loaded, cluster, clients=clients)
    learn_jump_host(loaded, clients)
    with closing(open_transport(loaded, cluster, 1)) as transport:
        answer = transport.ask({node: [commands.IDENTITY, commands.PHYSICAL_HOST]})[node]
    if not answer.outcome.ok:
        return f"it does not answer now ({answer.outcome.kind.value}), so a reboot since run {run.id} would not be seen"
    now_boot = key_values.parse(answer.results[commands.IDENTITY.id].stdout).get("boot_id", "")
    if boot_id and now_boot and boot_id != now_boot:
        raise old("was rebooted")
    hosts = answer.results[commands.PHYSICAL_HOST.id].stdout.split()
    if hosts and hosts[-1] != result.physical_host:
        raise old(f"moved to host {hosts[-1]}")
    return "" if boot_id and now_boot else "its boot id could not be read, so a reboot since would not be seen"


def _properties(
    node: Node, run: Run, result: NodeResult, finding: Finding, category: str, reported: str
) -> dict[str, Any]:
    more: dict[str, Any] = {"PhysicalHostName": result.physical_host, "VmUniqueId": result.vm_id}
    serial, place = _SERIAL.search(finding.subject), _PCI.search(finding.subject)
    if serial:
        more |= {"Manufacturer": "Nvidia", "SerialNumber": serial[1]}
    if place:
        more["Location"] = place[1]
    measured = f"; measured {finding.value} {finding.unit}".rstrip() if finding.value is not None else ""
    expected = f", expected {finding.expected}" if finding.expected else ""
    return {
        "startDateTime": run.started,
        "reportedTimeUtc": reported,
        "impactCategory": category,
        "impactDescription": f"{finding.subject}: {finding.message}{measured}{expected} ({finding.check})"[:1000],
        "impactedResourceId": node.resource_id,
        "additionalProperties": more,
    }


def _known_to_azure(reports: list[dict[str, Any]], report: Report) -> str:
    for one in reports:
        told = one.get("properties") or {}
        host = (told.get("additionalProperties") or {}).get("PhysicalHostName", "")
        if host == report.host and told.get("impactCategory") == report.category:
            return str(one.get("name", ""))
    return ""


def _reports(loaded: Loaded) -> dict[str, dict[str, str]]:
    """host|category -> its report. Unreadable counts as empty: what Azure lists is asked as well."""
    try:
        told = json.loads((cluster_dir(loaded.inventory, loaded.path) / "reports.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _refused(code: str, message: str, hint: str) -> NdctlError:
    return NdctlError(code, message, hint=hint, exit_code=ExitCode.PREFLIGHT)
