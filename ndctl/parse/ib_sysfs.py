"""`grep -H . /sys/class/infiniband/*/ports/*/state …`: the kernel's own files, one `path:value` a line."""

from __future__ import annotations

import re
from typing import Any

from ndctl.parse.figures import whole
from ndctl.parse.ports import Port, Ports, layer_of, phys_of, rate_of, state_of
from ndctl.parse.tidy import tidy_lines

# The root in front of /sys may be another (a container's mount, a copy of the tree), or be cut away.
_PORT_FILE = re.compile(
    r"infiniband/(?P<device>[\w.-]{1,64})/ports/(?P<port>\d{1,3})/(?P<file>[\w./-]{1,120}?)\s*:\s?(?P<value>.*)$"
)
_RELATIVE = re.compile(
    r"(?:^|[\s'\"./])(?P<device>(?:mlx|ib|roc|efa|hns|irdma|bnxt|rxe|rdma)[\w.-]{0,60})/ports/(?P<port>\d{1,3})/(?P<file>[\w./-]{1,120}?)\s*:\s?(?P<value>.*)$"
)
_DEVICE_FILE = re.compile(
    r"infiniband/(?P<device>[\w.-]{1,64})/(?P<file>fw_ver|board_id|hca_type|node_guid|sys_image_guid|node_desc|node_type|device/numa_node)\s*:\s?(?P<value>.*)$"
)
_HEADING = re.compile(r"^==> (\S{1,300}) <==\s*$")  # `head` and `tail` over several files
_REFUSALS = ("No such file", "Permission denied", "Invalid argument", "Operation not permitted")
_ERROR = re.compile(rf"(?:grep|cat|ls|sh|bash): .{{0,200}}(?:{'|'.join(_REFUSALS)})")
_PLAIN_FILES = {"state", "phys_state", "rate", "link_layer", "lid", "sm_lid", "cap_mask", "lid_mask_count", "sm_sl"}


def parse(text: str, stderr: str = "") -> Ports:
    """Ports in the order first seen, with counters, hw_counters and pkeys where they are listed. Never raises."""
    ports: dict[tuple[str, int], dict[str, Any]] = {}
    adapters: dict[str, dict[str, str]] = {}
    errors: list[str] = []
    problems: list[str] = []
    unknown: dict[str, None] = {}
    heading = ""
    refused = any(words in one for words in _REFUSALS for one in (text, stderr))
    for line in tidy_lines(f"{text}\n{stderr}"):
        head = _HEADING.match(line) if line.startswith("==>") else None
        if head:
            heading = head[1]
            continue
        if heading and line.strip():
            line = f"{heading}:{line.strip()}"
        if refused and _ERROR.search(line):
            errors.append(line.strip()[:300])
            continue
        port_file = _PORT_FILE.search(line) or _RELATIVE.search(line)
        if port_file:
            number = int(port_file["port"])
            port = ports.setdefault((port_file["device"], number), {"counters": {}, "hw_counters": {}, "pkeys": []})
            _take(port_file["file"], port_file["value"].strip(), port, problems, unknown)
            continue
        device_file = _DEVICE_FILE.search(line)
        if device_file:
            adapters.setdefault(device_file["device"], {})[device_file["file"]] = device_file["value"].strip()
    made = tuple(_port(device, number, values, adapters.get(device, {})) for (device, number), values in ports.items())
    return Ports(
        ports=made,
        errors=tuple(errors[:20]),
        problems=tuple(problems[:20]),
        unknown_fields=tuple(unknown)[:30],
    )


def _port(device: str, number: int, values: dict[str, Any], adapter: dict[str, str]) -> Port:
    pkeys = tuple(values.pop("pkeys"))
    return Port(
        device=device,
        port=number,
        pkeys=pkeys,
        device_type=adapter.get("hca_type", ""),
        firmware=adapter.get("fw_ver", ""),
        board_id=adapter.get("board_id", ""),
        guid=adapter.get("node_guid", ""),
        **values,
    )


def _take(file: str, value: str, port: dict[str, Any], problems: list[str], unknown: dict[str, None]) -> None:
    folder, _, name = file.rpartition("/")
    if folder in {"counters", "hw_counters"} or folder == "counters_ext":
        count = whole(value)
        if count is None or count < 0:
            problems.append(f"{name}: '{value[:40]}'")
        else:
            port["hw_counters" if folder == "hw_counters" else "counters"][name] = count
    elif folder == "pkeys":
        key = whole(value)
        if key:
            port["pkeys"].append(key)
    elif file == "state":
        port["state"] = state_of(value)
    elif file == "phys_state":
        port["phys_state"] = phys_of(value)
    elif file == "rate":
        if "Gb" in value:  # without its unit the figure may be cut
            port["rate_gbps"], port["lanes"], port["generation"] = rate_of(value)
    elif file == "link_layer":
        port["link_layer"] = layer_of(value)
    elif file == "lid":
        port["lid"] = whole(value)
    elif file == "sm_lid":
        port["sm_lid"] = whole(value)
    elif folder.startswith(("gids", "gid_attrs")) or file in _PLAIN_FILES:
        if folder == "gid_attrs/ndevs" and value:
            port["netdev"] = value
        elif folder == "gids" and name == "0":
            port["gid"] = value.lower()[:64]
    else:
        unknown.setdefault(re.sub(r"\d+", "n", file))
