"""The runs behind `nccl_layers`: for each culprit or path, small groups with one layer switched off, beside a group of
nodes proven good with the same setting. Only for what an isolation found, so that it stays cheap.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ndctl.jobs.active.base import RackUnderTest
from ndctl.jobs.isolation import Isolation
from ndctl.jobs.nccl_asked import MNNVL, Asked, in_rack, over_infiniband, over_rail, rails, with_environment
from ndctl.jobs.nccl_bench import Bench, CannotGoOn, Shown
from ndctl.jobs.nccl_layers import IB_ONLY, NVLS_OFF, NVLS_ON, Cell, Cells, Told, first_cells
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Status

_DEADLINE_S = 90.0
_MOST_SUSPECTS = 3  # more are told with the first: what they share is rarely four different layers
_FAILED = {"hang": "hangs", "error": "fails", "wrong": "wrong results"}
_UNPROVEN = ("transport", "gdr", "rails", "ranks", "no-result", "cut")

Suspects = frozenset[str]
"""Names of the nodes of one culprit, path or set."""


@dataclass(slots=True)
class LayersTold:
    """By suspects; and the story for the isolation's text."""

    told: dict[Suspects, Told] = field(default_factory=dict)
    reasoning: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes under suspicion with partners, and as many nodes that are good; `apart`: both can run at once."""

    suspects: Suspects
    nodes: tuple[Node, ...]
    sound: tuple[Node, ...]

    @property
    def apart(self) -> bool:
        return not set(self.nodes) & set(self.sound)


class LayerRuns:
    """smallest: nodes of the smallest group whose verdict is as sharp as the whole rack's."""

    def __init__(self, bench: Bench, asked: Asked, rack: RackUnderTest, smallest: int) -> None:
        self._bench = bench
        self._asked = asked
        self._rack = rack
        self._smallest = smallest
        self._began = NVLS_ON if asked.wanted == MNNVL else IB_ONLY
        self._numbers = itertools.count(1)

    def of(
        self, found: Isolation[Node], shown_of: Callable[[Sequence[Node]], Shown | None], known: Shown
    ) -> LayersTold:
        """What was told before it could not go on (interrupted, lease lost) is kept."""
        result = LayersTold()
        # Who falls back to another path names the layer by that.
        if found.transient or self._rack.profile.nvlink.domain.value != "rack" or _ended(known.findings)[1]:
            return result
        for group in self._groups(found)[:_MOST_SUSPECTS]:
            cells = Cells(self._began)
            try:
                self._fill(cells, group, shown_of(group.nodes) or known)
            except CannotGoOn as reason:
                result.reasoning.append(f"layers: not told further: {reason}")
                break
            finally:
                # What was seen already is said, whatever ends it.
                if cells.tests:
                    told = cells.told()
                    result.told[group.suspects] = told
                    names = ", ".join(sorted(group.suspects)[:6])
                    result.reasoning.append(f"layers of {names}: {told.sentence}")
        return result

    def _groups(self, found: Isolation[Node]) -> list[_Group]:
        """Each suspect with partners out of those nobody suspects."""
        suspected = {culprit.node for culprit in found.culprits} | {n for p in found.paths for n in (*p.left, *p.right)}
        suspected |= {node for nodes in found.together for node in nodes} | set(found.undecided)
        good = [node for node in found.group if node not in suspected]
        sets: list[tuple[Node, ...]] = [(culprit.node,) for culprit in found.culprits]
        sets += [(*path.left, *path.right) for path in found.paths]
        sets += [*found.together, *([found.undecided] if found.undecided else [])]
        groups = []
        for members in sets:
            # The last good nodes are partners, the first are what they are held against.
            wanted = max(self._smallest, len(members), 2) - len(members)
            partners = good[len(good) - wanted :] if 0 < wanted <= len(good) else good[:] if wanted else []
            size = len(members) + len(partners)
            if size < 2:
                continue
            sound = good[:size] if len(good) >= size else []
            # A partner stands first: who is proven good is the safest head.
            groups.append(_Group(frozenset(n.name for n in members), (*partners, *members), tuple(sound)))
        return groups

    def _fill(self, cells: Cells, group: _Group, failing: Shown) -> None:
        before = _cell(self._began, failing, None, None)
        cells.known[self._began] = Cell(self._began, before.busbw, None, before.failed or "")
        if not before.failed:
            limit = self._floor(self._asked, failing)
            cells.known[self._began] = Cell(self._began, before.busbw, limit, by_floor=True)
        for setting in first_cells(self._began):
            cells.known[setting] = self._run(cells, group, setting, self._setting(setting))
        if cells.wants_rails():
            for rail in rails(self._rack.profile):
                if not cells.more_rails():
                    break
                cells.rails[rail] = self._run(cells, group, f"{rail} alone", self._one_rail(rail))

    def _floor(self, asked: Asked, shown: Shown) -> float | None:
        floor = asked.floor(self._rack.profile, len(shown.run.launch.nodes))
        return floor.warn_below.value if floor is not None else None

    def _setting(self, setting: str) -> Asked:
        profile, check = self._rack.profile, self._asked.check
        if setting == IB_ONLY:
            return with_environment(over_infiniband(check, profile), self._rack)
        return with_environment(in_rack(check, "all_reduce", profile), self._rack, nvls=setting != NVLS_OFF)

    def _one_rail(self, rail: str) -> Asked:
        return with_environment(over_rail(self._asked.check, self._rack.profile, rail), self._rack)

    def _run(self, cells: Cells, group: _Group, setting: str, asked: Asked) -> Cell:
        """One setting over the suspects and over as many good nodes, at once where they share none."""
        self._bench.go_on()
        label = f"layer{next(self._numbers)}"
        subject = f"{', '.join(sorted(group.suspects)[:4])}: {setting}"
        sides = [group.nodes, *([group.sound] if group.sound else [])]
        waves = [sides] if group.apart else [[side] for side in sides]
        shown: list[Shown] = []
        for wave in waves:
            names = [f"{label}-{len(shown) + place}" for place, _ in enumerate(wave, 1)]
            shown += self._bench.run(asked, wave, names, [subject for _ in wave], small=True, deadline_s=_DEADLINE_S)
        cells.tests += len(shown)
        sound = shown[1] if len(shown) > 1 else None
        without_nvls = cells.known.get(NVLS_ON) if setting == NVLS_OFF and sound is None else None
        floor = None if setting == NVLS_OFF else self._floor(asked, shown[0])
        cell = _cell(setting, shown[0], sound, floor)
        if without_nvls is not None and without_nvls.busbw and cell.busbw:
            return _beside_nvls(cell, without_nvls.busbw)
        return cell


