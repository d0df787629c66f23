"""What is a node's own is taken out of a text, and nothing that could have been measured."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ndctl.report.identity import ADDRESS, NAME, Identity, common, in_words

OWN = Identity(("rack07-n03", "vm-ab000003"), ("10.40.7.4", "fd00::4"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # nvidia-smi -q, -x, and ndctl's own subjects
        ("    Serial Number       : 1650924012345", "    Serial Number       : <serial>"),
        ("<serial>1650924012345</serial>", "<serial><serial></serial>"),
        ("GPU 2 (0018:01:00.0, serial 1650924) link 8", "GPU 2 (0018:01:00.0, serial <serial>) link 8"),
        ('"serial": "MT2345X01234"', '"serial": "<serial>"'),
        ("[SN] Serial number: MT2345X01234", "[SN] Serial number: <serial>"),
        ("GPU UUID : GPU-3f2504e0-4f89-11d3-9a0c-0305e82c3301", "GPU UUID : GPU-<uuid>"),
        ("boot_id 3F2504E0-4F89-11D3-9A0C-0305E82C3301.", "boot_id <uuid>."),
        # ibstat, sysfs, ibv_devices, GIDs
        ("Node GUID: 0x946dae0300abcdef", "Node GUID: <guid>"),
        ("946d:ae03:00ab:cdef", "<guid>"),
        ("    mlx5_ib0         \t946dae0300abcdef", "    mlx5_ib0         \t<guid>"),
        ("GID[0]: fe80:0000:0000:0000:946d:ae03:00ab:cdef", "GID[0]: <guid>"),
        # ip link, ip addr
        ("link/ether 00:0d:3a:11:22:33 brd", "link/ether <mac> brd"),
        (
            "link/infiniband 00:00:10:49:fe:80:00:00:00:00:00:00:94:6d:ae:03:00:ab:cd:ef brd",
            "link/infiniband <mac> brd",
        ),
        ("inet6 fe80::20d:3aff:fe11:2233/64 scope link", "inet6 <address>/64 scope link"),
        ("inet 10.40.7.4/24, fd00::4, 10.40.7.4:22", "inet <address>/24, <address>, <address>:22"),
        ("rack07-n03 is vm-ab000003.", "<node> is <node>."),
    ],
)
def test_what_is_a_nodes_own(text: str, told: str) -> None:
    assert common(text, OWN).text == told


@pytest.mark.parametrize(
    "text",
    [
        "Clocks Event Reasons Active : 0x0000000000000004",
        "RIP: 0010:0xffffffff81abcdef",
        "0xffff888100000001",
        "0x946dae0300abcdef0",
        "946dae0300abcdef  data.bin",  # a checksum, for all that one can tell
        "12:34:56 up 3 days, 2026-12-02T03:20:11",
        "0018:01:00.0 0000:00:00.0 15b3:1021",
        "Serial Number : N/A",
        "Serial Number : [Not Supported]",
        "serial numbers 18, serial console ttyS0",
        "driver 580.95.05, firmware 28.43.1014, kernel 6.8.0-1013-azure, DOCA 24.10-1.1.4.0",
        "link-local of another: 10.40.7.5, rack07-n04",
        "110.40.7.4 10.40.7.45 10.40.7.4.5 rack07-n031 xrack07-n03 rack07-n03-eth0 vm-ab000003.internal.example",
        "md5 d41d8cd98f00b204e9800998ecf8427e",
        # shared by the nodes of a rack: who differs here is the one to be found
        "        ClusterUUID                       : 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "<clusterUuid>3f2504e0-4f89-11d3-9a0c-0305e82c3301</clusterUuid>",
        "cluster_uuid=3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "        Chassis Serial Number             : 1821325192136",
        "N/A",
        "",
    ],
)
def test_what_is_not(text: str) -> None:
    assert common(text, OWN).text == text and common(text, OWN).taken == ()


def test_it_is_said_what_was_taken() -> None:
    told = common("rack07-n03 00:0d:3a:11:22:33 3f2504e0-4f89-11d3-9a0c-0305e82c3301", OWN)
    assert in_words(told.taken) == "names, UUIDs, MACs"
    assert in_words([ADDRESS, NAME, ADDRESS]) == "names, addresses"


@pytest.mark.parametrize("name", ["7", "42", "n", "", "cafe", "1e5", "0x10", "beef42"])
def test_a_host_with_a_numbers_name_costs_nobody_a_number(name: str) -> None:
    text = f"measured {name} GB/s, {name}"
    assert common(text, Identity((name,))).text == text


_words = st.sampled_from(
    ["rack07-n03", "10.40.7.4", "GPU", "serial", "Serial Number :", "S/N", "0x", "-", ":", "mlx5_0", "up", "3f2504e0",
     "946dae0300abcdef", "0x946dae0300abcdef", "00:0d:3a:11:22:33", "GPU-3f2504e0-4f89-11d3-9a0c-0305e82c3301", "N/A",
     "946d:ae03:00ab:cdef", "fe80::1", "165X924", ".", ",", "\n", "\t", '"', "<serial>", "<node>"]
)  # fmt: skip
_texts = st.lists(st.tuples(_words, st.sampled_from(["", " ", "  ", ":", "-", "."])), max_size=12).map(
    lambda parts: "".join(word + after for word, after in parts)
)


@given(_texts | st.text(max_size=60))
def test_the_same_again_from_its_own_result(text: str) -> None:
    once = common(text, OWN).text
    assert common(once, OWN).text == once


@given(_texts)
def test_lines_stay_lines(text: str) -> None:
    assert common(text, OWN).text.count("\n") == text.count("\n")


_measured = st.integers(-(10**12), 10**12).map(str) | st.floats(-1e9, 1e9, allow_nan=False).map(lambda v: f"{v:.3f}")
_templates = st.sampled_from(
    [
        "busbw {} GB/s",
        "{}",
        "temp: {} C",
        "symbol_error +{} in 4 min",
        "link 8: {}",
        "x={} y",
        "errors,{},0",
        "({})",
        "{}%",
    ]
)


@given(_templates, _measured, _measured, _texts)
@example("link 8: {}", "17", "18", "")
def test_what_was_measured_keeps_texts_apart(template: str, one: str, other: str, around: str) -> None:
    """Whatever stands around it in other lines."""
    texts = [common(f"{around}\n{template.format(value)}\n{around}", OWN).text for value in (one, other)]
    assert (texts[0] == texts[1]) is (one == other)
