"""`nvidia-smi -q`, whole or in part (`-d …`, `grep -A5 Fabric`): indentation gives the sections, labels the meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ndctl.parse.figures import known, whole
from ndctl.parse.gpu_facts import Gpu, Gpus
from ndctl.parse.gpu_leaves import Leaves, distinct, gpu_from, normal
from ndctl.parse.nvidia_trouble import troubles
from ndctl.parse.tidy import tidy_lines

_GPU = re.compile(r"^\s*GPU ((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*:?\s*$")
_PAIR = re.compile(r"^(\s*)([A-Za-z][^:]{0,70}?)\s*:(?:\s(.*)|)$")
_HEADER = re.compile(r"^(\s*)([A-Za-z][\w ./()&-]{1,60}?)\s*$")
_GLOBAL = {"timestamp", "driver version", "cuda version", "attached gpus"}
_REPEATING = {
    "processes",
    "supported clocks",
    "mig device",
    "attached vgpus",
    "vgpu software licensed product",
    "accounting",
}
# Which section each sub-section belongs to, for pastes that lost their indentation.
_PARENT = {
    "volatile": "ecc errors",
    "aggregate": "ecc errors",
    "aggregate uncorrectable sram sources": "ecc errors",
    "single bit": "ecc errors",
    "double bit": "ecc errors",
    "bank remap availability histogram": "remapped rows",
    "health": "fabric",
    "gpu link info": "pci",
    "pcie generation": "pci",
    "link width": "pci",
}
_SAMPLE = 5000  # lines that show whether there is indentation at all
_SHELL = re.compile(r"^\s*(?:[\w.@:~/\[\] -]{0,60}[$#%>] |\+ )|^=+|^--$|^```")


@dataclass(slots=True)
class _Reading:
    """State while lines go by."""

    leaves: list[Leaves] = field(default_factory=list)
    pcis: list[str | None] = field(default_factory=list)
    stack: list[tuple[int, str]] = field(default_factory=list)
    globals: dict[str, str] = field(default_factory=dict)
    strange: dict[str, None] = field(default_factory=dict)
    last_had_value: bool = True

    def begin(self, pci: str | None) -> Leaves:
        self.leaves.append(Leaves())
        self.pcis.append(pci)
        return self.leaves[-1]


def parse(text: str, stderr: str = "") -> Gpus:
    """Facts of every GPU in the text. A part without a GPU headline is a GPU of its own. Never raises."""
    found = [line for line in tidy_lines(text) if line.strip()]
    flat = _is_flat(found)
    reading = _Reading()
    for line in found:
        _read(line, flat, reading)
    gpus = [gpu_from(leaves, n, pci) for n, (leaves, pci) in enumerate(zip(reading.leaves, reading.pcis, strict=True))]
    # Without a headline only what it says makes it a GPU: any text has "label: value" in it.
    gpus = [gpu for gpu in gpus if gpu.pci is not None or gpu != Gpu(gpu.index)]
    attached = whole(reading.globals.get("attached gpus"))
    return Gpus(
        gpus=distinct(gpus),
        driver_version=known(reading.globals.get("driver version")),
        cuda_version=known(reading.globals.get("cuda version")),
        attached=attached,
        timestamp=known(reading.globals.get("timestamp")),
        cut=bool(reading.pcis) and reading.pcis[-1] is not None and not reading.last_had_value,
        troubles=troubles(f"{text}\n{stderr}"),
        unknown_fields=tuple(reading.strange)[:30],
    )


def _is_flat(found: list[str]) -> bool:
    """All labels begin in one column: the paste lost its indentation."""
    columns = set()
    for line in found[:_SAMPLE]:
        pair = _PAIR.match(line) or _HEADER.match(line)
        if pair and not _GPU.match(line) and normal(pair[2]) not in _GLOBAL:
            columns.add(len(pair[1].expandtabs(4)))
    return len(columns) <= 1


def _read(line: str, flat: bool, reading: _Reading) -> None:
    gpu = _GPU.match(line)
    if gpu:
        reading.begin(gpu[1])
        reading.stack.clear()
        reading.last_had_value = False
        return
    pair = _PAIR.match(line)
    header = None if pair else _HEADER.match(line)
    match = pair or header
    if match is None or (not pair and _SHELL.match(line)):
        return
    label = normal(match[2])
    value = (pair[3] or "").strip() if pair else None
    if label in _GLOBAL:
        reading.globals.setdefault(label, value or "")
        if value and label == "attached gpus":
            reading.last_had_value = True
        return
    column = len(match[1].expandtabs(4))
    if flat:
        if value is None:
            _flat_header(label, reading)
    else:
        while reading.stack and reading.stack[-1][0] >= column:
            reading.stack.pop()
    path = (*(name for _, name in reading.stack), label)
    if value is not None and not (flat and reading.stack and reading.stack[-1][1] == label and value == ""):
        _take(path, value, reading)
    if not flat:
        reading.stack.append((column, label))
    reading.last_had_value = bool(value)


def _flat_header(label: str, reading: _Reading) -> None:
    parent = _PARENT.get(label)
    names = [name for _, name in reading.stack]
    if parent in names:
        reading.stack = [*reading.stack[: names.index(parent) + 1], (0, label)]
    else:
        reading.stack = [(0, label)]


def _take(path: tuple[str, ...], value: str, reading: _Reading) -> None:
    repeats = any(name in _REPEATING for name in path)
    if not reading.leaves:
        reading.begin(None)
    leaves = reading.leaves[-1]
    if path in leaves.paths and not repeats and reading.pcis[-1] is None:
        leaves = reading.begin(None)
    if "processes" in path[:-1]:
        label = path[-1]
        if label == "process id" or not leaves.processes or label in leaves.processes[-1]:
            opened = {} if not leaves.processes or "process id" in leaves.processes[-1] else leaves.processes[-1]
            if opened is not (leaves.processes[-1] if leaves.processes else None):
                leaves.processes.append(opened)
        leaves.processes[-1].setdefault(label, value)
        return
    leaves.add(path, value)
