"""Which NVLink domain each node stands in, as its own GPUs said in the newest recorded run that asked it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndctl.checks import commands
from ndctl.checks.catalogue.nvlink_clique import clique_of
from ndctl.model.errors import NdctlError
from ndctl.model.findings import NodeResult
from ndctl.model.places import Cluster, Node
from ndctl.parse.nvidia_smi_xml import parse
from ndctl.report.slurm_topology import Domain

if TYPE_CHECKING:
    from ndctl.record.store import Store

RUNS_LOOKED_AT = 50


def node_domains(cluster: Cluster, store: Store) -> dict[str, Domain | str]:
    """Node name -> its domain, or why none is known. Nothing is carried over to a VM that took another's place."""
    waiting = {node.name: node for node in cluster.nodes}
    found: dict[str, Domain | str] = {}
    for line in store.runs(RUNS_LOOKED_AT):
        if not waiting:
            break
        if cluster.name not in line.clusters or line.finished is None:
            continue
        run = store.load(line.id)
        for rack in run.racks:
            if rack.cluster != cluster.name:
                continue
            for told in rack.nodes:
                node = waiting.pop(told.name, None)
                if node is not None:
                    found[node.name] = _domain(store, cluster.name, node, told, run.id)
    return {**found, **dict.fromkeys(waiting, "no recorded run asked them")}


def _domain(store: Store, cluster: str, node: Node, told: NodeResult, run: str) -> Domain | str:
    same = node.vm_id == told.vm_id if node.vm_id and told.vm_id else node.address == told.address
    if not same:
        return f"another VM since run {run}"
    try:
        result = store.answers.latest(run, cluster, node.name, commands.NVIDIA_SMI_XML.id)
    except NdctlError as error:
        return f"run {run} cannot be read ({error.code})"
    gpus = parse(result.stdout, result.stderr).gpus if result is not None else ()
    if not gpus:
        return f"no GPU listed in run {run}"
    cliques = {clique_of(gpu) for gpu in gpus}
    only = cliques.pop() if len(cliques) == 1 else None
    if only is None:
        return f"GPUs that name no clique, or several, in run {run}"
    return Domain(only[0], only[1], run)
