"""Effective values, their origins, and the digest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ndctl.inventory.loader import load

from .conftest import RIGHT, STATIC

Write = Callable[..., Path]


def test_each_value_says_where_it_comes_from(write: Write) -> None:
    values = {key: (value, origin) for key, value, origin in load(write(RIGHT)).effective()}
    assert values["racks"] == (64, "inventory line 6")
    assert values["network.create"] == ("10.40.0.0/16", "inventory line 8")
    assert values["vms_per_rack"] == (18, "profile gb300 (Azure ND GB300 v6 size page, 2026-08-12)")
    assert values["placement.single_placement_group"][0] is False
    assert "sources disagree" in values["placement.single_placement_group"][1]
    assert values["placement.os_disk"][0] == "ephemeral"
    assert values["ssh.port"] == (22, "default")
    assert "tenant" not in values


def test_what_the_inventory_says_wins_over_the_profile(write: Write) -> None:
    text = RIGHT + "vms_per_rack: 17\nplacement: {os_disk: premium, single_placement_group: false}\nimage:\n"
    values = {key: (value, origin) for key, value, origin in load(write(text)).effective()}
    assert values["vms_per_rack"] == (17, "inventory line 9")
    assert values["placement.os_disk"] == ("premium", "inventory line 10")
    assert values["placement.single_placement_group"] == (False, "inventory line 10")
    assert values["image"][1].startswith("profile gb300")  # an empty key is a key left out


def test_static_racks_have_no_azure_values(write: Write) -> None:
    keys = [key for key, _, _ in load(write(STATIC + "static:\n- {rack: 1, nodes: 'a[1-2]'}\n")).effective()]
    assert "static.0.nodes" in keys
    assert not {"image", "vms_per_rack", "placement.kind"} & set(keys)


def test_digest_ignores_comments_and_order_and_sees_every_value(write: Write) -> None:
    digest = load(write(RIGHT)).digest
    assert len(digest) == 64
    shuffled = "# note\n" + "\n".join(reversed(RIGHT.splitlines())) + "\n"
    assert load(write(shuffled, "two.yaml")).digest == digest
    assert load(write(RIGHT + "vms_per_rack: 18\n")).digest == digest  # said or not, it is the same wish
    assert load(write(RIGHT.replace("64", "63"))).digest != digest
    assert load(write(RIGHT + "tags: {a: b}\n")).digest != digest
