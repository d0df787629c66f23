"""`rdma link` of iproute2, as lines or JSON (`-j`)."""

from __future__ import annotations

import json
import re
from typing import Any

from ndctl.parse.figures import whole
from ndctl.parse.ports import Port, Ports, phys_of, state_of
from ndctl.parse.tidy import tidy_lines

_LINE = re.compile(
    r"(?:\blink |^\s*\d{1,4}/\d{1,3}: |^\s*)(?P<device>[A-Za-z][\w.-]{1,40})/(?P<port>\d{1,3}):? "
    r"(?P<rest>.*\bstate .*)$"
)
_ERROR = re.compile(r"command not found|No such device|Operation not permitted|error", re.IGNORECASE)


def parse(text: str, stderr: str = "") -> Ports:
    """InfiniBand ports are told by the subnet prefix or LID printed for them only. Never raises."""
    stripped = text.lstrip()
    if stripped.startswith("[") and '"ifname"' in stripped:
        try:
            data, _ = json.JSONDecoder().raw_decode(stripped)
        except (ValueError, RecursionError):
            return Ports(ports=(), problems=("the JSON is cut off or damaged",))
        return Ports(ports=tuple(_of(entry) for entry in data if isinstance(entry, dict) and "ifname" in entry))
    ports = []
    errors = []
    for line in tidy_lines(f"{text}\n{stderr}"):
        match = _LINE.search(line)
        if match:
            words = match["rest"].split()
            pairs = {words[i]: words[i + 1] for i in range(len(words) - 1) if i % 2 == 0}
            ports.append(_of({"ifname": match["device"], "port": match["port"], **pairs}))
        elif _ERROR.search(line):
            errors.append(line.strip()[:300])
    return Ports(ports=tuple(ports), errors=tuple(errors[:20]))


def _of(entry: dict[str, Any]) -> Port:
    netdev = str(entry.get("netdev") or "")[:40]
    fabric = "subnet_prefix" in entry or "sm_lid" in entry
    number = whole(str(entry.get("port") or entry.get("ifindex") or "1"))
    return Port(
        device=str(entry["ifname"]).split("/")[0][:64],
        port=number if number is not None else 1,
        state=state_of(str(entry.get("state") or "")),
        phys_state=phys_of(str(entry.get("physical_state") or "")),
        link_layer="InfiniBand" if fabric or netdev.startswith("ib") else "Ethernet" if netdev else "",
        lid=whole(str(entry.get("lid") or "")),
        sm_lid=whole(str(entry.get("sm_lid") or "")),
        netdev=netdev,
    )
