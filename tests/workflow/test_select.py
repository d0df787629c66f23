"""Which racks and nodes a command means; what does not exist is said, never left out."""

from __future__ import annotations

import pytest

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import Cluster, Node, Rack, node_name, rack_name
from ndctl.workflow.select import parse_nodes, parse_numbers, select


def rack(number: int, nodes: int = 18, expected: int = 18) -> Rack:
    made = tuple(Node(node_name(number, place), rack_name(number)) for place in range(1, nodes + 1))
    return Rack(rack_name(number), number, expected, made)


LAB = Cluster("lab", (rack(1), rack(2, nodes=17), rack(100)))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1", {1}), ("1,3-5", {1, 3, 4, 5}), (" 2 , 2-3 ", {2, 3}), ("100", {100})],
)
def test_numbers_and_ranges(text: str, numbers: set[int]) -> None:
    assert parse_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", ",", "3-1", "a", "1-", "-1", "1;2", "1-999999", "²"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(NdctlError) as refused:
        parse_numbers(text)
    assert refused.value.exit_code is ExitCode.USAGE and refused.value.hint


@pytest.mark.parametrize("text", ["", "rack01-n[01", "rack01-n[1-9999999]", "@all:x["])
def test_what_is_no_node_set_is_refused(text: str) -> None:
    with pytest.raises(NdctlError) as refused:
        parse_nodes(text)
    assert refused.value.exit_code is ExitCode.USAGE


def test_without_a_choice_all_is_meant() -> None:
    assert select(LAB, None, None) == LAB


def test_a_rack_keeps_its_expected_nodes() -> None:
    (chosen,) = select(LAB, parse_numbers("2"), None).racks
    assert (chosen.expected_nodes, len(chosen.nodes)) == (18, 17)


def test_of_chosen_nodes_only_those_are_expected() -> None:
    chosen = select(LAB, None, parse_nodes("rack01-n[03-04],rack100-n01")).racks
    assert [(one.name, one.expected_nodes, len(one.nodes)) for one in chosen] == [("rack01", 2, 2), ("rack100", 1, 1)]


@pytest.mark.parametrize(
    ("racks", "nodes", "named"),
    [
        ("1,7", None, "rack 7"),
        (None, "rack02-n18", "rack02-n18"),
        (None, "rack1-n1", "rack1-n1"),
        ("2", "rack01-n03", "rack01-n03"),
    ],
)
def test_what_is_not_there_is_named(racks: str | None, nodes: str | None, named: str) -> None:
    with pytest.raises(NdctlError) as refused:
        select(LAB, parse_numbers(racks) if racks else None, parse_nodes(nodes) if nodes else None)
    assert named in refused.value.message and refused.value.exit_code is ExitCode.USAGE
