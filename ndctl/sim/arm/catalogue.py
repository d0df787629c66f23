"""What the region offers: resource types with their API versions, locations, VM sizes and images.

API versions are those the official SDKs (compute 39, network 33, resource 26, resource-deployments 2.0, msi 7.1) send
and the public ARM schemas list; the region knows these and refuses others, as ARM does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LOCATIONS: Mapping[str, str] = {
    "simregion": "Sim Region",
    "swedencentral": "Sweden Central",
    "westeurope": "West Europe",
    "northeurope": "North Europe",
    "eastus": "East US",
    "eastus2": "East US 2",
    "southcentralus": "South Central US",
    "westus2": "West US 2",
    "westus3": "West US 3",
    "centralus": "Central US",
    "uksouth": "UK South",
    "usgovvirginia": "USGov Virginia",
}
ZONES = ("1", "2", "3")
# GB300 stands in these zones only; the third one has none, so that a wrong zone can be tried.
RACK_ZONES = ("1", "2")
RACKS_PER_ZONE = 80  # physical racks; a group sees all of its zone in nodeAvailability

_RESOURCES = (
    "2019-10-01", "2020-06-01", "2020-10-01", "2021-01-01", "2021-04-01", "2022-09-01", "2023-07-01", "2024-03-01",
    "2024-07-01", "2024-11-01", "2025-03-01", "2025-04-01", "2026-06-01",
)  # fmt: skip
_COMPUTE = (
    "2023-09-01", "2024-03-01", "2024-07-01", "2024-11-01", "2025-04-01", "2025-11-01", "2026-03-01", "2026-04-01",
)  # fmt: skip
_BLOCKS = ("2025-11-01", "2026-03-01", "2026-04-01")
_NETWORK = (
    "2023-11-01", "2024-03-01", "2024-05-01", "2024-07-01", "2024-10-01", "2025-01-01", "2025-03-01", "2025-05-01",
    "2025-07-01", "2026-03-01",
)  # fmt: skip
_GROUPS = ("2025-07-01", "2026-03-01")
_SCALE_SET_NICS = ("2018-10-01", *_NETWORK)
_IDENTITY = ("2018-11-30", "2023-01-31", "2024-11-30", "2025-05-31-preview")
_GALLERIES = ("2022-08-03", "2023-07-03", "2024-03-03", "2025-03-03")
_IMPACT = ("2022-11-01-preview", "2023-02-01-preview", "2023-12-01-preview", "2025-01-01-preview")
_DISKS = ("2024-03-02", "2025-01-02", "2026-03-02")


@dataclass(frozen=True, slots=True)
class ResourceType:
    """`tracked`: has a location and tags, and is listed in its resource group."""

    name: str
    versions: tuple[str, ...]
    tracked: bool = True


_TYPES = (
    ResourceType("Microsoft.Resources/subscriptions", _RESOURCES, False),
    ResourceType("Microsoft.Resources/subscriptions/resourceGroups", _RESOURCES, False),
    ResourceType("Microsoft.Resources/deployments", _RESOURCES, False),
    ResourceType("Microsoft.Resources/tags", _RESOURCES, False),
    ResourceType("Microsoft.ManagedIdentity/userAssignedIdentities", _IDENTITY),
    ResourceType("Microsoft.Network/virtualNetworks", _NETWORK),
    ResourceType("Microsoft.Network/virtualNetworks/subnets", _NETWORK, False),
    ResourceType("Microsoft.Network/networkSecurityGroups", _NETWORK),
    ResourceType("Microsoft.Network/natGateways", _NETWORK),
    ResourceType("Microsoft.Network/publicIPAddresses", _NETWORK),
    ResourceType("Microsoft.Network/networkInterfaces", _NETWORK),
    ResourceType("Microsoft.Network/interconnectGroups", _GROUPS),
    ResourceType("Microsoft.Network/interconnectGroups/subgroups", _GROUPS, False),
    ResourceType("Microsoft.Compute/interconnectBlocks", _BLOCKS),
    ResourceType("Microsoft.Compute/virtualMachines", _COMPUTE),
    ResourceType("Microsoft.Compute/disks", _DISKS),
    ResourceType("Microsoft.Compute/galleries", _GALLERIES),
    ResourceType("Microsoft.Compute/galleries/images", _GALLERIES, False),
    ResourceType("Microsoft.Compute/galleries/images/versions", _GALLERIES, False),
    ResourceType("Microsoft.Compute/images", _COMPUTE),
    ResourceType("Microsoft.Compute/virtualMachineScaleSets", _COMPUTE),
    ResourceType("Microsoft.Compute/virtualMachineScaleSets/virtualMachines", _COMPUTE, False),
    ResourceType("Microsoft.Compute/virtualMachineScaleSets/networkInterfaces", _SCALE_SET_NICS, False),
    ResourceType("Microsoft.Compute/virtualMachineScaleSets/virtualMachines/networkInterfaces", _SCALE_SET_NICS, False),
    ResourceType("Microsoft.Impact/workloadImpacts", _IMPACT, False),
    ResourceType("Microsoft.Compute/skus", ("2019-04-01", "2021-07-01"), False),
    ResourceType("Microsoft.Compute/locations/usages", _COMPUTE, False),
    ResourceType("Microsoft.Compute/locations/publishers", _COMPUTE, False),
    ResourceType("Microsoft.Network/virtualNetworks/usages", _NETWORK, False),
    ResourceType("Microsoft.Authorization/permissions", ("2015-07-01", "2018-07-01", "2022-04-01"), False),
)
TYPES: Mapping[str, ResourceType] = {one.name.lower(): one for one in _TYPES}
NAMESPACES = tuple(dict.fromkeys(one.name.split("/")[0] for one in _TYPES))


def canonical_type(name: str) -> str:
    """The type's name in Azure's own case; unknown types come back as they are."""
    known = TYPES.get(name.lower())
    return known.name if known else name


def location_name(text: str) -> str:
    """ "Sweden Central" → "swedencentral"."""
    return text.replace(" ", "").lower()


@dataclass(frozen=True, slots=True)
class Size:
    """A VM size. family as resource SKUs spell it. `rack`: built as NVL72 racks, NVMe only, no GPUs capability."""

    name: str
    family: str
    vcpus: int
    memory_gib: float
    architecture: str
    zones: tuple[str, ...] = ZONES
    rack: bool = False
    gpus: int = 0
    nvme_only: bool = False
    ephemeral: bool = True
    capabilities: Mapping[str, str] = field(default_factory=dict)


_SIZES = (
    Size("Standard_ND128isr_GB300_v6", "standardNDISRGB300V6Family", 128, 864, "Arm64", RACK_ZONES, rack=True,
         nvme_only=True),
    Size("Standard_ND128isrG5_GB300_v6", "standardNDISRGB300V6Family", 128, 864, "Arm64", RACK_ZONES, rack=True,
         nvme_only=True),
    Size("Standard_ND128isr_NDR_GB200_v6", "standardNDISRGB200V6NDRFamily", 128, 864, "Arm64", RACK_ZONES, rack=True,
         nvme_only=True),
    Size("Standard_ND96isr_H200_v5", "standardNDISRH200V5Family", 96, 1850, "x64", gpus=8),
    Size("Standard_ND96isr_H100_v5", "standardNDISRH100V5Family", 96, 1900, "x64", gpus=8),
    Size("Standard_D2s_v5", "standardDSv5Family", 2, 8, "x64", ephemeral=False),
    Size("Standard_D4s_v5", "standardDSv5Family", 4, 16, "x64", ephemeral=False),
    Size("Standard_D2ps_v6", "standardDPSv6Family", 2, 8, "Arm64", ephemeral=False),
)  # fmt: skip
SIZES: Mapping[str, Size] = {size.name.lower(): size for size in _SIZES}

# vCPU quota by family, and of the whole region; a planted fault can lower it.
FAMILY_LIMIT = 200_000
CORES_LIMIT = 400_000


@dataclass(frozen=True, slots=True)
class Image:
    publisher: str
    offer: str
    sku: str
    versions: tuple[str, ...]
    architecture: str


IMAGES = (
    Image("microsoft-dsvm", "ubuntu-hpc", "2404-gb", ("24.04.2025110401", "24.04.2026051901"), "Arm64"),
    Image("microsoft-dsvm", "ubuntu-hpc", "2204", ("22.04.2025091001", "22.04.2026042101"), "x64"),
    Image("microsoft-dsvm", "ubuntu-hpc", "2404", ("24.04.2025110401", "24.04.2026051901"), "x64"),
    Image("Canonical", "ubuntu-24_04-lts", "server", ("24.04.202510310", "24.04.202611120"), "x64"),
    Image("Canonical", "ubuntu-24_04-lts", "server-arm64", ("24.04.202510310", "24.04.202611120"), "Arm64"),
)


def find_image(publisher: str, offer: str, sku: str) -> Image | None:
    wanted = (publisher.lower(), offer.lower(), sku.lower())
    return next((one for one in IMAGES if (one.publisher.lower(), one.offer.lower(), one.sku.lower()) == wanted), None)
