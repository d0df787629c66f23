"""Static racks: addresses as people write them, and the cluster they make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ndctl.inventory.addresses import Address, expand
from ndctl.inventory.loader import load, static_cluster
from ndctl.model.errors import NdctlError

from .conftest import RIGHT, STATIC, told

Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("entries", "addresses"),
    [
        (["gpu[01-03].lab"], ["gpu01.lab", "gpu02.lab", "gpu03.lab"]),
        (["b", "a"], ["b", "a"]),
        (["n[9-11]"], ["n9", "n10", "n11"]),
        (["r[1-2]n[1-2]"], ["r1n1", "r1n2", "r2n1", "r2n2"]),
        (["n[1-7/3]"], ["n1", "n4", "n7"]),
        (["a1,b[2-3]"], ["a1", "b2", "b3"]),
        (["127.1.1.[1-2]:2200"], ["127.1.1.1:2200", "127.1.1.2:2200"]),
        (["[2001:db8::1]:22", "2001:db8::2"], ["[2001:db8::1]:22", "2001:db8::2"]),
    ],
)
def test_expand(entries: list[str], addresses: list[str]) -> None:
    assert [str(one) for one in expand(entries)] == addresses


def test_host_and_port_are_taken_apart() -> None:
    assert expand(["h:2222", "[fd00::1]:23"]) == [Address("h", 2222), Address("fd00::1", 23)]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("root@h", "the login user is set once, by ssh.user"),
        ("@all", "node groups are not looked up"),
        ("a[1-3", "is no node set"),
        ("a[3-1]", "is no node set"),
        ("a[1-3],a2", "names a node twice"),
        ("a[1-3,2]", "names a node twice"),
        ("a[1-100000000]", "means 100,000,000 nodes"),
        ("a[1-99999]b[1-99999]", "nodes"),
        ("a[1-99999999999]", "too large a number"),
        ("h:0", "a port is 1 to 65535"),
        ("h:x", "is no address"),
        ("", "is no address or node set"),
        ("-oProxyCommand=x", "is no address or node set"),
        ("-h", "is no address"),
        ("a;b", "is no address or node set"),
        ("1:2:3:zz::", "is no address"),
        ("fd00::1::2", "is no IPv6 address"),
    ],
)
def test_what_is_no_address(entry: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expand([entry])


def test_the_cluster(write: Write) -> None:
    text = STATIC + "ssh: {port: 2022}\nstatic:\n- {rack: 7, nodes: 'g[1-3]'}\n- rack: 100\n  nodes: [z, 'y:23']\n"
    cluster = static_cluster(load(write(text)))
    assert cluster.name == "lab"
    assert [(rack.name, rack.number, rack.expected_nodes) for rack in cluster.racks] == [
        ("rack07", 7, 3),
        ("rack100", 100, 2),
    ]
    assert [(node.name, node.rack, node.address, node.port) for node in cluster.nodes] == [
        ("rack07-n01", "rack07", "g1", 2022),
        ("rack07-n02", "rack07", "g2", 2022),
        ("rack07-n03", "rack07", "g3", 2022),
        ("rack100-n01", "rack100", "z", 2022),
        ("rack100-n02", "rack100", "y", 23),
    ]


def test_an_azure_inventory_has_no_static_racks(write: Write) -> None:
    assert static_cluster(load(write(RIGHT))).racks == ()


def test_racks_and_nodes_are_named_once(write: Write) -> None:
    text = (
        STATIC + "static:\n- {rack: 1, nodes: 'g[1-3]'}\n- {rack: 1, nodes: [G2, 'g3:22', x]}\n- {rack: 2, nodes: []}\n"
    )
    with pytest.raises(NdctlError) as caught:
        load(write(text))
    assert told(caught.value) == [
        (5, 10, "rack 1 is listed twice"),
        (5, 20, "G2 is listed twice, first in rack 1 (and 1 more)"),
        (6, 20, "rack 2 has no nodes"),
    ]


def test_a_host_may_stand_twice_behind_two_ports(write: Write) -> None:
    text = STATIC + "static:\n- {rack: 1, nodes: ['h:2201', 'h:2202']}\n"
    assert len(static_cluster(load(write(text))).nodes) == 2


def test_a_rack_holds_no_more_than_its_profile_says(write: Write) -> None:
    with pytest.raises(NdctlError, match="rack 1 lists 19 nodes, and a rack of profile gb300 has 18"):
        load(write(STATIC + "static:\n- {rack: 1, nodes: 'g[1-19]'}\n"))
    many = STATIC.replace("gb300", "h200") + "static:\n- {rack: 1, nodes: 'g[1-19]'}\n"
    assert len(static_cluster(load(write(many))).nodes) == 19  # NVLink ends at the node there
