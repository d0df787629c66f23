"""Quick level is safe beside jobs: the whole script of a node stays below a second of CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ndctl.model.answers import Command
from tests.bench.quick_cost import LIMIT_S, StandIn, quick_commands

pytestmark = pytest.mark.xdist_group("lab")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    one = StandIn(tmp_path_factory.mktemp("bench"))
    yield one
    one.close()


def test_quick_level_costs_a_node_less_than_a_second_of_cpu(node: StandIn) -> None:
    commands = quick_commands()
    assert any("nvidia-smi -q -x" in command.shell for command in commands)
    node.cpu_s(commands)
    assert 0.01 < node.median_s(commands, 3) < LIMIT_S


def test_what_burns_cpu_is_seen(node: StandIn) -> None:
    burn = Command("burn", "i=0; while [ $i -lt 600000 ]; do i=$((i + 1)); done; (:)")
    nothing = node.median_s([Command("nothing", ":")], 3)
    assert node.cpu_s([burn]) > nothing + 0.1


def test_a_script_that_does_not_end_is_no_measurement(node: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.quick_cost.script_text", lambda commands: "exit 3")
    with pytest.raises(RuntimeError, match="did not end \\(exit code 3\\)"):
        node.cpu_s([Command("nothing", ":")])
