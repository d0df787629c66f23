"""What the region offers, as ARM lists it: resource SKUs, images, providers, locations."""

from __future__ import annotations

import re

from ndctl.sim.arm.catalogue import IMAGES, LOCATIONS, NAMESPACES, SIZES, TYPES, ZONES, Image, Size, find_image
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.http import Answer, Request
from ndctl.sim.arm.refusals import Refusals
from ndctl.sim.arm.region import Body

_FILTER = re.compile(r"^\s*location\s+eq\s+'([^']*)'\s*$", re.IGNORECASE)


def skus(subscription: str, filter_text: str, refusals: Refusals) -> list[Body]:
    """Resource SKUs; `filter_text` is empty or location eq '…', the only filter Azure knows here."""
    wanted = None
    if filter_text:
        match = _FILTER.match(filter_text)
        if match is None:
            raise ArmError(400, "InvalidParameter", f"The filter '{filter_text}' is not supported.", target="$filter")
        wanted = match[1].lower()
    return [_sku(size, place, refusals) for place in LOCATIONS if wanted in (None, place) for size in SIZES.values()]


def _sku(size: Size, location: str, refusals: Refusals) -> Body:
    capabilities = {
        "MaxResourceVolumeMB": "0",
        "OSVhdSizeMB": "1047552",
        "vCPUs": str(size.vcpus),
        "HyperVGenerations": "V2" if size.rack else "V1,V2",
        "MemoryGB": f"{size.memory_gib:g}",
        "MaxDataDiskCount": "16",
        "CpuArchitectureType": size.architecture,
        "LowPriorityCapable": "False",
        "PremiumIO": "True",
        "vCPUsAvailable": str(size.vcpus),
        "vCPUsPerCore": "1",
        "EphemeralOSDiskSupported": str(size.ephemeral),
        "EncryptionAtHostSupported": "True",
        "DiskControllerTypes": "NVMe" if size.nvme_only else "SCSI,NVMe",
        "AcceleratedNetworkingEnabled": "True",
        "RdmaEnabled": str(size.rack or size.gpus > 0),
        "MaxNetworkInterfaces": "8",
    }
    if size.gpus:  # rack sizes are listed without it
        capabilities["GPUs"] = str(size.gpus)
    missing = [zone for zone in ZONES if zone not in size.zones]
    restrictions = refusals.restrictions(size, location)
    if missing:
        restrictions.append(
            {
                "type": "Zone",
                "values": [location],
                "restrictionInfo": {"locations": [location], "zones": missing},
                "reasonCode": "NotAvailableForSubscription",
            }
        )
    return {
        "resourceType": "virtualMachines",
        "name": size.name,
        "tier": "Standard",
        "size": size.name.removeprefix("Standard_"),
        "family": size.family,
        "locations": [location],
        "locationInfo": [{"location": location, "zones": list(ZONES), "zoneDetails": []}],
        "capabilities": [{"name": key, "value": value} for key, value in capabilities.items()],
        "restrictions": restrictions,
    }


