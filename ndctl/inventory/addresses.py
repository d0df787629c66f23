"""Static racks: addresses as people write them, a list or a ClusterShell node set, expanded in order."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

_MOST_NODES = 100_000  # a typing error such as [1-100000000] is refused before it fills memory
_RANGES = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"^(\d{1,9})(?:-(\d{1,9})(?:/(\d{1,6}))?)?$")
_IPV6 = re.compile(
    r"^(?:\[(?P<inside>[0-9A-Fa-f:.]+)\](?::(?P<port>\d{1,5}))?|(?P<bare>[0-9A-Fa-f.]*(?::[0-9A-Fa-f.]*){2,}))$"
)
_HOST = re.compile(r"^(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::(?P<port>\d{1,5}))?$")
_PLAIN = re.compile(r"^[A-Za-z0-9._:,\[\]/\s-]+$")


@dataclass(frozen=True, slots=True)
class Address:
    """Where one node answers; `port` is None where the inventory leaves it to ssh.port."""

    host: str
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and self.port else self.host
        return f"{host}:{self.port}" if self.port else host


def expand(entries: Iterable[str]) -> list[Address]:
    """Addresses in order; each entry is one address or a node set. Raises ValueError, in words for a person."""
    return [_address(one) for entry in entries for one in _expanded(entry.strip())]


def _expanded(entry: str) -> list[str]:
    if _IPV6.match(entry):
        return [entry]
    if entry.startswith("@"):
        raise ValueError(f"'{entry}': node groups are not looked up, an inventory names its nodes")
    if "@" in entry:
        raise ValueError(f"'{entry}': the login user is set once, by ssh.user")
    if not _PLAIN.match(entry):
        raise ValueError(f"'{entry}' is no address or node set")
    if not re.search(r"[\[\],]", entry):
        return [entry]
    wanted = _count(entry)
    if wanted > _MOST_NODES:
        raise ValueError(f"'{entry}' means {wanted:,} nodes")

    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        found = list(NodeSet(entry, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise ValueError(f"'{entry}' is no node set: {error}") from error
    if len(found) < wanted:
        raise ValueError(f"'{entry}' names a node twice")
    return found


def _count(entry: str) -> int:
    """How many nodes a set means, duplicates counted; what is no range counts as one and is left to ClusterShell."""
    total = 0
    for piece in re.split(r",(?![^\[]*\])", entry):
        product = 1
        for inside in _RANGES.findall(piece):
            product *= sum(_size(part.strip()) for part in inside.split(","))
        total += product
    return total


def _size(part: str) -> int:
    match = _RANGE.match(part)
    if not match or match[2] is None:
        if not match and any(len(digits) > 9 for digits in re.findall(r"\d+", part)):
            raise ValueError(f"'{part}' is too large a number")
        return 1
    return max(0, int(match[2]) - int(match[1])) // max(1, int(match[3] or 1)) + 1


def _address(text: str) -> Address:
    six = _IPV6.match(text)
    if six:
        host = six["inside"] or six["bare"]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f"'{text}' is no IPv6 address") from None
        return Address(host, _port(six["port"], text))
    match = _HOST.match(text)
    if not match:
        raise ValueError(f"'{text}' is no address: host or host:port is needed")
    return Address(match["host"], _port(match["port"], text))


def _port(digits: str | None, text: str) -> int | None:
    if digits is None:
        return None
    if not 1 <= int(digits) <= 65535:
        raise ValueError(f"'{text}': a port is 1 to 65535")
    return int(digits)
