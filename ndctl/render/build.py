"""render(loaded): templates in, parsed and checked ARM JSON out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from ndctl.model.places import rack_name
from ndctl.render import names
from ndctl.render.addresses import AddressPlan, address_plan
from ndctl.render.engine import environment
from ndctl.render.inputs import Plan, RenderInput, arm_endpoint, plan
from ndctl.render.jump import JUMP_MACHINE
from ndctl.render.keys import PublicKey, public_key
from ndctl.render.limits import hold_custom_data, hold_limits
from ndctl.render.rendered import Deployment, Rendered

NETWORK_API = "2025-07-01"
COMPUTE_API = "2026-03-01"
IDENTITY_API = "2024-11-30"
SSH_KEY_PARAMETER = "sshPublicKey"

_environment = cache(environment)
# Template name and its values -> text.
Write = Callable[[str, dict[str, Any]], str]


def render(loaded: RenderInput, public_key_text: str | None = None, templates: Path | None = None) -> Rendered:
    """Everything ARM needs for one cluster, offline and deterministic.

    loaded:          a loaded inventory (`.inventory`, `.profile`, `.path`, `.path_of`)
    public_key_text: a key that replaces `ssh.public_key`, for callers that found one where the inventory names none
    templates:       a folder of templates other than ndctl's own
    Raises NdctlError (exit 2): static racks, an address space too small, a clash of tags, a private key, ARM limits.
    """
    chosen = plan(loaded)
    key = public_key(public_key_text or loaded.inventory.ssh.public_key, loaded.path_of, loaded.where("ssh.public_key"))
    text = _writer(templates)
    cloud_init = text("cloud-init.yaml.j2", _node_values(loaded, chosen))
    hold_custom_data(cloud_init)
    values = _shared_values(loaded, chosen)
    custom_data = base64.b64encode(cloud_init.encode()).decode()
    return Rendered(
        cluster=chosen.cluster,
        foundation=_foundation(chosen, values, key, text),
        racks=tuple(_rack(chosen, number, values, custom_data, key, text) for number in range(1, chosen.racks + 1)),
        cloud_init=cloud_init,
        notes=(key.note,) if key.note else (),
    )


def _foundation(chosen: Plan, values: dict[str, Any], key: PublicKey, text: Write) -> Deployment:
    return _deployment(
        names.foundation_deployment(chosen.cluster),
        "",
        "foundation.json.j2",
        {
            **values,
            "tags": names.tags(chosen.cluster, None, chosen.user_tags),
            "machine": JUMP_MACHINE,
            "jump_image": image_reference(JUMP_MACHINE.image),
            "computer_name": f"{chosen.cluster}-jump",
            "jump_data": _jump_data(values["ssh_port"], text),
        },
        key,
        text,
    )


def _jump_data(ssh_port: str, text: Write) -> str:
    """The jump VM's cloud-init, base64; "" where sshd stays on the port it has."""
    if ssh_port == "22":
        return ""
    return base64.b64encode(text("jump-init.yaml.j2", {"ssh_port": ssh_port}).encode()).decode()


def _rack(
    chosen: Plan, number: int, values: dict[str, Any], custom_data: str, key: PublicKey, text: Write
) -> Deployment:
    return _deployment(
        names.rack_deployment(chosen.cluster, number),
        rack_name(number),
        "rack.json.j2",
        {
            **values,
            "tags": names.tags(chosen.cluster, number, chosen.user_tags),
            "block_name": names.interconnect_block(chosen.cluster, number),
            "block_id": chosen.id(
                "Microsoft.Compute/interconnectBlocks", names.interconnect_block(chosen.cluster, number)
            ),
            "scale_set_name": names.scale_set(chosen.cluster, number),
            "computer_name_prefix": names.computer_name_prefix(chosen.cluster, number),
            "custom_data": custom_data,
        },
        key,
        text,
    )


def _deployment(name: str, rack: str, template: str, values: dict[str, Any], key: PublicKey, text: Write) -> Deployment:
    body: dict[str, Any] = json.loads(text(template, values))
    hold_limits(name, body)
    parameters: dict[str, dict[str, Any]] = {}
    if SSH_KEY_PARAMETER in body["parameters"]:
        parameters[SSH_KEY_PARAMETER] = {"value": key.text} if key.text else {"metadata": {"note": key.note}}
    return Deployment(name=name, rack=rack, template=body, parameters=parameters)


