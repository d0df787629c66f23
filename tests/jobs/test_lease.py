"""The lease in a real /bin/sh on folders that stand in for nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ndctl.jobs.lease import LOOK, Lease, give_back, holder_in, renew, take
from ndctl.jobs.lease_process import is_gone, this_process
from ndctl.model.answers import Command
from ndctl.model.places import Node
from tests.jobs.local_nodes import LocalNodes

FIRST, SECOND = "first@ops-1, run 2026-12-02T03-20-11", "second@ops-2, run 2026-12-02T03-20-12"


@pytest.fixture
def nodes(tmp_path: Path) -> LocalNodes:
    return LocalNodes(tmp_path)


def file(nodes: LocalNodes, node: Node) -> Path:
    return nodes.root(node) / "run" / "lock" / "ndctl-active-test"


def held(nodes: LocalNodes) -> list[str]:
    return [node.name for node in nodes.nodes if file(nodes, node).exists()]


def tidy(nodes: LocalNodes) -> bool:
    """Nothing but leases lies in the lock folders."""
    return all({path.name for path in file(nodes, n).parent.iterdir()} <= {"ndctl-active-test"} for n in nodes.nodes)


def test_it_is_taken_on_all_nodes_and_given_back(nodes: LocalNodes) -> None:
    lease = take(nodes, nodes.nodes, FIRST, "a", 600)
    assert lease.taken and held(nodes) == [node.name for node in nodes.nodes] and tidy(nodes)
    give_back(nodes, lease)
    assert held(nodes) == [] and tidy(nodes)


def test_who_comes_second_is_told_who_holds_it_and_takes_nothing(nodes: LocalNodes) -> None:
    take(nodes, nodes.nodes[1:2], FIRST, "a", 600)
    lease = take(nodes, nodes.nodes, SECOND, "b", 600)
    assert not lease.taken
    assert lease.held_by.startswith(f"{FIRST}, since 20") and lease.held_by.endswith("(on rack01-n02)")
    assert held(nodes) == ["rack01-n02"] and tidy(nodes)
    assert take(nodes, nodes.nodes[:1], SECOND, "b", 600).taken


def test_the_first_node_decides(nodes: LocalNodes) -> None:
    """Who finds it held there does not even ask the others, so two who come at once do not end with half each."""
    take(nodes, nodes.nodes, FIRST, "a", 600)
    nodes.asked.clear()
    assert not take(nodes, nodes.nodes, SECOND, "b", 600).taken
    assert nodes.asked[0] == {"rack01-n01": ["lease"]}
    assert not any("lease" in ids for asked in nodes.asked[1:] for ids in asked.values())


def test_giving_back_with_another_token_changes_nothing(nodes: LocalNodes) -> None:
    take(nodes, nodes.nodes, FIRST, "a", 600)
    give_back(nodes, Lease(nodes.nodes, "b"))
    assert len(held(nodes)) == 3


def test_an_old_lease_is_taken_over(nodes: LocalNodes) -> None:
    take(nodes, nodes.nodes, FIRST, "a", -5)
    lease = take(nodes, nodes.nodes, SECOND, "b", 600)
    assert lease.taken
    assert "\nb\nsecond@ops-2" in file(nodes, nodes.nodes[2]).read_text()
    give_back(nodes, Lease(nodes.nodes, "a"))  # the old holder comes late: it is not its lease any more
    assert len(held(nodes)) == 3


@pytest.mark.parametrize("text", ["", "garbage", "\n\n\n", "99999999999999999999\nt\nh\n"])
def test_a_broken_lease_holds_nobody_up(nodes: LocalNodes, text: str) -> None:
    file(nodes, nodes.nodes[0]).write_text(text)
    assert take(nodes, nodes.nodes, SECOND, "b", 600).taken


def test_taking_ones_own_again_makes_it_last(nodes: LocalNodes) -> None:
    lease = take(nodes, nodes.nodes, FIRST, "a", 10)
    first = int(file(nodes, nodes.nodes[0]).read_text().split()[0])
    assert renew(nodes, lease, FIRST, 1000).taken
    assert int(file(nodes, nodes.nodes[0]).read_text().split()[0]) >= first + 900
    assert tidy(nodes)


def test_a_lease_that_somebody_took_over_is_not_renewed(nodes: LocalNodes) -> None:
    lease = take(nodes, nodes.nodes, FIRST, "a", -5)
    take(nodes, nodes.nodes[2:], SECOND, "b", 600)
    again = renew(nodes, lease, FIRST, 600)
    assert not again.taken and again.held_by.startswith("second@ops-2")


def test_a_node_that_is_away_leaves_the_others_free(nodes: LocalNodes) -> None:
    nodes.away = {"rack01-n03"}
    lease = take(nodes, nodes.nodes, FIRST, "a", 600)
    assert not lease.taken and lease.held_by == "" and lease.problem == "rack01-n03: unreachable no route"
    assert held(nodes) == []


def test_a_node_that_goes_away_meanwhile_frees_itself_in_time(nodes: LocalNodes) -> None:
    lease = take(nodes, nodes.nodes, FIRST, "a", 600)
    nodes.away = {"rack01-n02"}
    give_back(nodes, lease)
    nodes.away = set()
    assert held(nodes) == ["rack01-n02"]
    path = file(nodes, nodes.nodes[1])
    path.write_text("1\n" + path.read_text().partition("\n")[2])
    assert take(nodes, nodes.nodes, SECOND, "b", 600).taken


def test_an_interruption_while_it_is_taken_gives_back_what_was_taken(nodes: LocalNodes) -> None:
    def interrupt(requests: Mapping[Node, Sequence[Command]]) -> None:
        if "lease" in {c.id for commands in requests.values() for c in commands} and len(requests) == 2:
            raise KeyboardInterrupt

    nodes.watch = interrupt
    with pytest.raises(KeyboardInterrupt):
        take(nodes, nodes.nodes, FIRST, "a", 600)
    assert held(nodes) == []


@pytest.mark.parametrize("holder", ['o\'neil $(touch /tmp/x) `id` "q"', "two\nlines", "bell\x07", "ä ↔ 你好"])
def test_any_holder_can_be_shown(nodes: LocalNodes, holder: str) -> None:
    assert take(nodes, nodes.nodes, holder, "a", 600).taken
    shown = take(nodes, nodes.nodes, SECOND, "b", 600).held_by
    assert shown.startswith("".join(c if c.isprintable() else " " for c in holder).strip()) and "\n" not in shown


def test_where_there_is_no_lock_folder_the_home_directory_serves(nodes: LocalNodes) -> None:
    for node in nodes.nodes:
        (nodes.root(node) / "run" / "lock").rmdir()
    lease = take(nodes, nodes.nodes, FIRST, "a", 600)
    assert lease.taken
    assert list(nodes.home(nodes.nodes[0]).glob(".cache/*/ndctl-active-test"))
    assert take(nodes, nodes.nodes, SECOND, "b", 600).held_by.startswith("first@ops-1")
    give_back(nodes, lease)
    assert not list(nodes.home(nodes.nodes[0]).glob(".cache/*/*"))


def test_a_place_that_cannot_be_written_is_a_problem_and_no_holder(nodes: LocalNodes) -> None:
    nodes.tool("mktemp", "echo 'mktemp: No space left on device' >&2; exit 1")
    lease = take(nodes, nodes.nodes, FIRST, "a", 600)
    assert not lease.taken and lease.held_by == ""
    assert "the lease could not be written" in lease.problem and "No space left" in lease.problem


def test_several_who_come_at_once_get_one_lease(nodes: LocalNodes) -> None:
    """Many processes try on one node; exactly one gets it."""
    from concurrent.futures import ThreadPoolExecutor

    node = nodes.nodes[0]
    take(nodes, [node], FIRST, "old", -5)  # an old one to take over makes it harder
    with ThreadPoolExecutor(8) as pool:
        leases = list(pool.map(lambda number: take(nodes, [node], f"user {number}", f"t{number}", 600), range(8)))
    winners = [lease for lease in leases if lease.taken]
    assert len(winners) == 1
    assert file(nodes, node).read_text().splitlines()[1] == winners[0].token
    assert all(lease.held_by or lease.taken for lease in leases)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_lock_folder_that_is_not_ours_is_passed_over(nodes: LocalNodes) -> None:
    folder = nodes.root(nodes.nodes[0]) / "run" / "lock"
    folder.chmod(0o555)
    assert take(nodes, nodes.nodes, FIRST, "a", 600).taken
    assert not list(folder.iterdir())


PROCESS = (
    "import sys; from ndctl.jobs.lease_process import this_process; print(this_process(), flush=True); sys.stdin.read()"
)


@pytest.fixture
def killed() -> str:
    """A process of this machine that held a lease and is gone."""
    with subprocess.Popen([sys.executable, "-c", PROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        text = holder.stdout.readline().decode().strip()
        assert text and not is_gone(text)
        holder.kill()
    return text


def looked(nodes: LocalNodes, token: str) -> list[str]:
    return [holder_in(answer, token) for answer in nodes.ask({node: [LOOK] for node in nodes.nodes}).values()]


def test_the_lease_of_a_process_of_this_machine_that_is_gone_is_taken_over(
    nodes: LocalNodes, killed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("ndctl.jobs.lease.this_process", lambda: killed)
        take(nodes, nodes.nodes, FIRST, "a", 600)
    assert looked(nodes, "b") == ["", "", ""]
    assert take(nodes, nodes.nodes, SECOND, "b", 600).taken and tidy(nodes)
    assert all(file(nodes, node).read_text().splitlines()[1] == "b" for node in nodes.nodes)
    third = take(nodes, nodes.nodes, "third@ops-1", "c", 600)  # its holder lives: it is this very process
    assert not third.taken and third.held_by.startswith(SECOND)
    assert all(who.startswith(SECOND) for who in looked(nodes, "c"))


def test_what_a_killed_process_left_running_on_the_nodes_is_ended_first(
    nodes: LocalNodes, killed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(token: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "60"], env={**os.environ, "NDCTL_JOB": token})

    with monkeypatch.context() as patch:
        patch.setattr("ndctl.jobs.lease.this_process", lambda: killed)
        take(nodes, nodes.nodes, FIRST, "a-token-of-it", 600)
    theirs, others = [job("a-token-of-it-rack01-7:"), job("a-token-of-itx3:")], [job("a-token-of-its-own:")]
    try:
        assert take(nodes, nodes.nodes, SECOND, "b", 600).taken
        assert [one.wait(20) for one in theirs] == [-15, -15] and others[0].poll() is None
    finally:
        for one in (*theirs, *others):
            one.kill()
            one.wait(20)


def test_of_another_machine_or_an_earlier_ndctl_it_is_said_when_the_lease_ends(
    nodes: LocalNodes, killed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = f"{'0' * 16} {killed.partition(' ')[2]}"
    for process in (elsewhere, "", "garbage"):
        with monkeypatch.context() as patch:
            patch.setattr("ndctl.jobs.lease.this_process", lambda text=process: text)
            lease = take(nodes, nodes.nodes, FIRST, "a", 600)
        path = file(nodes, nodes.nodes[0])
        path.write_text("4102444800\n" + path.read_text().partition("\n")[2])
        ends = "; unless it is renewed, the lease ends by itself at 2100-01-01T00:00:00Z"
        second = take(nodes, nodes.nodes, SECOND, "b", 600)
        assert not second.taken and second.held_by.endswith(f"{ends} (on rack01-n01)")
        assert looked(nodes, "b")[0].endswith(ends)
        give_back(nodes, lease)
    path.write_text("4102444800\na\nfirst@ops-1")  # three lines, the last one cut
    assert take(nodes, nodes.nodes[:1], SECOND, "b", 600).held_by.startswith("first@ops-1; unless")
    path.write_text("999999999999\na\nfirst@ops-1\n")
    assert take(nodes, nodes.nodes[:1], SECOND, "b", 600).held_by == "first@ops-1 (on rack01-n01)"


def test_a_process_number_that_another_has_by_now_holds_nothing() -> None:
    mark, pid, start = this_process().split()
    assert not is_gone(f"{mark} {pid} {start}")
    assert is_gone(f"{mark} {pid} {int(start) + 1}")
    assert not is_gone(f"{mark} {pid}")


def test_a_killed_process_that_nobody_waited_for_holds_nothing() -> None:
    holder = subprocess.Popen([sys.executable, "-c", PROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    text = holder.stdout.readline().decode().strip()
    holder.kill()
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    assert is_gone(text)
    holder.communicate()
