"""The listing `fabric-map`: which GPUs and InfiniBand ports a node has, where they sit, and what drives them.

One part a line, words apart by blanks, `?` where the kernel does not tell; `end` closes it:

    port mlx5_ib0 0101:00:00.0 0 ib0 2
    gpu 0008:01:00.0 0
    driver NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.126.20 …
    module nvidia_peermem
    modules
    sharp /opt/mellanox/sharp/lib/libsharp_coll.so
    end
"""

from __future__ import annotations

from dataclasses import dataclass

from ndctl.parse.tidy import tidy_lines

_NOT_TOLD = ("?", "", "*", "-1")


@dataclass(frozen=True, slots=True)
class MappedPort:
    """pci "" and None mean that the kernel does not tell.

    carrier_changes: how often the network interface gained or lost its carrier since it was made; IPoIB's carrier is
    the port's being Active in its partition.
    """

    device: str
    pci: str = ""
    numa: int | None = None
    netdev: str = ""
    carrier_changes: int | None = None

    @property
    def losses(self) -> int | None:
        """How often the carrier was lost. To be off first and then come up are two changes and no loss."""
        return None if self.carrier_changes is None else max(0, self.carrier_changes - 1) // 2


@dataclass(frozen=True, slots=True)
class MappedGpu:
    pci: str
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class FabricMap:
    """modules: of those that give adapters GPU memory; all_modules: whether the list of modules could be read.

    complete: the listing has its last word, so what is not in it is not there.
    """

    ports: tuple[MappedPort, ...] = ()
    gpus: tuple[MappedGpu, ...] = ()
    driver: str = ""
    modules: tuple[str, ...] = ()
    all_modules: bool = False
    sharp: str = ""
    complete: bool = False
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> FabricMap:
    """Never raises; lines of another shape are kept by their first word in `unknown_fields`."""
    ports: list[MappedPort] = []
    gpus: list[MappedGpu] = []
    modules: list[str] = []
    driver = sharp = ""
    complete = all_modules = False
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
        elif kind == "modules":
            all_modules = True
        elif kind == "sharp":
            sharp = rest.strip()
        elif kind == "end":
            complete = True
        elif kind:
            unknown.setdefault(kind[:40])
    return FabricMap(
        tuple(ports), tuple(gpus), driver, tuple(modules), all_modules, sharp, complete, tuple(unknown)[:30]
    )


def _told(word: str) -> str:
    return "" if word in _NOT_TOLD else word.lower()


def _number(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 12 else None
