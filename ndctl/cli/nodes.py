"""ndctl nodes: which nodes there are, by name and address."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndctl.cli.selecting import ExcludeOption, NodesOption, PickOption, RackOption
from ndctl.model.errors import ExitCode

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.model.places import Cluster


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    HOSTFILE = "hostfile"
    ANSIBLE = "ansible"
    SSH_CONFIG = "ssh-config"
    SLURM_TOPOLOGY = "slurm-topology"
    SLURM_TOPOLOGY_YAML = "slurm-topology-yaml"


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command("nodes")(list_nodes)


def list_nodes(
    inventory: Annotated[Path, typer.Argument(help="Inventory file.", metavar="INVENTORY", show_default=False)],
    output: Annotated[
        Format,
        typer.Option(
            "-o",
            "--output",
            help="hostfile: for mpirun, slots as GPUs. ansible: YAML inventory, to be saved as .yaml or .yml. "
            "ssh-config: for Include or ssh -F. "
            "slurm-topology, slurm-topology-yaml: topology/block, a block for each NVLink domain of the last run.",
        ),
    ] = Format.TABLE,
    rack: RackOption = None,
    nodes: NodesOption = None,
    exclude: ExcludeOption = None,
    pick: PickOption = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            help="Record that @failed and NVLink domains are read from. [default: the state directory]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """List the nodes. A name keeps its VM, whatever Azure's instance ids do.

    Exit status: 0, 2 usage or no node chosen, 8 when a rack has fewer nodes than asked for, or a node's NVLink domain
    is not known (slurm-topology), 3 not signed in or not permitted, 4 Azure cannot be reached.
    """
    from ndctl.cli.output import emit, say
    from ndctl.inventory.loader import load
    from ndctl.workflow.node_groups import recorded_runs
    from ndctl.workflow.nodes import discover
    from ndctl.workflow.select import EVERYTHING, nothing_selected, select, selection_of

    selection = selection_of(rack, nodes, exclude, pick)
    loaded = load(inventory)
    cluster = discover(loaded)
    if selection != EVERYTHING:
        selected = select(cluster, selection, last=recorded_runs(record))
        cluster = selected.cluster
        if not cluster.racks:
            raise nothing_selected(selection, selected.notes)
        for line in (*selected.notes, selected.line):
            say(f"{cluster.name}  {line}")
    text, complete = _answer(loaded, cluster, output, record)
    if text:
        emit(text)
    short = [rack for rack in cluster.racks if sum(bool(node.address) for node in rack.nodes) < rack.expected_nodes]
    for rack in short:
        say(f"{rack.name}: {sum(bool(n.address) for n in rack.nodes)} of {rack.expected_nodes} nodes have an address")
    if short or not complete:
        raise typer.Exit(int(ExitCode.INCOMPLETE))


def _answer(loaded: Loaded, cluster: Cluster, output: Format, record: Path | None) -> tuple[str, bool]:
    """The text, and whether it holds all that it should."""
    if output is Format.JSON:
        from ndctl.model.jsonable import dumps
        from ndctl.workflow.nodes import nodes_dict

        return dumps(nodes_dict(loaded, cluster)), True
    if output is Format.TABLE:
        return "\n".join(table_lines(cluster)), True
    from ndctl.report import host_lists

    if output is Format.HOSTFILE:
        return host_lists.hostfile(cluster, loaded.profile.gpu.count.value), True
    origin = f"{cluster.name}: made by ndctl nodes {loaded.path} -o {output.value}"
    if output in (Format.SLURM_TOPOLOGY, Format.SLURM_TOPOLOGY_YAML):
        return _topology(cluster, output, record, origin)
    from ndctl.workflow.reach import reach_of

    make = host_lists.ansible_inventory if output is Format.ANSIBLE else host_lists.ssh_config
    reach = reach_of(loaded, cluster)
    _tell_unknown_keys(loaded, cluster, reach.known_hosts)
    return make(cluster, reach, origin), True


def _tell_unknown_keys(loaded: Loaded, cluster: Cluster, files: tuple[Path, ...]) -> None:
    """What is printed verifies every host key, so ssh refuses a node whose key ndctl has not learned yet."""
    from ndctl.cli.output import say
    from ndctl.report.fold import node_set
    from ndctl.ssh.known_hosts import KnownHosts

    known = KnownHosts.load(files)
    unknown = [node.name for node in cluster.nodes if node.address and not known.expected(node.address, node.port)]
    if unknown:
        where = " ".join(map(str, files)) or "known_hosts"
        learns = "" if loaded.inventory.static else f"; ndctl validate {loaded.path} learns them through Azure"
        say(f"{node_set(unknown)}: no host key in {where}, so ssh will refuse to go there{learns}")


def _topology(cluster: Cluster, output: Format, record: Path | None, origin: str) -> tuple[str, bool]:
    from ndctl.cli.output import say
    from ndctl.record.store import Store
    from ndctl.report.fold import node_set
    from ndctl.report.slurm_topology import topology, topology_conf, topology_yaml
    from ndctl.workflow.node_domains import node_domains

    with Store(record, create=False) as store:
        found = topology(cluster, node_domains(cluster, store))
    if found.unknown:
        say(f"{node_set(found.unknown)}: in no block, since no NVLink domain of them is known; a comment says why")
    if output is Format.SLURM_TOPOLOGY_YAML:
        return topology_yaml(found, cluster.name, origin), not found.unknown
    return topology_conf(found, origin), not found.unknown


def table_lines(cluster: Cluster) -> list[str]:
    """A line a node, columns as wide as they need to be; columns nobody fills are left out."""
    if not cluster.nodes:
        return [f"{cluster.name}: no nodes"]
    titles = ("node", "address", "instance", "state", "subgroup", "vm id")
    rows = [
        (
            node.name,
            node.address + (f":{node.port}" if node.address and node.port != 22 else ""),
            node.instance_id,
            node.state,
            node.subgroup,
            node.vm_id,
        )
        for node in cluster.nodes
    ]
    used = [index for index in range(len(titles)) if any(row[index] for row in rows)]
    table = [tuple(titles[i] for i in used), *(tuple(row[i] or "-" for i in used) for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(used))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return [*lines, *(f"{rack.name}  no nodes" for rack in cluster.racks if not rack.nodes)]
