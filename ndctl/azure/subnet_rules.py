"""What Azure's rules say of the way to one VM: security rules and routes of its interface and its subnet, as set.

Read for evidence only. Whether a rule is what cuts a connection depends on the address it is seen to come from, which
nobody here knows: so rules are told, and not judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ndctl.azure.clients import AzureClients


@dataclass(frozen=True, slots=True)
class SubnetRules:
    """lines: for a person, the rules that speak of the port; raw: all that was read, as ARM gives it."""

    lines: tuple[str, ...]
    raw: dict[str, Any]


def subnet_rules(clients: AzureClients, scale_set: str, instance_id: str, port: int) -> SubnetRules:
    """Raises AzureError, e.g. where the identity may not read the network."""
    lines: list[str] = []
    raw: dict[str, Any] = {}
    subnet_id, groups = _interface(clients, scale_set, instance_id)
    if not subnet_id:
        return SubnetRules(("no interface of this VM is told",), raw)
    where = _parts(subnet_id)
    subnet = clients.network.subnets.get(where["resourcegroups"], where["virtualnetworks"], where["subnets"])
    raw["subnet"] = subnet.as_dict()
    told = subnet.properties
    if told and told.network_security_group and told.network_security_group.id:
        groups = [*groups, told.network_security_group.id]
    for group_id in dict.fromkeys(groups):
        at = _parts(group_id)
        group = clients.network.network_security_groups.get(at["resourcegroups"], at["networksecuritygroups"])
        raw.setdefault("network_security_groups", []).append(group.as_dict())
        rules = (group.properties.security_rules if group.properties else None) or []
        lines.append(f"security group {group.name}: {_of_port(rules, port)}")
    if not groups:
        lines.append(f"subnet {where['subnets']} has no security group, nor has the interface")
    if told and told.route_table and told.route_table.id:
        at = _parts(told.route_table.id)
        table = clients.network.route_tables.get(at["resourcegroups"], at["routetables"])
        raw["route_table"] = table.as_dict()
        routes = (table.properties.routes if table.properties else None) or []
        ways = [f"{r.properties.address_prefix} by {r.properties.next_hop_type}" for r in routes if r.properties]
        lines.append(f"route table {table.name}: {', '.join(ways) or 'empty'}")
    return SubnetRules(tuple(lines), raw)


def _interface(clients: AzureClients, scale_set: str, instance_id: str) -> tuple[str, list[str]]:
    """(subnet, security groups of the interface) of the VM's first address."""
    listed = clients.network.network_interfaces.list_virtual_machine_scale_set_network_interfaces(
        clients.resource_group, scale_set
    )
    for nic in listed:
        told = nic.properties
        if not told or not told.virtual_machine or (told.virtual_machine.id or "").rpartition("/")[2] != instance_id:
            continue
        own = told.network_security_group
        for config in told.ip_configurations or ():
            subnet = config.properties.subnet if config.properties else None
            if subnet is not None and subnet.id:
                return subnet.id, [own.id] if own is not None and own.id else []
    return "", []


def _of_port(rules: Iterable[Any], port: int) -> str:
    inbound = [one for one in rules if one.properties and _word(one.properties.direction) == "inbound"]
    speaking = [one for one in inbound if _covers(one.properties, port)]
    if not speaking:
        return f"no inbound rule of its own speaks of TCP {port}; Azure's default lets in the virtual network only"
    told = []
    for one in sorted(speaking, key=lambda one: one.properties.priority or 0):
        rule = one.properties
        told.append(f"{_word(rule.access)} from {_ends(rule, 'source')} to {_ends(rule, 'destination')} ({one.name})")
    return f"TCP {port} in order: {', '.join(told)}"


def _covers(rule: Any, port: int) -> bool:
    if _word(rule.protocol) not in ("*", "tcp"):
        return False
    for text in filter(None, [rule.destination_port_range, *(rule.destination_port_ranges or ())]):
        low, _, high = str(text).partition("-")
        if low == "*" or (low.isdigit() and int(low) <= port <= int(high if high.isdigit() else low)):
            return True
    return False


def _ends(rule: Any, side: str) -> str:
    one, more = getattr(rule, f"{side}_address_prefix"), getattr(rule, f"{side}_address_prefixes")
    return ", ".join([*filter(None, [one]), *(more or ())]) or "application groups"


def _word(told: Any) -> str:
    """What the SDK gives as an enum or as text."""
    return str(getattr(told, "value", told)).casefold()


def _parts(resource_id: str) -> dict[str, str]:
    words = resource_id.strip("/").split("/")
    return {kind.casefold(): name for kind, name in zip(words[::2], words[1::2], strict=False)}