def _shared_values(loaded: RenderInput, chosen: Plan) -> dict[str, Any]:
    inventory, cluster = loaded.inventory, chosen.cluster
    addresses = _addresses(loaded, chosen)
    user = inventory.ssh.user
    return {
        "plan": chosen,
        "names": {
            "vnet": names.virtual_network(cluster),
            "racks": names.RACK_SUBNET,
            "jump_subnet": names.JUMP_SUBNET,
            "nsg": names.network_security_group(cluster),
            "nat": names.nat_gateway(cluster),
            "nat_ip": names.nat_public_ip(cluster),
            "jump": names.jump_vm(cluster),
            "jump_nic": names.jump_nic(cluster),
            "jump_ip": names.jump_public_ip(cluster),
            "jump_disk": names.jump_os_disk(cluster),
            "identity": names.identity(cluster),
            "group": names.interconnect_group(cluster),
        },
        "ids": _resource_ids(chosen),
        "api": {"network": NETWORK_API, "compute": COMPUTE_API, "identity": IDENTITY_API},
        "addresses": addresses,
        "admin_from": sorted(set(chosen.network.admin_from)),
        "ssh_port": str(inventory.ssh.port),
        "user": user,
        "authorized_keys": f"/home/{user}/.ssh/authorized_keys",
        "image": image_reference(inventory.image or loaded.profile.azure.image.value),
        "disk_controller": loaded.profile.azure.disk_controller.value,
        "accelerated_networking": loaded.profile.azure.accelerated_networking.value,
    }


def _addresses(loaded: RenderInput, chosen: Plan) -> AddressPlan | None:
    space = chosen.network.create
    return address_plan(space, chosen.racks * chosen.vms_per_rack, loaded.where("network.create")) if space else None


def _resource_ids(chosen: Plan) -> dict[str, str]:
    """Whole ids, known offline: a reader sees what is meant, and nothing is left for ARM to evaluate."""
    cluster = chosen.cluster
    vnet = names.virtual_network(cluster)
    subnet_type = "Microsoft.Network/virtualNetworks/subnets"
    existing = chosen.network.subnet
    public_ip = "Microsoft.Network/publicIPAddresses"
    return {
        "vnet": chosen.id("Microsoft.Network/virtualNetworks", vnet),
        "racks": existing or chosen.id(subnet_type, vnet, names.RACK_SUBNET),
        "jump_subnet": existing or chosen.id(subnet_type, vnet, names.JUMP_SUBNET),
        "nsg": chosen.id("Microsoft.Network/networkSecurityGroups", names.network_security_group(cluster)),
        "nat": chosen.id("Microsoft.Network/natGateways", names.nat_gateway(cluster)),
        "nat_ip": chosen.id(public_ip, names.nat_public_ip(cluster)),
        "jump_ip": chosen.id(public_ip, names.jump_public_ip(cluster)),
        "jump_nic": chosen.id("Microsoft.Network/networkInterfaces", names.jump_nic(cluster)),
        "identity": chosen.id("Microsoft.ManagedIdentity/userAssignedIdentities", names.identity(cluster)),
        "group": chosen.id("Microsoft.Network/interconnectGroups", names.interconnect_group(cluster)),
    }


def _node_values(loaded: RenderInput, chosen: Plan) -> dict[str, Any]:
    """What cloud-init says is the same on every node of every rack."""
    profile = loaded.profile
    # An OS disk on local NVMe takes one whole disk (learn.microsoft.com, "FAQ: ephemeral OS disks", read 2026-12).
    on_nvme = chosen.ephemeral_os_disk and profile.azure.disk_controller.value == "NVMe"
    return {
        "ssh_port": loaded.inventory.ssh.port,
        "imex": profile.nvlink.imex.value,
        "persistence_mode": profile.gpu.persistence_mode.value,
        "nodes_per_rack": chosen.vms_per_rack,
        "arm_endpoint": arm_endpoint(loaded.inventory.cloud),
        "data_disks": profile.host.nvme_data_disks.value - (1 if on_nvme else 0),
        "data_disk_model": profile.host.nvme_data_model.value,
    }


def image_reference(image: str) -> dict[str, str]:
    """publisher:offer:sku:version or a resource id → ARM's imageReference."""
    if image.startswith("/"):
        return {"id": image}
    publisher, offer, sku, version = image.split(":")
    return {"publisher": publisher, "offer": offer, "sku": sku, "version": version}


def _writer(folder: Path | None) -> Write:
    made = environment(folder) if folder is not None else _environment()

    def text(template: str, values: dict[str, Any]) -> str:
        try:
            return made.get_template(template).render(values)
        except jinja2.TemplateError as error:
            # A fault of a template, not of the inventory: say which, and let it be an internal error.
            raise RuntimeError(f"template {template}: {error}") from error

    return text
