"""`nvidia-smi c2c --status`: the chip-to-chip links between a Grace CPU and its GPUs, one line a link."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ndctl.parse.figures import with_unit
from ndctl.parse.nvidia_trouble import Trouble, troubles
from ndctl.parse.tidy import tidy_lines

_GPU = re.compile(r"^\s*GPU\s+(?P<index>\d{1,4}):\s*(?P<name>.{0,80}?)\s*(?:\(UUID:\s*(?P<uuid>[^)]{0,80})\)?)?\s*$")
_LINK = re.compile(r"^\s*C2C Link\s+(?P<link>\d{1,4})\s*:\s*(?P<value>.{0,60}?)\s*$", re.IGNORECASE)
_NONE = re.compile(r"No Devices support C2C", re.IGNORECASE)
_INACTIVE = {"<inactive>", "inactive", "<not active>", "not active", "disabled"}


@dataclass(frozen=True, slots=True)
class C2cLink:
    """active: None where the text does not say; gb_per_s: as printed, None where the link is not active."""

    link: int
    active: bool | None
    gb_per_s: float | None
    printed: str


@dataclass(frozen=True, slots=True)
class C2cGpu:
    index: int
    name: str
    uuid: str
    links: tuple[C2cLink, ...]


@dataclass(frozen=True, slots=True)
class C2cStatus:
    """supported: False where the tool says that no device has such links; None where it says nothing of it."""

    gpus: tuple[C2cGpu, ...]
    supported: bool | None = None
    troubles: tuple[Trouble, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> C2cStatus:
    """Links by GPU, in the order printed; the same GPU twice counts once. Never raises."""
    heads: dict[int, tuple[str, str]] = {}
    links: dict[int, dict[int, C2cLink]] = {}
    problems: list[str] = []
    unknown: list[str] = []
    current: int | None = None
    for line in tidy_lines(text):
        head, link = _GPU.match(line), _LINK.match(line)
        if head:
            current = int(head["index"])
            heads.setdefault(current, (head["name"], (head["uuid"] or "").strip()))
            links.setdefault(current, {})
        elif link and current is None:
            problems.append(f"a link before any GPU: {line.strip()[:80]}")
        elif link and current is not None:
            one = _link(int(link["link"]), link["value"])
            if one.active is None:
                problems.append(f"GPU {current} link {one.link}: '{one.printed}'")
            links[current].setdefault(one.link, one)
        elif line.strip() and current is not None and ":" in line:
            unknown.append(line.strip().partition(":")[0][:60])
    said_none = bool(_NONE.search(text[:20_000]) or _NONE.search(stderr[:20_000]))
    return C2cStatus(
        gpus=tuple(C2cGpu(index, *heads[index], tuple(of.values())) for index, of in links.items()),
        supported=True if any(links.values()) else False if said_none else None,
        troubles=troubles(f"{text}\n{stderr}"),
        problems=tuple(problems[:20]),
        unknown_fields=tuple(dict.fromkeys(unknown))[:40],
    )


@lru_cache(maxsize=512)  # links that are well print the same
def _link(number: int, printed: str) -> C2cLink:
    speed = with_unit(printed, "GB/s")
    if speed is not None:
        return C2cLink(number, speed > 0, speed or None, printed)
    return C2cLink(number, False if printed.lower() in _INACTIVE else None, None, printed)
