"""`nvidia-smi -q -x`, whole, cut off, or only a part of it; read by a tolerant scanner that expands no entities."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from ndctl.parse.figures import known, whole
from ndctl.parse.gpu_facts import Gpus, Process
from ndctl.parse.gpu_leaves import Leaves, distinct, gpu_from, normal, tells_error
from ndctl.parse.gpu_shape import MARK, Filled, Place, Shape, filled, numbered, place_of
from ndctl.parse.nvidia_trouble import troubles
from ndctl.parse.tidy import straight, unescaped

# Tags, or what looks like one: comments, declarations and DOCTYPE are told by their first character.
_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]{0,80})((?:\s[^<>]{0,400})?)>|<[!?][^<>]{0,2000}>")
# A line of a whole listing: a leaf, an opening or a closing tag, the head of a GPU, a declaration. The last group takes
# what is none of them.
_LINE = re.compile(
    r"""^[\t ]*(?:<([A-Za-z_]\w{0,80})>([^<>&]*)</\1>|<([A-Za-z_]\w{0,80})>|</([A-Za-z_]\w{0,80})>"""
    r"""|<gpu id=["']([^"'<>]{1,40})["']>|<[?!][^<>]{0,2000}>|(.*\S.*))$""",
    re.MULTILINE,
)
# Its values: between the tags of a leaf, and the ids of GPUs.
_VALUE = re.compile(r">([^<>&\n]+)</")
_GPU_ID = re.compile(r"""<gpu id=["']([^"'<>]{1,40})["']>""")
_ID = re.compile(r"""\bid\s*=\s*["']([^"']{1,40})["']""")
_ENTITY = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}
_DEEPEST = 24
_OF_LOG = {"driver version", "cuda version", "attached gpus", "timestamp"}
_LEAF_SECTIONS = {"processes", "supported clocks", "accounted processes"}
_PROCESS = "process info"
_tag_name = lru_cache(maxsize=2048)(normal)


def parse(text: str, stderr: str = "") -> Gpus:
    """Facts of every `<gpu>`; one that is not closed is kept and marked as cut. Never raises."""
    source = straight(text)
    if "&lt;" in source and "<gpu" not in source and "&lt;gpu" in source:
        source = unescaped(source)
    scan = _of_a_shape(source) or _whole_listing(source) or _Scan(source)
    gpus = [gpu_from(leaves, index, pci) for index, (pci, leaves) in enumerate(scan.gpus)]
    return Gpus(
        gpus=distinct(gpus),
        driver_version=known(scan.log.get("driver version")),
        cuda_version=known(scan.log.get("cuda version")),
        attached=whole(scan.log.get("attached gpus")),
        timestamp=known(scan.log.get("timestamp")),
        cut=scan.cut,
        troubles=troubles(f"{text if scan.said is None else scan.said}\n{stderr}"),
        problems=tuple(scan.problems[:20]),
    )


@dataclass
class _Found:
    """gpus: (id, values) of each; log: what stands above them; said: all of the text that may tell of a trouble, None
    for the whole of it."""

    gpus: list[tuple[str | None, Leaves]] = field(default_factory=list)
    log: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    cut: bool = False
    said: str | None = None


def _of_a_shape(source: str) -> _Found | None:
    """What `_whole_listing` finds. Only the first listing of a shape is read by it, with numbers for its values; of
    the others each value goes where its number went. None for what is no such listing, or tells of an error."""
    if tells_error(source):
        return None
    ids = _GPU_ID.findall(source)
    pieces = _VALUE.split(_GPU_ID.sub(f'<gpu id="{MARK}">', source))
    values = pieces[1::2]
    read = _shape(tuple(pieces[::2]))
    if read is None or len(ids) != len(read[1]):
        return None
    log, shapes = read
    return _Found(
        gpus=[(id, Filled(shape, values)) for id, shape in zip(ids, shapes, strict=True)],
        log={name: value for name, place in log.items() if (value := filled(place, values)) is not None},
        said="\n".join(f">{value}</" for value in dict.fromkeys(values)),  # as they stood between their tags
    )


@lru_cache(maxsize=16)
def _shape(pieces: tuple[str, ...]) -> tuple[dict[str, Place], list[Shape]] | None:
    """Where the values that stand between these pieces belong: above all GPUs, and in each. None where the pieces tell
    of a trouble; no sentence goes on from a piece into a value, for a tag is between them."""
    if troubles("\n".join(pieces)):
        return None
    found = _whole_listing(numbered(pieces, before=">", behind="</"))
    if found is None:
        return None
    return {name: place_of(value) for name, value in found.log.items()}, [Shape(leaves) for _, leaves in found.gpus]


def _whole_listing(source: str) -> _Found | None:
    """A listing as nvidia-smi prints it: one tag or leaf a line, all of them balanced. Read several times as fast as by
    the tolerant scanner, with the same result; None for any other text."""
    found = _Found()
    opened_log = closed_log = False
    leaves: Leaves | None = None  # of the GPU we are in
    path: list[str] = []
    for leaf, value, opening, closing, gpu, strange in _LINE.findall(source):
        if strange or closed_log:
            return None
        if leaf:
            name = _tag_name(leaf)
            if not opened_log or name in ("gpu", "nvidia smi log", _PROCESS):
                return None
            if leaves is None:
                if path or name not in _OF_LOG:
                    return None
                found.log.setdefault(name, value.strip())
            elif _PROCESS in path:
                leaves.processes[-1].setdefault(name, value.strip())
            elif _LEAF_SECTIONS.isdisjoint(path):
                leaves.add((*path, name), value.strip())
        elif opening:
            name = _tag_name(opening)
            if name == "nvidia smi log" and not opened_log:
                opened_log = True
                continue
            if leaves is None or name in ("gpu", "nvidia smi log") or len(path) >= _DEEPEST - 1:
                return None
            path.append(name)
            if name == _PROCESS:
                leaves.processes.append({})
        elif closing:
            name = _tag_name(closing)
            if path:
                if path.pop() != name:
                    return None
            elif name == "gpu" and leaves is not None:
                leaves = None
            elif name == "nvidia smi log" and opened_log and leaves is None:
                closed_log = True
            else:
                return None
        elif gpu:
            if not opened_log or leaves is not None:
                return None
            leaves = Leaves()
            found.gpus.append((gpu, leaves))
    return found if closed_log else None


class _Scan(_Found):
    """One pass over the tags, whatever they are."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._path: list[str] = []
        self._in_gpu = False
        self._was_leaf = False
        position = 0
        opened_log = closed_log = False
        for match in _TAG.finditer(source):
            between = source[position : match.start()]
            position = match.end()
            if match[2] is None:
                continue
            name = normal(match[2])
            if name == "nvidia smi log":
                opened_log, closed_log = opened_log or not match[1], closed_log or bool(match[1])
                self._path.clear()
                self._in_gpu = False
            elif name == "gpu" and (_ID.search(match[3]) or not self._path):
                self._gpu(match[1], match[3])
            elif match[1]:
                self._close(name, between)
            elif not match[3].rstrip().endswith("/"):
                self._open(name)
        rest = source[position:].strip()
        self.cut = bool(self.gpus) and ((opened_log and not closed_log) or bool(self._path) or rest.startswith("<"))

    def _gpu(self, closing: str, attributes: str) -> None:
        self._path.clear()
        self._in_gpu = not closing
        if not closing:
            identity = _ID.search(attributes)
            self.gpus.append((identity[1] if identity else None, Leaves()))

    def _open(self, name: str) -> None:
        if len(self._path) < _DEEPEST:
            self._path.append(name)
        self._was_leaf = True
        if name == "process info" and self._current(True) is not None:
            self.gpus[-1][1].processes.append({})

    def _close(self, name: str, between: str) -> None:
        if name not in self._path:
            self.problems.append(f"</{name}> closes nothing")
            return
        is_leaf = self._was_leaf and self._path[-1] == name
        path = tuple(self._path)
        while self._path and self._path.pop() != name:
            pass
        self._was_leaf = False
        if not is_leaf:
            return
        value = between.strip()
        for entity, mark in _ENTITY.items():
            value = value.replace(entity, mark) if "&" in value else value
        self._take(path, value)

    def _take(self, path: tuple[str, ...], value: str) -> None:
        if not self._in_gpu and len(path) == 1 and path[0] in _OF_LOG:
            self.log.setdefault(path[0], value)
            return
        leaves = self._current(False)
        if leaves is None:
            return
        if "process info" in path[:-1]:
            if leaves.processes:
                leaves.processes[-1].setdefault(path[-1], value)
        elif not any(section in path[:-1] for section in _LEAF_SECTIONS):
            if path in leaves.paths and not self._in_gpu:
                # a grep over several GPUs: the same element again is the next GPU
                self.gpus.append((None, leaves := Leaves()))
            leaves.add(path, value)

    def _current(self, only_existing: bool) -> Leaves | None:
        if self._in_gpu or (self.gpus and self.gpus[-1][0] is None):
            return self.gpus[-1][1]
        if only_existing or (self.gpus and self.gpus[-1][0] is not None):
            return None
        self.gpus.append((None, Leaves()))
        return self.gpus[-1][1]


def processes(text: str) -> tuple[Process, ...]:
    """Compute processes on any GPU of the text, each process once; graphics clients are left out."""
    found = {(one.pid, one.name): one for gpu in parse(text).gpus for one in gpu.processes if one.kind.upper() != "G"}
    return tuple(found.values())
