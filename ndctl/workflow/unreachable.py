"""SSH does not answer: whether the VM is dead, its SSH server is broken, or the network is cut.

Asked is ARM, which sees the VM whatever its network does, and by Run Command the VM itself. What nobody tells stays
unknown: a VM is called dead only when neither its agent nor Run Command answers.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ndctl.checks.commands import IDENTITY
from ndctl.model.answers import Outcome, OutcomeKind
from ndctl.model.findings import Finding
from ndctl.model.places import Cluster, Node
from ndctl.model.status import Action, Status
from ndctl.workflow.unreachable_script import login_key, probe_script, troubles

if TYPE_CHECKING:
    from ndctl.azure.clients import AzureClients
    from ndctl.inventory.loader import Loaded
    from ndctl.workflow.transport import Transport

DIAGNOSIS_SCHEMA = "ndctl.diagnosis/1"
RUN_COMMAND_S = 120.0
_HOST_KEY = (OutcomeKind.HOST_KEY_CHANGED, OutcomeKind.HOST_KEY_UNKNOWN)


class Why(StrEnum):
    """What stands between this machine and a node."""

    ANSWERS = "answers"
    VM_GONE = "vm-gone"
    VM_STOPPED = "vm-stopped"
    VM_DEAD = "vm-dead"
    SSHD_BROKEN = "sshd-broken"
    NETWORK_CUT = "network-cut"
    HOST_KEY = "host-key"
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """said: one line for a person; signs: what it rests on; texts: raw answers by name, for the evidence."""

    node: Node
    why: Why
    said: str
    signs: tuple[str, ...] = ()
    do: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def dead(self) -> bool:
        """Nothing can run on it."""
        return self.why in (Why.VM_GONE, Why.VM_STOPPED, Why.VM_DEAD)

    def finding(self) -> Finding:
        """Unknown, since a silent node is neither healthy nor broken; what is seen to be broken fails."""
        check = f"host.reachable.{self.why.value}"
        if self.why is Why.ANSWERS:
            return Finding(
                check="host.reachable", status=Status.PASS, subject="SSH", message="answered", node=self.node.name
            )
        seen = self.why in (Why.VM_STOPPED, Why.VM_DEAD, Why.VM_GONE, Why.SSHD_BROKEN)
        return Finding(
            check=check,
            status=Status.FAIL if seen else Status.UNKNOWN,
            subject="SSH",
            node=self.node.name,
            message=self.said,
            cause="; ".join(self.signs),
            action=_ACTION.get(self.why, Action.INVESTIGATE),
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "node": self.node.name,
            "instance_id": self.node.instance_id,
            "why": self.why.value,
            "said": self.said,
            "signs": list(self.signs),
            "do": list(self.do),
        }


_ACTION = {Why.VM_DEAD: Action.REBOOT, Why.VM_STOPPED: Action.REBOOT, Why.SSHD_BROKEN: Action.REIMAGE}


def diagnose(
    loaded: Loaded,
    cluster: Cluster,
    nodes: Sequence[Node],
    clients: AzureClients,
    transport: Transport,
    *,
    run_command_s: float = RUN_COMMAND_S,
) -> dict[str, Diagnosis]:
    """Node name -> why it does not answer; a node that answers is told, too. Raises NdctlError when ARM is silent."""
    import threading

    from ndctl.workflow.side_by_side import side_by_side

    mates = [mate for mate in (_mate(cluster, node, nodes) for node in nodes) if mate is not None]
    answers = transport.ask({node: [IDENTITY] for node in dict.fromkeys([*nodes, *mates])})
    silent = [node for node in nodes if not answers[node].outcome.ok]
    found = {node.name: Diagnosis(node, Why.ANSWERS, "answers by SSH") for node in nodes if node not in silent}

    def look(node: Node) -> Diagnosis:
        mate = _mate(cluster, node, nodes)
        beside = answers[mate].outcome.ok if mate is not None else None
        return _look(loaded, node, answers[node].outcome, beside, clients, run_command_s)

    with clients.telling(f"asking Azure about {', '.join(node.name for node in silent[:3])}"):
        read = side_by_side(silent, look, workers=8, stop=threading.Event(), grace_s=0.2)
    if read.interrupted:
        raise KeyboardInterrupt
    return found | {node.name: read.results[index] for index, node in enumerate(silent)}


def _mate(cluster: Cluster, node: Node, asked: Sequence[Node]) -> Node | None:
    """Another node of its rack: whether that one answers tells the way there from the node."""
    rack = next((rack for rack in cluster.racks if rack.name == node.rack), None)
    names = {one.name for one in asked}
    return next((one for one in rack.nodes if one.name not in names and one.address), None) if rack else None


def _look(
    loaded: Loaded, node: Node, outcome: Outcome, beside: bool | None, clients: AzureClients, run_command_s: float
) -> Diagnosis:
    from ndctl.azure.repair import machine_view
    from ndctl.azure.whatif import split_id
    from ndctl.model.jsonable import dumps

    inventory = shlex.quote(str(loaded.path))
    ssh = f"SSH: {outcome.kind.value}" + (f", {outcome.detail}" if outcome.detail else "")
    if outcome.kind in _HOST_KEY:
        do = (f"ndctl validate {inventory} --nodes {node.name} --relearn-host-keys",)
        return Diagnosis(node, Why.HOST_KEY, "answers with a host key that is not the one known", (ssh,), do)
    scale_set = split_id(node.resource_id)[1].partition("/")[0]
    view = machine_view(clients, scale_set, node.instance_id)
    repair = f"ndctl repair {inventory} {node.name} --action"
    if view is None:
        return Diagnosis(node, Why.VM_GONE, "there is no such VM any more", (ssh,), (f"{repair} replace",))
    texts = {"arm-instance-view": dumps(view.raw)}
    agent = f"VM agent: {view.agent or 'not told'}" + (f", {view.agent_said}" if view.agent_said else "")
    signs: tuple[str, ...] = (ssh, f"Azure: {view.provisioning or 'not told'}, power {view.power or 'not told'}", agent)
    if view.power and view.power != "running":
        start = f"az vmss start -g {clients.resource_group} -n {scale_set} --instance-ids {node.instance_id}"
        return Diagnosis(node, Why.VM_STOPPED, f"the VM is {view.power}", signs, (start,), texts)
    key = login_key(loaded)
    script = probe_script(loaded.inventory.ssh.user, node.port, key)
    told, problem, text = _run(clients, scale_set, node.instance_id, script, run_command_s)
    if text:
        texts["run-command-ssh"] = text
    if told is None:
        signs = (*signs, f"Run Command: {problem}")
        if view.agent_ready:
            said = "Run Command gives no answer though the VM's agent is Ready: not known whether the VM is at fault"
            return Diagnosis(
                node, Why.UNTOLD, said, signs, (f"ndctl diagnose {inventory} {node.name}   (again)",), texts
            )
        said = "the VM is dead or hangs: neither SSH, its agent nor Run Command answers"
        return Diagnosis(
            node, Why.VM_DEAD, said, signs, (f"{repair} reboot", f"{repair} redeploy   (if that does not help)"), texts
        )
    found = troubles(told, outcome.kind, key_known=bool(key))
    signs = (*signs, "Run Command: works, so the VM runs")
    if found:
        said = f"the VM runs, its SSH server is broken: {found[0]}"
        return Diagnosis(node, Why.SSHD_BROKEN, said, (*signs, *found), (f"{repair} reimage   (a new disk)",), texts)
    if outcome.kind in (OutcomeKind.REFUSED, OutcomeKind.UNREACHABLE, OutcomeKind.TIMED_OUT):
        rules, raw = _rules(clients, scale_set, node)
        return _cut(loaded, node, beside, (*signs, *rules), {**texts, **raw})
    said = "the VM and its SSH server work as far as can be seen from inside"
    return Diagnosis(node, Why.UNTOLD, said, signs, (f"ndctl diagnose {inventory} {node.name}   (again)",), texts)


def _cut(
    loaded: Loaded, node: Node, beside: bool | None, signs: tuple[str, ...], texts: Mapping[str, str]
) -> Diagnosis:
    signs = (*signs, "on the VM itself its SSH server answers")
    said = "the network is cut: the VM and its SSH server work, and nothing comes through from here"
    rules = f"TCP {node.port} to {node.address}"
    if beside:
        signs = (*signs, "another node of its rack answers by the same way")
        do = (
            f"look for a rule or route of this one VM: network security group of its interface, {rules}; its firewall",
        )
    else:
        if beside is not None:
            signs = (*signs, "another node of its rack does not answer, either")
        way = f"jump host {', '.join(loaded.inventory.ssh.jump)}, " if loaded.inventory.ssh.jump else ""
        do = (f"look at the way there: {way}network security group and route table of the subnet, {rules}",)
    return Diagnosis(node, Why.NETWORK_CUT, said, signs, do, texts)


def _rules(clients: AzureClients, scale_set: str, node: Node) -> tuple[tuple[str, ...], dict[str, str]]:
    """(what the rules of its subnet say, raw text): told where they may be read, and judged by nobody here."""
    from azure.core.exceptions import AzureError

    from ndctl.azure.faults import fault_from_exception
    from ndctl.azure.subnet_rules import subnet_rules
    from ndctl.model.jsonable import dumps

    try:
        found = subnet_rules(clients, scale_set, node.instance_id, node.port)
    except AzureError as error:
        fault = fault_from_exception(error)
        return (f"rules of its subnet: not to be read ({fault.innermost_code or fault.code})",), {}
    return found.lines, {"arm-subnet-rules": dumps(found.raw)} if found.raw else {}


def _run(
    clients: AzureClients, scale_set: str, instance_id: str, script: str, deadline_s: float
) -> tuple[dict[str, str] | None, str, str]:
    """(what the script told, else why it did not, raw text)."""
    from azure.core.exceptions import AzureError

    from ndctl.azure.faults import fault_from_exception
    from ndctl.azure.run_command import run_command
    from ndctl.checks.azure_errors import FaultClass
    from ndctl.model.errors import NdctlError
    from ndctl.parse import key_values

    try:
        output = run_command(clients, scale_set, instance_id, script, deadline_s)
    except AzureError as error:
        fault = fault_from_exception(error)
        if fault.fault_class in (FaultClass.AUTH, FaultClass.PERMISSION):
            raise  # says something of who asks, nothing of the VM
        return None, f"{fault.innermost_code or fault.code}: {fault.innermost_message}"[:300], ""
    except NdctlError as error:
        return None, error.message, ""
    told = key_values.parse(output.stdout)
    if told.get("end") != "1":
        return None, "its answer breaks off", output.stdout + output.stderr
    return told, "", output.stdout
