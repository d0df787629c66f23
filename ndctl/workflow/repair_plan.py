"""What a repair would do, after everything that could forbid it was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ndctl.inventory.loader import Loaded
from ndctl.jobs.lease import LOOK
from ndctl.model.answers import NodeAnswer
from ndctl.model.errors import NdctlError
from ndctl.model.places import Cluster, Node
from ndctl.workflow.named_nodes import part_of
from ndctl.workflow.nodes import discover, learn_host_keys
from ndctl.workflow.repair_lease import lease_token, refuse_tested, testers
from ndctl.workflow.repair_refusals import (
    QUESTIONS,
    RepairRequest,
    Target,
    find_targets,
    refuse_in_use,
    refuse_off_azure,
    refuse_protected,
    refuse_silent,
    refuse_too_many,
)
from ndctl.workflow.repair_result import REPAIR_SCHEMA
from ndctl.workflow.repair_state import Repairs, seen_well
from ndctl.workflow.state_dir import cluster_dir
from ndctl.workflow.transport import Transport, open_transport

if TYPE_CHECKING:
    from ndctl.azure.clients import AzureClients
    from ndctl.model.findings import Run
    from ndctl.workflow.unreachable import Diagnosis

_RUNS_LOOKED_AT = 20
Opener = Callable[[Loaded, Cluster, int], Transport]


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What would be done. counted: nodes that other repairs keep away; diagnoses: of targets that do not answer;
    leased: nodes of their racks that answer and are kept from others' tests meanwhile, under `token`."""

    loaded: Loaded
    request: RepairRequest
    cluster: Cluster
    targets: tuple[Target, ...]
    counted: Mapping[str, str] = field(default_factory=dict)
    diagnoses: Mapping[str, Diagnosis] = field(default_factory=dict)
    leased: tuple[Node, ...] = ()
    token: str = ""

    def lines(self) -> list[str]:
        """What will be touched, for a person."""
        action = self.request.action.value
        lines = [f"{self.cluster.name}: {action} of {len(self.targets)} of {len(self.cluster.nodes)} nodes"]
        for one in self.targets:
            who = f"instance {one.node.instance_id}, vm {one.node.vm_id}" if one.node.instance_id else one.node.address
            lines.append(f"  {one.node.name}  {who or 'no VM'}   {one.use}")
            if one.going_on is not None:
                began = f"{one.going_on.began} by {one.going_on.by}"
                lines.append(
                    f"    goes on with the {action} begun at {began}, which came to: {one.going_on.phase.value}"
                )
        lines += [f"  counted against the limit: {name} ({why})" for name, why in sorted(self.counted.items())]
        return lines

    def as_dict(self) -> dict[str, Any]:
        """What a dry run prints for machines."""
        return {
            "schema": REPAIR_SCHEMA,
            "cluster": self.cluster.name,
            "inventory": str(self.request.path),
            "action": self.request.action.value,
            "dry_run": True,
            "nodes": [
                {"node": one.node.name, "instance_id": one.node.instance_id, "vm_id": one.node.vm_id, "use": one.use}
                for one in self.targets
            ],
            "counted": dict(sorted(self.counted.items())),
        }


def plan_repair(
    loaded: Loaded,
    request: RepairRequest,
    clients: AzureClients | None,
    *,
    open_transport: Opener = open_transport,
) -> RepairPlan:
    """Everything that can be refused is refused here; nothing is changed. Raises NdctlError: 4 refused, 2 usage."""
    from ndctl.workflow.jump_hosts import learn_jump_host

    refuse_off_azure(loaded, request.action)
    refuse_protected(loaded, request.action)
    folder = cluster_dir(loaded.inventory, loaded.path)
    repairs, token = Repairs(folder), lease_token(folder)
    cluster = discover(loaded, clients)
    targets = find_targets(cluster, request, repairs)
    counted = {
        name: why
        for name, why in repairs.open(seen_well(_runs(loaded, request))).items()
        if name not in {one.node.name for one in targets}
    }
    refuse_too_many(cluster, targets, request, counted)
    alive = [one.node for one in targets if not one.gone]
    racks = {one.node.rack for one in targets}
    beside = [node for node in cluster.nodes if node.rack in racks and node.address and node not in alive]
    learn_host_keys(loaded, part_of(cluster, [*alive, *beside]), clients=clients)
    learn_jump_host(loaded, clients)
    answers: Mapping[Node, NodeAnswer] = {}
    diagnoses: Mapping[str, Diagnosis] = {}
    if alive or beside:
        with closing(open_transport(loaded, cluster, 32)) as transport:
            asked = dict.fromkeys(beside, (LOOK,)) | dict.fromkeys(alive, (*QUESTIONS, LOOK))
            answers = transport.ask(asked)
            if not request.force:
                refuse_tested(testers(answers, token))
            refuse_silent(loaded, targets, answers, request)
            silent = [node for node in alive if not answers[node].outcome.ok]
            if silent and clients is not None:
                from ndctl.workflow.unreachable import diagnose

                diagnoses = diagnose(loaded, cluster, silent, clients, transport)
    told = refuse_in_use(targets, answers, diagnoses, request)
    leased = tuple(node for node in (*alive, *beside) if answers[node].outcome.ok)
    return RepairPlan(loaded, request, cluster, tuple(told), counted, diagnoses, leased, token)


def _runs(loaded: Loaded, request: RepairRequest) -> dict[str, Run]:
    """The newest recorded runs of this cluster."""
    from ndctl.record.store import Store

    try:
        store = Store(request.record, create=False)
    except NdctlError:
        return {}  # no record yet
    with closing(store):
        name = loaded.inventory.cluster
        lines = [one for one in store.runs(_RUNS_LOOKED_AT) if name in one.clusters and one.finished]
        return {one.id: store.load(one.id) for one in lines}
