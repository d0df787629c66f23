"""What ARM says a deployment would change: what-if, and the template's own list where ARM cannot be asked yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from azure.mgmt.resource.deployments.models import (
    DeploymentWhatIf,
    DeploymentWhatIfProperties,
    DeploymentWhatIfSettings,
)

from ndctl.azure.clients import ASKS_ONLY, AzureClients
from ndctl.azure.faults import FaultError, fault_from_body
from ndctl.azure.waiting import finish

WHAT_IF_DEADLINE_S = 600


class ChangeKind(StrEnum):
    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"
    NO_CHANGE = "no change"
    DEPLOY = "deploy"  # will be sent; ARM does not say whether anything changes
    UNSUPPORTED = "unsupported"  # ARM cannot predict this type
    IGNORE = "ignore"  # in the resource group, not in the template: untouched


_KINDS = {
    "create": ChangeKind.CREATE,
    "modify": ChangeKind.MODIFY,
    "delete": ChangeKind.DELETE,
    "nochange": ChangeKind.NO_CHANGE,
    "deploy": ChangeKind.DEPLOY,
    "unsupported": ChangeKind.UNSUPPORTED,
    "ignore": ChangeKind.IGNORE,
}


class ArmDeployment(Protocol):
    """What azure needs of `render.Deployment`."""

    @property
    def name(self) -> str: ...

    @property
    def rack(self) -> str: ...

    @property
    def template(self) -> dict[str, Any]: ...

    @property
    def parameters(self) -> dict[str, dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """One property of a modified resource; `noise` when ARM is known to report it without effect."""

    path: str
    kind: str  # create | delete | modify | array | no effect
    before: Any = None
    after: Any = None

    @property
    def noise(self) -> bool:
        return self.kind == "noeffect"


@dataclass(frozen=True, slots=True)
class Change:
    """One resource in a plan. `source` is "what-if", or "template" where ARM could not be asked."""

    kind: ChangeKind
    resource_id: str
    type: str  # "Microsoft.Compute/virtualMachineScaleSets"
    name: str
    source: str = "what-if"
    properties: tuple[PropertyChange, ...] = ()
    note: str = ""
    after: Mapping[str, Any] = field(default_factory=dict)


def what_if(clients: AzureClients, deployment: ArmDeployment) -> tuple[Change, ...]:
    """Ask ARM. Sorted by type and name. Raises AzureError; NdctlError when it takes too long."""
    parameters: Any = deployment.parameters  # plain JSON is what the model sends
    request = DeploymentWhatIf(
        properties=DeploymentWhatIfProperties(
            mode="Incremental",
            template=deployment.template,
            parameters=parameters,
            what_if_settings=DeploymentWhatIfSettings(result_format="FullResourcePayloads"),
        )
    )
    doing = f"what-if of {deployment.name}"
    poller = clients.deployments.deployments.begin_what_if(
        clients.resource_group, deployment.name, request, **ASKS_ONLY
    )
    result = finish(poller, WHAT_IF_DEADLINE_S, doing)
    if result.error is not None or str(result.status).casefold() == "failed":
        raise FaultError(fault_from_body(result.error.as_dict() if result.error else {}, fallback=f"{doing} failed"))
    found = result.properties.changes if result.properties else None
    return tuple(sorted((_change(one) for one in found or ()), key=lambda c: (c.type.casefold(), c.name)))


def from_template(deployment: ArmDeployment, resource_group_id: str) -> tuple[Change, ...]:
    """Every resource of the template as a create: the group does not exist, so nothing of it can."""
    resources = deployment.template.get("resources", [])
    listed = resources.values() if isinstance(resources, dict) else resources
    changes = []
    for one in listed:
        kind, name = str(one.get("type", "")), str(one.get("name", ""))
        provider, *types = kind.split("/")
        path = "/".join(f"{t}/{n}" for t, n in zip(types, name.split("/"), strict=False))
        changes.append(
            Change(
                ChangeKind.CREATE,
                f"{resource_group_id}/providers/{provider}/{path}",
                kind,
                name,
                source="template",
                after=one,
            )
        )
    return tuple(sorted(changes, key=lambda c: (c.type.casefold(), c.name)))


def split_id(resource_id: str) -> tuple[str, str]:
    """(type, name) of an ARM id: ("Microsoft.Network/virtualNetworks/subnets", "vnet/racks")."""
    tail = resource_id.rpartition("/providers/")[2].split("/")
    return "/".join([tail[0], *tail[1::2]]), "/".join(tail[2::2])


def _change(told: Any) -> Change:
    resource_id = told.resource_id or ""
    kind, name = split_id(resource_id)
    change = _KINDS.get(_word(told.change_type), ChangeKind.UNSUPPORTED)
    after = told.after if isinstance(told.after, Mapping) else {}
    return Change(
        change,
        resource_id,
        kind,
        name,
        properties=tuple(_properties(told.delta or (), "")),
        note=told.unsupported_reason or "",
        after=after,
    )


def _properties(delta: Any, prefix: str) -> list[PropertyChange]:
    found = []
    for one in delta:
        path = f"{prefix}.{one.path}" if prefix else str(one.path)
        if one.children:
            found += _properties(one.children, path)
        else:
            found.append(PropertyChange(path, _word(one.property_change_type), one.before, one.after))
    return found


def _word(told: Any) -> str:
    """An enum of the SDK, or the plain text of a value that it does not know yet."""
    return str(getattr(told, "value", told)).casefold()
