"""`nvidia-imex-ctl -N` as text and as JSON (`-j`): the IMEX domain, its nodes, and who is connected to whom."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ndctl.parse.tidy import straight, tidy_lines

DAEMON_STATES = (
    "INITIALIZING",
    "STARTING_AUTH_SERVER",
    "WAITING_FOR_PEERS",
    "WAITING_FOR_RECOVERY",
    "INIT_GPU",
    "READY",
    "SHUTTING_DOWN",
    "UNAVAILABLE",
)
# The letters of the connectivity table, as its legend explains them.
_LETTERS = {
    "I": "INVALID",
    "N": "NEVER_CONNECTED",
    "R": "RECOVERING",
    "D": "DISCONNECTED",
    "A": "AUTHENTICATING",
    "C": "CONNECTED",
    "!V!": "VERSION_MISMATCH",
    "V": "VERSION_MISMATCH",
    "!M!": "NODE_MAP_MISMATCH",
    "M": "NODE_MAP_MISMATCH",
}
_NODE = re.compile(r"^[\s*]*Node #(\d{1,5})\b[\s*-]*(.*)$", re.IGNORECASE)
_VERSION = re.compile(r"Version: ?(\S+)", re.IGNORECASE)
_DOMAIN = re.compile(r"Domain State: *([A-Za-z_]+)", re.IGNORECASE)
_HEADER = re.compile(r"Nodes From\s?\\\s?To\s+(.*)$", re.IGNORECASE)
_ROW = re.compile(r"^\s*(\d{1,5})\s+((?:[INRDACVM*.!]|\s)+)\s*$")
_STATE_WORD = re.compile(
    r"^(?:IMEX (?:daemon )?(?:status|state)[:\s]+)?(" + "|".join(DAEMON_STATES) + r")\.?$", re.IGNORECASE
)
_ERROR = re.compile(
    r"(?:failed to|unable to|could not|couldn't|cannot|\berror:|connection refused|not found|no such file|timed out)",
    re.IGNORECASE,
)
_MOST_NODES = 4096


@dataclass(frozen=True, slots=True)
class ImexNode:
    """connections: peer index → CONNECTED · NEVER_CONNECTED · …, as this node sees it; empty where not shown."""

    index: int
    host: str
    status: str
    version: str
    hostname: str = ""
    connections: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Imex:
    """status: UP · DEGRADED · DOWN, "" where the text does not say. local_status: answer of `-q`.

    elided: the table was shortened by its author, so some connections are not shown.
    """

    status: str
    nodes: tuple[ImexNode, ...]
    local_status: str = ""
    timestamp: str = ""
    form: str = "text"
    complete: bool = True
    elided: bool = False
    errors: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> Imex:
    """Text or JSON, told apart by shape. Never raises."""
    source = straight(text)
    start = source.find("{")
    if start >= 0 and '"nodes"' in source:
        # Before lines are taken: a rack's JSON on one line is longer than any line that a paste keeps.
        read = _from_json(source[start:])
        if read is not None and read.nodes:
            return read
    found = tidy_lines(f"{text}\n{stderr}" if stderr else text)
    whole = "\n".join(found)
    start = whole.find("{")
    if start >= 0 and '"' in whole[start : start + 200] and "Node #" not in whole[:start]:
        read = _from_json(whole[start:])
        if read is not None:
            return read
    return _from_text(found)


def _is_index(word: str) -> bool:
    return word.isdecimal() and len(word) <= 5


def _from_text(found: list[str]) -> Imex:
    nodes: dict[int, dict[str, Any]] = {}
    matrix: dict[int, dict[int, str]] = {}
    columns: list[int | None] = []
    status = local = timestamp = ""
    elided = False
    errors: list[str] = []
    problems: list[str] = []
    for line in found:
        node = _NODE.match(line)
        domain = _DOMAIN.search(line)
        header = _HEADER.search(line)
        if node and len(nodes) < _MOST_NODES:
            _read_node(int(node[1]), node[2], nodes, problems)
        elif domain:
            status = domain[1].upper()
        elif header:
            columns = [int(word) if _is_index(word) else None for word in header[1].split()[:_MOST_NODES]]
            elided = elided or None in columns
        elif columns and (row := _ROW.match(line)):
            elided = _read_row(int(row[1]), row[2].split(), columns, matrix, problems) or elided
        elif word := _STATE_WORD.match(line.strip()):
            local = word[1].upper()
        elif re.match(r"^\s*\d{1,2}/\d{1,2}/\d{4} ", line):
            timestamp = line.strip()
        elif _ERROR.search(line) and " - " not in line and len(errors) < 20:
            errors.append(line.strip()[:300])
    made = tuple(
        ImexNode(index=index, connections=matrix.get(index, {}), **values) for index, values in sorted(nodes.items())
    )
    if not made and matrix:
        made = tuple(ImexNode(index, "", "", "", connections=row) for index, row in sorted(matrix.items()))
    full = bool(status) and bool(matrix) and all(len(row) == len(columns) for row in matrix.values())
    return Imex(
        status=status,
        nodes=made,
        local_status=local,
        timestamp=timestamp,
        complete=full and not elided,
        elided=elided,
        errors=tuple(errors),
        problems=tuple(problems[:20]),
    )


def _read_node(index: int, rest: str, nodes: dict[int, dict[str, Any]], problems: list[str]) -> None:
    """`host - STATE - Version: x`; with -H a host name stands beside the address."""
    version = _VERSION.search(rest)
    body = rest[: version.start()] if version else rest
    parts = [part.strip(" *") for part in re.split(r"\s+-\s*|\s{2,}", body) if part.strip(" -*")]
    state = next((part for part in parts if re.fullmatch(r"[A-Z][A-Z_]{3,30}", part)), "")
    hosts = [part for part in parts if part != state]
    if not state:
        problems.append(f"node {index}: no state in '{rest[:80]}'")
    nodes[index] = {
        "host": hosts[0] if hosts else "",
        "hostname": hosts[1] if len(hosts) > 1 else "",
        "status": state,
        "version": version[1] if version else "",
    }


def _read_row(
    index: int, words: list[str], columns: list[int | None], matrix: dict[int, dict[int, str]], problems: list[str]
) -> bool:
    """One row of the table; True where cells were left out by `...`."""
    row: dict[int, str] = {}
    for column, word in zip(columns, words, strict=False):
        letter = word.strip("*")
        if column is None or set(letter) <= {"."}:
            continue
        if letter in _LETTERS:
            row[column] = _LETTERS[letter]
        else:
            problems.append(f"row {index}: '{word[:10]}'")
    if len(words) < len(columns):
        problems.append(f"row {index} has {len(words)} of {len(columns)} columns")
    matrix[index] = row
    return any(set(word) <= {"."} for word in words)


def _from_json(text: str) -> Imex | None:
    problems: list[str] = []
    try:
        data, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return _from_cut_json(text)
    if not isinstance(data, dict) or not {"nodes", "status"} & set(data):
        return None
    nodes = data.get("nodes")
    items: list[tuple[Any, Any]] = []
    if isinstance(nodes, dict):
        items = list(nodes.items())
    elif isinstance(nodes, list):
        items = [
            (node.get("index", number) if isinstance(node, dict) else number, node) for number, node in enumerate(nodes)
        ]
    made = []
    for key, node in items[:_MOST_NODES]:
        if not isinstance(node, dict) or not _is_index(str(key)):
            problems.append(f"node {str(key)[:20]} has no object")
            continue
        made.append(_json_node(int(key), node))
    return Imex(
        status=str(data.get("status") or "").upper()[:40],
        nodes=tuple(sorted(made, key=lambda node: node.index)),
        timestamp=str(data.get("timestamp") or "")[:60],
        form="json",
        complete=bool(data.get("status")) and bool(made),
        problems=tuple(problems[:20]),
        unknown_fields=tuple(sorted(str(key) for key in set(data) - {"nodes", "status", "timestamp"}))[:20],
    )


def _json_node(index: int, node: Mapping[str, Any]) -> ImexNode:
    told = node.get("connections")
    connections = {}
    for peer, link in told.items() if isinstance(told, dict) else ():
        if isinstance(link, dict) and _is_index(peer):
            connections[int(peer)] = _status(link.get("status"))
    return ImexNode(
        index=index,
        host=str(node.get("host") or "")[:200],
        status=_status(node.get("status")),
        version=str(node.get("version") or "")[:60],
        hostname=str(node.get("hostName") or "")[:200],
        connections=connections,
    )


def _status(told: Any) -> str:
    return "CONNECTED" if told == "CONNECTED" else str(told or "").upper()[:40]  # of nearly all


def _from_cut_json(text: str) -> Imex | None:
    """JSON that does not parse: only its being IMEX's is known, and what it names as bad."""
    if '"nodes"' not in text and '"connections"' not in text:
        return None
    bad = re.findall(r'"status"\s*:\s*"(DEGRADED|DOWN)"', text[-4000:])
    return Imex(
        status=bad[-1] if bad else "",
        nodes=(),
        form="json",
        complete=False,
        problems=("the JSON is cut off or damaged",),
    )
