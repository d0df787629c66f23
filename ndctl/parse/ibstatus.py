"""`ibstatus`: one paragraph for each InfiniBand device and port."""

from __future__ import annotations

import re
from typing import Any

from ndctl.parse.figures import whole
from ndctl.parse.ports import Port, Ports, is_phys, layer_of, phys_of, rate_of, state_of
from ndctl.parse.tidy import tidy_lines

_HEAD = re.compile(r"Infiniband device '([^']{1,64})' port (\d{1,3}) status", re.IGNORECASE)
_PAIR = re.compile(
    r"^[\s>|*]*(default gid|base lid|sm lid|state|phys state|rate|link_layer)\s*: ?\s*(.*)$", re.IGNORECASE
)
_ERROR = re.compile(r"(?:Fatal error|No such device|not found|cannot|device .{0,60} not found)", re.IGNORECASE)


def parse(text: str, stderr: str = "") -> Ports:
    """Rates in Gb/s. Never raises."""
    made: list[dict[str, Any]] = []
    errors: list[str] = []
    for line in tidy_lines(f"{text}\n{stderr}"):
        head, pair = _HEAD.search(line), _PAIR.match(line)
        if head:
            made.append({"device": head[1], "port": int(head[2])})
        elif pair:
            label = pair[1].lower()
            if pair[2].startswith("PORT_"):
                continue  # another tool's way to write states
            if label == "state" and is_phys(pair[2]):
                label = "phys state"
            if not made or (label == "default gid" and "state" in made[-1]):
                made.append({"device": "", "port": 1})
            _take(label, pair[2].strip(), made[-1])
        elif _ERROR.search(line):
            errors.append(line.strip()[:300])
    ports = tuple(Port(**values) for values in made)
    cut = ports and not (ports[-1].state and ports[-1].link_layer)
    problems = (f"the text ends within {ports[-1].device or 'a device'} port {ports[-1].port}",) if cut else ()
    return Ports(ports=ports, errors=tuple(errors[:20]), problems=problems)


def _take(label: str, value: str, port: dict[str, Any]) -> None:
    if label == "state":
        port["state"] = state_of(value)
    elif label == "phys state":
        port["phys_state"] = phys_of(value)
    elif label == "rate":
        if "Gb" in value:  # without its unit the figure may be cut
            port["rate_gbps"], port["lanes"], port["generation"] = rate_of(value)
    elif label == "link_layer":
        port["link_layer"] = layer_of(value)
    elif label == "base lid":
        port["lid"] = whole(value)
    elif label == "sm lid":
        port["sm_lid"] = whole(value)
    elif label == "default gid":
        port["guid"] = value
