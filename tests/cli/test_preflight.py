"""preflight and roles as a person types them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ndctl.azure.roles import verb_names
from ndctl.cli.main import VERBS
from ndctl.model.preflight import PREFLIGHT_SCHEMA
from ndctl.report import schemas

if TYPE_CHECKING:
    from conftest import Region, Said

    Ndctl = Callable[..., Said]

INVENTORIES = Path(__file__).parents[2] / "inventories"
VERB = re.compile(r"\bndctl ([a-z][a-z-]*)")


def test_lines_for_people(region: Region, ndctl: Ndctl) -> None:
    inventory = region.inventory()
    done = ndctl("preflight", inventory)
    assert done.code == 0, done.err
    rows = done.out.splitlines()
    assert re.match(r"c\d+  simregion/1   \d+ proved, 0 refused, 2 cannot be proved before deploy$", rows[0])
    assert any(row.startswith("  proved    signed in") for row in rows)
    assert f"next: deploy tells: ndctl deploy {inventory}" in done.out and "source:" not in done.out
    assert "source: the token's claims" in ndctl("-v", "preflight", inventory).out
    assert set(VERB.findall(done.out)) <= set(VERBS)


def test_several_inventories_and_the_worst_exit_status(region: Region, ndctl: Ndctl) -> None:
    good, bad = region.inventory(), region.inventory(zone="3")
    told = json.loads(ndctl("preflight", good, bad, "--for", "nodes", "-o", "json").out)
    assert told["schema"] == PREFLIGHT_SCHEMA and schemas.load("preflight")["title"] == PREFLIGHT_SCHEMA
    assert [one["exit_code"] for one in told["clusters"]] == [0, 4] and told["exit_code"] == 4
    assert told["clusters"][0]["for"] == ["nodes"]
    ids = [line["id"] for line in told["clusters"][0]["lines"]]
    assert [one for one in ids if one.startswith("permissions")] == ["permissions.nodes"] and len(set(ids)) == len(ids)


def test_a_missing_permission_is_worse_than_a_missing_quota(region: Region, ndctl: Ndctl) -> None:
    region.faults.add("quota-exceeded", limit=1)
    region.faults.add("permission-denied", action="Microsoft.Resources/deployments/write")
    done = ndctl("preflight", region.inventory())
    assert done.code == 3
    assert "REFUSED   permissions of deploy" in done.out and "REFUSED   quota of the family" in done.out
    assert "1 of 40 actions is missing: Microsoft.Resources/deployments/write" in done.out
    assert set(VERB.findall(done.out)) <= set(VERBS)


def test_no_token_is_ever_printed(region: Region, ndctl: Ndctl) -> None:
    secret = region.directory.file("federated.jwt").read_text().strip()
    done = ndctl("-v", "preflight", region.inventory(), "-o", "json")
    assert "eyJ" not in done.out + done.err and secret not in done.out + done.err


@pytest.mark.parametrize("arguments", [("--for", "fly"), ("--for", "")])
def test_unknown_verbs_are_usage(region: Region, ndctl: Ndctl, arguments: tuple[str, ...]) -> None:
    assert ndctl("preflight", region.inventory(), *arguments).code == 2
    assert ndctl("roles", *arguments).code == 2


def test_static_racks_need_no_preflight(ndctl: Ndctl) -> None:
    static = INVENTORIES / "lab-static.yaml"
    assert ndctl("preflight", static).code == 2
    refused = ndctl("roles", static, "-o", "json")
    assert refused.code == 2 and "static racks" in refused.err


def test_roles_of_all_verbs(ndctl: Ndctl) -> None:
    shown = ndctl("roles").out
    assert all(re.search(rf"^{verb}  \d+ actions$", shown, re.MULTILINE) for verb in verb_names())
    assert "not documented: " in shown and "inferred: " in shown
    done = ndctl("roles", "-o", "json")
    role = json.loads(done.out)
    assert role["Name"] == "ndctl" and "--subscription ID" in done.err
    named = json.loads(ndctl("roles", "--for", "nodes", "--subscription", "s-1", "--name", "see", "-o", "json").out)
    assert (named["Name"], named["AssignableScopes"]) == ("see", ["/subscriptions/s-1"])


def test_an_inventory_narrows_a_role(ndctl: Ndctl) -> None:
    done = ndctl("roles", INVENTORIES / "usgov-b.yaml", "--for", "deploy", "-o", "json")
    role = json.loads(done.out)
    assert done.code == 0 and role["Name"] == "ndctl deploy" and done.err == ""
    assert "Microsoft.Network/virtualNetworks/subnets/join/action" in role["Actions"]
    assert "Microsoft.Network/virtualNetworks/write" not in role["Actions"]
