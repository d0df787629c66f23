"""What to do about a finding, in words and commands a person can copy. Only commands that exist are named."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ndctl.model.findings import Finding, NodeResult, RackResult, Run
from ndctl.model.places import split_node_name
from ndctl.model.status import Action, Status, Verdict
from ndctl.report.fold import node_set
from ndctl.report.words import BAD, rank

_ON_THE_NODE = {
    Action.RESET_GPU: "sudo nvidia-smi --gpu-reset",
    Action.RESTART_IMEX: "sudo systemctl restart nvidia-imex",
    Action.REBOOT: "sudo systemctl reboot",
}
_IN_AZURE = {Action.REIMAGE: "reimage", Action.REDEPLOY: "redeploy", Action.REPLACE_AND_REPORT: "replace"}
# With no inventory at hand, as when a pasted text is judged.
IN_WORDS = {
    Action.WATCH: "look again later; a warning that comes back is a fault",
    **{action: f"drain the node, then on it: {command}" for action, command in _ON_THE_NODE.items()},
    Action.REIMAGE: "drain the node, then reimage its VM",
    Action.REDEPLOY: "drain the node, then redeploy its VM to another host",
    Action.REPLACE_AND_REPORT: "drain the node, report its host to Azure and replace the VM",
    Action.FIX_IMAGE: "mend or change the image",
    Action.FIX_INVENTORY: "mend the inventory or the configuration",
    Action.INVESTIGATE: "look closer before anything is changed",
}


def inventory_of(run: Run, cluster: str) -> str:
    """The inventory file of a cluster of this run, quoted for a shell; INVENTORY when the run names none."""
    path = next((str(one.get("path", "")) for one in run.inventories if one.get("cluster") == cluster), "")
    return shlex.quote(path) if path else "INVENTORY"


def validate_again(inventory: str, nodes: Sequence[str], more: str = "") -> str:
    """The command that asks the whole racks of these nodes: only a whole rack can be accepted."""
    numbers = {place[0] for name in nodes if (place := split_node_name(name))}
    chosen = f" --rack {','.join(map(str, sorted(numbers)))}" if numbers else ""
    return f"ndctl validate {inventory}{chosen}{more}"


def do(finding: Finding, nodes: Sequence[str], inventory: str, known: Mapping[str, NodeResult]) -> str:
    """The action of a finding about `nodes`, "" for none.

    inventory: quoted path, see `inventory_of`
    known:     node name -> its result, for the ids Azure knows it by
    """
    action = finding.action
    again = validate_again(inventory, nodes)
    if action is Action.WATCH:
        return f"watch it: {again} --level quick"
    if command := _ON_THE_NODE.get(action):
        where = "on each of them" if len(nodes) > 1 else "on it" if nodes else "on its nodes"
        return f"drain, then {where}: {command}; then: {again}"
    if word := _IN_AZURE.get(action):
        ids = [known[name].instance_id for name in nodes if name in known and known[name].instance_id]
        if len(ids) == len(nodes) and ids:
            what = f"instance{'s' if len(ids) > 1 else ''} {', '.join(ids)} of the scale set"
        else:
            what = "the VM" if len(nodes) < 2 else "the VMs"
        report = "report the host to Azure, " if action is Action.REPLACE_AND_REPORT else ""
        return f"drain, {report}{word} {what}; then: {again}"
    if action is Action.INVESTIGATE and nodes:
        report = f"report it as {finding.health_category}" if finding.health_category else "report it"
        return f"drain, ask again: {again}; if it stays, {report}"
    if action is Action.FIX_IMAGE:
        return f"mend or change the image that {inventory} names"
    if action is Action.FIX_INVENTORY:
        return f"mend what differs from the inventory: ndctl inventory show {inventory}"
    return IN_WORDS.get(action, "")


def azure_report(finding: Finding, nodes: Sequence[str], known: Mapping[str, NodeResult]) -> str:
    """What Azure asks for when a part of a node is reported: category, VM id, host. "" where nothing is to report."""
    node = known.get(nodes[0]) if len(nodes) == 1 else None
    if finding.status is not Status.FAIL or not finding.health_category or node is None:
        return ""
    ids = [f"VM {node.vm_id}" if node.vm_id else "", f"host {node.physical_host}" if node.physical_host else ""]
    return f"{finding.health_category}   {', '.join(filter(None, ids)) or 'VM id and host are not known'}"


def next_commands(run: Run) -> list[str]:
    """What to type next, most urgent first; nothing when all is well."""
    commands = []
    silent: dict[str, list[str]] = {}
    for rack in run.racks:
        silent.setdefault(rack.cluster, []).extend(unanswered(rack))
    for cluster, nodes in silent.items():
        if nodes:
            again = f"ndctl validate {inventory_of(run, cluster)} --nodes {shlex.quote(node_set(nodes))} --level quick"
            commands.append(f"{again}   (asks again who did not answer)")
    if word := to_explain(run):
        commands.append(f"ndctl explain {word}   (what it means, false alarms, what to do)")
    if any(rack.verdict is not Verdict.ACCEPTED for rack in run.racks):
        commands.append(f"ndctl report {run.id} -o json   (all findings; their raw text: --raw NODE/COMMAND)")
    return commands


def to_explain(run: Run) -> str:
    """The id of the finding a person should read of first: the worst root cause that has a page; "" for none."""
    from ndctl.checks.pages import has_page
    from ndctl.checks.verdict import REACHABLE

    standing = [f for rack in run.racks for f in rack.findings if f.status in BAD and not f.caused_by]
    # That a node gave no answer explains itself, and it is asked again anyway.
    told = [finding for finding in standing if finding.check != REACHABLE and has_page(finding.check)]
    first = min(told, key=lambda finding: (rank(finding.status), -len(finding.explains)), default=None)
    return first.check if first else ""


def unanswered(rack: RackResult) -> list[str]:
    return [node.name for node in rack.nodes if node.outcome != "ok"]
