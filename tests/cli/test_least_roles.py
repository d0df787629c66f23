"""Over the whole life of a cluster, each verb runs with exactly its role, and asks for every action of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ndctl.azure.clients import AzureClients, connect
from ndctl.azure.roles import covers, verb_names
from ndctl.inventory.loader import load
from ndctl.model.status import Level
from ndctl.ssh import settings
from ndctl.workflow import repair
from ndctl.workflow.host_keys import known_hosts_path
from ndctl.workflow.state_dir import cluster_dir
from ndctl.workflow.validate import Request, validate_inventories

if TYPE_CHECKING:
    from conftest import Region, Said

    from ndctl.model.findings import Run

    Ndctl = Callable[..., Said]

NODE = "rack01-n02"
_ASKING_NODES = {"validate", "exec", "first-contact", "diagnose", "report-node", "scale", "bootstrap"}
_TEMPLATES = {"plan", "deploy", "scale"}
# Actions of which a role holds more than the runs below ask for: (verbs, why they are held all the same).
HELD_ALL_THE_SAME: dict[str, tuple[set[str], str]] = {
    # The embedded region looks at its own store where Azure asks its providers in the caller's name.
    **dict.fromkeys(
        (
            "Microsoft.ManagedIdentity/userAssignedIdentities/read",
            "Microsoft.Network/natGateways/read",
            "Microsoft.Network/networkInterfaces/read",
            "Microsoft.Network/networkSecurityGroups/read",
            "Microsoft.Network/virtualNetworks/read",
        ),
        (_TEMPLATES, "read by Azure's own what-if and deployments"),
    ),
    "Microsoft.Network/virtualNetworks/subnets/read": (
        {"plan", "scale"},
        "read by Azure's own what-if and deployments",
    ),
    **dict.fromkeys(
        ("Microsoft.Compute/virtualMachines/read", "Microsoft.Network/publicIPAddresses/read"),
        (
            {"plan", "deploy"},
            "read by Azure's own what-if and deployments; scale asks how to reach nodes by the jump VM",
        ),
    ),
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/retrieveBootDiagnosticsData/action": (
        _ASKING_NODES,
        "asked where Run Command gives no host key: tests/workflow/test_host_keys.py",
    ),
    "Microsoft.Network/locations/operations/read": (
        {"preflight", *_TEMPLATES},
        "followed where Azure tells of nodeAvailability by Azure-AsyncOperation, not by Location",
    ),
    "Microsoft.Network/locations/operationResults/read": (
        {"destroy"},
        "read where Azure tells of a deletion by Location, not by Azure-AsyncOperation",
    ),
    "Microsoft.Resources/subscriptions/providers/read": (
        {"destroy"},
        "asked for a type that ndctl does not deploy and that carries the cluster's tags",
    ),
    "Microsoft.Network/routeTables/read": (
        {"diagnose", "repair"},
        "read where a given subnet names one; the embedded region has no route tables",
    ),
    "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action": (
        {"repair"},
        "a set that grows again makes a VM with the identity; whether Azure asks for it then is not documented",
    ),
    "Microsoft.Network/virtualNetworks/subnets/join/action": (
        {"repair"},
        "a set that grows again puts a VM into the subnet; whether Azure asks for it then is not documented",
    ),
}


class Roles:
    """Runs verbs one after another, each with its own role, and keeps what each asked for."""

    def __init__(self, region: Region, ndctl: Ndctl) -> None:
        self._region, self._ndctl = region, ndctl
        self._file = region.directory.file("role.json")
        self._granted: dict[str, set[str]] = {}
        self._asked: dict[str, set[str]] = {}
        self.wrong: list[str] = []

    def run(self, verb: str, inventory: Path, *more: object, code: int = 0) -> None:
        definition = json.loads(self._ndctl("roles", inventory, "--for", verb, "-o", "json").out)
        before = len(self._region.requests())
        fresh = self._file.with_name("role.new")
        fresh.write_text(json.dumps(definition))
        fresh.replace(self._file)
        try:
            said = self._ndctl(verb, inventory, *more)
        finally:
            self._file.unlink()
        made = self._region.requests()[before:]
        refused = sorted({f"{one['method']} {one['path']}" for one in made if one["status"] == 403})
        if said.code != code or refused or "AuthorizationFailed" in said.out + said.err:
            words = " ".join([verb, *map(str, more)])
            self.wrong.append(f"{words}: exit {said.code}, not {code}; refused {refused}\n{said.out}\n{said.err}")
        self._granted.setdefault(verb, set()).update(definition["Actions"], definition["DataActions"])
        self._asked.setdefault(verb, set()).update(action for one in made for action in one.get("actions", ()))

    def keys_unknown(self, inventory: Path) -> None:
        """As on a machine that never spoke to the nodes."""
        loaded = load(inventory)
        folder = cluster_dir(loaded.inventory, loaded.path)
        for file in (known_hosts_path(loaded), folder / "host_keys.json", folder / "jump.json"):
            file.unlink(missing_ok=True)

    def ran(self) -> set[str]:
        return set(self._granted)

    def idle(self, verb: str) -> set[str]:
        asked = self._asked[verb]
        return {held for held in self._granted[verb] if not any(covers(held, action) for action in asked)}


@pytest.fixture
def roles(region: Region, ndctl: Ndctl, monkeypatch: pytest.MonkeyPatch) -> Roles:
    """A node whose network is cut is not waited for as long as people wait; what `repair` validates, it asks at the
    quick level: active tests ask Azure for nothing."""
    monkeypatch.setattr(settings, "SshSettings", partial(settings.SshSettings, banner_s=3.0))

    def quickly(request: Request, **more: Any) -> Run:
        return validate_inventories(replace(request, level=Level.QUICK), **more)

    monkeypatch.setattr(repair, "validate_inventories", quickly)
    return Roles(region, ndctl)


def given_subnet(clients: AzureClients) -> str:
    """A network of somebody else's, with room for racks."""
    clients.resources.resource_groups.create_or_update("rg-net", {"location": "simregion"})  # type: ignore[call-overload]
    space = {"addressSpace": {"addressPrefixes": ["10.9.0.0/16"]}}
    subnets = [{"name": "racks", "properties": {"addressPrefix": "10.9.0.0/16"}}]
    network: Any = {"location": "simregion", **space, "properties": {**space, "subnets": subnets}}
    made = clients.network.virtual_networks.begin_create_or_update("rg-net", "net", network).result()
    return f"{made.id}/subnets/racks"


