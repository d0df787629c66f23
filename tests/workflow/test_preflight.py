"""Pre-flight line by line: what is there, what refuses, and what a call that fails leaves open."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ndctl.azure.clients import AzureClients, connect
from ndctl.inventory.loader import Loaded, load
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.preflight import Preflight, PreflightLine, Standing
from ndctl.workflow.deploy import deploy
from ndctl.workflow.plan import make_plan
from ndctl.workflow.preflight import preflight, preflight_all
from ndctl.workflow.prepare import render_to_deploy

if TYPE_CHECKING:
    from conftest import Region


def line(found: Preflight, id: str) -> PreflightLine:
    (one,) = (line for line in found.lines if line.id == id)
    return one


def refusing(found: Preflight) -> list[str]:
    return [one.id for one in found.refused]


def deployed(loaded: Loaded) -> Loaded:
    clients = connect(loaded)
    try:
        rendered = render_to_deploy(loaded)
        result = deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients)
        assert result.exit_code is ExitCode.OK
    finally:
        clients.close()
    return loaded


@pytest.fixture
def clients(region: Region) -> Iterator[AzureClients]:
    """For whatever a test has to put into the region itself."""
    own = connect(region.loaded())
    yield own
    own.close()


def test_an_empty_region_refuses_nothing_and_says_what_only_deploy_can_tell(region: Region) -> None:
    found = preflight(region.loaded(racks=2))
    assert found.exit_code is ExitCode.OK and refusing(found) == []
    assert [one.id for one in found.lines if one.standing is Standing.UNPROVED] == ["racks", "blocks"]
    who = line(found, "signed-in")
    assert who.facts["kind"] == "service principal" and who.facts["object_id"] and who.facts["tenant"] in who.message
    assert line(found, "quota.family").facts["needed"] == 2 * 18 * 128
    assert all(one.source and (one.standing is Standing.PROVED or one.next_step) for one in found.lines)


def test_what_stands_is_not_counted_twice(region: Region) -> None:
    loaded = deployed(region.loaded(racks=1))
    used = int(line(preflight(load(region.change(loaded.path, racks=2))), "quota.family").facts["used"])
    region.faults.add("quota-exceeded", limit=used)
    same = preflight(load(region.change(loaded.path, racks=1)))
    assert refusing(same) == [] and line(same, "quota.family").facts["needed"] == 0
    assert line(same, "blocks").standing is line(same, "racks").standing is Standing.PROVED
    grown = preflight(load(region.change(loaded.path, racks=2)))
    assert refusing(grown) == ["quota.family"] and grown.exit_code is ExitCode.PREFLIGHT
    assert line(grown, "quota.family").facts["limit_needed"] == used + 18 * 128


def test_a_rack_that_came_half_needs_the_cores_of_its_block_only_once(region: Region) -> None:
    loaded = region.loaded(racks=1)
    region.faults.add("half-allocated", rack=1, count=16)
    clients = connect(loaded)
    rendered = render_to_deploy(loaded)
    deploy(loaded, rendered, make_plan(loaded, rendered, clients), clients)
    clients.close()
    assert line(preflight(loaded), "quota.family").facts["needed"] == 0


@pytest.mark.parametrize(
    ("kind", "where", "refused", "code"),
    [
        ("quota-exceeded", {"limit": 100}, ["quota.family"], 4),
        ("provider-unregistered", {"namespace": "Microsoft.Network"}, ["providers"], 4),
        ("size-restricted", {}, ["size"], 4),
        ("size-restricted", {"zone": "1", "reason": "QuotaId"}, ["size"], 4),
        ("permission-denied", {"action": "Microsoft.Resources/deployments/write"}, ["permissions.deploy"], 3),
    ],
)
def test_faults_that_refuse(region: Region, kind: str, where: dict[str, Any], refused: list[str], code: int) -> None:
    region.faults.add(kind, **where)
    found = preflight(region.loaded())
    assert (refusing(found), found.exit_code) == (refused, code)
    assert all(one.next_step for one in found.refused)
    if kind == "size-restricted":
        assert where.get("reason", "NotAvailableForSubscription") in line(found, "size").message


@pytest.mark.parametrize("status", [403, 404, 500])
@pytest.mark.parametrize(
    ("path", "open_lines"),
    [
        ("Microsoft.Compute/skus", {"size", "quota.family", "quota.region"}),
        ("/usages", {"quota.family", "quota.region"}),
        (
            "Microsoft.Authorization/permissions",
            {f"permissions.{v}" for v in ("preflight", "plan", "deploy", "validate")},
        ),
        ("/providers/Microsoft.Network?", {"providers"}),
    ],
)
def test_a_call_that_fails_proves_nothing(region: Region, path: str, status: int, open_lines: set[str]) -> None:
    region.faults.add("call-fails", path=path.rstrip("?"), status=status)
    found = preflight(region.loaded())
    assert refusing(found) == [] and found.exit_code is ExitCode.OK
    unproved = {one.id for one in found.lines if one.standing is Standing.UNPROVED}
    assert unproved >= open_lines
    told = [line(found, one).message for one in open_lines]
    assert all({403: "AuthorizationFailed", 404: "NotFound", 500: "InternalServerError"}[status] in one for one in told)


def test_whole_racks_are_counted(region: Region) -> None:
    loaded = deployed(region.loaded(racks=1))
    grown = load(region.change(loaded.path, racks=3))
    assert line(preflight(grown), "racks").standing is Standing.PROVED
    region.faults.add("racks-out-of-service", count=80)
    found = preflight(grown)
    assert refusing(found) == ["racks"]
    assert line(found, "racks").facts == {
        "needed": 2,
        "whole_racks": 0,
        "free_nodes": line(found, "racks").facts["free_nodes"],
    }


def test_a_name_that_somebody_else_has_is_in_the_way(region: Region, clients: AzureClients) -> None:
    loaded = region.loaded()
    cluster, group = loaded.inventory.cluster, str(loaded.inventory.resource_group)
    clients.resources.resource_groups.create_or_update(group, {"location": "simregion"})  # type: ignore[call-overload]
    clients.network.network_security_groups.begin_create_or_update(
        group, f"{cluster}-nsg", {"location": "simregion", "tags": {"owner": "others"}}
    ).result()
    found = preflight(loaded)
    assert refusing(found) == ["names"]
    assert f"networkSecurityGroups/{cluster}-nsg (without the cluster's tags)" in line(found, "names").message


def test_a_given_subnet_needs_room_and_the_right_region(region: Region, clients: AzureClients) -> None:
    clients.resources.resource_groups.create_or_update("rg-net", {"location": "simregion"})  # type: ignore[call-overload]
    for name, place, prefix in (("small", "simregion", "10.1.0.0/27"), ("far", "westeurope", "10.2.0.0/16")):
        clients.network.virtual_networks.begin_create_or_update(
            "rg-net",
            name,
            {
                "location": place,
                "addressSpace": {"addressPrefixes": [prefix]},
                "properties": {
                    "addressSpace": {"addressPrefixes": [prefix]},
                    "subnets": [{"name": "racks", "properties": {"addressPrefix": prefix}}],
                },
            },  # type: ignore[arg-type]
        ).result()
    base = f"/subscriptions/{clients.subscription}/resourceGroups/rg-net/providers/Microsoft.Network/virtualNetworks"

    def subnet(network: str, racks: int) -> PreflightLine:
        given = {"subnet": f"{base}/{network}/subnets/racks"}
        return line(preflight(region.loaded(racks=racks, network=given)), "subnet")

    assert subnet("small", 1).standing is Standing.PROVED
    assert subnet("small", 1).facts == {"used": 0, "limit": 27, "needed": 18}
    crowded = subnet("small", 2)
    assert crowded.refused and "27 free addresses of 27, 36 more are needed" in crowded.message
    assert subnet("far", 1).refused and "is in westeurope" in subnet("far", 1).message
    gone = subnet("gone", 1)
    assert gone.refused and "there is no /subscriptions/" in gone.message
    region.faults.add("call-fails", path="virtualNetworks/small/usages", status=403)
    counted = subnet("small", 2)
    assert counted.refused and counted.facts["limit"] == 27


@pytest.mark.parametrize(
    ("image", "standing", "words"),
    [
        ("microsoft-dsvm:ubuntu-hpc:2404-gb:24.04.1900010101", Standing.REFUSED, "newest there: 24.04.2026051901"),
        ("microsoft-dsvm:ubuntu-hpc:2204:22.04.2026042101", Standing.REFUSED, "is for x64"),
        ("microsoft-dsvm:nothing:2404-gb:1.0.0", Standing.REFUSED, "publisher, offer or sku is not there"),
        ("microsoft-dsvm:ubuntu-hpc:2404-gb:latest", Standing.UNPROVED, "'latest' is 24.04.2026051901 today"),
    ],
)
def test_images_of_the_marketplace(region: Region, image: str, standing: Standing, words: str) -> None:
    told = line(preflight(region.loaded(image=image)), "image")
    assert told.standing is standing and words in told.message and told.next_step


def test_images_of_ones_own(region: Region, clients: AzureClients) -> None:
    clients.resources.resource_groups.create_or_update("rg-img", {"location": "simregion"})  # type: ignore[call-overload]
    base = f"/subscriptions/{clients.subscription}/resourceGroups/rg-img/providers/Microsoft.Compute/galleries/gal"

    def put(path: str, **properties: Any) -> None:
        clients.resources.resources.begin_create_or_update_by_id(
            f"{base}{path}".lstrip("/"),
            {"location": "simregion", "properties": properties},  # type: ignore[arg-type]
            api_version="2024-03-03",
        ).result()

    put("")
    for name, processor in (("arm", "Arm64"), ("intel", "x64")):
        identifier = {"publisher": "p", "offer": "o", "sku": name}
        put(f"/images/{name}", osType="Linux", osState="Generalized", identifier=identifier, architecture=processor)
    put("/images/arm/versions/1.0.0")
    put("/images/arm/versions/2.0.0", publishingProfile={"targetRegions": [{"name": "West Europe"}]})

    def image(path: str) -> PreflightLine:
        return line(preflight(region.loaded(image=f"{base}{path}")), "image")

    assert image("/images/arm/versions/1.0.0").standing is Standing.PROVED
    assert image("/images/arm").standing is Standing.UNPROVED
    assert image("/images/intel").refused and "is for x64" in image("/images/intel").message
    assert image("/images/arm/versions/2.0.0").refused
    assert "does not exist" in image("/images/arm/versions/9.9.9").message


def test_keys(region: Region, tmp_path: Path) -> None:
    def rsa_key(bits: int) -> str:
        key = rsa.generate_private_key(65537, bits).public_key()
        return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    def told(text: str) -> PreflightLine:
        path = tmp_path / "key.pub"
        path.write_text(text)
        ssh = {"user": "azureuser", "public_key": str(path)}
        return line(preflight(region.loaded(ssh=ssh)), "ssh-key")

    assert told(rsa_key(3072)).standing is Standing.PROVED
    assert "2048 bits" in told(rsa_key(2048)).message and told(rsa_key(2048)).refused
    blob = base64.b64encode(b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20" + b"k" * 32).decode()
    assert told(f"ssh-ed25519 {blob} me").standing is Standing.PROVED
    assert "ends too early" in told(f"ssh-ed25519 {base64.b64encode(base64.b64decode(blob)[:-4]).decode()}").message
    assert "another type" in told(f"ssh-rsa {blob}").message
    for bad in (
        "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n",
        "ecdsa-sha2-nistp256 AAAA",
        "ssh-ed25519 !!!",
        "",
        "\n# no\n",
    ):
        assert told(bad).refused, bad
    gone = preflight(region.loaded(ssh={"user": "azureuser", "public_key": str(tmp_path / "none.pub")}))
    assert line(gone, "ssh-key").refused


def test_nobody_signed_in_is_refused_and_the_rest_left_open(region: Region, tmp_path: Path) -> None:
    loaded = region.loaded()
    identity = region.directory.file("identity-gone.json")
    identity.write_text('{"tenant_id": "t", "client_id": "c", "token_file": "nothing.jwt"}')
    told = dict(loaded.inventory.cloud.model_dump()) if not isinstance(loaded.inventory.cloud, str) else {}
    cloud = {key: value for key, value in told.items() if value} | {"identity": identity.name}
    found = preflight(load(region.change(loaded.path, cloud=cloud)))
    assert refusing(found) == ["signed-in"] and found.exit_code is ExitCode.PERMISSION
    assert line(found, "ssh-key").standing is line(found, "templates").standing is Standing.PROVED
    assert {one.standing for one in found.lines if one.id.startswith(("quota", "permissions", "size"))} == {
        Standing.UNPROVED
    }


def test_another_subscription_or_tenant_is_told(region: Region) -> None:
    other = preflight(region.loaded(subscription="12345678-0000-0000-0000-000000000000"))
    assert refusing(other)[:1] == ["signed-in"] and other.exit_code is ExitCode.PERMISSION
    assert "SubscriptionNotFound" in line(other, "signed-in").message
    tenant = preflight(region.loaded(tenant="99999999-9999-4999-8999-999999999999"))
    assert refusing(tenant) == ["signed-in"] and "az login --tenant 9999" in line(tenant, "signed-in").next_step


def test_several_inventories_side_by_side(region: Region) -> None:
    good, bad = region.loaded(), region.loaded(zone="3")
    found = preflight_all([good, bad])
    assert [one.cluster for one in found] == [good.inventory.cluster, bad.inventory.cluster]
    assert [int(one.exit_code) for one in found] == [0, 4] and refusing(found[1]) == ["size"]


def test_only_known_verbs(region: Region) -> None:
    with pytest.raises(NdctlError, match="fly") as caught:
        preflight(region.loaded(), ("fly",))
    assert caught.value.exit_code is ExitCode.USAGE


def test_preflight_changes_nothing(region: Region) -> None:
    loaded = deployed(region.loaded())
    before = len(region.requests())
    preflight(load(region.change(loaded.path, racks=2)))
    asked = region.requests()[before:]
    assert {one["method"] for one in asked} <= {"GET", "HEAD", "POST"}
    assert all(one["path"].endswith(("/token", "/nodeAvailability")) for one in asked if one["method"] == "POST")


def test_plan_says_when_all_racks_together_are_too_many(region: Region) -> None:
    loaded = deployed(region.loaded())
    used = int(line(preflight(load(region.change(loaded.path, racks=3))), "quota.family").facts["used"])
    region.faults.add("quota-exceeded", limit=used + 18 * 128)
    clients = connect(loaded)
    grown = load(region.change(loaded.path, racks=3))
    plan = make_plan(grown, render_to_deploy(grown), clients)
    clients.close()
    assert [step.fault for step in plan.racks] == [None] * 3  # what-if asks for each rack alone
    assert len(plan.preflight) == 1 and plan.preflight[0].startswith("quota would refuse it: needs 4,608 more vCPUs")
