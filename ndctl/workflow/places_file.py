"""nodes.json of a cluster's state folder: which VM stands behind which name.

What cannot be right in it is refused: a repair or a verdict would meet another node than the one it names.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import node_name, rack_name
from ndctl.workflow.positions import Place
from ndctl.workflow.state_dir import write_private

_SCHEMA = "ndctl.places/1"
_RACK_NAME = re.compile(r"rack(\d{2,9})")
_POSITION = re.compile(r"[1-9][0-9]{0,8}")
Places = dict[str, dict[int, Place]]


class _Wrong(Exception):
    """What is wrong with the file, in words."""


def rack_number(name: str) -> int | None:
    """7 of rack07; None for what is no rack's name."""
    match = _RACK_NAME.fullmatch(name)
    return int(match[1]) if match and rack_name(int(match[1])) == name else None


def read_places(path: Path, cluster: str, most: int) -> Places:
    """Rack -> position -> who stands there, {} where nothing was kept yet. most: the highest position there can be.

    Raises NdctlError (exit 2) that says what is wrong with it.
    """
    try:
        return _places(_json(path), cluster, most)
    except FileNotFoundError:
        return {}
    except (OSError, _Wrong) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise NdctlError(
            "nodes.places",
            f"{path} cannot be read ({why}), and it says which VM stands behind which name",
            hint=f"restore it, or move it away to number the nodes anew: mv {path} {path}.old",
            exit_code=ExitCode.USAGE,
        ) from error


def write_places(path: Path, cluster: str, racks: Places) -> None:
    """Raises NdctlError (exit 2) where it cannot be kept."""
    told = {
        "schema": _SCHEMA,
        "cluster": cluster,
        "racks": {
            rack: {str(at): {"instance_id": one.instance_id, "vm_id": one.vm_id} for at, one in sorted(places.items())}
            for rack, places in sorted(racks.items())
            if places
        },
    }
    write_private(path, json.dumps(told, indent=1) + "\n")


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise _Wrong(f"it is no text: byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise _Wrong(f"it is no whole JSON: line {error.lineno}, column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise _Wrong("it is no JSON that ndctl writes") from error


def _places(told: Any, cluster: str, most: int) -> Places:
    if not isinstance(told, dict) or told.get("schema") != _SCHEMA:
        raise _Wrong(f"it does not begin as a list of places does, with the schema {_SCHEMA}")
    named = told.get("cluster")
    if not isinstance(named, str):
        raise _Wrong("it does not say of which cluster it is")
    if named != cluster:
        raise _Wrong(f"it is of cluster {_short(named)}, not of {cluster}")
    racks = told.get("racks")
    if not isinstance(racks, dict):
        raise _Wrong("it has no racks")
    read: Places = {}
    at: dict[str, str] = {}
    for rack, places in racks.items():
        number = rack_number(rack)
        if number is None:
            raise _Wrong(f"{_short(rack)} is no rack's name")
        if not isinstance(places, dict):
            raise _Wrong(f"{rack} has no list of positions")
        read[rack] = {}
        for position, one in places.items():
            if not _POSITION.fullmatch(position) or int(position) > most:
                raise _Wrong(f"{rack} has a position {_short(position)}; they go from 1 to {most} at most")
            name = node_name(number, int(position))
            place = _place(one, name)
            if place.vm_id and place.vm_id in at:
                raise _Wrong(f"one VM, {place.vm_id}, is both {at[place.vm_id]} and {name}")
            at[place.vm_id] = name
            read[rack][int(position)] = place
    return read


def _short(text: str) -> str:
    return repr(text[:40])


def _place(told: Any, name: str) -> Place:
    ids = [told.get(key) for key in ("instance_id", "vm_id")] if isinstance(told, dict) else []
    instance, vm = ids or (None, None)
    if not isinstance(instance, str) or not isinstance(vm, str) or not instance:
        raise _Wrong(f"{name} is not told with its instance_id and vm_id")
    return Place(instance, vm)
