"""RDMA ports as every tool's parser gives them, in one spelling, whatever the tool's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ndctl.parse.figures import real

_STATES = {
    "down": "Down",
    "init": "Initialize",
    "initialize": "Initialize",
    "initializing": "Initialize",
    "armed": "Armed",
    "active": "Active",
    "active defer": "ActiveDefer",
    "activedefer": "ActiveDefer",
    "nop": "Nop",
}
_PHYS = {
    "sleep": "Sleep",
    "polling": "Polling",
    "disabled": "Disabled",
    "portconfigurationtraining": "PortConfigurationTraining",
    "training": "PortConfigurationTraining",
    "linkup": "LinkUp",
    "linkerrorrecovery": "LinkErrorRecovery",
    "phy test": "PhyTest",
    "phytest": "PhyTest",
}
_LAYERS = {"infiniband": "InfiniBand", "ib": "InfiniBand", "ethernet": "Ethernet", "eth": "Ethernet"}


@dataclass(frozen=True, slots=True)
class Port:
    """One port. "" and None mean that the text does not say.

    state:      Active · Down · Initialize · Armed · …; phys_state: LinkUp · Polling · Disabled · …
    rate_gbps:  Gb/s of the whole port; of a port that is down it is only a default
    link_layer: InfiniBand · Ethernet
    lanes, generation: "4X", "NDR" where the rate's text tells them
    gid:        the port's first address, lower case
    """

    device: str
    port: int
    state: str = ""
    phys_state: str = ""
    rate_gbps: float | None = None
    link_layer: str = ""
    lid: int | None = None
    sm_lid: int | None = None
    lanes: str = ""
    generation: str = ""
    netdev: str = ""
    device_type: str = ""
    firmware: str = ""
    board_id: str = ""
    guid: str = ""
    gid: str = ""
    active_mtu: int | None = None
    capability_mask: str = ""
    pkeys: tuple[int, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    hw_counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ports:
    """ports in the order printed. errors: what the tool says failed."""

    ports: tuple[Port, ...]
    errors: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def is_cut(word: str, whole_words: Iterable[str]) -> bool:
    """The beginning of a known word: the text ends there, so nothing is said."""
    return any(known.startswith(word) and known != word for known in whole_words)


def _word(text: str) -> str:
    """`4: ACTIVE`, `PORT_ACTIVE (4)`, `LINK_UP` → the bare word, lower case."""
    text = re.sub(r"^\s*\d+\s*:\s*", "", text[:80])
    text = re.sub(r"\s*\(\d+\)\s*$", "", text).strip().lower()
    return text.removeprefix("port_").replace("_", "")


def is_phys(text: str) -> bool:
    """A word of the physical state only: where it stands under `state`, the label's beginning was cut off."""
    word = _word(text)
    return word in _PHYS and word not in _STATES


def state_of(text: str) -> str:
    """The logical state; "" for a word cut short; another unknown word is kept as it stands."""
    return _one_of(_STATES, text)


def phys_of(text: str) -> str:
    """The physical state; "" for a word cut short; another unknown word is kept as it stands."""
    return _one_of(_PHYS, text)


def layer_of(text: str) -> str:
    """InfiniBand or Ethernet; "" for a word cut short; another unknown word is kept as it stands."""
    return _one_of(_LAYERS, text)


def _one_of(spellings: Mapping[str, str], text: str) -> str:
    word = _word(text)
    if word in spellings:
        return spellings[word]
    cut = not word or word.isdigit() or is_cut(word, spellings)
    return "" if cut else text.strip()[:40]


_RATE = re.compile(
    r"([\d.]+)\s*(?:Gb/sec|Gb/s|Gbps|Gbit/s)?(?:\s*\(\s*(\d{1,2}X)?\s*([A-Z]{2,4}\d{0,3})?\s*\))?", re.IGNORECASE
)


def rate_of(text: str) -> tuple[float | None, str, str]:
    """`800 Gb/sec (4X XDR)` → (800.0, "4X", "XDR"); a bare figure is Gb/s; `10*` (a default) → 10."""
    match = _RATE.match(text.strip())
    if not match:
        return None, "", ""
    return real(match[1]), (match[2] or "").upper(), (match[3] or "").upper()
