"""What a change comes to is data with a source; what no row says is unknown, never mild."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest
import yaml

from ndctl.render.compare import ABSENT, Difference, differences
from ndctl.render.effects import Effect, meaning_of, worst

SCALE_SET = "Microsoft.Compute/virtualMachineScaleSets"
PROFILE = "properties.virtualMachineProfile"


@pytest.mark.parametrize(
    ("kind", "path", "before", "after", "effect"),
    [
        (SCALE_SET, "tags.owner", None, "fabric", Effect.IN_PLACE),
        (SCALE_SET, "sku.capacity", 16, 18, Effect.IN_PLACE),
        (SCALE_SET, "sku.capacity", 18, 16, Effect.DELETES),
        (SCALE_SET, f"{PROFILE}.osProfile.customData", "YQ==", "Yg==", Effect.REIMAGE),
        (SCALE_SET, f"{PROFILE}.OSPROFILE.customdata", "YQ==", "Yg==", Effect.REIMAGE),
        (SCALE_SET, f"{PROFILE}.storageProfile.imageReference.version", "1", "2", Effect.REIMAGE),
        (SCALE_SET, f"{PROFILE}.osProfile.adminUsername", "a", "b", Effect.REPLACES),
        (SCALE_SET, "zones", ["1"], ["2"], Effect.REPLACES),
        (SCALE_SET, "sku.name", "a", "b", Effect.REPLACES),
        (SCALE_SET, "location", "a", "b", Effect.REPLACES),
        (SCALE_SET, "properties.singlePlacementGroup", True, False, Effect.IN_PLACE),
        (SCALE_SET, "properties.singlePlacementGroup", False, True, Effect.REPLACES),
        (SCALE_SET, f"{PROFILE}.interconnectBlockProfile.interconnectBlock.id", "a", "b", Effect.REPLACES),
        (SCALE_SET, "properties.provisioningState", "Succeeded", None, Effect.NOISE),
        (SCALE_SET, "properties.somethingNew", 1, 2, Effect.UNKNOWN),
        ("Microsoft.Compute/interconnectBlocks", "sku.capacity", 18, 36, Effect.IN_PLACE),
        ("Microsoft.Compute/interconnectBlocks", "sku.name", "a", "b", Effect.REPLACES),
        ("Microsoft.Compute/interconnectBlocks", "properties.interconnectGroup.id", "a", "b", Effect.REPLACES),
        ("Microsoft.Network/networkSecurityGroups", "properties.securityRules.0", None, {"name": "x"}, Effect.IN_PLACE),
        ("Microsoft.Fabric/new", "properties.x", 1, 2, Effect.UNKNOWN),
    ],
)
def test_effects(kind: str, path: str, before: Any, after: Any, effect: Effect) -> None:
    told = meaning_of(kind, path, before, after)
    assert told.effect is effect
    assert bool(told.source) == (effect is not Effect.UNKNOWN)


def test_an_object_counts_as_the_worst_that_differs_in_it() -> None:
    block = {"interconnectBlock": {"id": "x"}}
    before = {"osProfile": {"customData": "YQ=="}, "interconnectBlockProfile": block}
    after = {"osProfile": {"customData": "Yg=="}, "interconnectBlockProfile": block}
    assert meaning_of(SCALE_SET, PROFILE, before, after).effect is Effect.REIMAGE
    moved = {**after, "interconnectBlockProfile": {"interconnectBlock": {"id": "y"}}}
    assert meaning_of(SCALE_SET, PROFILE, before, moved).effect is Effect.REPLACES
    assert meaning_of(SCALE_SET, "tags", None, {"owner": "x"}).effect is Effect.IN_PLACE


def test_unknown_is_no_promise() -> None:
    assert worst([Effect.IN_PLACE, Effect.UNKNOWN, Effect.NOISE]) is Effect.UNKNOWN
    assert worst([Effect.REIMAGE, Effect.UNKNOWN]) is Effect.REIMAGE
    assert worst([]) is None


def test_every_row_has_a_source_a_date_and_a_known_effect() -> None:
    told = yaml.safe_load(files("ndctl.render").joinpath("property_effects.yaml").read_text())
    rows = [*told["every"], *(row for rows in told["types"].values() for row in rows)]
    for row in rows:
        assert set(row) <= {"path", "effect", "when", "source", "mark", "note"}, row
        assert Effect(row["effect"]) is not Effect.UNKNOWN
        assert row["source"] in told["sources"] and row.get("mark", "V") in "VI"
    for one in told["sources"].values():
        assert one["url"].startswith("https://") and re.match(r"\d{4}-\d\d", str(one["date"]))


def test_differences_go_by_name_where_items_have_one() -> None:
    rule = {"name": "ssh", "properties": {"priority": 100}}
    before = {"Sku": {"capacity": 18}, "rules": [rule], "old": 1}
    after = {"sku": {"capacity": 36}, "rules": [{"name": "new"}, {"name": "ssh", "properties": {"priority": 101}}]}
    assert differences(before, after) == (
        Difference("sku.capacity", 18, 36),
        Difference("rules.new", ABSENT, {"name": "new"}),
        Difference("rules.ssh.properties.priority", 100, 101),
        Difference("old", 1, ABSENT),
    )


@pytest.mark.parametrize(("before", "after"), [(1, True), ([1], [1, 2]), ({"a": None}, {}), ([], {}), ("a", ["a"])])
def test_what_is_not_equal_is_told(before: Any, after: Any) -> None:
    assert len(differences(before, after)) == 1 and differences(before, before) == ()
