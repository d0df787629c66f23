"""What to do about a finding, in words and commands a person can copy. Only commands that exist are named."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ndctl.checks.health_categories import category_of
from ndctl.model.findings import Finding, NodeResult, RackResult, Run
from ndctl.model.places import split_node_name
from ndctl.model.status import Action, Status, Verdict
from ndctl.report.fold import node_set
from ndctl.report.silent_nodes import do_about_silence
from ndctl.report.words import BAD, rank

_ON_THE_NODE = {
    Action.RESET_GPU: "sudo nvidia-smi --gpu-reset",
    Action.RESTART_IMEX: "sudo systemctl restart nvidia-imex",
    Action.REBOOT: "sudo systemctl reboot",
}
_IN_AZURE = {Action.REIMAGE: "reimage", Action.REDEPLOY: "redeploy", Action.REPLACE_AND_REPORT: "replace"}
# What `ndctl repair --action` calls it; over SSH it can be done off Azure, too.
_REPAIRS = {**{action: action.value for action in _ON_THE_NODE}, **_IN_AZURE}
_DIAGNOSED = 4  # nodes named in one command
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
    if (silent := do_about_silence(finding, nodes, inventory, known)) is not None:
        return silent
    action = finding.action
    again = validate_again(inventory, nodes)
    if action is Action.WATCH:
        return f"watch it: {again} --level quick"
    if (word := _REPAIRS.get(action)) and nodes and (action in _ON_THE_NODE or _in_azure(nodes[0], known)):
        report = "report the host first (below), " if azure_report(finding, nodes, inventory, known) else ""
        replaced = report if action is Action.REPLACE_AND_REPORT else ""
        more = f"   (the same for {node_set(nodes[1:])}, one node of a rack at a time)" if nodes[1:] else ""
        return f"drain, {replaced}then: ndctl repair {inventory} {nodes[0]} --action {word}{more}"
    if command := _ON_THE_NODE.get(action):
        return f"drain, then on its nodes: {command}; then: {again}"
    if word := _IN_AZURE.get(action):
        report = "report it, " if action is Action.REPLACE_AND_REPORT else ""
        return f"drain, {report}{word} the {'machine' if nodes else 'VM'}{'s' if len(nodes) > 1 else ''}; then: {again}"
    if action is Action.INVESTIGATE and nodes:
        report = f"report it as {category_of(finding)}" if finding.health_category else "report it"
        return f"drain, ask again: {again}; if it stays, {report}"
    if action is Action.FIX_IMAGE:
        return f"mend or change the image that {inventory} names"
    if action is Action.FIX_INVENTORY:
        return f"mend what differs from the inventory: ndctl inventory show {inventory}"
    return IN_WORDS.get(action, "")


def azure_report(finding: Finding, nodes: Sequence[str], inventory: str, known: Mapping[str, NodeResult]) -> str:
    """What Azure asks for when a part of a node is reported: category, VM id, host, and the command that reports it
    where both are known. "" where nothing is to report, as off Azure."""
    node = known.get(nodes[0]) if len(nodes) == 1 else None
    category = category_of(finding) if finding.health_category else ""
    if finding.status is not Status.FAIL or not category or node is None:
        return ""
    if not node.vm_id and not node.physical_host:
        return f"{category}   VM id and host are not known" if node.instance_id else ""
    ids = [f"VM {node.vm_id}" if node.vm_id else "", f"host {node.physical_host}" if node.physical_host else ""]
    told = f"{category}   {', '.join(filter(None, ids))}"
    if not all(ids) or finding.caused_by:
        return told
    return f"{told}: ndctl report-node {inventory} {node.name} --finding {finding.check}"


def _in_azure(name: str, known: Mapping[str, NodeResult]) -> bool:
    return name in known and bool(known[name].instance_id)


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
            known = {node.name: node for rack in run.racks if rack.cluster == cluster for node in rack.nodes}
            if first := [name for name in nodes if _in_azure(name, known)][:_DIAGNOSED]:
                more = "why they do not answer" if len(first) > 1 else "why it does not answer"
                commands.append(f"ndctl diagnose {inventory_of(run, cluster)} {' '.join(first)}   ({more})")
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
