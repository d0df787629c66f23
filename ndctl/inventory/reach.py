"""How the cluster is reached: the cloud's endpoints, its network, and SSH."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from ndctl.profiles.placed_errors import problem

_SUBNET_ID = re.compile(
    r"^/subscriptions/[^/\s]+/resourceGroups/[^/\s]+/providers/Microsoft\.Network"
    r"/virtualNetworks/[^/\s]+/subnets/[^/\s]+$",
    re.IGNORECASE,
)
_JUMP = re.compile(
    r"^(?:[A-Za-z_][A-Za-z0-9_.-]*@)?(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?$"
)
_PUBLIC_KEY = re.compile(r"^(?:ssh-rsa|ssh-ed25519) [A-Za-z0-9+/]{40,}={0,2}(?: [^\r\n]*)?$")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _https(value: str | None) -> str | None:
    if value is not None and not re.match(r"^https://[^\s/]+(/\S*)?$", value):
        raise problem(f"'{value}' is no https URL", hint="tokens are sent over https only")
    return value


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

    _urls = field_validator("endpoint", "authority")(_https)


def _cloud_kind(value: Any) -> str:
    return "by endpoint" if isinstance(value, (dict, CustomCloud)) else "by name"


Cloud = Annotated[
    Annotated[Literal["public", "usgov", "china"], Tag("by name")] | Annotated[CustomCloud, Tag("by endpoint")],
    Discriminator(_cloud_kind),
]


class Network(Strict):
    create: str | None = Field(None, description="address space of a new virtual network", examples=["10.40.0.0/16"])
    subnet: str | None = Field(None, description="resource id of an existing subnet to use instead")
    admin_from: tuple[str, ...] = Field(
        (), description="ranges that may reach the jump host by SSH", examples=["[203.0.113.0/24]"]
    )

    @field_validator("create")
    @classmethod
    def _network(cls, value: str | None) -> str | None:
        if value is None:
            return value
        network = _range(value)
        if network.version != 4:
            raise problem(f"'{value}' is no IPv4 range", hint="the racks' network is IPv4, e.g. 10.40.0.0/16")
        if network.prefixlen > 24:
            raise problem(f"'{value}' is too small", hint="a /24 or larger is needed")
        if network.prefixlen < 8:
            raise problem(f"'{value}' is larger than a virtual network can be", hint="a /8 or smaller is needed")
        return value

    @field_validator("subnet")
    @classmethod
    def _subnet_id(cls, value: str | None) -> str | None:
        if value is not None and not _SUBNET_ID.match(value):
            raise problem(
                f"'{value}' is no subnet's resource id",
                hint="az network vnet subnet show … --query id prints it: "
                "/subscriptions/…/resourceGroups/…/providers/Microsoft.Network/virtualNetworks/…/subnets/…",
            )
        return value

    @field_validator("admin_from")
    @classmethod
    def _ranges(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for item in value:
            if _range(item).prefixlen == 0:
                raise problem(f"{item} is the whole internet", hint="name the ranges that administer this cluster")
        return value

    @model_validator(mode="after")
    def _one(self) -> Network:
        if self.create is not None and self.subnet is not None:
            raise problem(
                "both 'create' and 'subnet' are given", hint="a new network, or an existing one", key="subnet"
            )
        if self.create is None and self.subnet is None:
            raise problem("'create' or 'subnet' is missing", hint="a new network, e.g. create: 10.40.0.0/16")
        return self


def _range(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        pass
    try:
        loose = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise problem(
            f"'{text}' is no address range", hint="e.g. 10.40.0.0/16, or one address as 203.0.113.7/32"
        ) from None
    raise problem(f"'{text}' has bits set behind its prefix", hint=f"did you mean '{loose}'?")


class Ssh(Strict):
    user: str = Field("azureuser", pattern=r"^[a-z_][a-z0-9_-]{0,31}$", description="login user on the nodes")
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
    known_hosts: str | None = Field(None, description="where learned host keys are kept; default: the state directory")

    @field_validator("public_key", "private_key")
    @classmethod
    def _no_secret(cls, value: str | None) -> str | None:
        if value is not None and "PRIVATE KEY" in value:
            raise problem("a private key does not belong in an inventory", hint="name its file")
        return value

    @field_validator("public_key")
    @classmethod
    def _public(cls, value: str | None) -> str | None:
        inline = value is not None and re.match(r"^(ssh|ecdsa|sk)-\S+ ", value)
        if value is not None and inline and not _PUBLIC_KEY.match(value):
            raise problem("no public key that Azure takes", hint="ssh-ed25519 AAAA… or ssh-rsa AAAA…, on one line")
        return value

    @field_validator("jump")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for item in value:
            match = _JUMP.match(item)
            if not match or not 1 <= int(match["port"] or 22) <= 65535:
                raise problem(f"'{item}' is no jump host", hint="[user@]host[:port], or 'created'")
        if len(set(value)) < len(value):
            raise problem("a jump host is named twice")
        return value
