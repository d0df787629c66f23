"""Which layer it is, from cells: every outcome of switching one off, and what may not be concluded."""

from __future__ import annotations

import pytest

from ndctl.jobs.nccl_layers import IB_ONLY, NVLS_OFF, NVLS_ON, Cell, Cells, Layer, State

GOOD, BAD, NONE = State.GOOD, State.BAD, State.UNTOLD


def cell(setting: str, state: State) -> Cell:
    figures = {GOOD: (98.0, 100.0), BAD: (60.0, 100.0), NONE: (None, None)}
    return Cell(setting, *figures[state])


def cells(began: str, rails: str = "", **states: State) -> Cells:
    names = {"on": NVLS_ON, "off": NVLS_OFF, "ib": IB_ONLY}
    made = Cells(began, tests=4)
    made.known = {names[key]: cell(names[key], state) for key, state in states.items()}
    made.rails = {
        f"mlx5_ib{n}": cell("rail", {"g": GOOD, "b": BAD, "?": NONE}[letter]) for n, letter in enumerate(rails)
    }
    return made


@pytest.mark.parametrize(
    ("off", "ib", "rails", "layer"),
    [
        (GOOD, GOOD, "", Layer.NVLS),
        (GOOD, NONE, "", Layer.NVLS),
        (BAD, GOOD, "", Layer.NVLINK),
        (BAD, BAD, "bb", Layer.HOST),
        (BAD, BAD, "gbgg", Layer.NVLINK),
        (NONE, GOOD, "", Layer.NVLINK_OR_NVLS),
        (NONE, BAD, "bb", Layer.UNTOLD),
        (BAD, NONE, "", Layer.UNTOLD),
        (NONE, NONE, "", Layer.UNTOLD),
    ],
)
def test_what_failed_over_nvlink(off: State, ib: State, rails: str, layer: Layer) -> None:
    told = cells(NVLS_ON, rails, on=BAD, off=off, ib=ib).told()
    assert told.layer is layer
    assert ("could not be told" in told.sentence) == (layer is Layer.UNTOLD)
    assert "4 more tests" in told.sentence


@pytest.mark.parametrize(
    ("on", "rails", "layer", "odd"),
    [
        (GOOD, "ggbg", Layer.INFINIBAND, ("mlx5_ib2",)),
        (GOOD, "bb", Layer.INFINIBAND, ()),
        (GOOD, "gggg", Layer.INFINIBAND, ()),
        (BAD, "", Layer.HOST, ()),
        (NONE, "gbgg", Layer.INFINIBAND, ("mlx5_ib1",)),
        (NONE, "bb", Layer.UNTOLD, ()),
    ],
)
def test_what_failed_over_infiniband(on: State, rails: str, layer: Layer, odd: tuple[str, ...]) -> None:
    told = cells(IB_ONLY, rails, ib=BAD, on=on).told()
    assert (told.layer, told.rails) == (layer, odd)


def test_two_faults_are_told_as_two() -> None:
    assert "InfiniBand besides" in cells(NVLS_ON, on=BAD, off=GOOD, ib=BAD).told().sentence
    assert "InfiniBand rail mlx5_ib1 besides" in cells(NVLS_ON, "gbgg", on=BAD, off=BAD, ib=BAD).told().sentence


def test_rails_are_run_only_where_infiniband_is_bad_and_no_longer_than_they_tell() -> None:
    assert not cells(NVLS_ON, on=BAD, off=BAD, ib=GOOD).wants_rails()
    assert cells(NVLS_ON, on=BAD, off=BAD, ib=BAD).wants_rails()
    assert not cells(IB_ONLY, ib=BAD, on=BAD).wants_rails()
    assert cells(IB_ONLY, "b", ib=BAD, on=GOOD).more_rails()
    assert not cells(IB_ONLY, "bb", ib=BAD, on=GOOD).more_rails()
    assert cells(IB_ONLY, "bg", ib=BAD, on=GOOD).more_rails()


def test_a_cell_is_held_against_good_nodes_with_room_for_noise_and_against_a_floor_without() -> None:
    assert Cell("x", 94.0, 100.0).state is GOOD and Cell("x", 92.0, 100.0).state is BAD
    assert Cell("x", 99.0, 100.0, by_floor=True).state is BAD and Cell("x", 100.0, 100.0, by_floor=True).state is GOOD


def test_what_good_nodes_fail_at_says_nothing_of_the_suspects() -> None:
    assert Cell("x", None, None, "hangs", "hangs").state is NONE
    assert Cell("x", None, 100.0, "hangs").state is BAD
    assert Cell("x", 50.0, 100.0, why="the log says NET/Socket").state is NONE
    assert Cell("x", 50.0, None).state is NONE
    assert "on nodes proven good, too" in str(Cell("x", None, None, "hangs", "hangs"))
