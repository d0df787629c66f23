"""Resource ids: their parts, compared without regard to case as ARM does."""

from __future__ import annotations

from dataclasses import dataclass

from ndctl.sim.arm.catalogue import canonical_type


@dataclass(frozen=True, slots=True)
class ResourceId:
    """/subscriptions/S/resourceGroups/G/providers/Microsoft.Network/virtualNetworks/v/subnets/s.

    namespace: "Microsoft.Network"; types: ("virtualNetworks", "subnets"); names: ("v", "s")
    """

    subscription: str
    group: str
    namespace: str
    types: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def type(self) -> str:
        return "/".join((self.namespace, *self.types))

    @property
    def name(self) -> str:
        return "/".join(self.names)

    @property
    def key(self) -> str:
        return str(self).lower()

    @property
    def group_key(self) -> str:
        return group_key(self.subscription, self.group)

    @property
    def parent(self) -> ResourceId | None:
        if len(self.types) < 2:
            return None
        return ResourceId(self.subscription, self.group, self.namespace, self.types[:-1], self.names[:-1])

    def child(self, kind: str, name: str) -> ResourceId:
        return ResourceId(self.subscription, self.group, self.namespace, (*self.types, kind), (*self.names, name))

    def __str__(self) -> str:
        pairs = "".join(f"/{kind}/{name}" for kind, name in zip(self.types, self.names, strict=True))
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.group}/providers/{self.namespace}{pairs}"


def group_key(subscription: str, group: str) -> str:
    return f"{subscription}/{group}".lower()


def group_id(subscription: str, group: str) -> str:
    return f"/subscriptions/{subscription}/resourceGroups/{group}"


def parse_id(text: str) -> ResourceId | None:
    """None when `text` is no id of a resource in a resource group. Type names come back in Azure's own case."""
    parts = [part for part in text.split("/") if part]
    if len(parts) < 8 or len(parts) % 2 or parts[0].lower() != "subscriptions" or parts[2].lower() != "resourcegroups":
        return None
    if parts[4].lower() != "providers":
        return None
    return make_id(parts[1], parts[3], parts[5], tuple(parts[6::2]), tuple(parts[7::2]))


def make_id(
    subscription: str, group: str, namespace: str, types: tuple[str, ...], names: tuple[str, ...]
) -> ResourceId:
    known = canonical_type("/".join((namespace, *types)))
    proper_namespace, *proper_types = known.split("/")
    return ResourceId(subscription, group, proper_namespace, tuple(proper_types), names)
