"""The operation of role-based access control that a request needs, as Azure names it.

Rules: learn.microsoft.com, "Azure permissions" (read 2026-12): GET is `<type>/read`, PUT and PATCH `<type>/write`,
DELETE `<type>/delete`, POST `<type>/<what>/action`, where `<type>` is the path without its names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ndctl.sim.arm.catalogue import canonical_type
from ndctl.sim.arm.http import Request
from ndctl.sim.arm.ids import ResourceId, parse_id
from ndctl.sim.arm.region import Body, references

_VERBS = {"GET": "read", "HEAD": "read", "PUT": "write", "PATCH": "write", "DELETE": "delete"}
_GROUPS = "Microsoft.Resources/subscriptions/resourceGroups"
# What a resource needs of another one that it names.
JOINS: Mapping[str, str] = {
    "microsoft.network/virtualnetworks/subnets": "join/action",
    "microsoft.network/networksecuritygroups": "join/action",
    "microsoft.network/natgateways": "join/action",
    "microsoft.network/publicipaddresses": "join/action",
    "microsoft.network/networkinterfaces": "join/action",
    "microsoft.managedidentity/userassignedidentities": "assign/action",
    "microsoft.compute/interconnectblocks": "deploy/action",
}
_SPELLED = {
    one.lower(): one
    for one in (
        "runCommand", "retrieveBootDiagnosticsData", "nodeAvailability", "whatIf", "powerOff", "operationResults",
        "reimageAll", "manualUpgrade", "instanceView", "networkInterfaces",
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Needed:
    """An action, and the scope it is needed at."""

    action: str
    scope: str


def needed(request: Request) -> Needed | None:
    """None for what anybody signed in may ask: the list of subscriptions."""
    parts, low = request.parts, request.lower
    if len(low) < 2:
        return None
    verb = _VERBS.get(request.method, "action")
    scope = "/" + "/".join(parts)
    positions = [index for index, part in enumerate(low) if part == "providers"]
    if not positions:
        return Needed(_without_provider(low, verb), scope)
    at = positions[-1]
    namespace, tail = (parts[at + 1] if len(parts) > at + 1 else ""), parts[at + 2 :]
    if not tail:
        return Needed("Microsoft.Resources/subscriptions/providers/read", scope)
    if request.method == "POST" and len(tail) == 1:  # the namespace itself is registered
        return Needed(f"{namespace}/{tail[0]}/action", scope)
    if request.method == "POST":
        owner = canonical_type("/".join((namespace, *tail[:-1:2])))
        return Needed(f"{owner}/{_spelled(tail[-1])}/action", "/" + "/".join(parts[:-1]))
    kind = canonical_type("/".join((namespace, *map(_spelled, tail[::2]))))
    return Needed(f"{kind}/{verb}", scope)


def joined(owner: ResourceId, body: Body) -> Iterator[Needed]:
    """What a resource needs of those that its body names; parts of itself do not count."""
    seen: set[str] = set()
    for reference in references(body):
        target = parse_id(reference)
        if target is None or target.key in seen or target.key.startswith(f"{owner.key}/"):
            continue
        seen.add(target.key)
        action = JOINS.get(target.type.lower())
        if action is not None:
            yield Needed(f"{target.type}/{action}", str(target))


def _without_provider(low: tuple[str, ...], verb: str) -> str:
    rest = low[2:]
    if not rest:
        return "Microsoft.Resources/subscriptions/read"
    if rest[0] != "resourcegroups":
        return f"Microsoft.Resources/subscriptions/{rest[0]}/{verb}"
    if len(rest) <= 2:
        return f"{_GROUPS}/{verb}"
    if rest[2] == "resources":
        return f"{_GROUPS}/resources/read"
    return f"Microsoft.Resources/{'/'.join(rest[2::2])}/{verb}"


def _spelled(segment: str) -> str:
    return _SPELLED.get(segment.lower(), segment)
