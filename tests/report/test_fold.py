"""Equal findings as one, and nothing else as one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ClusterShell.NodeSet import NodeSet
from hypothesis import given
from hypothesis import strategies as st

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.report.fold import fold, natural, node_set
from tests.model.builders import finding, findings_of, texts


def on(*positions: int, **changes: object) -> list[Finding]:
    return [finding(node=f"rack07-n{position:02d}", **changes) for position in positions]


def wheres(findings: list[Finding], addresses: dict[str, str] | None = None) -> list[str]:
    return [entry.where for entry in fold(findings, addresses or {})]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], ""),
        (["rack07-n11"], "rack07-n11"),
        ([f"rack07-n{number:02d}" for number in range(1, 18)], "rack07-n[01-17]"),
        (["rack07-n09", "rack07-n01", "rack07-n01", "rack07-n02"], "rack07-n[01-02,09]"),
        (["rack99-n01", "rack100-n01"], "rack[99-100]-n01"),
        ([f"rack{number:02d}-n07" for number in (8, 9, 10, 99, 100, 101)], "rack[08-10,99-101]-n07"),
        ([f"rack{number:02d}-n07" for number in range(1, 121)], "rack[01-99,100-120]-n07"),
        (["rack1-n1", "rack01-n01"], "rack01-n01,rack1-n1"),
        (["lab-b.example", "lab-a.example"], "lab-a.example,lab-b.example"),
        (["odd name", "x[1]", "b,c"], "b,c,odd name,x[1]"),
        (["", "rack07-n01"], "rack07-n01"),
    ],
)
def test_node_sets(names: list[str], told: str) -> None:
    assert node_set(names) == told


@given(st.sets(st.from_regex(r"rack[0-9]{1,3}-n[0-9]{1,2}", fullmatch=True), min_size=1, max_size=12))
def test_odd_names_of_this_form_are_read_back_too(names: set[str]) -> None:
    assert set(NodeSet(node_set(names))) == names


@given(
    st.sets(st.builds("rack{:02d}-n{:02d}".format, st.integers(1, 120), st.integers(1, 18)), min_size=1, max_size=40)
)
def test_a_node_set_is_read_back_by_clustershell(names: set[str]) -> None:
    """It is what `--nodes` takes."""
    assert set(NodeSet(node_set(names))) == names


def test_natural_order() -> None:
    assert sorted(["n10", "n9", "mlx5_ib2", "", "7"], key=natural) == ["", "7", "mlx5_ib2", "n9", "n10"]


def test_one_fault_on_seventeen_nodes_is_one_line() -> None:
    assert wheres(on(*range(17, 0, -1))) == ["rack07-n[01-17]  GPU 2 (0018:01:00.0)"]
    assert fold(on(1, 2, 3), {})[0].count == 3


def test_parts_of_one_node_are_told_together_and_nodes_with_the_same_parts_too() -> None:
    found = [one for part in ("GPU 10", "GPU 2") for one in on(1, 2, subject=part)] + on(3, subject="GPU 2")
    assert wheres(found) == ["rack07-n[01-02]  GPU 2, GPU 10", "rack07-n03  GPU 2"]


def test_many_parts_are_counted() -> None:
    found = [one for number in range(18) for one in on(1, subject=f"link {number}")]
    assert wheres(found) == ["rack07-n01  link 0, link 1, link 2, link 3, link 4, link 5, and 12 more"]


def test_serial_numbers_do_not_keep_equal_findings_apart() -> None:
    both = on(1, subject="GPU 2 (0018:01:00.0, serial 165)") + on(2, subject="GPU 2 (0018:01:00.0, serial 166)")
    assert wheres(both) == ["rack07-n[01-02]  GPU 2 (0018:01:00.0)"]
    assert wheres(both[:1]) == ["rack07-n01  GPU 2 (0018:01:00.0, serial 165)"]


@pytest.mark.parametrize(
    "change",
    [
        {"status": Status.WARN},
        {"check": "nvlink.errors"},
        {"message": "link 9 down"},
        {"value": 16},
        {"value": 1.0, "unit": "x"},
        {"expected": "17"},
        {"source": "another"},
        {"cause": "cable"},
        {"action": Action.REBOOT},
        {"health_category": "Resource.Hpc.Unhealthy.NvLink"},
        {"explains": ("XID 145",)},
    ],
)
def test_what_differs_in_anything_that_is_told_stays_apart(change: dict[str, object]) -> None:
    assert len(fold([*on(1), *on(2, **change)], {})) == 2


def test_yes_is_not_one() -> None:
    assert len(fold([*on(1, value=True), *on(2, value=1), *on(3, value=1.0)], {})) == 3


def test_time_outs_of_many_nodes_are_one_although_each_names_its_own_address() -> None:
    addresses = {f"rack07-n{number:02d}": f"10.40.0.{number}" for number in (1, 2, 11)}
    found = [
        finding(node=name, subject="SSH", message=f"timed-out: {address}:22 gave no answer", cause=f"is {name} up?")
        for name, address in addresses.items()
    ]
    (entry,) = fold(found, addresses)
    assert entry.where == "rack07-n[01-02,11]  SSH"
    assert entry.finding.message == "timed-out: <address>:22 gave no answer"
    assert entry.finding.cause == "is <node> up?"
    (alone,) = fold(found[:1], addresses)
    assert alone.finding.message == "timed-out: 10.40.0.1:22 gave no answer"


def test_another_nodes_address_is_no_own_address() -> None:
    addresses = {"rack07-n01": "10.40.0.1", "rack07-n02": "10.40.0.11"}
    found = on(1, message="10.40.0.11 is silent") + on(2, message="10.40.0.11 is silent")
    assert [entry.finding.message for entry in fold(found, addresses)] == ["10.40.0.11 is silent"] * 2


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("serial 1650924", "serial 1650925", "serial <serial>"),
        ("port 0x946dae0300abcdef", "port 0x946dae0300abcdee", "port <guid>"),
        ("00:0d:3a:11:22:33 twice", "00:0d:3a:11:22:34 twice", "<mac> twice"),
        (
            "GPU-3f2504e0-4f89-11d3-9a0c-0305e82c3301 lost",
            "GPU-3f2504e0-4f89-11d3-9a0c-0305e82c3302 lost",
            "GPU-<uuid> lost",
        ),
    ],
)
def test_what_is_each_parts_own_does_not_keep_equal_findings_apart(one: str, other: str, told: str) -> None:
    (entry,) = fold([*on(1, message=one), *on(2, message=other)], {})
    assert (entry.where, entry.finding.message) == ("rack07-n[01-02]  GPU 2 (0018:01:00.0)", told)
    assert fold(on(1, message=one), {})[0].finding.message == one
    # What was measured or expected stays, also where it looks like what is taken out of texts.
    assert len(fold([*on(1, message=one, value=one), *on(2, message=other, value=other)], {})) == 2
    assert len(fold([*on(1, message=one, expected=one), *on(2, message=other, expected=other)], {})) == 2


@given(st.integers(), st.integers())
def test_measured_values_never_fold(one: int, other: int) -> None:
    found = [*on(1, message=f"busbw {one} GB/s, serial 1650924"), *on(2, message=f"busbw {other} GB/s, serial 1650925")]
    assert len(fold(found, {})) == (1 if one == other else 2)


@given(st.lists(findings_of(texts), max_size=8))
def test_nothing_is_lost(found: list[Finding]) -> None:
    entries = fold(found, {})
    assert sum(entry.count for entry in entries) == len(found)
    for one in found:
        assert any(one.node in entry.nodes and one.status is entry.finding.status for entry in entries)
    assert entries == fold([replace(one) for one in found], {})