def _beside_nvls(cell: Cell, with_nvls: float) -> Cell:
    """No good nodes to hold it against: without multicast a sound rack is about half as fast, so a run that is as fast
    as with it shows that the multicast is what is slow; a slower one shows nothing."""
    if cell.busbw is not None and cell.busbw >= with_nvls:
        return Cell(cell.setting, cell.busbw, with_nvls, by_floor=True)
    return Cell(cell.setting, cell.busbw, why=f"{cell.busbw:.0f} GB/s, and no nodes proven good to hold it against")


def _cell(setting: str, shown: Shown, sound: Shown | None, floor: float | None) -> Cell:
    failed, why = _ended(shown.findings)
    if sound is None:
        return Cell(setting, shown.busbw, floor, failed, by_floor=True, why=why)
    sound_failed, sound_why = _ended(sound.findings)
    return Cell(setting, shown.busbw, sound.busbw, failed, sound_failed or sound_why, why=why)


def _ended(findings: Sequence[Finding]) -> tuple[str, str]:
    """(how it failed, why it says nothing): "" each where it came to a figure of what was asked for."""
    kinds = {f.check.rpartition(".")[2]: f for f in findings if f.status in (Status.FAIL, Status.UNKNOWN)}
    failed = next((word for kind, word in _FAILED.items() if kind in kinds), "")
    unproven = next((kinds[kind].message for kind in _UNPROVEN if kind in kinds), "")
    return failed, "" if failed else unproven[:160]
