"""The inventory as pydantic models: what a user wants, key by key. Descriptions feed the JSON Schema and the hints."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ndctl.inventory.drift import Drift
from ndctl.inventory.reach import Cloud, CustomCloud, Network, Ssh, Strict
from ndctl.profiles.placed_errors import problem

__all__ = [
    "AZURE_KEYS",
    "Cloud",
    "CustomCloud",
    "DisabledCheck",
    "Inventory",
    "Network",
    "Placement",
    "Ssh",
    "StaticRack",
    "azure_or_static_problems",
]

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}[a-z0-9]$")]
_IMAGE = re.compile(r"^[^:\s]+:[^:\s]+:[^:\s]+:[^:\s]+$")
_IMAGE_ID = re.compile(
    r"^/subscriptions/[^/\s]+/resourceGroups/[^/\s]+/providers/Microsoft\.Compute/\S+$", re.IGNORECASE
)


class Placement(Strict):
    """Where profile defaults can be overridden, one by one."""

    kind: Literal["interconnect-block", "none"] | None = None
    single_placement_group: bool | None = None
    platform_fault_domain_count: int | None = Field(None, ge=1, le=5)
    os_disk: Literal["ephemeral", "premium"] | None = None


class DisabledCheck(Strict):
    check: str = Field(min_length=1)
    reason: str = Field(min_length=3, description="why, in at least three letters")
    until: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="expiry date, YYYY-MM-DD", examples=["2027-01-31"])

    @field_validator("until")
    @classmethod
    def _date(cls, value: str) -> str:
        try:
            datetime.date.fromisoformat(value)
        except ValueError:
            raise problem(f"'{value}' is no day of the calendar", hint="YYYY-MM-DD") from None
        return value


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class StaticRack(Strict):
    """A rack that is not deployed by ndctl: node set with addresses."""

    rack: int = Field(ge=1, le=1400)
    nodes: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = Field(
        description="addresses in order, host[:port]: a list, or a node set such as 'gpu[01-18].lab.example'",
    )


class Inventory(Strict):
    """One cluster: in one Azure region and zone, or a static list of racks."""

    cluster: Name = Field(
        description="name of the cluster: small letters, digits and '-', 2 to 32, first a letter", examples=["swc-a"]
    )
    cloud: Cloud = Field("public", description="public, usgov, china, or an endpoint of one's own")
    tenant: str | None = Field(None, pattern=r"^[0-9A-Za-z.-]+$", description="directory to sign in to: id or domain")
    subscription: str | None = Field(
        None,
        pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
        description="subscription id; `az account show --query id` prints it",
    )
    resource_group: str | None = Field(
        None,
        pattern=r"^[-\w\._\(\)]{0,89}[-\w_\(\)]$",
        description="letters, digits and ._-(), at most 90, no dot at the end",
        examples=["rg-swc-a"],
    )
    region: str | None = Field(
        None,
        pattern=r"^[a-z0-9]+$",
        description="the region's short name, as `az account list-locations` prints it",
        examples=["swedencentral"],
    )
    zone: str | None = Field(
        None,
        pattern=r"^[1-9]$",
        description="availability zone",
        examples=["1"],
    )
    racks: int | None = Field(None, ge=1, le=1400, description="how many NVL72 racks")
    vms_per_rack: int | None = Field(None, ge=1, le=100, description="default: the profile's")
    vm_size: str | None = Field(None, pattern=r"^\w+$", description="e.g. Standard_ND128isr_GB300_v6")
    profile: str | None = Field(None, description="default: the profile of vm_size")
    image: str | None = Field(None, description="publisher:offer:sku:version, or an image resource id")
    network: Network | None = None
    ssh: Ssh = Ssh()
    placement: Placement = Placement()
    protect: bool = Field(
        False, description="true: destroy always refuses, and repairs that take a disk (reimage, redeploy, replace)"
    )
    tags: dict[str, str] = Field(default_factory=dict)
    nccl_env: dict[str, str] = Field(default_factory=dict, description="overrides of the profile's NCCL recipe")
    disabled_checks: tuple[DisabledCheck, ...] = ()
    drift: Drift = Drift()
    static: tuple[StaticRack, ...] | None = Field(None, min_length=1, description="racks that are not on Azure")

    @field_validator("image")
    @classmethod
    def _urn(cls, value: str | None) -> str | None:
        if value is not None and not _IMAGE_ID.match(value) and not _IMAGE.match(value):
            raise problem(f"'{value}' is no image", hint="publisher:offer:sku:version, or an image's resource id")
        return value

    @field_validator("tags")
    @classmethod
    def _tags(cls, value: dict[str, str]) -> dict[str, str]:
        """Azure's limits: 50 tags, names of 512 characters without <>%&\\?/, values of 256, names without case."""
        if len(value) > 50:
            raise problem(f"{len(value)} tags, and Azure allows 50")
        seen: dict[str, str] = {}
        for name, text in value.items():
            if not name or len(name) > 512:
                raise problem(f"a tag's name has 1 to 512 characters, this one {len(name)}", key=name)
            if set(name) & set("<>%&\\?/"):
                raise problem(f"tag '{name}' holds one of <>%&\\?/, which Azure does not allow", key=name)
            if name.lower().startswith(("microsoft", "azure", "windows")):
                raise problem(f"tag '{name}' begins with a word that Azure keeps for itself", key=name)
            if name.lower() in seen:
                raise problem(f"tags '{seen[name.lower()]}' and '{name}' are one to Azure", key=name)
            if len(text) > 256:
                raise problem(f"tag '{name}' has {len(text)} characters, and Azure allows 256", key=name)
            seen[name.lower()] = name
        return value

    @field_validator("nccl_env")
    @classmethod
    def _environment(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not re.match(r"^[A-Za-z_][A-Za-z0-9_]*$", name):
                raise problem(f"'{name}' is no environment variable's name", key=name)
            if not text.isprintable():
                raise problem(f"{name} holds a line break or control character", key=name)
        return value

    @model_validator(mode="after")
    def _azure_or_static(self) -> Inventory:
        problems = azure_or_static_problems({key: getattr(self, key) for key in type(self).model_fields})
        if problems:
            raise problem("; ".join(message for _, message in problems))
        return self


AZURE_KEYS = ("subscription", "resource_group", "region", "racks", "vm_size", "network")
_ONLY_AZURE = (*AZURE_KEYS, "zone", "vms_per_rack", "image", "tenant")


def azure_or_static_problems(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(key, message) of what an Azure inventory lacks, or a static one has too much; the key may be absent."""
    if given.get("static") is None:
        return [(key, f"missing key '{key}'") for key in AZURE_KEYS if given.get(key) is None]
    problems = [
        (key, f"'static' racks are not deployed: remove '{key}'") for key in _ONLY_AZURE if given.get(key) is not None
    ]
    if given.get("profile") is None:
        problems.append(("profile", "missing key 'profile', which 'static' racks need, e.g. gb300"))
    return problems
