"""Which of the deletions that failed are only the consequence of another one: what is in use by what could not go."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ndctl.azure.faults import AzureFault
from ndctl.azure.resources import Resource
from ndctl.checks.azure_errors import FaultClass


def held_by(failed: Sequence[tuple[Resource, AzureFault]]) -> Mapping[str, Resource]:
    """Resource id -> the failed resource at the bottom of it; without those that failed by themselves.

    Azure names the user of what it does not delete, by an id of it or of a part of it ("Subnet X is in use by
    /subscriptions/.../networkInterfaces/Y/ipConfigurations/Z and cannot be deleted").
    """
    users: dict[str, Resource] = {}
    for one, fault in failed:
        if fault.fault_class is FaultClass.CONFLICT:
            for other, _ in failed:
                if other.id.lower() != one.id.lower() and _names(fault.innermost_message, other.id):
                    users[one.id] = other
                    break
    found = {}
    for name in users:
        seen, at = {name}, users[name]
        while at.id in users and at.id not in seen:
            seen.add(at.id)
            at = users[at.id]
        if at.id not in seen:  # two that name each other have no bottom
            found[name] = at
    return found


def _names(message: str, resource_id: str) -> bool:
    return re.search(rf"{re.escape(resource_id)}(?![\w.-])", message, re.IGNORECASE) is not None
