"""`ibstat`: adapters and their ports; found by label, so indentation may be lost."""

from __future__ import annotations

import re
from typing import Any

from ndctl.parse.figures import whole
from ndctl.parse.ports import Port, Ports, is_phys, layer_of, phys_of, rate_of, state_of
from ndctl.parse.tidy import tidy_lines

_ADAPTER = re.compile(r"\bCA:? ?'([^']{1,64})'?")
_PORT = re.compile(r"^[\s>|*-]*Port (\d{1,3}):\s*$")
_PAIR = re.compile(r"^[\s>|*-]*([A-Za-z][A-Za-z ]{1,40}?)\s*: ?(.*)$")
_ERROR = re.compile(
    r"ibpanic:|ibwarn:|ibstat:|failed:|can't|cannot|not found|no such file|permission denied", re.IGNORECASE
)
_OF_ADAPTER = {
    "ca type": "device_type",
    "firmware version": "firmware",
    "number of ports": "",
    "hardware version": "",
    "node guid": "",
    "system image guid": "",
}
_OF_PORT = {
    "state",
    "physical state",
    "rate",
    "base lid",
    "lmc",
    "sm lid",
    "capability mask",
    "port guid",
    "link layer",
}


def parse(text: str, stderr: str = "") -> Ports:
    """Rates in Gb/s. A port whose listing ends early is kept with what it has. Never raises."""
    device, adapter, number = "", dict[str, str](), None
    made: list[dict[str, Any]] = []
    errors: list[str] = []
    unknown: dict[str, None] = {}
    label = ""
    for line in tidy_lines(f"{text}\n{stderr}"):
        head = _ADAPTER.search(line)
        port = _PORT.match(line)
        pair = _PAIR.match(line)
        if _ERROR.search(line) and not head:
            errors.append(line.strip()[:300])
        elif head:
            device, adapter, number = head[1], {}, None
        elif port:
            number = int(port[1])
            made.append({"device": device, "port": number, **adapter})
        elif pair:
            label, value = pair[1].strip().lower(), pair[2].strip()
            if label == "state" and is_phys(value):
                label = "physical state"
            if label in _OF_ADAPTER:
                if _OF_ADAPTER[label]:
                    adapter[_OF_ADAPTER[label]] = value
            elif label in _OF_PORT:
                if number is None or (label == "state" and "state" in made[-1]):
                    # `ibstat DEVICE PORT` and excerpts have no "Port n:" line
                    number = 1 if number is None else number
                    made.append({"device": device, "port": number, **adapter})
                _take(label, value, made[-1])
            elif made or device:
                unknown.setdefault(pair[1].strip())
    if made and label == "rate" and not text.endswith("\n"):
        made[-1].pop("rate_gbps", None)  # the figure may be cut
    ports = tuple(Port(**values) for values in made)
    return Ports(ports=ports, errors=tuple(errors[:20]), problems=_cut(ports), unknown_fields=tuple(unknown)[:30])


def _take(label: str, value: str, port: dict[str, Any]) -> None:
    if label == "state":
        port["state"] = state_of(value)
    elif label == "physical state":
        port["phys_state"] = phys_of(value)
    elif label == "rate":
        port["rate_gbps"], port["lanes"], port["generation"] = rate_of(value)
    elif label == "base lid":
        port["lid"] = whole(value)
    elif label == "sm lid":
        port["sm_lid"] = whole(value)
    elif label == "port guid":
        port["guid"] = value
    elif label == "capability mask":
        port["capability_mask"] = value
    elif label == "link layer":
        port["link_layer"] = layer_of(value)


def _cut(ports: tuple[Port, ...]) -> tuple[str, ...]:
    if ports and not (ports[-1].link_layer and ports[-1].state):
        return (f"the text ends within {ports[-1].device or 'the last adapter'} port {ports[-1].port}",)
    return ()