def gallery_image(clients: AzureClients) -> str:
    base = f"/subscriptions/{clients.subscription}/resourceGroups/rg-net/providers/Microsoft.Compute/galleries/gal"
    identifier = {"publisher": "p", "offer": "o", "sku": "arm"}
    arm = {"osType": "Linux", "osState": "Generalized", "identifier": identifier, "architecture": "Arm64"}
    parts: tuple[tuple[str, Any], ...] = (("", {}), ("/images/arm", arm), ("/images/arm/versions/1.0.0", {}))
    for path, properties in parts:
        body: Any = {"location": "simregion", "properties": properties}
        clients.resources.resources.begin_create_or_update_by_id(
            f"{base}{path}".lstrip("/"), body, api_version="2024-03-03"
        ).result()
    return f"{base}/images/arm/versions/1.0.0"


def a_whole_life(roles: Roles, region: Region) -> None:
    """A network and a jump VM of the cluster's own: every verb, a rack that comes half, a node that is cut off."""
    ssh = {"port": region.running.ssh_port, "public_key": "id_ed25519.pub", "jump": ["created"]}
    inventory = region.inventory(vms_per_rack=2, ssh=ssh)
    cluster = load(inventory).inventory.cluster
    for verb, options in (("preflight", ()), ("plan", ()), ("deploy", ("--yes",))):
        roles.run(verb, inventory, *options, *(("--for", verb) if verb == "preflight" else ()))
    region.change(inventory, racks=2)
    region.faults.add("half-allocated", rack=2, count=1)
    roles.run("preflight", inventory, "--for", "preflight")
    roles.run("plan", inventory)
    roles.run("deploy", inventory, "--yes", code=6)
    roles.run("preflight", inventory, "--for", "preflight")
    region.faults.clear()
    roles.run("scale", inventory, "--racks", 3, "--yes", "--write")
    for verb in ("status", "drift", "nodes"):
        roles.run(verb, inventory)
    region.faults.add("nvlink-down", node=NODE, cluster=cluster, gpu=2, link=8)
    roles.run("validate", inventory, "--level", "quick", code=7)
    with closing(connect(load(inventory))) as clients:
        clients.resources.providers.register("Microsoft.Impact")
    roles.keys_unknown(inventory)
    roles.run("report-node", inventory, NODE, "--send", "--wait", "--wait-s", "5")
    region.faults.clear()
    for verb, more in (("exec", ("--", "hostname")), ("first-contact", ()), ("diagnose", (NODE,))):
        roles.keys_unknown(inventory)
        roles.run(verb, inventory, *more)
    region.faults.add("network-cut", node=NODE, cluster=cluster)
    roles.run("diagnose", inventory, NODE, code=8)
    roles.run("repair", inventory, NODE, "--action", "reboot", "--force", "--dry-run")
    region.faults.clear()
    roles.keys_unknown(inventory)
    for action in ("restart-imex", "reset-gpu", "reboot", "reimage", "redeploy", "replace"):
        roles.run("repair", inventory, NODE, "--action", action, "--yes")
    roles.keys_unknown(inventory)
    roles.run("scale", inventory, "--racks", 1, "--yes", "--write")
    roles.run("destroy", inventory, "--yes")


