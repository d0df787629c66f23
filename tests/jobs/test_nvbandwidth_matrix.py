"""The matrix of a rack: one slow GPU is named and nobody else, a slow path is a path, a wrong table is no result."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ndctl.jobs.gpu_figures import accused
from ndctl.jobs.nvbandwidth_matrix import TEST, keys_of, matrix_of, misplaced, slow_paths, typical
from ndctl.jobs.nvlink_matrix import metric
from ndctl.model.places import Node, node_name
from ndctl.parse.nvbandwidth import Matrix, parse
from ndctl.profiles import load
from ndctl.sim.tools import nvbandwidth
from ndctl.sim.world import World

NODES = [Node(node_name(1, number), "rack01") for number in range(1, 19)]
KEYS = keys_of(NODES, 4)
METRIC = metric(load("gb300"))


def matrix(slow: dict[int, float] | None = None, paths: dict[tuple[int, int], float] | None = None) -> Matrix:
    dice = random.Random(7)
    speeds = [(slow or {}).get(place, 1.0) for place in range(72)]

    def cell(i: int, j: int) -> float | None:
        if i == j:
            return None
        return 770 * min(speeds[i], speeds[j]) * (paths or {}).get((i, j), 1.0) * dice.uniform(0.995, 1.005)

    return tuple(tuple(cell(i, j) for j in range(72)) for i in range(72))


def test_a_healthy_rack_accuses_nobody() -> None:
    figures = typical(matrix(), KEYS)
    assert len(figures) == 72 and accused(METRIC, figures) == {} and slow_paths(matrix(), KEYS, figures) == []


@pytest.mark.parametrize("places", [(17,), (0, 1, 2, 3), (5, 33, 70)])
def test_slow_gpus_are_named_and_their_partners_are_not(places: tuple[int, ...]) -> None:
    values = matrix(dict.fromkeys(places, 0.7))
    figures = typical(values, KEYS)
    assert set(accused(METRIC, figures)) == {KEYS[place] for place in places}
    assert slow_paths(values, KEYS, figures) == []


def test_a_gpu_that_is_slow_one_way_only_is_named() -> None:
    values = matrix(paths={(9, other): 0.6 for other in range(72)})
    assert set(accused(METRIC, typical(values, KEYS))) == {KEYS[9]}


def test_a_slow_pair_is_a_path_told_once_and_no_gpu() -> None:
    values = matrix(paths={(3, 40): 0.5, (40, 3): 0.6})
    figures = typical(values, KEYS)
    assert accused(METRIC, figures) == {}
    (one,) = slow_paths(values, KEYS, figures)
    assert {one.one, one.other} == {KEYS[3], KEYS[40]} and one.gb_per_s == pytest.approx(385, rel=0.02)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    world = World(tmp_path_factory.mktemp("matrix") / "sim")
    for index in range(1, 19):
        world.add_vm(
            "lab", 1, index, vmss="lab-rack01", instance_id=str(index), address=f"127.66.1.{index}",
            admin_user="azureuser", admin_key="ssh-ed25519 AAAA nobody",
        )  # fmt: skip
    views = [world.node(vm) for vm in world.vms()]
    return nvbandwidth.over_nodes(views, 4, ["-p", TEST], "seed").out


class TestText:
    def test_the_whole_matrix_of_a_rack_is_read(self, text: str) -> None:
        facts = parse(text)
        values, why = matrix_of(facts, 72)
        assert values is not None and why == "" and misplaced(facts, 72, 4) == ""
        assert 700 < typical(values, KEYS)[KEYS[0]] < 800

    def test_another_number_of_gpus_is_no_result(self, text: str) -> None:
        values, why = matrix_of(parse(text), 68)
        assert values is None and "72 rows" in why

    def test_a_pair_without_a_figure_is_no_result(self, text: str) -> None:
        facts = parse(text)
        (test,) = facts.tests
        holed = tuple(
            tuple(None if (i, j) == (4, 9) else c for j, c in enumerate(row)) for i, row in enumerate(test.values)
        )
        values, why = matrix_of(replace(facts, tests=(replace(test, values=holed),)), 72)
        assert values is None and "1 pairs have no figure" in why

    def test_ranks_on_other_nodes_than_told_are_noticed(self, text: str) -> None:
        lines = text.splitlines(keepends=True)
        place = next(i for i, line in enumerate(lines) if line.startswith("Process  3 "))
        swapped = [*lines[:place], lines[place + 1].replace("Process  4", "Process  3"), *lines[place + 1 :]]
        assert misplaced(parse("".join(swapped)), 72, 4)
        assert "71 processes" in misplaced(parse("".join(lines[:place] + lines[place + 1 :])), 72, 4)

    @pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.99])
    def test_cut_anywhere_there_is_no_matrix(self, text: str, share: float) -> None:
        body = text[: text.index("SUM ")]
        facts = parse(body[: int(len(body) * share)])
        values, _ = matrix_of(facts, 72)
        assert values is None