def images(request: Request, subscription: str, location: str, rest: tuple[str, ...]) -> Answer:
    """Below …/locations/L/publishers: publishers, offers, skus, versions, one version. These are plain JSON lists."""
    base = f"/Subscriptions/{subscription}/Providers/Microsoft.Compute/Locations/{location}/Publishers"
    names = [one for index, one in enumerate(rest) if index in (0, 4, 6, 8)]
    kinds = tuple(one.lower() for index, one in enumerate(rest) if index not in (0, 4, 6, 8))
    expected = ("artifacttypes", "vmimage", "offers", "skus", "versions")
    if kinds != expected[: len(kinds)] or len(kinds) == 1:
        raise ArmError(404, "NotFound", f"The path '{request.path}' was not found.")

    def entry(name: str, path: str) -> Body:
        return {"location": location, "name": name, "id": f"{base}/{path}"}

    if not names:
        return Answer(200, [entry(one, one) for one in dict.fromkeys(image.publisher for image in IMAGES)])
    lower = [name.lower() for name in names]
    found = [image for image in IMAGES if image.publisher.lower() == lower[0]]
    if not found:
        raise ArmError(404, "NotFound", f"Artifact: publisher {names[0]} was not found.")
    if len(names) == 1:
        return Answer(
            200, [entry(one, f"{names[0]}/ArtifactTypes/VMImage/Offers/{one}") for one in _unique(found, "offer")]
        )
    found = [image for image in found if image.offer.lower() == lower[1]]
    offer = f"{names[0]}/ArtifactTypes/VMImage/Offers/{names[1]}"
    if not found:
        raise ArmError(404, "NotFound", f"Artifact: VMImage offer {names[1]} was not found.")
    if len(names) == 2:
        return Answer(200, [entry(one, f"{offer}/Skus/{one}") for one in _unique(found, "sku")])
    image = find_image(*names[:3])
    if image is None:
        raise ArmError(404, "NotFound", f"Artifact: VMImage sku {names[2]} was not found.")
    versions = f"{offer}/Skus/{names[2]}/Versions"
    if len(names) == 3:
        return Answer(200, [entry(one, f"{versions}/{one}") for one in _selected(request, image)])
    version = image.versions[-1] if lower[3] == "latest" else names[3]
    if version not in image.versions:
        raise ArmError(404, "NotFound", f"Artifact: VMImage version {names[3]} was not found.")
    return Answer(200, {**entry(version, f"{versions}/{version}"), "properties": _image_properties(image)})


def _selected(request: Request, image: Image) -> list[str]:
    """$orderby=name desc and $top, as the SDK's `list` sends them."""
    found = sorted(image.versions, reverse="desc" in request.query.get("$orderby", "").lower())
    top = request.query.get("$top", "")
    return found[: int(top)] if top.isdigit() else found


def _image_properties(image: Image) -> Body:
    return {
        "plan": None,
        "hyperVGeneration": "V2",
        "architecture": image.architecture,
        "replicaType": "Managed",
        "osDiskImage": {"operatingSystem": "Linux", "sizeInGb": 64},
        "dataDiskImages": [],
        "automaticOSUpgradeProperties": {"automaticOSUpgradeSupported": False},
        "disallowed": {"vmDiskType": "None"},
        "features": [{"name": "DiskControllerTypes", "value": "SCSI, NVMe"}],
        "imageDeprecationStatus": {"imageState": "Active"},
    }


def _unique(found: list[Image], key: str) -> list[str]:
    return list(dict.fromkeys(str(getattr(image, key)) for image in found))


def provider(subscription: str, namespace: str, state: str) -> Body:
    """A resource provider with its types and their API versions."""
    proper = next((one for one in NAMESPACES if one.lower() == namespace.lower()), "")
    if not proper:
        raise ArmError(404, "InvalidResourceNamespace", f"The resource namespace '{namespace}' is invalid.")
    kinds = [one for one in TYPES.values() if one.name.split("/")[0] == proper]
    return {
        "id": f"/subscriptions/{subscription}/providers/{proper}",
        "namespace": proper,
        "registrationPolicy": "RegistrationRequired",
        "registrationState": state,
        "resourceTypes": [
            {
                "resourceType": one.name.partition("/")[2],
                "locations": list(LOCATIONS.values()),
                "apiVersions": list(reversed(one.versions)),
                "capabilities": "SupportsTags, SupportsLocation" if one.tracked else "None",
            }
            for one in kinds
        ],
    }


def locations(subscription: str) -> list[Body]:
    return [
        {
            "id": f"/subscriptions/{subscription}/locations/{name}",
            "name": name,
            "type": "Region",
            "displayName": label,
            "regionalDisplayName": label,
            "metadata": {"regionType": "Physical", "regionCategory": "Recommended"},
            "availabilityZoneMappings": [{"logicalZone": zone, "physicalZone": f"{name}-az{zone}"} for zone in ZONES],
        }
        for name, label in LOCATIONS.items()
    ]
