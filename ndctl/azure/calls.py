"""What one ARM request is: which limits it counts against, and how calls are told: "214 (150 reads, 64 writes ...)"."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ndctl.azure.pacing import DELETES, READS, SCALE_SET_LISTS, SCALE_SET_PUTS, WRITES, Turn

_SCALE_SETS = "microsoft.compute/virtualmachinescalesets"
_INSTANCES = f"{_SCALE_SETS}/virtualmachines"
_KIND = {"GET": READS, "HEAD": READS, "DELETE": DELETES}
_BY_AZURE = {_SCALE_SETS: "scale-set PUTs", "microsoft.compute/interconnectblocks": "block PUTs"}


@dataclass(frozen=True, slots=True)
class Call:
    """One request. kind: reads | writes | deletes, as ARM counts them; type: the resource type asked about."""

    kind: str
    type: str
    turn: Turn


def call_of(method: str, url: str, by_azure: Mapping[str, int]) -> Call:
    """`by_azure`: type -> how many resources ARM will PUT by itself for this request (a deployment)."""
    kind = _KIND.get(method.upper(), WRITES)
    type_, resource = _split(urlsplit(url).path)
    low = type_.casefold()
    takes: list[tuple[str, str, int]] = [(kind, "", 1)]
    if low == _SCALE_SETS and method in ("PUT", "PATCH"):
        takes += [(SCALE_SET_PUTS, resource, 1), (SCALE_SET_PUTS, "", 1)]
    elif low.startswith(_SCALE_SETS) and kind == READS:
        takes += [(SCALE_SET_LISTS, _scale_set(resource), 1)] if resource else []
        takes.append((SCALE_SET_LISTS, "", 1))
    elif low.startswith(_INSTANCES):
        takes.append(("VM updates", resource, 1))
    implied = sum(count for one, count in by_azure.items() if one.casefold() == _SCALE_SETS)
    if implied:
        takes.append((SCALE_SET_PUTS, "", implied))
    return Call(kind, type_, Turn(tuple(takes)))


@dataclass(frozen=True, slots=True)
class Calls:
    """How many ARM calls were made. Every try counts, also one that was answered 429.

    by_kind: reads, writes, deletes; by_type: "reads Microsoft.Compute/virtualMachineScaleSets" -> how many;
    by_azure: resources that ARM put for us inside deployments; waited_s: seconds, all workers together.
    """

    by_kind: Mapping[str, int] = field(default_factory=dict)
    by_type: Mapping[str, int] = field(default_factory=dict)
    by_azure: Mapping[str, int] = field(default_factory=dict)
    throttled: int = 0
    waited_s: float = 0.0

    @property
    def total(self) -> int:
        return sum(self.by_kind.values())

    def since(self, before: Calls) -> Calls:
        """What came on top of `before`."""
        return Calls(
            _minus(self.by_kind, before.by_kind),
            _minus(self.by_type, before.by_type),
            _minus(self.by_azure, before.by_azure),
            self.throttled - before.throttled,
            self.waited_s - before.waited_s,
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "by_kind": dict(sorted(self.by_kind.items())),
            "by_type": dict(sorted(self.by_type.items())),
            "by_azure": dict(sorted(self.by_azure.items())),
            "throttled": self.throttled,
            "waited_s": round(self.waited_s, 1),
        }

    def line(self) -> str:
        """ARM calls: 214 (150 reads, 64 writes); inside deployments 64 scale-set PUTs, 64 block PUTs"""
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(self.by_kind.items(), key=lambda one: -one[1]))
        text = f"ARM calls: {self.total}" + (f" ({told})" if told else "")
        puts = [
            f"{count} {_BY_AZURE[kind.casefold()]}"
            for kind, count in sorted(self.by_azure.items(), reverse=True)
            if kind.casefold() in _BY_AZURE
        ]
        if puts:
            text += f"; inside deployments {', '.join(puts)}"
        if self.throttled:
            text += f"; {self.throttled} answered 429, {self.waited_s:.0f} s waited for a turn"
        return text


class Tally:
    """Counts the calls of one inventory's clients. Shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_kind: Counter[str] = Counter()
        self._by_type: Counter[str] = Counter()
        self._by_azure: Counter[str] = Counter()
        self._throttled = 0
        self._waited_s = 0.0

    def sent(self, call: Call, by_azure: Mapping[str, int], waited_s: float) -> None:
        with self._lock:
            self._by_kind[call.kind] += 1
            self._by_type[f"{call.kind} {call.type}"] += 1
            self._by_azure.update(by_azure)
            self._waited_s += waited_s

    def refused(self, by_azure: Mapping[str, int]) -> None:
        """Answered 429: nothing was done for this call."""
        with self._lock:
            self._throttled += 1
            self._by_azure.subtract(by_azure)

    def calls(self) -> Calls:
        with self._lock:
            kinds = (dict(self._by_kind), dict(self._by_type), {k: n for k, n in self._by_azure.items() if n})
            return Calls(*kinds, self._throttled, self._waited_s)


def _split(path: str) -> tuple[str, str]:
    """(type, id of the resource or "" where none is named) of a request's path.

    ".../providers/Microsoft.Compute/virtualMachineScaleSets/a/virtualMachines" is a list of the type
    Microsoft.Compute/virtualMachineScaleSets/virtualMachines in the scale set "a"; its id is the scale set's.
    """
    head, found, tail = path.rpartition("/providers/")
    parts = [part for part in tail.split("/") if part]
    if not found or not parts:
        return _of_resource_manager([part for part in path.split("/") if part]), ""
    if len(parts) == 1:
        return "Microsoft.Resources/providers", ""
    if parts[1].casefold() == "locations":
        return f"{parts[0]}/locations", ""
    resource = f"{head}/providers/{'/'.join(parts[: 1 + (len(parts) - 1) // 2 * 2])}".casefold()
    return "/".join([parts[0], *parts[1::2]]), resource if len(parts) > 2 else ""


def _of_resource_manager(parts: list[str]) -> str:
    """The type asked about by a path without a provider: subscriptions/S/resourcegroups/G/deployments/D/operations."""
    low = [part.casefold() for part in parts]
    if "operationresults" in low:
        return "Microsoft.Resources/operationResults"
    below = low[4] if len(low) > 4 else ""
    if below == "deployments":
        return "Microsoft.Resources/deployments/operations"
    if below == "resources":
        return "Microsoft.Resources/resources"
    return "Microsoft.Resources/resourceGroups" if len(low) > 2 else "Microsoft.Resources/subscriptions"


def _scale_set(resource: str) -> str:
    return resource.partition("/virtualmachines/")[0]


def _minus(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {key: count - before.get(key, 0) for key, count in now.items() if count != before.get(key, 0)}
