"""Inventories of the render tests, built in memory: what is tested here starts after loading."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ndctl.inventory.schema import Inventory
from ndctl.model.errors import Where
from ndctl.profiles.loader import load as load_profile
from ndctl.profiles.schema import Profile
from ndctl.render import render
from ndctl.render.rendered import Rendered

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAdshUwzNqlqamQXuGrjzY8nKZaqwGmya+03CdFqSeIV admin@example"
SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
EXISTING_SUBNET = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg-net/providers/Microsoft.Network/virtualNetworks/hub/subnets/gpu"
)


@dataclass(frozen=True)
class LoadedInventory:
    inventory: Inventory
    profile: Profile
    path: Path

    def where(self, key: str) -> Where:
        return Where(self.path, 7, 3, len(key))

    def path_of(self, text: str) -> Path:
        return self.path.parent / Path(text).expanduser()


def loaded(profile: str = "gb300", folder: Path = Path("/nowhere"), **changes: Any) -> LoadedInventory:
    """A valid two-rack inventory with `changes` laid over its top-level keys."""
    entries: dict[str, Any] = {
        "cluster": "swc-a",
        "region": "swedencentral",
        "zone": "1",
        "subscription": SUBSCRIPTION,
        "resource_group": "rg-swc-a",
        "racks": 2,
        "vm_size": "Standard_ND128isr_GB300_v6",
        "network": {"create": "10.40.0.0/16", "admin_from": ["203.0.113.0/24", "198.51.100.7/32"]},
        "ssh": {"public_key": PUBLIC_KEY, "jump": ["created"]},
        "tags": {"owner": "fabric-team"},
    }
    entries.update(changes)
    return LoadedInventory(Inventory.model_validate(entries), load_profile(profile), folder / "swc-a.yaml")


# Every branch of the templates is in one of these; the goldens and the key checks run over all.
CASES: dict[str, LoadedInventory] = {
    "two-racks": loaded(),
    "existing-subnet": loaded(
        racks=1,
        network={"subnet": EXISTING_SUBNET},
        ssh={"public_key": PUBLIC_KEY, "jump": ["ops@bastion.example"]},
        placement={"os_disk": "premium"},
    ),
    "existing-subnet-with-jump": loaded(
        racks=1,
        zone=None,
        network={"subnet": EXISTING_SUBNET, "admin_from": ["203.0.113.0/24"]},
        tags={"note": "[not an expression]"},
    ),
    "h200-no-block": loaded(
        "h200",
        racks=1,
        vms_per_rack=2,
        vm_size="Standard_ND96isr_H200_v5",
        placement={"kind": "none"},
        network={"create": "10.8.0.0/24", "admin_from": ["192.0.2.0/24"]},
        ssh={"public_key": "./no-such-key.pub", "jump": ["ops@bastion.example"]},
        image="/subscriptions/" + SUBSCRIPTION + "/resourceGroups/rg-images/providers/Microsoft.Compute/images/hpc-1",
    ),
}


@pytest.fixture(params=sorted(CASES), scope="session")
def case(request: pytest.FixtureRequest) -> tuple[str, Rendered]:
    return request.param, render(CASES[request.param])


@pytest.fixture(scope="session")
def two_racks() -> Rendered:
    return render(CASES["two-racks"])
