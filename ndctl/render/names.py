"""What every Azure resource of a cluster is called: pure functions from the cluster's name.

Lengths and letters stay inside Azure's naming rules (learn.microsoft.com, "Naming rules and restrictions for Azure
resources", read 2026-12): a cluster's name has at most 32 letters of a-z, 0-9 and "-", so every name below has at
most 47, where the tightest limits are 64 (deployments, virtual machines, scale sets) and 80 (network).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from ndctl.model.places import rack_name

RACK_SUBNET = "racks"
JUMP_SUBNET = "jump"

TAG_CLUSTER = "ndctl-cluster"
TAG_RACK = "ndctl-rack"
TAG_MANAGED_BY = "managed-by"
MANAGED_BY = "ndctl"

# computerNamePrefix: "must be 1 to 15 characters long" (azure-mgmt-compute, VirtualMachineScaleSetOSProfile).
COMPUTER_NAME_PREFIX_LIMIT = 15
_LONGEST_RACK_PART = len("-r1400-")


def foundation_deployment(cluster: str) -> str:
    return f"{cluster}-foundation"


def rack_deployment(cluster: str, rack: int) -> str:
    return f"{cluster}-{rack_name(rack)}"


def virtual_network(cluster: str) -> str:
    return f"{cluster}-vnet"


def network_security_group(cluster: str) -> str:
    return f"{cluster}-nsg"


def nat_gateway(cluster: str) -> str:
    return f"{cluster}-nat"


def nat_public_ip(cluster: str) -> str:
    return f"{cluster}-nat-ip"


def jump_vm(cluster: str) -> str:
    return f"{cluster}-jump"


def jump_nic(cluster: str) -> str:
    return f"{cluster}-jump-nic"


def jump_public_ip(cluster: str) -> str:
    return f"{cluster}-jump-ip"


def jump_os_disk(cluster: str) -> str:
    return f"{cluster}-jump-os"


def identity(cluster: str) -> str:
    return f"{cluster}-identity"


def interconnect_group(cluster: str) -> str:
    return f"{cluster}-group"


def interconnect_block(cluster: str, rack: int) -> str:
    return f"{cluster}-{rack_name(rack)}"


def scale_set(cluster: str, rack: int) -> str:
    """The same name as the rack's block: both are the rack, seen by two resource types."""
    return f"{cluster}-{rack_name(rack)}"


def computer_name_prefix(cluster: str, rack: int) -> str:
    """Host names are this and six digits in base 36: swc-a-r07-00000a.

    A cluster name too long for the limit is cut and told apart by four digits of its hash, so that two clusters in
    one existing virtual network never share a host name.
    """
    room = COMPUTER_NAME_PREFIX_LIMIT - _LONGEST_RACK_PART
    short = cluster
    if len(cluster) > room:
        short = cluster[: room - 4].rstrip("-") + hashlib.sha256(cluster.encode()).hexdigest()[:4]
    return f"{short}-r{rack:02d}-"


def tags(cluster: str, rack: int | None, user_tags: Mapping[str, str]) -> dict[str, str]:
    """The user's tags and ours, sorted by name; ours win (the renderer refuses a clash before it comes to that)."""
    own = {TAG_CLUSTER: cluster, TAG_MANAGED_BY: MANAGED_BY}
    if rack is not None:
        own[TAG_RACK] = rack_name(rack)
    return dict(sorted({**user_tags, **own}.items()))


def resource_group_id(subscription: str, resource_group: str) -> str:
    return f"/subscriptions/{subscription}/resourceGroups/{resource_group}"


def resource_id(subscription: str, resource_group: str, resource_type: str, *path: str) -> str:
    """ARM id of a resource: resource_id(sub, rg, "Microsoft.Network/virtualNetworks/subnets", "vnet", "racks")."""
    provider, *types = resource_type.split("/")
    if len(types) != len(path):
        raise ValueError(f"{resource_type} needs {len(types)} names, got {len(path)}")
    pairs = "".join(f"/{kind}/{name}" for kind, name in zip(types, path, strict=True))
    return f"{resource_group_id(subscription, resource_group)}/providers/{provider}{pairs}"
