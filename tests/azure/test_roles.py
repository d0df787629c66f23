"""Permissions as data: the table's own rules, role definitions, wildcards, and who a token says it is for."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ndctl.azure.granted import Grant, missing
from ndctl.azure.identity import claims_of, identity_of
from ndctl.azure.roles import Need, Permissions, covers, needs_of, permissions, role_definition, verb_names, verbs_of
from ndctl.model.errors import ExitCode, NdctlError

SCOPES = ["/subscriptions/00000000-0000-0000-0000-000000000000"]
# learn.microsoft.com, "Azure custom roles", Custom role properties.
FIELDS = {
    "Name",
    "IsCustom",
    "Description",
    "Actions",
    "NotActions",
    "DataActions",
    "NotDataActions",
    "AssignableScopes",
}


@pytest.mark.parametrize("verb", verb_names())
def test_a_role_is_what_azure_cli_takes(verb: str) -> None:
    role = role_definition(f"ndctl {verb}", [verb], SCOPES)
    assert set(role) == FIELDS and role["IsCustom"] is True and role["AssignableScopes"] == SCOPES
    assert role["Actions"] == sorted(role["Actions"], key=str.casefold) and "*" not in role["Actions"]
    assert len({one.casefold() for one in role["Actions"]}) == len(role["Actions"])
    assert 0 < len(role["Description"]) <= 2048 and len(role["Name"]) <= 512
    whole = Grant(actions=tuple(role["Actions"]), data_actions=tuple(role["DataActions"]))
    assert missing(needs_of(verb), [whole]) == ()


def test_verbs_that_only_look_hold_nothing_that_changes() -> None:
    """But for what is not documented, and host keys, which are read by Run Command."""
    for verb in ("nodes", "status", "preflight"):
        for need in needs_of(verb):
            assert need.action.endswith("/read") or need.mark == "U", (verb, need.action)


def test_what_an_inventory_does_not_come_to_need_is_left_out() -> None:
    every = {need.action for need in needs_of("deploy")}
    given_subnet = {need.action for need in needs_of("deploy", ["given-subnet"])}
    assert "Microsoft.Network/virtualNetworks/write" in every - given_subnet
    assert not [one for one in given_subnet if "interconnect" in one or "natGateways" in one]
    assert "Microsoft.Network/virtualNetworks/subnets/join/action" in given_subnet


def test_bootstrap_needs_what_its_verbs_need() -> None:
    parts = {need.action for verb in ("preflight", "plan", "deploy", "validate") for need in needs_of(verb)}
    assert {need.action for need in needs_of("bootstrap")} == parts


@pytest.mark.parametrize(
    "change",
    [
        {"verbs": {"plan": {"uses": ["nothing"]}}},
        {"verbs": {"plan": {}}},  # then a set is idle
        {"sets": {"a": [{"action": "Compute/read", "why": "because", "scope": "group"}]}},
        {"sets": {"a": [{"action": "Microsoft.Compute/x/read", "why": "because", "scope": "world"}]}},
        {"sets": {"a": [{"action": "Microsoft.Compute/x/read", "why": "because", "scope": "group", "mark": "U"}]}},
        {"sets": {"a": [{"action": "Microsoft.Compute/x/read", "scope": "group"}]}},
        {"more": 1},
    ],
)
def test_the_table_is_checked(change: dict[str, Any]) -> None:
    good = {
        "schema": "ndctl.permissions/1",
        "sets": {"a": [{"action": "Microsoft.Compute/x/read", "why": "because", "scope": "group"}]},
        "verbs": {"plan": {"uses": ["a"]}},
    }
    Permissions.model_validate(good)
    with pytest.raises(ValidationError):
        Permissions.model_validate({**good, **change})


def test_every_doubt_is_marked_with_its_source() -> None:
    table = permissions()
    wild = [need for needs in table.sets.values() for need in needs if "*" in need.action]
    assert wild and all(need.mark != "V" and need.source for need in wild)


@pytest.mark.parametrize(
    ("grant", "action", "allowed"),
    [
        (Grant(("*",)), "Microsoft.Compute/skus/read", True),
        (Grant(("*/read",)), "Microsoft.Compute/skus/read", True),
        (Grant(("*/read",)), "Microsoft.Compute/disks/write", False),
        (Grant(("microsoft.COMPUTE/*",)), "Microsoft.Compute/disks/write", True),
        (Grant(("*",), ("Microsoft.Authorization/*/Write",)), "Microsoft.Authorization/roleAssignments/write", False),
        (Grant(("*",), ("Microsoft.Compute/disks/*",)), "Microsoft.Compute/disks/read", False),
        (Grant(("Microsoft.Network/interconnectGroups/*",)), "Microsoft.Network/interconnectGroups/*", True),
        (Grant(("Microsoft.Network/interconnectGroups/read",)), "Microsoft.Network/interconnectGroups/*", False),
        (
            Grant(("*",), ("Microsoft.Network/interconnectGroups/delete",)),
            "Microsoft.Network/interconnectGroups/*",
            False,
        ),
        (Grant(data_actions=("*",)), "Microsoft.Compute/skus/read", False),
        (Grant(("Microsoft.Compute/disks.read",)), "Microsoft.Compute/disks/read", False),
        (Grant(), "Microsoft.Compute/skus/read", False),
    ],
)
def test_what_a_role_allows(grant: Grant, action: str, allowed: bool) -> None:
    assert grant.allows(action) is allowed


def test_not_actions_take_away_from_their_own_role_only() -> None:
    need = Need(action="Microsoft.Compute/disks/read", why="because", scope="group")
    contributor, reader = Grant(("*",), ("Microsoft.Compute/disks/*",)), Grant(("*/read",))
    assert missing([need], [contributor]) == (need,)
    assert missing([need], [contributor, reader]) == ()
    data = Need(action="Microsoft.Storage/x/read", why="because", scope="group", data=True)
    assert missing([data], [Grant(("*",))]) == (data,)
    assert missing([data], [Grant(data_actions=("*",), not_data_actions=("Microsoft.Storage/*",))]) == (data,)
    assert missing([data], [Grant(data_actions=("Microsoft.Storage/*/read",))]) == ()


@given(st.text("ab/*."), st.text("ab/."))
def test_a_pattern_without_stars_takes_itself_only(pattern: str, action: str) -> None:
    assert covers("*", action) and covers(action, action)
    if "*" not in pattern:
        assert covers(pattern, action) == (pattern == action)


def test_verbs_named_on_the_command_line() -> None:
    assert verbs_of("deploy, validate,deploy") == ("deploy", "validate")
    for wrong in ("fly", "", ","):
        with pytest.raises(NdctlError) as caught:
            verbs_of(wrong)
        assert caught.value.exit_code is ExitCode.USAGE and "deploy" in caught.value.hint


def token(**claims: Any) -> str:
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.signature"


@pytest.mark.parametrize(
    ("claims", "kind", "label"),
    [
        ({"oid": "o", "tid": "t", "idtyp": "user", "upn": "ann@lab", "appid": "cli"}, "user", "user ann@lab"),
        ({"oid": "o", "tid": "t", "unique_name": "ann@lab", "scp": "user_impersonation"}, "user", "user ann@lab"),
        ({"oid": "o", "tid": "t", "idtyp": "app", "appid": "a"}, "service principal", "service principal a"),
        ({"oid": "o", "tid": "t", "azp": "a"}, "service principal", "service principal a"),
        (
            {"oid": "o", "idtyp": "app", "appid": "a", "xms_mirid": "/subscriptions/x"},
            "managed identity",
            "managed identity a",
        ),
        ({"oid": "o"}, "unknown", "o"),
    ],
)
def test_who_a_token_is_for(claims: dict[str, Any], kind: str, label: str) -> None:
    who = identity_of(claims_of(token(**claims)))
    assert who is not None and (who.kind, who.label, who.object_id) == (kind, label, "o")


@pytest.mark.parametrize(
    "text", ["", "opaque", "a.b.c", "a.!!.c", token().replace("e30", "W10"), "a." + "A" * 5 + ".c"]
)
def test_a_token_that_tells_nothing(text: str) -> None:
    assert identity_of(claims_of(text)) is None
