"""What a kernel log says of the state of RDMA ports: `mlx5_core 0101:00:00.0 mlx5_ib0: Port: 1 Link DOWN`.

The kernel itself prints such a line at every change of a port's state since 6.15; mlx4 and hfi1 did so before, and
network interfaces of mlx5 adapters have a line of their own (`… enp1s0f0: Link down`), which is Ethernet's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ndctl.parse.log_lines import LogLine, numbered, undress
from ndctl.parse.tidy import straight

_STATE = re.compile(
    r"\b(?P<driver>[a-z]\w{1,20}) (?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
    r"(?: (?P<device>[\w.-]{1,64}))?: Port: ?(?P<port>\d{1,3}) Link (?P<state>DOWN|INIT|ARMED|ACTIVE|ACTIVE_DEFER)\b",
    re.IGNORECASE,
)
_KEYWORDS = ("link down", "link init", "link armed", "link active")
_MOST = 20_000


@dataclass(frozen=True, slots=True)
class PortChange:
    """device "" where the line names only the PCI address; active: the state it changed to; seconds of the log's clock.

    time: as printed
    """

    device: str
    pci: str
    port: int
    active: bool
    state: str
    time: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class LinkLog:
    """changes in the log's order, each line once. booted: when the log's first line was, if that is the kernel's."""

    changes: tuple[PortChange, ...] = ()
    booted: float | None = None
    lines: int = 0
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> LinkLog:
    """Time is linear in the text's length. Never raises."""
    source = straight(text)
    changes: dict[tuple[str, ...], PortChange] = {}
    for begin, end in numbered(source, _KEYWORDS):
        line = undress(source[begin:end].rstrip())
        match = _STATE.search(line.text)
        if match and len(changes) < _MOST:
            change = _change(match, line)
            changes.setdefault((change.pci, change.state, line.time, line.text), change)
    problems = (f"only the first {_MOST} changes are kept",) if len(changes) == _MOST else ()
    lines = source.count("\n") + 1 if source.strip() else 0
    return LinkLog(tuple(changes.values()), _booted(source), lines, problems)


def _change(match: re.Match[str], line: LogLine) -> PortChange:
    state = match["state"].upper()
    return PortChange(
        device=match["device"] or "",
        pci=match["pci"].lower(),
        port=int(match["port"]),
        active=state.startswith("ACTIVE"),
        state=state,
        time=line.time,
        seconds=line.seconds,
    )


def _booted(source: str) -> float | None:
    for text in source[:8000].split("\n")[:20]:
        line = undress(text.rstrip())
        if "Linux version" in line.text or "Booting Linux" in line.text:
            return line.seconds
    return None
