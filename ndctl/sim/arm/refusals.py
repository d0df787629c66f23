"""Planted faults that a careful look would find before a deployment: what is not registered, sold, or in service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ndctl.sim.arm.catalogue import RACKS_PER_ZONE, SIZES, Size
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.faults import FaultBook


class Refusals:
    """The fault book, read for what is refused whoever asks."""

    def __init__(self, book: FaultBook) -> None:
        self._book = book

    def answer(self, method: str, path: str) -> ArmError | None:
        """What a call is answered with because its path was planted so."""
        for fault in self._book.of("call-fails"):
            if str(fault["path"]).lower() in path.lower():
                status = int(fault["status"])
                code = {403: "AuthorizationFailed", 404: "NotFound", 503: "ServiceUnavailable"}.get(
                    status, "InternalServerError"
                )
                return ArmError(status, code, f"{method} {path} is refused (simulated).")
        return None

    def unregistered(self, namespace: str) -> bool:
        return any(
            str(fault["namespace"]).lower() == namespace.lower() for fault in self._book.of("provider-unregistered")
        )

    def restrictions(self, size: Size, location: str) -> list[dict[str, Any]]:
        """As resource SKUs show them."""
        found = []
        for fault in self._book.of("size-restricted"):
            if not size.rack:
                continue
            zone = str(fault["zone"])
            info = {"locations": [location], **({"zones": [zone]} if zone else {})}
            kind = "Zone" if zone else "Location"
            found.append(
                {"type": kind, "values": [location], "restrictionInfo": info, "reasonCode": str(fault["reason"])}
            )
        return found

    def in_service(self, number: int) -> bool:
        """Whether the rack of that number, in any zone, has all its nodes."""
        out = max((int(fault["count"]) for fault in self._book.of("racks-out-of-service")), default=0)
        return number <= RACKS_PER_ZONE - out

    def check(self, rid: ResourceId, body: Mapping[str, Any]) -> None:
        """ArmError for a resource whose provider is not registered or whose size is restricted."""
        if self.unregistered(rid.namespace):
            raise ArmError(
                409,
                "MissingSubscriptionRegistration",
                f"The subscription is not registered to use namespace '{rid.namespace}'. See "
                "https://aka.ms/rps-not-found for how to register subscriptions.",
            )
        size = SIZES.get(str((body.get("sku") or {}).get("name", "")).lower())
        zones = {str(zone) for zone in body.get("zones") or ()}
        for one in self.restrictions(size, str(body.get("location", ""))) if size else ():
            if one["type"] == "Location" or zones & set(one["restrictionInfo"]["zones"]):
                raise ArmError(
                    409,
                    "SkuNotAvailable",
                    f"The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: "
                    f"{size.name if size else ''}' is currently not available in location '{body.get('location')}'. "
                    "Please try another size or deploy to a different location or different zone. See "
                    "https://aka.ms/azureskunotavailable for details.",
                )
