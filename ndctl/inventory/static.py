"""Static racks as the cluster that validation works on; nothing of it needs Azure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndctl.inventory.addresses import expand
from ndctl.model.places import Cluster, Node, Rack, node_name, rack_name

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded


def static_cluster(loaded: Loaded) -> Cluster:
    """Racks in the order of the file, nodes named by their place in the list: the third of rack 7 is rack07-n03.

    A rack is expected to have the nodes it lists. The cluster has no racks when the inventory has no 'static'.
    """
    port = loaded.inventory.ssh.port
    racks = []
    for listed in loaded.inventory.static or ():
        nodes = tuple(
            Node(node_name(listed.rack, place), rack_name(listed.rack), address=one.host, port=one.port or port)
            for place, one in enumerate(expand(listed.nodes), start=1)
        )
        racks.append(Rack(rack_name(listed.rack), listed.rack, expected_nodes=len(nodes), nodes=nodes))
    return Cluster(loaded.inventory.cluster, tuple(racks))
