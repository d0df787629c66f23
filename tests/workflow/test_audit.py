"""Who changed a cluster, when and with what result: a file that only grows, and one tag."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ndctl.azure.clients import AzureClients, connect
from ndctl.azure.group_tags import read_tags
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.workflow.audit import audit_lines, audit_tag, audited, new_run
from ndctl.workflow.locks import this_holder

if TYPE_CHECKING:
    from conftest import Region

NOON = datetime(2026, 12, 2, 3, 20, 12, tzinfo=UTC)


@pytest.fixture
def clients(region: Region) -> Iterator[AzureClients]:
    made = connect(region.loaded())
    made.resources.resource_groups.create_or_update(
        made.resource_group, {"location": made.region, "tags": {"owner": "fabric"}}
    )
    yield made
    made.close()


def lines(folder: Path, clients: AzureClients, result: str = "63 racks as planned, 1 partial") -> list[dict[str, Any]]:
    with audited(folder, clients, verb="deploy", cluster="swc-a", run="deploy-1", now=lambda: NOON) as line:
        line.ended(result, ExitCode.DEPLOY_PARTIAL, digest="4f1c" * 16, racks={"partial": ["rack64"]})
    assert line.problem == ""
    return audit_lines(folder)


def test_two_lines_a_change_and_a_tag_that_people_can_read(tmp_path: Path, clients: AzureClients) -> None:
    begun, ended = lines(tmp_path, clients)
    assert begun["event"] == "begun" and ended["event"] == "ended"
    assert ended["schema"] == "ndctl.audit/1" and ended["time"] == "2026-12-02T03:20:12.000+00:00"
    assert ended["run"] == begun["run"] == "deploy-1" and ended["cluster"] == "swc-a" and ended["verb"] == "deploy"
    assert ended["who"]["holder"] == this_holder() and ended["who"]["identity"] == clients.who() != ""
    assert ended["digest"] == "4f1c" * 16 and ended["exit_code"] == 6 and ended["racks"] == {"partial": ["rack64"]}
    tags = read_tags(clients) or {}
    assert tags == {
        "owner": "fabric",
        audit_tag("swc-a"): f"2026-12-02T03:20:12Z deploy by {clients.who()}: 63 racks as planned, 1 partial, exit 6, "
        "digest 4f1c4f1c4f1c, deploy-1",
    }
    assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600


def test_the_file_only_grows_and_the_tag_is_the_last_change(tmp_path: Path, clients: AzureClients) -> None:
    lines(tmp_path, clients)
    before = (tmp_path / "audit.jsonl").read_bytes()
    assert len(lines(tmp_path, clients, "x" * 500)) == 4
    assert (tmp_path / "audit.jsonl").read_bytes().startswith(before)
    value = (read_tags(clients) or {})[audit_tag("swc-a")]
    assert len(value) <= 256 and value.endswith("digest 4f1c4f1c4f1c, deploy-1")


def test_what_ends_in_an_error_or_by_ctrl_c_is_written_down(tmp_path: Path, clients: AzureClients) -> None:
    def refused() -> None:
        raise NdctlError("plan.stale", "it moved", exit_code=ExitCode.LOCKED_OR_STALE)

    def interrupted() -> None:
        raise KeyboardInterrupt

    for raising in (refused, interrupted):
        with (
            pytest.raises((NdctlError, KeyboardInterrupt)),
            audited(tmp_path, clients, verb="deploy", cluster="c"),
        ):
            raising()
    told = [(one["event"], one.get("result"), one.get("exit_code")) for one in audit_lines(tmp_path)]
    assert told == [
        ("begun", None, None),
        ("ended", "plan.stale", 10),
        ("begun", None, None),
        ("ended", "interrupted", 130),
    ]


def test_a_line_that_was_cut_by_a_kill_hides_no_other(tmp_path: Path, clients: AzureClients) -> None:
    assert audit_lines(tmp_path) == []
    lines(tmp_path, clients)
    with (tmp_path / "audit.jsonl").open("a") as file:
        file.write('{"event": "beg')
        file.write("\n")
    assert len(lines(tmp_path, clients)) == 4


def test_runs_have_names_of_their_own() -> None:
    one, other = (new_run("deploy", lambda: NOON) for _ in range(2))
    assert one != other and one.startswith("deploy-2026-12-02T03-20-12-")


def test_a_change_without_a_line_is_not_begun_and_one_that_was_made_keeps_its_answer(
    tmp_path: Path, clients: AzureClients
) -> None:
    file = tmp_path / "audit.jsonl"
    file.mkdir()
    with (
        pytest.raises(NdctlError, match=r"cannot keep .*audit.jsonl") as caught,
        audited(tmp_path, clients, verb="deploy", cluster="swc-a"),
    ):
        raise AssertionError("begun")
    assert caught.value.exit_code is ExitCode.USAGE
    file.rmdir()
    with audited(tmp_path, clients, verb="deploy", cluster="swc-a") as line:
        file.unlink()
        file.mkdir()  # as a disk that got full meanwhile: no line can be written
        line.ended("1 rack as planned", ExitCode.OK)
    assert line.unwritten == "Is a directory" and line.problem == ""
    assert "1 rack as planned" in (read_tags(clients) or {})[audit_tag("swc-a")]
