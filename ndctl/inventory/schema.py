"""The inventory as pydantic models: what a user wants, key by key. Descriptions feed the JSON Schema."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}[a-z0-9]$")]
_IMAGE = re.compile(r"^[^:\s]+:[^:\s]+:[^:\s]+:[^:\s]+$")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CustomCloud(Strict):
    """An Azure Resource Manager endpoint of one's own (Azure Stack, the embedded region)."""

    endpoint: str = Field(description="https URL of Azure Resource Manager")
    audience: str | None = Field(None, description="token audience; default: the endpoint")
    authority: str | None = Field(None, description="sign-in authority URL; default: public Azure's")
    ca: str | None = Field(None, description="PEM file that signs the endpoint; relative to the inventory")
    identity: str | None = Field(
        None,
        description="JSON file {tenant_id, client_id, token_file} for workload identity; relative to the inventory",
    )


class Network(Strict):
    create: str | None = Field(None, description="address space of a new virtual network, e.g. 10.40.0.0/16")
    subnet: str | None = Field(None, description="resource id of an existing subnet to use instead")
    admin_from: tuple[str, ...] = Field((), description="ranges that may reach the jump host by SSH")

    @field_validator("create")
    @classmethod
    def _network(cls, value: str | None) -> str | None:
        if value is not None and ipaddress.ip_network(value).prefixlen > 24:
            raise ValueError("too small: a /24 or larger is needed")
        return value

    @field_validator("admin_from")
    @classmethod
    def _ranges(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for item in value:
            if ipaddress.ip_network(item).prefixlen == 0:
                raise ValueError(
                    f"{item} is the whole internet; name the ranges that administer this cluster"
                )
        return value

    @model_validator(mode="after")
    def _one(self) -> Network:
        if (self.create is None) == (self.subnet is None):
            raise ValueError("give one of 'create' (a new network) or 'subnet' (an existing one)")
        return self


class Ssh(Strict):
    user: str = Field("azureuser", pattern=r"^[a-z_][a-z0-9_-]{0,31}$")
    port: int = Field(22, ge=1, le=65535)
    public_key: str | None = Field(
        None,
        description="a public key, or a file with one; default: the first of ~/.ssh/id_*.pub at deploy time",
    )
    private_key: str | None = Field(
        None, description="file with the private key; default: beside public_key, then the agent"
    )
    jump: tuple[str, ...] = Field(
        (),
        description="jump hosts tried side by side: [user@]host[:port]; 'created' is the jump VM ndctl deploys",
    )
    known_hosts: str | None = Field(
        None, description="where learned host keys are kept; default: the state directory"
    )


class Placement(Strict):
    """Where profile defaults can be overridden, one by one."""

    kind: Literal["interconnect-block", "none"] | None = None
    single_placement_group: bool | None = None
    platform_fault_domain_count: int | None = Field(None, ge=1, le=5)
    os_disk: Literal["ephemeral", "premium"] | None = None


class DisabledCheck(Strict):
    check: str
    reason: str = Field(min_length=3)
    until: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="expiry date, YYYY-MM-DD")


class StaticRack(Strict):
    """A rack that is not deployed by ndctl: node set with addresses."""

    rack: int = Field(ge=1)
    nodes: str | tuple[str, ...] = Field(
        description="addresses in order: a list, or a node set such as 'gpu[01-18].lab.example'"
    )


class Inventory(Strict):
    """One cluster: in one Azure region and zone, or a static list of racks."""

    cluster: Name
    cloud: Literal["public", "usgov", "china"] | CustomCloud = "public"
    tenant: str | None = None
    subscription: str | None = Field(None, pattern=r"^[0-9a-fA-F-]{36}$")
    resource_group: str | None = Field(None, pattern=r"^[-\w\._\(\)]{1,89}[-\w_\(\)]$")
    region: str | None = Field(None, pattern=r"^[a-z0-9]+$")
    zone: str | None = Field(None, pattern=r"^[1-9]$")
    racks: int | None = Field(None, ge=1, le=1400, description="how many NVL72 racks")
    vms_per_rack: int | None = Field(None, ge=1, le=100, description="default: the profile's")
    vm_size: str | None = None
    profile: str | None = Field(None, description="default: the profile of vm_size")
    image: str | None = Field(None, description="publisher:offer:sku:version, or an image resource id")
    network: Network | None = None
    ssh: Ssh = Ssh()
    placement: Placement = Placement()
    protect: bool = False
    tags: dict[str, str] = Field(default_factory=dict)
    nccl_env: dict[str, str] = Field(
        default_factory=dict, description="overrides of the profile's NCCL recipe"
    )
    disabled_checks: tuple[DisabledCheck, ...] = ()
    static: tuple[StaticRack, ...] | None = None

    @field_validator("image")
    @classmethod
    def _urn(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/subscriptions/") and not _IMAGE.match(value):
            raise ValueError("write publisher:offer:sku:version, or the resource id of an image")
        return value

    @model_validator(mode="after")
    def _azure_or_static(self) -> Inventory:
        azure = {
            "subscription": self.subscription,
            "resource_group": self.resource_group,
            "region": self.region,
            "racks": self.racks,
            "vm_size": self.vm_size,
            "network": self.network,
        }
        if self.static is None:
            missing = [key for key, value in azure.items() if value is None]
            if missing:
                raise ValueError(
                    f"missing: {', '.join(missing)} (or give 'static' racks that are not on Azure)"
                )
        else:
            given = [key for key, value in azure.items() if value is not None]
            if given:
                raise ValueError(f"'static' racks are not deployed: remove {', '.join(given)}")
            if self.profile is None:
                raise ValueError("'static' racks need 'profile', e.g. gb300")
        return self
