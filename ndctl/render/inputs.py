"""What rendering needs of a loaded inventory, and the refusals that come before any template is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ndctl.inventory.schema import CustomCloud, Inventory, Network
from ndctl.model.errors import ExitCode, NdctlError, Where
from ndctl.profiles.schema import Profile
from ndctl.render import names


class RenderInput(Protocol):
    """`ndctl.inventory.loader.Loaded` is one."""

    @property
    def inventory(self) -> Inventory: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def path(self) -> Path: ...

    def path_of(self, text: str, /) -> Path:
        """A file the inventory names: `~` is expanded, relative means relative to the inventory."""
        ...

    def where(self, key: str, /) -> Where:
        """The key's place in the file, e.g. "network.create"."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The inventory with every choice made: no None is left to interpret in a template.

    vms_per_rack: how many are asked for; rack_size: how many the hardware has
    own_jumps:    the user names jump hosts, which have to reach the racks from `network.admin_from`
    """

    cluster: str
    subscription: str
    resource_group: str
    region: str
    zones: tuple[str, ...]
    racks: int
    vms_per_rack: int
    rack_size: int
    whole_rack_nvlink: bool
    vm_size: str
    network: Network
    block: bool
    single_placement_group: bool
    fault_domains: int
    ephemeral_os_disk: bool
    creates_jump: bool
    own_jumps: bool
    user_tags: dict[str, str]

    def id(self, resource_type: str, *path: str) -> str:
        return names.resource_id(self.subscription, self.resource_group, resource_type, *path)


# ARM endpoints by cloud, where a node asks for its peers when the network's DNS does not know them.
_ARM = {
    "public": "https://management.azure.com",
    "usgov": "https://management.usgovcloudapi.net",
    "china": "https://management.chinacloudapi.cn",
}


def arm_endpoint(cloud: Literal["public", "usgov", "china"] | CustomCloud) -> str:
    return cloud.endpoint.rstrip("/") if isinstance(cloud, CustomCloud) else _ARM[cloud]


def creates_jump(inventory: Inventory) -> bool:
    """'created' asks for a jump VM; a new network with no jump host named gets one too, or nobody could reach it."""
    new_network = inventory.network is not None and inventory.network.create is not None
    return "created" in inventory.ssh.jump or (new_network and not inventory.ssh.jump)


def plan(loaded: RenderInput) -> Plan:
    """Resolve an inventory against its profile.

    Raises NdctlError (exit 2): `render.static` for racks that are not on Azure, `render.tag-clash`,
    `render.orchestration` for a profile that wants anything but a Uniform scale set.
    """
    inventory, azure = loaded.inventory, loaded.profile.azure
    if inventory.static is not None:
        raise NdctlError(
            "render.static",
            f"{inventory.cluster} lists static racks: there is nothing to render for racks that are not on Azure",
            hint=f"ndctl validate {loaded.path}",
            where=loaded.where("static"),
            exit_code=ExitCode.USAGE,
        )
    if azure.orchestration_mode.value != "Uniform":
        raise NdctlError(
            "render.orchestration",
            f"profile {loaded.profile.name} wants {azure.orchestration_mode.value} scale sets; racks are Uniform",
            exit_code=ExitCode.USAGE,
        )
    # The schema makes these present whenever `static` is absent.
    assert inventory.subscription and inventory.resource_group and inventory.region
    assert inventory.racks and inventory.vm_size and inventory.network
    _refuse_tag_clash(loaded)
    override = inventory.placement
    single = override.single_placement_group
    return Plan(
        cluster=inventory.cluster,
        subscription=inventory.subscription,
        resource_group=inventory.resource_group,
        region=inventory.region,
        zones=(inventory.zone,) if inventory.zone else (),
        racks=inventory.racks,
        vms_per_rack=inventory.vms_per_rack or loaded.profile.vms_per_rack.value,
        rack_size=loaded.profile.vms_per_rack.value,
        whole_rack_nvlink=loaded.profile.nvlink.domain.value == "rack",
        vm_size=inventory.vm_size,
        network=inventory.network,
        block=(override.kind or azure.placement.value) == "interconnect-block",
        single_placement_group=azure.single_placement_group.value if single is None else single,
        fault_domains=override.platform_fault_domain_count or azure.platform_fault_domain_count.value,
        ephemeral_os_disk=azure.ephemeral_os_disk.value
        if override.os_disk is None
        else override.os_disk == "ephemeral",
        creates_jump=creates_jump(inventory),
        own_jumps=any(jump != "created" for jump in inventory.ssh.jump),
        user_tags=dict(inventory.tags),
    )


def _refuse_tag_clash(loaded: RenderInput) -> None:
    """`destroy` trusts these tags, so nobody else may set them. Azure's tag names ignore case."""
    own = {names.TAG_CLUSTER, names.TAG_RACK, names.TAG_MANAGED_BY}
    clash = sorted(key for key in loaded.inventory.tags if key.lower() in own)
    if clash:
        raise NdctlError(
            "render.tag-clash",
            f"tag {clash[0]!r} is set by ndctl itself",
            hint="give the tag another name",
            where=loaded.where("tags"),
            exit_code=ExitCode.USAGE,
        )
