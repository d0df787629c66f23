"""`df -P`, with `-T` or without, and `df -Pi`: how full each file system is, in KiB and in inodes.

Both tables may stand in one text, told apart by their headers. A number that is `-` means that the file system counts
nothing of the kind (vfat has no inodes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

_HEADER = re.compile(r"^Filesystem\s+.*\bMounted on\s*$")
_COMPLAINT = re.compile(r"^df: (?P<point>'?/[^:\n]{0,200}): (?P<why>[A-Z][^\n]{2,120})$", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,19}")


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Sizes in KiB, as `-k` prints them; None where df prints `-` or the table was not asked for."""

    device: str
    point: str
    kind: str = ""
    size: int | None = None
    used: int | None = None
    available: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None
    inodes_free: int | None = None


@dataclass(frozen=True, slots=True)
class DfFacts:
    """By mount point. complaints: mount point -> what df says it could not do there."""

    file_systems: Mapping[str, FileSystem] = field(default_factory=dict)
    complaints: Mapping[str, str] = field(default_factory=dict)
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> DfFacts:
    """Never raises. Lines that do not have the header's columns are kept as unknown."""
    found: dict[str, FileSystem] = {}
    columns: list[str] = []
    strange: list[str] = []
    for line in text.replace("\r", "").split("\n"):
        if _HEADER.match(line.strip()):
            columns = _columns(line)
            continue
        if not line.strip() or line.startswith("df: "):
            continue
        row = _row(line.split(), columns)
        if row is None:
            if len(strange) < 5:
                strange.append(line.strip()[:120])
            continue
        found[row.point] = _joined(found.get(row.point), row)
    complaints = {match["point"].strip("'"): match["why"] for match in _COMPLAINT.finditer(f"{text}\n{stderr}")}
    return DfFacts(found, complaints, tuple(strange))


_NAMES = {
    "type": "kind",
    "used": "used",
    "available": "available",
    "avail": "available",
    "inodes": "inodes",
    "iused": "inodes_used",
    "ifree": "inodes_free",
}


def _columns(header: str) -> list[str]:
    """Names of the columns between the device and the mount point; what is not known keeps its place."""
    words = header.split()[1:-2]
    return ["size" if re.fullmatch(r"(?i)(?:1024|1K)-blocks", word) else _NAMES.get(word.lower(), "") for word in words]


def _row(words: Sequence[str], columns: Sequence[str]) -> FileSystem | None:
    """A device's name may hold blanks in places, a mount point too: the figures are found from the first that fits."""
    if not columns:
        return None
    for start in range(1, len(words) - len(columns)):
        cells = words[start : start + len(columns)]
        if not words[start + len(columns)].startswith("/"):
            continue
        kinds = [cell for name, cell in zip(columns, cells, strict=True) if name == "kind"]
        figures = {name: cell for name, cell in zip(columns, cells, strict=True) if name not in ("kind", "")}
        if all(cell == "-" or _NUMBER.fullmatch(cell) for cell in figures.values()):
            numbers = {name: None if cell == "-" else int(cell) for name, cell in figures.items()}
            return FileSystem(
                device=" ".join(words[:start]),
                point=" ".join(words[start + len(columns) :]),
                kind=kinds[0] if kinds else "",
                size=numbers.get("size"),
                used=numbers.get("used"),
                available=numbers.get("available"),
                inodes=numbers.get("inodes"),
                inodes_used=numbers.get("inodes_used"),
                inodes_free=numbers.get("inodes_free"),
            )
    return None


def _joined(before: FileSystem | None, row: FileSystem) -> FileSystem:
    """The two tables' rows of one mount point as one."""
    if before is None or before.device != row.device:
        return row
    if row.inodes is not None or row.inodes_free is not None:
        return replace(before, inodes=row.inodes, inodes_used=row.inodes_used, inodes_free=row.inodes_free)
    if row.size is not None:
        return replace(row, inodes=before.inodes, inodes_used=before.inodes_used, inodes_free=before.inodes_free)
    return before
