"""Planted faults of the control plane: which of them applies to a request, a resource or a rack."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.ids import ResourceId, group_id
from ndctl.sim.faults import Fault, FaultBook

_RACK_TAG = "ndctl-rack"
_CLUSTER_TAG = "ndctl-cluster"
_COUNTED = {"GET": "reads", "HEAD": "reads", "DELETE": "deletes"}
_TRAILING_NUMBER = re.compile(r"(\d+)$")


def rack_of(body: Mapping[str, Any], name: str) -> int:
    """The rack's number, from the tag `ndctl-rack: rack07`, else from the number a name ends in; 0 for none."""
    tags = {key.lower(): value for key, value in (body.get("tags") or {}).items()}
    match = _TRAILING_NUMBER.search(tags.get(_RACK_TAG, "")) or _TRAILING_NUMBER.search(name)
    return int(match[1]) if match else 0


def cluster_of(body: Mapping[str, Any], name: str) -> str:
    """The cluster's name, from the tag `ndctl-cluster`, else what stands before the last "-" of a name."""
    tags = {key.lower(): value for key, value in (body.get("tags") or {}).items()}
    return tags.get(_CLUSTER_TAG) or name.rpartition("-")[0] or name


class Planted:
    """The fault book as the control plane reads it. What is left of a `count` lives with the process."""

    def __init__(self, book: FaultBook) -> None:
        self._book = book
        self._spent: dict[tuple[int, float], int] = {}

    def refresh(self) -> None:
        self._book.refresh()

    def answer_instead(self, method: str, path: str) -> ArmError | None:
        """What this request is answered with instead of what it asks for."""
        counted = _COUNTED.get(method, "writes")
        polls = re.search(r"/(operations|operationresults|operationstatuses)/[^/]+$", path, re.IGNORECASE)
        for fault in self._book.of("throttle", "error-500", "poll-error"):
            if fault.kind == "throttle" and fault.where.get("of", "all") not in ("all", counted):
                continue
            if (fault.kind == "poll-error" and not polls) or not self._spend(fault):
                continue
            if fault.kind != "throttle":
                return ArmError(
                    int(fault.where.get("status", 500)),
                    "InternalServerError",
                    "Encountered internal server error. Diagnostic information: simulated.",
                )
            seconds = str(fault["retry_after"])
            return ArmError(
                429,
                "TooManyRequests",
                f"The request is being throttled as the limit has been reached. Try again after {seconds} seconds.",
                headers={"Retry-After": seconds, f"x-ms-ratelimit-remaining-subscription-{counted}": "0"},
            )
        return None

    def resets_connection(self) -> bool:
        """Whether the next request gets no answer at all."""
        return any(self._spend(fault) for fault in self._book.of("connection-reset"))

    def ends_tokens(self) -> float:
        """Tokens handed out before this time are refused; 0 without the fault."""
        return max((fault.since for fault in self._book.of("token-expired")), default=0.0)

    def clock_ahead_s(self) -> float:
        """How far the region's clock is ahead of this machine's."""
        return sum(float(fault["seconds"]) for fault in self._book.of("azure-clock-skew"))

    def refuse_delete(self, rid: ResourceId) -> None:
        """ArmError when a lock is on this resource or on the group it is in."""
        self.refuse_group_delete(str(rid), rid.subscription, rid.group)
        for fault in self._book.of("delete-locked"):
            if str(fault["name"]).lower() in rid.name.lower():
                raise _locked(str(rid), str(rid))

    def refuse_group_delete(self, scope: str, subscription: str, group: str) -> None:
        """ArmError when a lock is on the group, which everything in it inherits."""
        for fault in self._book.of("delete-locked"):
            if str(fault["name"]).lower() in group.lower():
                raise _locked(scope, group_id(subscription, group))

    def delete_never_ends(self, rid: ResourceId) -> bool:
        return any(str(fault["name"]).lower() in rid.name.lower() for fault in self._book.of("delete-never-ends"))

    def _spend(self, fault: Fault) -> bool:
        """Take one of a fault's `count`; False when all are used up."""
        key = (fault.id, fault.since)  # an id is used again after all faults were healed
        spent = self._spent.get(key, 0)
        if spent >= int(fault["count"]):
            return False
        self._spent[key] = spent + 1
        return True

    def rack_fault(self, kind: str, rack: int, cluster: str) -> Fault | None:
        return next(
            (
                fault
                for fault in self._book.of(kind)
                if rack and int(fault["rack"]) == rack and fault.where.get("cluster", cluster) == cluster
            ),
            None,
        )

    def subgroup(self, node: str, cluster: str) -> str:
        """The subgroup that a machine is said to stand in instead of its own, "" if none was planted."""
        for fault in self._book.of("wrong-subgroup"):
            if fault["node"] == node and fault.where.get("cluster", cluster) == cluster:
                return str(fault["subgroup"])
        return ""

    def dead(self, node: str, cluster: str) -> str:
        """ "hung": it says that it runs, and does nothing; "stopped"; "" for a machine that lives."""
        for fault in self._book.of("vm-dead"):
            if fault["node"] == node and fault.where.get("cluster", cluster) == cluster:
                return str(fault["how"])
        return ""

    def core_limit(self) -> int | None:
        limits = [int(fault["limit"]) for fault in self._book.of("quota-exceeded")]
        return min(limits, default=None)

    def policy(self, rid: ResourceId) -> None:
        """ArmError when a planted policy denies this resource.

        A policy whose name speaks of public addresses denies those; any other denies every compute resource.
        """
        for fault in self._book.of("policy-denied"):
            name = str(fault["policy"])
            public = re.search(r"public.?ip", name, re.IGNORECASE)
            denied = "microsoft.network/publicipaddresses" if public else "microsoft.compute/"
            if not rid.type.lower().startswith(denied):
                continue
            scope = f"/subscriptions/{rid.subscription}"
            assignment = {"name": name, "id": f"{scope}/providers/Microsoft.Authorization/policyAssignments/{name}"}
            definition = {"name": name, "id": f"{scope}/providers/Microsoft.Authorization/policyDefinitions/{name}"}
            identifiers = json.dumps([{"policyAssignment": assignment, "policyDefinition": definition}])
            raise ArmError(
                403,
                "RequestDisallowedByPolicy",
                f"Resource '{rid.name}' was disallowed by policy. Policy identifiers: '{identifiers}'.",
                target=rid.name,
                info=[
                    {
                        "type": "PolicyViolation",
                        "info": {
                            "policyDefinitionDisplayName": name,
                            "policyDefinitionId": definition["id"],
                            "policyDefinitionName": name,
                            "policyDefinitionEffect": "deny",
                            "policyAssignmentId": assignment["id"],
                            "policyAssignmentName": name,
                            "policyAssignmentScope": scope,
                        },
                    }
                ],
            )


def _locked(scope: str, lock_at: str) -> ArmError:
    return ArmError(
        409,
        "ScopeLocked",
        f"The scope '{scope}' cannot perform delete operation because following scope(s) are locked: "
        f"'{lock_at}'. Please remove the lock and try again.",
    )


def allocation_failed(where: str) -> ArmError:
    return ArmError(
        409,
        "AllocationFailed",
        f"Allocation failed. We do not have sufficient capacity for the requested VM size {where}. Read more about "
        "improving likelihood of allocation success at https://aka.ms/allocation-guidance",
    )
