"""Slurm blocks are NVLink domains that nodes named; forms as the examples of topology.conf(5) and topology.yaml(5)."""

from __future__ import annotations

import re

import yaml

from ndctl.model.places import Cluster, Node, Rack
from ndctl.report.slurm_topology import Domain, topology, topology_conf, topology_yaml

# The examples of the manual pages in form: BlockName=block1 Nodes=node[1-32] … BlockSizes=30,120
_BLOCK = re.compile(r"^BlockName=(\S+) Nodes=(\S+)$", re.MULTILINE)


def cluster(*racks: int, nodes: int = 18) -> Cluster:
    return Cluster(
        "swc-a",
        tuple(
            Rack(
                f"rack{r:02d}",
                r,
                nodes,
                tuple(Node(f"rack{r:02d}-n{n:02d}", f"rack{r:02d}") for n in range(1, nodes + 1)),
            )
            for r in racks
        ),
    )


def domains(one: Cluster, **other: Domain | str) -> dict[str, Domain | str]:
    told: dict[str, Domain | str] = {node.name: Domain(f"fabric-{node.rack}", "32766", "r1") for node in one.nodes}
    return told | {name.replace("_", "-"): value for name, value in other.items()}


def test_a_block_for_each_domain() -> None:
    lab = cluster(1, 2, 100)
    text = topology_conf(topology(lab, domains(lab)), "made by a test")
    assert _BLOCK.findall(text) == [
        ("rack01", "rack01-n[01-18]"),
        ("rack02", "rack02-n[01-18]"),
        ("rack100", "rack100-n[01-18]"),
    ]
    assert text.splitlines()[-1] == "BlockSizes=18"
    assert "in no block" not in text


def test_what_is_not_known_is_named_and_in_no_block() -> None:
    lab = cluster(1, 2)
    found = topology(lab, domains(lab, rack01_n05="no GPU listed in run r1", rack01_n06="no GPU listed in run r1"))
    text = topology_conf(found, "made by a test")
    assert _BLOCK.findall(text)[0] == ("rack01", "rack01-n[01-04,07-18]")
    assert "# in no block, no GPU listed in run r1: rack01-n[05-06]" in text
    assert text.splitlines()[-1] == "BlockSizes=16"  # each block has at least this many
    nothing = topology_conf(topology(lab, {}), "made by a test")
    assert "BlockSizes" not in nothing and "BlockName" not in nothing
    assert "# in no block, no recorded run asked it: rack01-n[01-18],rack02-n[01-18]" in nothing


def test_a_fabric_alone_is_no_domain_and_a_vm_in_another_rack_goes_with_its_fabric() -> None:
    lab = cluster(1, 2, nodes=4)
    split = Domain("fabric-rack01", "32765", "r2")
    found = topology(
        lab, domains(lab, rack01_n03=split, rack01_n04=split, rack02_n04=Domain("fabric-rack01", "32766", "r1"))
    )
    assert [(one.name, one.nodes) for one in found.blocks] == [
        ("rack01", ("rack01-n01", "rack01-n02", "rack02-n04")),
        ("rack01-2", ("rack01-n03", "rack01-n04")),
        ("rack02", ("rack02-n01", "rack02-n02", "rack02-n03")),
    ]
    text = topology_conf(found, "made by a test")
    assert "BlockName=rack01 Nodes=rack01-n[01-02],rack02-n04" in text
    assert "# ClusterUUID fabric-rack01, CliqueId 32765: run r2" in text
    assert "BlockSizes=2" in text


def test_the_yaml_form_is_the_manuals() -> None:
    lab = cluster(1, 2)
    told = yaml.safe_load(topology_yaml(topology(lab, domains(lab)), "swc-a", "made by a test"))
    assert told == [
        {
            "topology": "swc-a",
            "cluster_default": True,
            "block": {
                "block_sizes": [18],
                "blocks": [
                    {"block": "rack01", "nodes": "rack01-n[01-18]"},
                    {"block": "rack02", "nodes": "rack02-n[01-18]"},
                ],
            },
        }
    ]
    assert yaml.safe_load(topology_yaml(topology(lab, {}), "swc-a", "made by a test")) is None
