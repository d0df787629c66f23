"""Every key at every depth of every rendered resource is known to Azure, and the walks that say so find typos."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ndctl.render.rendered import Rendered
from tests.render.schema_walk import SCHEMAS, schema_problems
from tests.render.sdk_walk import resource_problems

needs_schemas = pytest.mark.skipif(not SCHEMAS.is_dir(), reason=f"the published ARM schemas are not at {SCHEMAS}")


def resources(rendered: Rendered) -> list[dict[str, Any]]:
    """All resources; the jump VM's size is exchanged for one the description lists.

    That list is frozen at sizes of 2017, and Azure itself says to ask for the sizes of a region instead.
    """
    found = copy.deepcopy([resource for one in rendered.deployments for resource in one.template["resources"]])
    for resource in found:
        if resource["type"] == "Microsoft.Compute/virtualMachines":
            resource["properties"]["hardwareProfile"]["vmSize"] = "Standard_D2_v2"
    return found


def test_sdk_models_know_every_key(case: tuple[str, Rendered]) -> None:
    for resource in resources(case[1]):
        assert resource_problems(resource) == [], resource["name"]


@needs_schemas
def test_published_schemas_know_every_key(case: tuple[str, Rendered]) -> None:
    asked = 0
    for resource in resources(case[1]):
        problems = schema_problems(resource)
        if problems is not None:
            asked += 1
            assert problems == [], resource["name"]
    assert asked >= 1


def dictionaries(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of every object below `node`, the free maps (tags, identities by id) left out."""
    if isinstance(node, dict):
        yield path
        for key, value in node.items():
            if key not in ("tags", "userAssignedIdentities"):
                yield from dictionaries(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from dictionaries(value, (*path, index))


def at(node: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        node = node[step]
    return node


def unnoticed_typos(resource: dict[str, Any], judge: Callable[[dict[str, Any]], list[str] | None]) -> list[str]:
    """Plants an unknown key in each object in turn; names the objects where nobody minded."""
    missed = []
    for path in dictionaries(resource):
        planted = copy.deepcopy(resource)
        at(planted, path)["plantedTypo"] = 1
        if not judge(planted):
            missed.append(f"{resource['type']} {'.'.join(map(str, path))}")
    return missed


def test_sdk_walk_finds_a_typo_planted_at_any_depth(case: tuple[str, Rendered]) -> None:
    assert [missed for resource in resources(case[1]) for missed in unnoticed_typos(resource, resource_problems)] == []


@needs_schemas
def test_schema_walk_finds_a_typo_planted_at_any_depth(case: tuple[str, Rendered]) -> None:
    covered = [one for one in resources(case[1]) if schema_problems(one) is not None]
    assert [missed for one in covered for missed in unnoticed_typos(one, schema_problems)] == []


def set_at(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(resource: dict[str, Any]) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        at(resource, tuple(steps))[last] = value

    return change


PROFILE = "properties.virtualMachineProfile"
WRONG_KINDS = {
    "text for a number": ("sku.capacity", "eighteen"),
    "text for a truth value": ("properties.overprovision", "false"),
    "a truth value for a number": ("properties.platformFaultDomainCount", True),
    "number for text": (f"{PROFILE}.osProfile.adminUsername", 7),
    "object for a list": ("zones", {"1": True}),
    "list for an object": (f"{PROFILE}.storageProfile", []),
    "a word that is no choice": (f"{PROFILE}.storageProfile.diskControllerType", "NVME"),
    "a placement that is no choice": (f"{PROFILE}.storageProfile.osDisk.diffDiskSettings.placement", "NVMeDisk"),
    "number in a list of texts": ("zones", [1]),
}


@pytest.mark.parametrize("fault", sorted(WRONG_KINDS))
def test_walks_find_wrong_kinds(fault: str, two_racks: Rendered) -> None:
    path, value = WRONG_KINDS[fault]
    broken = copy.deepcopy(two_racks.racks[0].template["resources"][1])
    assert broken["type"] == "Microsoft.Compute/virtualMachineScaleSets"
    set_at(path, value)(broken)
    (problem,) = resource_problems(broken)
    assert problem.startswith(path)


@needs_schemas
@pytest.mark.parametrize("fault", sorted(WRONG_KINDS))
def test_schemas_find_wrong_kinds(fault: str, two_racks: Rendered) -> None:
    path, value = WRONG_KINDS[fault]
    broken = copy.deepcopy(two_racks.racks[0].template["resources"][1])
    set_at(path, value)(broken)
    assert schema_problems(broken)


def test_sdk_walk_finds_what_only_azure_may_set_and_what_is_missing(two_racks: Rendered) -> None:
    block = copy.deepcopy(two_racks.racks[0].template["resources"][0])
    block["properties"]["provisioningState"] = "Succeeded"
    del block["location"]
    assert resource_problems(block) == ["properties.provisioningState: read-only", "location: missing"]
