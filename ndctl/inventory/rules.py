"""What no single key can know: does the inventory fit its profile, its network and Azure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from ndctl.inventory.addresses import Address, expand
from ndctl.inventory.schema import CustomCloud, Inventory
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.profiles.loader import for_vm_size
from ndctl.profiles.loader import load as load_profile
from ndctl.profiles.marked_yaml import Document, KeyPath
from ndctl.profiles.schema import Profile

# Azure keeps the first four addresses and the last of every subnet; the racks' subnet is half of the network.
_AZURE_RESERVED = 5
# ndctl sets three tags of its own on what it creates, and Azure allows fifty.
_OWN_TAGS = ("managed-by", "ndctl-cluster", "ndctl-rack")
_AZURE_TAGS = 50
# Names that Azure refuses for an administrator (learn.microsoft.com, virtual machines FAQ, read 2026-12).
_REFUSED_USERS = frozenset(
    {"administrator", "admin", "admin1", "admin2", "adm", "user", "user1", "user2", "user3", "user4", "user5"}
    | {"test", "test1", "test2", "test3", "1", "123", "a", "actuser", "aspnet", "backup", "console", "david", "guest"}
    | {"john", "owner", "root", "server", "sql", "support", "support_388945a0", "sys"}
)
_REGION_OF_CLOUD = {"usgov": ("usgov", "usdod"), "china": ("china",)}


def find_profile(inventory: Inventory, document: Document) -> Profile:
    """The profile that is named, else that of the VM size. Raises NdctlError at the key that names it."""
    key = "profile" if inventory.profile is not None else "vm_size"
    try:
        if inventory.profile is not None:
            return load_profile(inventory.profile)
        return for_vm_size(inventory.vm_size or "")
    except NdctlError as error:
        if error.code not in ("profile.unknown", "profile.unknown-size"):
            raise
        hint = error.hint
        if key == "vm_size" and not hint.startswith("did you mean"):
            hint = f"{hint}; or name a 'profile' for it"
        raise _error(document, (key,), error.code, error.message, hint) from error


def broken_rules(inventory: Inventory, profile: Profile, document: Document) -> Iterator[NdctlError]:
    """Every rule the inventory breaks, as an error at the key to mend."""
    if inventory.static is None:
        yield from _size(inventory, profile, document)
        yield from _network(inventory, profile, document)
        yield from _azure_words(inventory, document)
    else:
        yield from _static(inventory, profile, document)


def _error(document: Document, path: KeyPath, code: str, message: str, hint: str = "") -> NdctlError:
    where = document.where_value(path)
    return NdctlError(f"inventory.{code.rpartition('.')[2]}", message, hint=hint, where=where, exit_code=ExitCode.USAGE)


def _size(inventory: Inventory, profile: Profile, document: Document) -> Iterator[NdctlError]:
    most = profile.vms_per_rack.value
    if profile.nvlink.domain.value == "rack" and (inventory.vms_per_rack or 0) > most:
        message = f"vms_per_rack {inventory.vms_per_rack}, and a rack of profile {profile.name} has {most}"
        yield _error(document, ("vms_per_rack",), "rack-size", message, f"leave it out for {most}")


def _network(inventory: Inventory, profile: Profile, document: Document) -> Iterator[NdctlError]:
    network = inventory.network
    if network is None:
        return
    if network.create is not None:
        nodes = (inventory.racks or 0) * (inventory.vms_per_rack or profile.vms_per_rack.value)
        room = ipaddress.ip_network(network.create).num_addresses // 2 - _AZURE_RESERVED
        if nodes > room:
            message = f"{network.create} has room for {room:,} VMs, and {nodes:,} are wanted"
            bits = (2 * (nodes + _AZURE_RESERVED) - 1).bit_length()
            hint = f"a /{32 - bits} or larger is needed: half is for racks, the rest for the jump host and for you"
            yield _error(document, ("network", "create"), "address-space", message, hint)
    elif network.subnet is not None and inventory.subscription is not None:
        owner = network.subnet.split("/")[2]
        if owner.lower() != inventory.subscription.lower():
            message = "the subnet is in another subscription, and a VM's network must be in its own"
            yield _error(document, ("network", "subnet"), "foreign-subnet", message)


def _azure_words(inventory: Inventory, document: Document) -> Iterator[NdctlError]:
    if len(inventory.tags) > _AZURE_TAGS - len(_OWN_TAGS):
        message = f"{len(inventory.tags)} tags: Azure allows {_AZURE_TAGS}, and ndctl sets {len(_OWN_TAGS)} of its own"
        yield _error(document, ("tags",), "tags", message)
    for tag in inventory.tags:
        if tag.lower() in _OWN_TAGS:
            message = f"tag '{tag}' is set by ndctl itself"
            where = document.where_key(("tags", tag))
            yield NdctlError(
                "inventory.tag-clash", message, hint="give it another name", where=where, exit_code=ExitCode.USAGE
            )
    if inventory.ssh.user in _REFUSED_USERS:
        message = f"Azure refuses the login user '{inventory.ssh.user}'"
        yield _error(document, ("ssh", "user"), "user", message, "e.g. azureuser")
    if not isinstance(inventory.cloud, CustomCloud) and inventory.region is not None:
        yield from _region(inventory.cloud, inventory.region, document)


def _region(cloud: str, region: str, document: Document) -> Iterator[NdctlError]:
    owner = next((name for name, starts in _REGION_OF_CLOUD.items() if region.startswith(starts)), "public")
    if owner != cloud:
        message = f"region {region} is not in cloud {cloud}"
        yield _error(document, ("region",), "region", message, f"cloud: {owner}, or another region")


def _static(inventory: Inventory, profile: Profile, document: Document) -> Iterator[NdctlError]:
    first_rack: dict[int, int] = {}
    first_use: dict[tuple[str, int], str] = {}
    for index, rack in enumerate(inventory.static or ()):
        path: KeyPath = ("static", index)
        if rack.rack in first_rack:
            yield _error(document, (*path, "rack"), "duplicate-rack", f"rack {rack.rack} is listed twice")
        first_rack.setdefault(rack.rack, index)
        try:
            addresses = expand(rack.nodes)
        except ValueError as error:
            yield _error(document, (*path, "nodes"), "nodes", str(error), "e.g. gpu[01-18].lab.example")
            continue
        most = profile.vms_per_rack.value
        if not addresses:
            yield _error(document, (*path, "nodes"), "nodes", f"rack {rack.rack} has no nodes")
        if profile.nvlink.domain.value == "rack" and len(addresses) > most:
            message = f"rack {rack.rack} lists {len(addresses)} nodes, and a rack of profile {profile.name} has {most}"
            yield _error(document, (*path, "nodes"), "rack-size", message)
        yield from _twice(rack.rack, addresses, inventory.ssh.port, first_use, document, (*path, "nodes"))


def _twice(
    rack: int,
    addresses: list[Address],
    default_port: int,
    first_use: dict[tuple[str, int], str],
    document: Document,
    path: KeyPath,
) -> Iterator[NdctlError]:
    again: list[str] = []
    for address in addresses:
        one = (address.host.lower(), address.port or default_port)
        if one in first_use:
            again.append(f"{address} is listed twice, first in {first_use[one]}")
        first_use.setdefault(one, f"rack {rack}")
    if again:
        more = f" (and {len(again) - 1} more)" if len(again) > 1 else ""
        yield _error(document, path, "duplicate-node", again[0] + more)
