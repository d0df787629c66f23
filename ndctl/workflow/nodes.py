"""The nodes of a cluster by name: from Azure and the state directory, or from a static inventory with no Azure."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ndctl.inventory.static import static_cluster
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import Cluster, Node, Rack, node_name, rack_name
from ndctl.workflow.places_file import rack_number, read_places, write_places
from ndctl.workflow.positions import Place, assign
from ndctl.workflow.side_by_side import side_by_side
from ndctl.workflow.state_dir import cluster_dir

if TYPE_CHECKING:
    from ndctl.azure.clients import AzureClients
    from ndctl.inventory.loader import Loaded

__all__ = ["NODES_SCHEMA", "discover", "keep_place", "learn_host_keys", "nodes_dict"]

NODES_SCHEMA = "ndctl.nodes/1"
_SCALE_SET_HOLDS = 100  # VMs of one placement group; the inventory takes no more either
READERS = 8


def discover(loaded: Loaded, clients: AzureClients | None = None) -> Cluster:
    """Every node that exists, by name; positions are stored, so a name keeps its VM.

    Racks of the inventory that are not deployed are there with no nodes. Racks live beyond the inventory's count are
    listed too, and expected to have what their scale set was asked for. Raises NdctlError (3 identity, 4 unreachable).
    """
    if loaded.inventory.static is not None:
        return static_cluster(loaded)
    from ndctl.azure.clients import connect

    if clients is not None:
        return _from_azure(loaded, clients)
    own = connect(loaded)
    try:
        return _from_azure(loaded, own)
    finally:
        own.close()


def keep_place(loaded: Loaded, rack: str, position: int, place: Place) -> None:
    """Write down who stands at a position from now on: a replacement takes the place of the VM it replaces, and no
    other place that happens to be free."""
    path = cluster_dir(loaded.inventory, loaded.path) / "nodes.json"
    stored = read_places(path, loaded.inventory.cluster, _most_positions(loaded))
    others = {at: one for at, one in stored.get(rack, {}).items() if one.instance_id != place.instance_id}
    stored[rack] = {**others, position: place}
    write_places(path, loaded.inventory.cluster, stored)


def learn_host_keys(
    loaded: Loaded, cluster: Cluster, *, relearn: bool = False, clients: AzureClients | None = None
) -> dict[str, str]:
    """See `workflow.host_keys.learn_host_keys`."""
    from ndctl.workflow.host_keys import learn_host_keys as learn

    return learn(loaded, cluster, relearn=relearn, clients=clients)


def nodes_dict(loaded: Loaded, cluster: Cluster) -> dict[str, Any]:
    """The published form."""
    return {
        "schema": NODES_SCHEMA,
        "cluster": cluster.name,
        "inventory": str(loaded.path),
        "racks": [
            {
                "name": rack.name,
                "expected_nodes": rack.expected_nodes,
                "nodes": [
                    {
                        "name": node.name,
                        "address": node.address,
                        "port": node.port,
                        "instance_id": node.instance_id,
                        "vm_id": node.vm_id,
                        "subgroup": node.subgroup,
                        "state": node.state,
                        "resource_id": node.resource_id,
                    }
                    for node in rack.nodes
                ],
            }
            for rack in cluster.racks
        ],
    }


def _from_azure(loaded: Loaded, clients: AzureClients) -> Cluster:
    from ndctl.azure.scale_sets import list_addresses
    from ndctl.workflow.live import live_racks

    inventory = loaded.inventory
    live = live_racks(clients, inventory.cluster)
    names = sorted(live)
    with clients.telling(f"reading the network interfaces of {inventory.cluster}"):
        read = side_by_side(
            names,
            lambda rack: list_addresses(clients, live[rack].scale_set.name),
            workers=READERS,
            stop=threading.Event(),
            grace_s=0.2,
        )
    if read.interrupted:
        raise KeyboardInterrupt
    addresses = {rack: read.results[index] for index, rack in enumerate(names)}
    folder = cluster_dir(inventory, loaded.path)
    stored = read_places(folder / "nodes.json", inventory.cluster, _most_positions(loaded))
    racks = []
    for number in sorted({*range(1, (inventory.racks or 0) + 1), *(_number(rack) for rack in names)}):
        rack = rack_name(number)
        here = live.get(rack)
        instances = here.instances if here else ()
        standing = assign(stored.get(rack, {}), instances)
        # A VM that is gone keeps its place on paper until another takes it: it may come back.
        stored[rack] = {**stored.get(rack, {}), **standing}
        by_id = {one.instance_id: one for one in instances}
        nodes = []
        for position, place in standing.items():
            one = by_id[place.instance_id]
            nodes.append(
                Node(
                    node_name(number, position),
                    rack,
                    address=addresses.get(rack, {}).get(one.instance_id, ""),
                    port=inventory.ssh.port,
                    instance_id=one.instance_id,
                    resource_id=one.resource_id,
                    vm_id=one.vm_id,
                    subgroup=one.subgroup,
                    state=_state(one.provisioning, one.power),
                )
            )
        wanted = number <= (inventory.racks or 0)
        expected = loaded.vms_per_rack if wanted else (here.scale_set.capacity if here else 0)
        racks.append(Rack(rack, number, expected, tuple(nodes)))
    write_places(folder / "nodes.json", inventory.cluster, stored)
    return Cluster(inventory.cluster, tuple(racks))


def _number(rack: str) -> int:
    number = rack_number(rack)
    if number is None:
        raise NdctlError(
            "nodes.rack-tag",
            f"a scale set carries the tag ndctl-rack={rack!r}, which is no rack's name",
            hint="ndctl writes that tag itself, as rack07; mend it or delete the scale set",
            exit_code=ExitCode.USAGE,
        )
    return number


def _state(provisioning: str, power: str) -> str:
    """ "running" for a healthy VM; otherwise what is amiss, e.g. "failed", "deallocated", "creating"."""
    if provisioning and provisioning != "succeeded":
        return f"{provisioning}, {power}" if power and power != "running" else provisioning
    return power


def _most_positions(loaded: Loaded) -> int:
    """Twice what a rack can hold: a replacement that is listed beside the VM that still goes takes a new position."""
    profile = loaded.profile
    a_rack = profile.vms_per_rack.value if profile.nvlink.domain.value == "rack" else _SCALE_SET_HOLDS
    return 2 * a_rack
