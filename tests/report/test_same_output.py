"""Equal answers as one group; how the others differ."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndctl.model.execution import Said
from ndctl.report.same_output import MOST_DIFF_LINES, differences, groups, majority


def said(position: int, stdout: str = "ok\n", **changes: object) -> Said:
    name = f"rack07-n{position:02d}"
    made = Said(name, "rack07", f"10.40.7.{position}", "ok", exit_code=0, stdout=stdout, seconds=position / 10)
    return replace(made, **changes)  # type: ignore[arg-type]


def sets(answers: list[Said], fold: bool = False) -> list[str]:
    return [group.nodeset for group in groups(answers, fold=fold)]


def test_equal_output_is_one_group_whatever_it_took() -> None:
    assert sets([said(number) for number in range(18, 0, -1)]) == ["rack07-n[01-18]"]


@pytest.mark.parametrize(
    "change",
    [
        {"stdout": "ok"},
        {"stdout": "ok \n"},
        {"stderr": "warning\n"},
        {"exit_code": 1},
        {"truncated": True},
        {"outcome": "timed-out", "exit_code": None},
    ],
)
@pytest.mark.parametrize("fold", [False, True])
def test_what_differs_in_a_byte_is_another(change: dict[str, object], fold: bool) -> None:
    assert len(sets([said(1), said(2, **change)], fold)) == 2


def test_success_comes_first_then_failures_then_silence_the_largest_first_of_each() -> None:
    answers = [
        said(1, outcome="refused", exit_code=None),
        *(said(number, exit_code=2) for number in (2, 3, 4)),
        said(5, "rare\n"),
        *(said(number) for number in (6, 7)),
    ]
    assert sets(answers) == ["rack07-n[06-07]", "rack07-n05", "rack07-n[02-04]", "rack07-n01"]


def own(position: int, measured: int = 17) -> Said:
    text = (
        f"rack07-n{position:02d} 10.40.7.{position} vm-{position:06x}x 00:0d:3a:11:22:{position:02x}\n"
        f"Serial Number : 16509240{position:02d}\nlinks {measured}\n"
    )
    return said(position, text, host_names=(f"vm-{position:06x}x",))


def test_a_nodes_own_keeps_apart_unless_folded() -> None:
    answers = [own(1), own(2), own(10)]
    assert len(sets(answers)) == 3
    (group,) = groups(answers, fold=True)
    assert group.nodeset == "rack07-n[01-02,10]"
    assert group.sample.stdout == "<node> <address> <node> <mac>\nSerial Number : <serial>\nlinks 17\n"
    assert set(group.taken) == {"<node>", "<address>", "<mac>", "<serial>"}


def test_what_was_measured_is_never_folded() -> None:
    assert sets([own(1), own(2), own(3, measured=18)], fold=True) == ["rack07-n[01-02]", "rack07-n03"]


def test_what_is_equal_anyhow_is_shown_as_it_is() -> None:
    """One switch's GUID on all nodes is worth reading."""
    answers = [said(number, "switch 0x946dae0300abcdef\n") for number in (1, 2)]
    (group,) = groups(answers, fold=True)
    assert (group.sample.stdout, group.taken) == ("switch 0x946dae0300abcdef\n", ())
    (alone,) = groups([own(1)], fold=True)
    assert alone.sample == own(1)


def test_time_outs_that_name_their_own_address_are_one_also_without_folding() -> None:
    answers = [
        said(n, "", outcome="unreachable", exit_code=None, detail=f"10.40.7.{n}:22 gave no answer") for n in (1, 2)
    ]
    (group,) = groups(answers, fold=False)
    assert group.sample.detail == "<address>:22 gave no answer"


def test_the_most_are_those_that_answered_and_of_equally_many_those_that_succeeded() -> None:
    silent = [said(number, outcome="refused", exit_code=None) for number in (1, 2, 3)]
    made = groups([*silent, said(4, "a\n", exit_code=1), said(5, "b\n")], fold=False)
    most = majority(made)
    assert most is not None and most.nodes == ("rack07-n05",)
    assert majority(groups(silent, fold=False)) is None


def diff(one: Said, other: Said) -> list[str]:
    base, second = groups([one, replace(one, name="rack07-n09"), other], fold=False)
    return differences(base, second)


def test_differences_are_a_unified_diff_of_both_streams() -> None:
    before = said(1, "a\nb\nc\nd\ne\n", stderr="x\n")
    assert diff(before, said(2, "a\nb\nC\nd\ne\n", stderr="x\n")) == ["@@ -2,3 +2,3 @@", " b", "-c", "+C", " d"]
    assert diff(before, said(2, "a\nb\nc\nd\ne\n", stderr="y\n")) == ["@@ stderr -1 +1 @@", "-x", "+y"]


def test_folded_differences_are_of_what_was_measured_alone() -> None:
    base, other = groups([own(1), own(2), own(3, measured=18)], fold=True)
    assert differences(base, other) == ["@@ -2,2 +2,2 @@", " Serial Number : <serial>", "-links 17", "+links 18"]


def test_very_long_output_is_counted_instead() -> None:
    long = said(1, "".join(f"{number}\n" for number in range(MOST_DIFF_LINES + 1)))
    (line,) = diff(long, said(2, "short\n"))
    assert line == "@@ 4,001 lines against 1: too long to compare by lines @@"


_answers = st.lists(
    st.builds(
        said,
        st.integers(1, 40),
        st.sampled_from(["a\n", "b\n", "rack07-n01\n", ""]),
        exit_code=st.sampled_from([0, 1, None]),
        outcome=st.sampled_from(["ok", "refused"]),
    ),
    max_size=30,
    unique_by=lambda one: one.name,
)


@given(_answers, st.booleans())
def test_every_node_is_in_one_group(answers: list[Said], fold: bool) -> None:
    made = groups(answers, fold=fold)
    assert sorted(name for group in made for name in group.nodes) == sorted(one.name for one in answers)
    assert made == groups(list(reversed(answers)), fold=fold)
