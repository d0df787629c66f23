"""A plan takes the place of a plan, and of nothing else; what is no plan is told in words."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.workflow.plan import Act, Plan, Step
from ndctl.workflow.plan_file import read_plan, refuse_out, write_plan


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def plan() -> Plan:
    return Plan(
        "swc-a", "swc-a.yaml", "s", "rg", "swedencentral", "1", foundation=Step("f", "", Act.NO_CHANGE), racks=(),
        group_exists=True, digests={"inventory": "i", "templates": "t", "live": "l"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [b"cluster: a\n", b"{ not json", b"[]", b"\xff\xfe", b'{"schema": "ndctl.run/1"}', b'{"a": 1}', b"[" * 100_000],
)
def test_what_is_no_plan_is_not_replaced(tmp_path: Path, text: bytes) -> None:
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_bytes(text)
    link.symlink_to(precious)
    for path in (precious, link):
        for act in (refuse_out, lambda path: write_plan(plan(), path)):
            with pytest.raises(NdctlError, match="not a plan that ndctl wrote") as caught:
                act(path)
            assert caught.value.exit_code is ExitCode.USAGE and "--out" in caught.value.hint
    assert precious.read_bytes() == text and link.is_symlink()


def test_a_directory_is_no_place_for_a_plan(tmp_path: Path) -> None:
    with pytest.raises(NdctlError, match="is a directory"):
        refuse_out(tmp_path)
    with pytest.raises(NdctlError, match=r"there is no directory \S+/absent to write plan\.json in"):
        refuse_out(tmp_path / "absent" / "plan.json")


@pytest.mark.parametrize("text", ["", '\n {"schema": "ndctl.plan/7"}'])
def test_an_empty_file_and_an_earlier_plan_are_replaced_and_keep_their_mode(tmp_path: Path, text: str) -> None:
    path, link = tmp_path / "plan.json", tmp_path / "link"
    path.write_text(text)
    path.chmod(0o640)
    link.symlink_to(path)
    write_plan(plan(), link)
    assert link.is_symlink() and read_plan(path).cluster == "swc-a"
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link", "plan.json"]


@pytest.mark.usefixtures("umask")
def test_a_new_plan_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    write_plan(plan(), tmp_path / "plan.json")
    assert (tmp_path / "plan.json").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("cluster: a", "no JSON object"),
        ("[]", "no JSON object"),
        ("{}", "it names no schema"),
        ('{"schema": "ndctl.run/1"}', "it says schema 'ndctl.run/1'"),
        ('{"schema": "ndctl.plan/1", "cluster": "a", "digest": "b", "digests": []}', "it lacks digests.inventory, "),
        ('{"schema": "ndctl.plan/2"}', "another version of ndctl wrote this plan (ndctl.plan/2); this one reads "),
    ],
)
def test_what_is_no_plan_is_told_in_words(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(NdctlError) as caught:
        read_plan(tmp_path / "plan.json")
    assert said in caught.value.message and "Error" not in caught.value.message
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_whole_plan_without_one_digest_is_refused(tmp_path: Path) -> None:
    write_plan(plan(), tmp_path / "plan.json")
    told = json.loads((tmp_path / "plan.json").read_text())
    del told["digests"]["live"]
    (tmp_path / "plan.json").write_text(json.dumps(told))
    with pytest.raises(NdctlError, match=r"it lacks digests\.live$"):
        read_plan(tmp_path / "plan.json")
