"""ndctl checks, and inventories that switch off what does not exist."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ndctl.checks.registry import catalogue
from ndctl.jobs.active.registry import active_checks
from ndctl.model.status import Group, Level
from ndctl.report import schemas
from ndctl.workflow.known_checks import known_checks
from tests.cli.conftest import Said

INVENTORY = """cluster: lab
profile: gb300
static:
  - {{rack: 1, nodes: [127.0.0.1]}}
disabled_checks:
  - {{check: {check}, reason: known and harmless, until: 2099-01-31}}
"""


def test_every_check_is_listed_once_with_the_active_ones(ndctl: Callable[..., Said]) -> None:
    said = ndctl("checks")
    assert said.code == 0 and said.err == ""
    head, *rows = said.out.splitlines()
    ids = [row.split()[0] for row in rows if not row.startswith(" ")]
    assert head.split()[:4] == ["check", "level", "needed", "cost"]
    assert ids == sorted({*(check.id for check in catalogue()), *(check.id for check in active_checks())})


def test_a_level_lists_what_it_asks(ndctl: Callable[..., Said]) -> None:
    quick = json.loads(ndctl("checks", "--level", "quick", "-o", "json").out)["checks"]
    whole = json.loads(ndctl("checks", "--level", "acceptance", "-o", "json").out)["checks"]
    assert {one["level"] for one in quick} == {"quick"} and not any(one["active"] for one in quick)
    assert len(whole) == len(known_checks()) > len(quick)


def test_the_profile_chooses_the_thresholds(ndctl: Callable[..., Said]) -> None:
    def limit(profile: str) -> str:
        rows = json.loads(ndctl("checks", "--profile", profile, "-o", "json").out)["checks"]
        return str(next(row["threshold"] for row in rows if row["id"] == "host.identity"))

    assert "128 vCPUs" in limit("gb300") and limit("h200") != limit("gb300")


def test_what_is_never_asked_on_this_hardware_says_so(ndctl: Callable[..., Said]) -> None:
    rows = {row["id"]: row for row in json.loads(ndctl("checks", "--profile", "h200", "-o", "json").out)["checks"]}
    assert rows["nvlink.imex"]["applies"] is False and rows["nvlink.imex"]["threshold"] == ""
    assert rows["gpu.count"]["applies"] is True and "8 GPUs" in rows["gpu.count"]["threshold"]
    line = next(one for one in ndctl("checks", "--profile", "h200").out.splitlines() if one.startswith("nvlink.imex "))
    assert line.split()[2:4] == ["not", "asked"]


def test_what_an_inventory_switches_off_is_said_and_what_has_expired(
    ndctl: Callable[..., Said], tmp_path: Path
) -> None:
    file = tmp_path / "lab.yaml"
    text = INVENTORY.format(check="gpu.xid")
    file.write_text(text + "  - {check: gpu.count, reason: was odd, until: 2020-01-31}\n")
    answer = json.loads(ndctl("checks", file, "-o", "json").out)
    Draft202012Validator(schemas.load("checks")).validate(answer)
    rows = {row["id"]: row["disabled"] for row in answer["checks"]}
    assert rows["gpu.xid"] == {"reason": "known and harmless", "until": "2099-01-31", "in_force": True}
    assert rows["gpu.count"]["in_force"] is False and rows["gpu.health"] is None
    shown = ndctl("checks", file).out
    assert "switched off: known and harmless (until 2099-01-31)" in shown
    assert "asked again, this has expired: was odd (until 2020-01-31)" in shown


def test_lint_warns_of_what_has_expired_at_its_line(ndctl: Callable[..., Said], tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(INVENTORY.format(check="gpu.xid") + "  - {check: gpu.count, reason: was odd, until: 2020-01-31}\n")
    said = ndctl("inventory", "lint", file)
    assert said.code == 0 and ": ok (" in said.out
    warnings = [line for line in said.err.splitlines() if "warning" in line]
    assert len(warnings) == 1 and warnings[0].startswith(f"{file}:7:")
    assert "'gpu.count' was switched off until 2020-01-31 (was odd)" in warnings[0]


def test_a_check_that_does_not_exist_is_refused_here_too(ndctl: Callable[..., Said], tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(INVENTORY.format(check="nvlink.link"))
    said = ndctl("checks", file)
    assert said.code == 2 and "did you mean 'nvlink.links'?" in said.err


def test_the_list_as_json_says_what_each_asks(ndctl: Callable[..., Said]) -> None:
    answer = json.loads(ndctl("checks", "-o", "json").out)
    assert answer["schema"] == "ndctl.checks/1"
    by_id = {check["id"]: check for check in answer["checks"]}
    assert by_id["nvlink.imex"]["commands"] == ["imex-domain"] and by_id["nvlink.imex"]["required"] is True
    assert by_id["nvlink.errors"]["required"] is False
    assert by_id["nccl.all-reduce"]["level"] == "standard" and by_id["nccl.all-reduce"]["group"] == "nccl"
    assert all(check["title"] and check["commands"] for check in answer["checks"])
    Draft202012Validator(schemas.load("checks")).validate(answer)
    assert {check["group"] for check in answer["checks"]} == {group.value for group in Group}
    assert {check["level"] for check in answer["checks"]} <= {level.value for level in Level}


@pytest.mark.parametrize(
    ("name", "hint"),
    [("nvlink.link", "did you mean 'nvlink.links'?"), ("nvlink.links.link-down", "did you mean 'nvlink.links'?"),
     ("zzz", "`ndctl checks` lists them")],
)  # fmt: skip
def test_switching_off_what_does_not_exist_is_an_error_at_its_line(
    ndctl: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    file = tmp_path / "lab.yaml"
    file.write_text(INVENTORY.format(check=name))
    for verb in (("inventory", "lint"), ("validate",)):
        said = ndctl(*verb, file)
        assert said.code == 2 and said.out == ""
        assert f"there is no check '{name}'" in said.err and hint in said.err
        assert f"{file}:6:" in said.err


def test_every_check_there_is_can_be_switched_off(ndctl: Callable[..., Said], tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    entries = [f"  - {{check: {one.id}, reason: known, until: 2099-01-31}}\n" for one in known_checks()]
    file.write_text(INVENTORY.format(check="gpu.count").rpartition("  - {check")[0] + "".join(entries))
    said = ndctl("inventory", "lint", file)
    assert said.code == 0, said.err


@pytest.mark.parametrize("option", ["--nodes", "--rack"])
def test_an_empty_choice_does_not_mean_everything(ndctl: Callable[..., Said], tmp_path: Path, option: str) -> None:
    said = ndctl("validate", tmp_path / "lab.yaml", option, "")
    assert said.code == 2 and "is no " in said.err
