"""The listing `fabric-map`: which GPUs and InfiniBand ports a node has, where they sit, and what drives them.

One part a line, words apart by blanks, `?` where the kernel does not tell; `end` closes it:

    port mlx5_ib0 0101:00:00.0 0 ib0 2
    gpu 0008:01:00.0 0
    driver NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.126.20 …
    module nvidia_peermem 16384 0 - Live 0x0000000000000000
    sharp /opt/mellanox/sharp/lib/libsharp_coll.so
    end
"""

from __future__ import annotations

from dataclasses import dataclass

from ndctl.parse.tidy import tidy_lines

_NOT_TOLD = ("?", "", "*", "-1")


@dataclass(frozen=True, slots=True)
class MappedPort:
    """pci "" and None mean that the kernel does not tell. carrier_changes counts since the interface was made."""

    device: str
    pci: str = ""
    numa: int | None = None
    netdev: str = ""
    carrier_changes: int | None = None


@dataclass(frozen=True, slots=True)
class MappedGpu:
    pci: str
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class FabricMap:
    """complete: the listing has its last word, so what is not in it is not there."""

    ports: tuple[MappedPort, ...] = ()
    gpus: tuple[MappedGpu, ...] = ()
    driver: str = ""
    modules: tuple[str, ...] = ()
    sharp: str = ""
    complete: bool = False
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> FabricMap:
    """Never raises; lines of another shape are kept by their first word in `unknown_fields`."""
    ports: list[MappedPort] = []
    gpus: list[MappedGpu] = []
    modules: list[str] = []
    driver = sharp = ""
    complete = False
    unknown: dict[str, None] = {}
    for line in tidy_lines(text):
        kind, _, rest = line.strip().partition(" ")
        words = rest.split()
        if kind == "port" and words:
            device, pci, numa, netdev, changes = (*words, *("?",) * 5)[:5]
            ports.append(MappedPort(device, _told(pci), _number(numa), _told(netdev), _number(changes)))
        elif kind == "gpu" and words:
            gpus.append(MappedGpu(words[0].lower(), _number(words[1] if len(words) > 1 else "?")))
        elif kind == "driver":
            driver = rest.strip()
        elif kind == "module" and words:
            modules.append(words[0])
        elif kind == "sharp":
            sharp = rest.strip()
        elif kind == "end":
            complete = True
        elif kind:
            unknown.setdefault(kind[:40])
    return FabricMap(tuple(ports), tuple(gpus), driver, tuple(modules), sharp, complete, tuple(unknown)[:30])


def _told(word: str) -> str:
    return "" if word in _NOT_TOLD else word.lower()


def _number(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 12 else None
