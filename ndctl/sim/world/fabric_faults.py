"""Faults of a node's InfiniBand ports and of its part in the NVLink domain, worked into its view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndctl.sim.faults import Fault
from ndctl.sim.world.parts import Port

if TYPE_CHECKING:
    from ndctl.sim.world.view import NodeView


def apply_fabric_fault(fault: Fault, view: NodeView) -> None:
    """Kinds that are not this module's are passed over."""
    match fault.kind:
        case "port-flaps":
            port = _port(view, fault)
            port.carrier_losses = port.counters["link_downed"] = int(fault["times"])
        case "port-narrow":
            port = _port(view, fault)
            port.lanes = 2
            port.rate_gbps = view.shape.rate_gbps // 2
        case "lid-zero":
            _port(view, fault).lid = 0
        case "counter-pegged":
            _port(view, fault).counters["symbol_error"] = 65535
        case "counters-frozen":
            _port(view, fault).growth = {}
        case "rail-map-differs":
            rails = [port for port in view.ports if port.infiniband]
            first, last = rails[0], rails[-1]
            first.pci, last.pci = last.pci, first.pci
            first.numa_node, last.numa_node = last.numa_node, first.numa_node
        case "gpudirect-missing":
            view.open_driver = False
        case "fabric-manager-active":
            view.fabric_manager = True
        case "imex-list-drift":
            view.listed = len(view.rack_mates) - 1
        case "fabric-settling":
            for gpu in view.gpus:
                gpu.fabric.state, gpu.fabric.status = "In Progress", "N/A"
                gpu.fabric.clique_id, gpu.fabric.cluster_uuid = 0, "00000000-0000-0000-0000-000000000000"
                gpu.fabric.summary = gpu.fabric.bandwidth = "N/A"
        case "nvlink-recovers":
            gpu = view.gpus[min(int(fault["gpu"]), len(view.gpus) - 1)]
            link = gpu.links[min(int(fault["link"]), len(gpu.links) - 1)]
            link.recovers_per_second, link.recovers_since = float(fault["per_second"]), fault.since


def _port(view: NodeView, fault: Fault) -> Port:
    return next((port for port in view.ports if port.device == fault["port"]), view.ports[0])
