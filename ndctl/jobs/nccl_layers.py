"""Which layer makes a collective fail, told by running it again with one layer switched off: NVLink's multicast (NVLS),
NVLink itself, InfiniBand, one of its rails, or what all of them share: the host. Pure.

A cell is one such run over the suspects, beside one over as many nodes that are proven good: what both show alike is
the setting's doing, not the suspects'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

# Two figures with 1 % of noise each differ by 7 % in one of a million pairs.
CLEARLY_LESS = 0.93


class State(StrEnum):
    GOOD = "good"
    BAD = "bad"
    UNTOLD = "untold"


class Layer(StrEnum):
    NVLS = "NVLS, the NVLink switches' multicast"
    NVLINK = "NVLink"
    NVLINK_OR_NVLS = "NVLink or its multicast (NVLS)"
    INFINIBAND = "InfiniBand"
    HOST = "the host, which every path shares"
    UNTOLD = "not told"


# What to look at, by layer.
_LOOK_AT = {
    Layer.NVLS: "IMEX, the fabric's multicast teams, an NVLink switch tray",
    Layer.NVLINK: "a GPU's NVLink ports, the tray's NVLink connector or a switch tray",
    Layer.NVLINK_OR_NVLS: "a GPU's NVLink ports, a switch tray or the fabric's multicast teams",
    Layer.INFINIBAND: "its ports, cables and GPUDirect",
    Layer.HOST: "GPUs, their memory or clocks, CPUs, PCIe or C2C: no link",
    Layer.UNTOLD: "",
}

NVLS_ON, NVLS_OFF, IB_ONLY = "NVLink with NVLS", "NVLink without NVLS", "InfiniBand only"


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting: what the suspects showed and what nodes proven good (or a floor) show.

    busbw, sound: GB/s, None where there is no figure
    failed:       "hangs", "fails", "wrong results", or "" where it came to a figure
    by_floor:     `sound` is the profile's floor, not a measurement beside it
    why:          why the cell is untold, where nothing else says it
    """

    setting: str
    busbw: float | None = None
    sound: float | None = None
    failed: str = ""
    sound_failed: str = ""
    by_floor: bool = False
    why: str = ""

    @property
    def state(self) -> State:
        if self.why or self.sound_failed:
            return State.UNTOLD
        if self.failed:
            return State.BAD
        if self.busbw is None or self.sound is None:
            return State.UNTOLD
        limit = self.sound if self.by_floor else CLEARLY_LESS * self.sound
        return State.BAD if self.busbw < limit else State.GOOD

    def __str__(self) -> str:
        if self.why or self.sound_failed:
            return f"{self.setting}: {self.why or f'{self.sound_failed} on nodes proven good, too'}"
        shown = self.failed or (f"{self.busbw:.0f} GB/s" if self.busbw is not None else "no figure")
        beside = f"floor {self.sound:.0f}" if self.by_floor else f"good nodes {self.sound:.0f}" if self.sound else ""
        return f"{self.setting}: {shown}{f' ({beside})' if beside else ''}"


@dataclass(frozen=True, slots=True)
class Told:
    """What the cells say of one suspect. rails: those that are slow alone while others are not."""

    layer: Layer
    cells: tuple[Cell, ...] = ()
    rails: tuple[str, ...] = ()
    also: str = ""
    tests: int = 0

    @property
    def sentence(self) -> str:
        """ "the layer is NVLink (…); NVLink without NVLS: 210 GB/s (good nodes 425), …; 4 more tests"."""
        figures = "; ".join(map(str, self.cells))
        spent = f"{self.tests} more test{'' if self.tests == 1 else 's'}"
        if self.layer is Layer.UNTOLD:
            return f"which layer it is could not be told: {figures or 'nothing was measured'}; {spent}"
        rails = f" rail {', '.join(self.rails)}" if self.rails and self.layer is Layer.INFINIBAND else ""
        also = f", and {self.also}" if self.also else ""
        return f"the layer is {self.layer.value}{rails}{also} ({_LOOK_AT[self.layer]}); {figures}; {spent}"


@dataclass(slots=True)
class Cells:
    """The cells of one suspect so far, and which come next. `began`: IB_ONLY or NVLS_ON, what the failing test was."""

    began: str
    known: dict[str, Cell] = field(default_factory=dict)
    rails: dict[str, Cell] = field(default_factory=dict)
    tests: int = 0

    def state(self, setting: str) -> State:
        cell = self.known.get(setting)
        return cell.state if cell is not None else State.UNTOLD

    def wants_rails(self) -> bool:
        """One rail at a time only where InfiniBand is bad: four runs more."""
        return self.state(IB_ONLY) is State.BAD and not (self.began == IB_ONLY and self.state(NVLS_ON) is State.BAD)

    def more_rails(self) -> bool:
        """Two rails that are bad, and none that is good, tell that it is no single rail."""
        states = [cell.state for cell in self.rails.values()]
        return State.GOOD in states or states.count(State.BAD) < 2

    def told(self) -> Told:
        cells = (*self.known.values(), *self.rails.values())
        rails = _odd_rails(self.rails)
        layer, also = (_of_nvlink if self.began == NVLS_ON else _of_infiniband)(self, rails)
        return Told(layer, cells, rails, also, self.tests)


def first_cells(began: str) -> Sequence[str]:
    """The settings that are tried beside the one that failed, in order."""
    return (NVLS_OFF, IB_ONLY) if began == NVLS_ON else (NVLS_ON,)


def _odd_rails(rails: Mapping[str, Cell]) -> tuple[str, ...]:
    """The bad rails, where others are good."""
    bad = tuple(rail for rail, cell in rails.items() if cell.state is State.BAD)
    return bad if any(cell.state is State.GOOD for cell in rails.values()) else ()


def _of_nvlink(cells: Cells, rails: tuple[str, ...]) -> tuple[Layer, str]:
    without, infiniband = cells.state(NVLS_OFF), cells.state(IB_ONLY)
    if without is State.GOOD:
        return Layer.NVLS, "InfiniBand besides" if infiniband is State.BAD else ""
    if infiniband is State.GOOD:
        return (Layer.NVLINK if without is State.BAD else Layer.NVLINK_OR_NVLS), ""
    if infiniband is State.UNTOLD or without is State.UNTOLD:
        return Layer.UNTOLD, ""
    # A host that is slow makes every rail slow; where some are good, these are faults of two links.
    return (Layer.NVLINK, f"InfiniBand rail {', '.join(rails)} besides") if rails else (Layer.HOST, "")


def _of_infiniband(cells: Cells, rails: tuple[str, ...]) -> tuple[Layer, str]:
    nvlink = cells.state(NVLS_ON)
    if nvlink is State.GOOD:
        return Layer.INFINIBAND, ""
    if nvlink is State.BAD:
        return Layer.HOST, ""
    return (Layer.INFINIBAND, "") if rails else (Layer.UNTOLD, "")
