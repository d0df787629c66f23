"""Texts that several checks read, parsed once for all of them. A rack is judged more than once in a run, too."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar, cast

from ndctl.parse import c2c, fabric_map, ib_sysfs, imex, kernel_log, nvidia_smi_csv, nvlink_errors, nvlink_status
from ndctl.parse.imex import Imex

# Texts of each kind that are kept: those of the racks that are judged at one time (18 nodes a rack, 16 racks), not
# those of a whole region, which would fill the memory and are not asked for again.
KEPT = 512
Reader = TypeVar("Reader", bound=Callable[..., Any])
_FORGET: list[Callable[[], None]] = []


def once(read: Reader) -> Reader:
    """`read`, a function of texts, done once for each text, until all is forgotten or too much else was read."""
    kept = lru_cache(maxsize=KEPT)(read)
    _FORGET.append(kept.cache_clear)
    return cast("Reader", kept)


def forget() -> None:
    """Let go of all texts and what was read in them: the racks they are of will not be judged again."""
    for one in _FORGET:
        one()


c2c_of = once(c2c.parse)
fabric_of = once(fabric_map.parse)
kernel_log_of = once(kernel_log.parse)
link_errors_of = once(nvlink_errors.parse)
links_of = once(nvlink_status.parse)
ports_of = once(ib_sysfs.parse)
table_of = once(nvidia_smi_csv.parse)  # counters that stand still look alike on all nodes
_imex_of = once(imex.parse)

_IMEX_TIME = re.compile(r'"timestamp": ?"([^"\\\n]{0,60})"')


def imex_of(text: str, stderr: str) -> Imex:
    """`imex.parse`. But for the time, nodes of a rack that is well say the same of it."""
    times = _IMEX_TIME.findall(text)
    if len(times) != 1:
        return imex.parse(text, stderr)
    return replace(_imex_of(_IMEX_TIME.sub('"timestamp": ""', text), stderr), timestamp=times[0])
