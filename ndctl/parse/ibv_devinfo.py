"""`ibv_devinfo`, plain or `-v`: devices and ports; only link_layer tells InfiniBand from Ethernet."""

from __future__ import annotations

import re
from typing import Any

from ndctl.parse.figures import real, whole
from ndctl.parse.ports import Port, Ports, layer_of, phys_of, state_of
from ndctl.parse.tidy import tidy_lines

_HEAD = re.compile(r"\bhca_id: ?\s*(\S{1,64})")
_PORT = re.compile(r"^[\s>|*]*port: ?\s*(\d{1,3})\s*$")
_PAIR = re.compile(r"^[\s>|*]*([a-z][\w .]{1,40}?)\s*: ?\s*(.*)$")
_ERROR = re.compile(r"Failed to|No IB devices found|not found|Couldn't|cannot", re.IGNORECASE)
_WIDTH = re.compile(r"(\d{1,2})X")
_CUT_LABELS = {"state", "max_mtu", "active_mtu", "sm_lid", "port_lid", "port_lmc"}


def parse(text: str, stderr: str = "") -> Ports:
    """rate_gbps only with `-v`, which prints width and speed of a lane. Never raises."""
    device: dict[str, Any] = {"device": ""}
    made: list[dict[str, Any]] = []
    errors: list[str] = []
    for line in tidy_lines(f"{text}\n{stderr}"):
        head, port, pair = _HEAD.search(line), _PORT.match(line), _PAIR.match(line)
        if head:
            device = {"device": head[1]}
        elif port:
            made.append({**device, "port": int(port[1])})
        elif pair:
            label, value = pair[1].strip(), pair[2].strip()
            if label == "state" and not value.startswith("PORT_"):
                continue  # another tool's way to write states
            if label == "state" and (not made or "state" in made[-1]):
                made.append({**device, "port": 1})
            if label == "fw_ver":
                device["firmware"] = value
            elif label == "board_id":
                device["board_id"] = value
            elif label == "vendor_part_id":
                device["device_type"] = value
            elif label == "node_guid":
                device["guid"] = value
            elif made:
                _take(label, value, made[-1])
        elif _ERROR.search(line):
            errors.append(line.strip()[:300])
    ports = tuple(_port(values) for values in made)
    cut = ports and not ports[-1].link_layer
    problems = (f"the text ends within {ports[-1].device or 'a device'} port {ports[-1].port}",) if cut else ()
    return Ports(ports=ports, errors=tuple(errors[:20]), problems=problems)


def _take(label: str, value: str, port: dict[str, Any]) -> None:
    if label == "state":
        port["state"] = state_of(value)
    elif label == "phys_state":
        port["phys_state"] = phys_of(value)
    elif label == "link_layer":
        port["link_layer"] = layer_of(value)
    elif label == "sm_lid":
        port["sm_lid"] = whole(value)
    elif label == "port_lid":
        port["lid"] = whole(value)
    elif label == "active_mtu":
        port["active_mtu"] = whole(value)
    elif label == "active_width":
        port["width"] = value
    elif label == "active_speed":
        port["speed"] = value


def _port(values: dict[str, Any]) -> Port:
    width, speed = values.pop("width", ""), values.pop("speed", "")
    lanes = _WIDTH.search(width)
    per_lane = real(speed)
    if lanes and per_lane is not None:
        values["lanes"] = f"{lanes[1]}X"
        values["rate_gbps"] = int(lanes[1]) * per_lane
    return Port(**values)
