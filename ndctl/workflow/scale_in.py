"""Fewer racks: which ones go, whether anybody still uses them, and what is refused.

The highest numbers go, so that the names of the others stay. Nothing is deleted here: the plan is one of destroy's,
which can only hold resources that carry the cluster's tags and the tag of a rack that goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ndctl.azure.blocks import Block, list_blocks
from ndctl.azure.clients import AzureClients
from ndctl.azure.resources import GroupContents, list_group
from ndctl.jobs.occupancy import ASKED_FIRST, Use, occupancy
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import Cluster, Node
from ndctl.report.fold import node_set
from ndctl.workflow.destroy import DestroyPlan
from ndctl.workflow.live import live_racks
from ndctl.workflow.transport import Transport, open_transport

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

FANOUT = 64
Opener = Callable[["Loaded", Cluster, int], Transport]


@dataclass(frozen=True, slots=True)
class Leaving:
    """standing: how many racks there are now, those that go among them; racks: names of those that go;
    vms: rack -> how many VMs it has; plan: exactly what will be deleted."""

    standing: int
    racks: tuple[str, ...]
    vms: Mapping[str, int]
    plan: DestroyPlan


def leaving(loaded: Loaded, racks: int, clients: AzureClients) -> Leaving:
    """What stands beyond `racks`. Raises NdctlError: 4 when a block that would go holds VMs of others."""
    cluster = loaded.inventory.cluster
    with clients.telling(f"listing resource group {clients.resource_group}"):
        group = list_group(clients, cluster)
        blocks = list_blocks(clients, cluster)
    live = live_racks(clients, cluster)
    goes = tuple(one for one in group.ours if _number(one.rack) > racks)
    names = tuple(sorted({one.rack for one in goes}, key=_number))
    _refuse_used_by_others([block for block in blocks if block.rack in names], {one.id.casefold() for one in goes})
    # Not `created_by_ndctl`: whatever else happens, the group itself stays.
    contents = GroupContents(group.exists, False, goes, ())
    plan = DestroyPlan(cluster, str(loaded.path), clients.resource_group, contents)
    standing = len({rack for rack in live if _number(rack)} | set(names))
    vms = {rack: len(live[rack].instances) if rack in live else 0 for rack in names}
    return Leaving(standing, names, vms, plan)


def refuse_in_use(
    loaded: Loaded, cluster: Cluster, *, learn: Callable[[Loaded, Cluster], object], opener: Opener = open_transport
) -> None:
    """Ask every node of `cluster` who uses it. Raises NdctlError (exit 4) unless all are idle or drained.

    A node that gives no answer is not known to be idle: it is named, and `--force` is the way past it.
    """
    there = [node for node in cluster.nodes if node.address]
    if not there:
        return
    learn(loaded, cluster)
    with closing(opener(loaded, cluster, FANOUT)) as transport:
        answers = transport.ask(dict.fromkeys(there, ASKED_FIRST))
    why: dict[str, list[str]] = {}
    for node in there:
        said = _in_use(node, answers)
        if said:
            why.setdefault(said, []).append(node.name)
    if why:
        told = "; ".join(f"{node_set(nodes)}: {said}" for said, nodes in why.items())
        raise NdctlError(
            "scale.in-use",
            f"nodes of the racks that would go are in use, or do not say that they are idle: {told}",
            hint="drain them first; --force deletes them all the same",
            exit_code=ExitCode.PREFLIGHT,
        )


def _in_use(node: Node, answers: Mapping[Node, object]) -> str:
    from ndctl.model.answers import NodeAnswer

    answer = answers.get(node)
    if not isinstance(answer, NodeAnswer) or not answer.outcome.ok:
        return f"no answer ({answer.outcome.kind.value})" if isinstance(answer, NodeAnswer) else "no answer"
    told = occupancy(answer)
    return "" if told.use is Use.FREE else told.said or told.use.value


def _refuse_used_by_others(blocks: list[Block], going: set[str]) -> None:
    for block in blocks:
        others = [vm for vm in block.vms if vm.casefold().partition("/virtualmachines/")[0] not in going]
        if others:
            raise NdctlError(
                "scale.block-in-use",
                f"interconnect block {block.name} also holds {len(others)} VMs that would stay: {others[0]}",
                hint="delete or move those first; nothing was changed",
                exit_code=ExitCode.PREFLIGHT,
            )


def _number(rack: str) -> int:
    """0 for what is no rack's: it never goes."""
    digits = rack.removeprefix("rack")
    return int(digits) if rack.startswith("rack") and digits.isdigit() else 0
