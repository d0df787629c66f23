"""Each verb runs with exactly the role that `ndctl roles` prints for it, and names the action that is taken away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ndctl.azure.roles import verb_names
from ndctl.cli.main import VERBS

if TYPE_CHECKING:
    from conftest import Region, Said

    Ndctl = Callable[..., Said]

# Verbs that never ask Azure anything.
OFFLINE = {"init", "inventory", "render", "roles", "checks", "explain", "judge", "runs", "schema", "sim"}
VALIDATE = ("--rack", "1", "--level", "quick", "--only", "gpu")


@pytest.fixture
def role(region: Region) -> Iterator[Callable[[dict[str, Any] | None], None]]:
    """Put a role into the region's directory; None: owner again."""
    path = region.directory.file("role.json")

    def put(definition: dict[str, Any] | None) -> None:
        path.unlink(missing_ok=True)
        if definition is not None:
            fresh = path.with_name("role.new")
            fresh.write_text(json.dumps(definition))
            fresh.replace(path)

    yield put
    put(None)


def printed(ndctl: Ndctl, inventory: Path, verb: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ndctl("roles", inventory, "--for", verb, "-o", "json").out)
    return found


def without(definition: dict[str, Any], action: str) -> dict[str, Any]:
    return {**definition, "NotActions": [action]}


def test_every_verb_that_asks_azure_is_in_the_table() -> None:
    assert set(VERBS) - OFFLINE - set(verb_names()) == set()


# verb, arguments after the inventory, whether the cluster is deployed first, an action that it cannot do without
RUNS = [
    ("plan", (), True, "Microsoft.Resources/deployments/whatIf/action"),
    ("deploy", ("--yes",), False, "Microsoft.Resources/subscriptions/resourceGroups/write"),
    ("deploy", ("--yes",), False, "Microsoft.Network/virtualNetworks/subnets/join/action"),
    ("nodes", (), True, "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read"),
    ("validate", VALIDATE, True, "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read"),
    ("destroy", ("--yes",), True, "Microsoft.Compute/virtualMachineScaleSets/delete"),
]


@pytest.mark.parametrize(("verb", "more", "deployed", "action"), RUNS)
def test_a_verb_needs_its_role_and_no_more(
    region: Region,
    ndctl: Ndctl,
    role: Callable[[dict[str, Any] | None], None],
    verb: str,
    more: tuple[str, ...],
    deployed: bool,
    action: str,
) -> None:
    inventory = region.inventory()
    if deployed:
        assert ndctl("deploy", inventory, "--yes").code == 0
    definition = printed(ndctl, inventory, verb)

    role(without(definition, action))
    refused = ndctl(verb, inventory, *more)
    assert refused.code == 3, refused.out + refused.err
    assert action in refused.out + refused.err

    role(definition)
    done = ndctl(verb, inventory, *more)
    assert done.code == 0, done.out + done.err
    assert "AuthorizationFailed" not in done.out + done.err
    if verb == "destroy":
        group = yaml.safe_load(inventory.read_text())["resource_group"]
        assert region.billable(group) == []
