"""`iblinkinfo`: every link of the subnet, seen from its ports."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ndctl.parse.figures import real, whole
from ndctl.parse.ports import phys_of, state_of
from ndctl.parse.tidy import tidy_lines

_NODE = re.compile(r"^\s*(CA|Switch|Router): ?(?:(0x[0-9a-fA-F]{1,16}) )?(.{0,120}?):?\s*$")
_LINK = re.compile(
    r"(?P<lid>\d{1,6})\s+(?P<port>\d{1,4})\[[ \w]*\]\s*==\(\s*(?:(?P<width>\d{1,2}X)\s+(?P<speed>[\d.]{1,12}) Gbps\s+)?"
    r"(?P<state>[A-Za-z]{2,12})/\s*(?P<phys>[A-Za-z]{2,30})\)==>\s*(?P<peer>.*)$"
)
_PEER = re.compile(
    r"^(?:(?:(?P<lid>\d{1,6})\s+)?(?P<port>\d{1,4})?\[[ \w]*\]\s*)?"
    r"\"(?P<name>[^\"]{0,120})\"?\s*(?:\((?P<note>.*)\)\s*)?$"
)
_ERROR = re.compile(
    r"ibwarn:|ibpanic:|iberror:|query failed|Failed to|src/|can't|\w\.c:\d{1,5}[;:]|bad status \d|timed out",
    re.IGNORECASE,
)
_UNSEEN = "Port not available"  # stands in the place of the peer's name where the peer did not answer


@dataclass(frozen=True, slots=True)
class FabricLink:
    """gbps_per_lane as printed; rate_gbps is lanes times that. note: what the tool says in brackets."""

    node: str
    kind: str
    lid: int | None
    port: int
    state: str
    phys_state: str
    lanes: int | None
    gbps_per_lane: float | None
    rate_gbps: float | None
    peer: str
    note: str


@dataclass(frozen=True, slots=True)
class IbLinkInfo:
    links: tuple[FabricLink, ...] = ()
    errors: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> IbLinkInfo:
    """Never raises."""
    node = kind = ""
    links = []
    errors = []
    problems = []
    for line in tidy_lines(f"{text}\n{stderr}"):
        link, head = _LINK.search(line), _NODE.match(line)
        if link:
            links.append(_link(node, kind, link))
        elif head:
            kind, node = head[1], (head[3] or head[2] or "").strip()
        elif _ERROR.search(line):
            errors.append(line.strip()[:300])
        elif "==(" in line:
            problems.append(line.strip()[:120])
    return IbLinkInfo(tuple(links), tuple(errors[:20]), tuple(problems[:20]))


def _link(node: str, kind: str, match: re.Match[str]) -> FabricLink:
    peer = _PEER.match(match["peer"].strip())
    lanes = int(match["width"].rstrip("X")) if match["width"] else None
    speed = real(match["speed"])
    name = (peer["name"] if peer else match["peer"].strip()[:120]).strip()
    note = ((peer["note"] or "") if peer else "").strip()
    return FabricLink(
        node=node,
        kind=kind,
        lid=whole(match["lid"]),
        port=int(match["port"]),
        state=state_of(match["state"]),
        phys_state=phys_of(match["phys"]),
        lanes=lanes,
        gbps_per_lane=speed,
        rate_gbps=lanes * speed if lanes is not None and speed is not None else None,
        peer="" if name == _UNSEEN else name,
        note=_UNSEEN if name == _UNSEEN else note,
    )