def in_a_given_subnet(roles: Roles, region: Region) -> None:
    """A subnet and an image of somebody else's; the first rack comes by `scale`."""
    inventory = region.inventory(vms_per_rack=2)
    with closing(connect(load(inventory))) as clients:
        subnet, image = given_subnet(clients), gallery_image(clients)
    region.change(inventory, network={"subnet": subnet})
    roles.run("preflight", region.change(inventory, image=image), "--for", "preflight")
    region.change(inventory, image=load(region.inventory()).inventory.image)
    roles.run("plan", inventory)
    roles.run("scale", inventory, "--racks", 1, "--yes")
    for verb in ("status", "drift"):
        roles.run(verb, inventory)
    region.faults.add("network-cut", node=NODE, cluster=load(inventory).inventory.cluster)
    roles.run("diagnose", inventory, NODE, code=8)
    region.faults.clear()
    roles.run("repair", inventory, NODE, "--action", "replace", "--yes")
    roles.run("destroy", inventory, "--yes")


def test_each_verb_needs_just_its_role(region: Region, roles: Roles) -> None:
    a_whole_life(roles, region)
    in_a_given_subnet(roles, region)
    unattended = region.inventory(vms_per_rack=2)
    roles.run("bootstrap", unattended, "--yes", "--level", "quick")
    assert not roles.wrong, "\n\n".join(roles.wrong)
    assert roles.ran() == set(verb_names())
    # The role of bootstrap is those of its verbs: tests/azure/test_roles.py.
    idle = {verb: roles.idle(verb) - held_all_the_same(verb) for verb in verb_names() if verb != "bootstrap"}
    assert {verb: sorted(actions) for verb, actions in idle.items() if actions} == {}
    asked_after_all = {
        (verb, action)
        for action, (verbs, _) in HELD_ALL_THE_SAME.items()
        for verb in verbs - {"bootstrap"}
        if action not in roles.idle(verb)
    }
    assert asked_after_all == set()


def held_all_the_same(verb: str) -> set[str]:
    return {action for action, (verbs, _) in HELD_ALL_THE_SAME.items() if verb in verbs}
