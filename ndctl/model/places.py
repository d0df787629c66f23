"""Node, Rack, Cluster: what there is, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NODE_NAME = re.compile(r"^rack(\d{2,})-n(\d{2,})$")


def rack_name(number: int) -> str:
    """rack07, rack64, rack100: two digits at least and never re-padded."""
    return f"rack{number:02d}"


def node_name(rack: int, position: int) -> str:
    """rack07-n03. `position` is a stored place in the rack, not an Azure instance id."""
    return f"{rack_name(rack)}-n{position:02d}"


def split_node_name(name: str) -> tuple[int, int] | None:
    """(rack number, position) of a name ndctl gave; None for a name it did not give."""
    match = _NODE_NAME.match(name)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Node:
    """One VM (or host) of a rack.

    address:       what SSH connects to; "" while Azure has given none
    instance_id:   scale set instance id, a string that has gaps and changes
    resource_id:   ARM id of the instance, "" off Azure
    vm_id:         Azure VmUniqueId
    physical_host: PhysicalHostName, needed to report a node and lost on redeploy
    subgroup:      the control plane's interconnect subgroup id, "" if not told
    state:         power/provisioning state as the control plane says it, "" if not told
    """

    name: str
    rack: str
    address: str = ""
    port: int = 22
    instance_id: str = ""
    resource_id: str = ""
    vm_id: str = ""
    physical_host: str = ""
    subgroup: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Rack:
    """One NVLink domain as planned: `expected_nodes` were asked for, `nodes` exist."""

    name: str
    number: int
    expected_nodes: int
    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    racks: tuple[Rack, ...] = field(default_factory=tuple)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(node for rack in self.racks for node in rack.nodes)
