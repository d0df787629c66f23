"""The whole launch with a real OpenSSH server and a real mpirun over loopback nodes: it runs, and leaves nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ndctl.jobs.judge_nccl import judge
from ndctl.jobs.nccl import end_launch, run_nccl, run_side_by_side
from ndctl.jobs.nccl_asked import NET_IB, Asked, in_rack, over_rail, rails
from ndctl.model.answers import Command, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.places import Node
from ndctl.model.status import Status
from ndctl.profiles import load
from tests.jobs.mpi_lab import OWN, TESTS, MpiLab, lab, marked
from tests.ssh import sshd

pytestmark = pytest.mark.xdist_group("mpi")
_STARTED_S = 60.0  # for processes of other programs to come up on a busy machine


@pytest.fixture(scope="module")
def one_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MpiLab]:
    with lab(tmp_path_factory.mktemp("mpi")) as running:
        yield running


@pytest.fixture
def mpi(one_lab: MpiLab) -> Iterator[MpiLab]:
    before = {name: (home / ".ssh" / "authorized_keys").read_text().strip() for name, home in one_lab.homes.items()}
    yield one_lab
    assert one_lab.leftovers() == []
    after = {name: (home / ".ssh" / "authorized_keys").read_text().strip() for name, home in one_lab.homes.items()}
    assert after == before
    one_lab.forget_ranks()


def until(true: Callable[[], bool]) -> bool:
    """Wait for another program, at most so long."""
    end = time.monotonic() + _STARTED_S
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def all_started(mpi: MpiLab) -> bool:
    return all(len(ids) == 2 for ids in mpi.ranks().values())


def still_there(mpi: MpiLab) -> list[int]:
    """Ranks that live on (a process that ended and was not waited for has no command line)."""
    found = []
    for ids in mpi.ranks().values():
        for pid in ids:
            try:
                if b"all_reduce_perf" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
            except OSError:
                continue
    return found


def test_every_rank_runs_on_its_node_and_the_result_is_judged(mpi: MpiLab) -> None:
    run = run_nccl(mpi.engine, mpi.launch("real-1"))
    assert run.problem == "" and run.leftovers == () and run.log is not None
    assert run.log.exit_code == 0, run.log
    assert all_started(mpi)
    findings = judge(run, load("gb300"), "rack01", "rack01-n01/nccl-all_reduce")
    assert [(f.check, f.status) for f in findings] == [("nccl.all-reduce", Status.PASS)]
    # Each node was logged in to by mpirun's ssh, with the key of this launch alone.
    assert mpi.server.log.count("Starting session") >= 4


IB_ONLY = {"NCCL_DEBUG": "INFO", "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}


@pytest.mark.parametrize("test", [test for test in TESTS if test != "all_reduce"])
def test_the_other_collectives_run_over_infiniband_only(mpi: MpiLab, test: str) -> None:
    run = run_nccl(mpi.engine, mpi.launch(f"ib-{test}", test=test, environment=IB_ONLY))
    assert run.log is not None and run.log.exit_code == 0, run.log
    profile = load("gb300")
    asked = Asked("nccl.x", test, "infiniband", NET_IB, rails=rails(profile))
    findings = judge(run, profile, "rack01", "e", asked)
    assert [(f.check, f.status) for f in findings] == [("nccl.x", Status.PASS)]
    # The same log is no proof of NVLink.
    wrongly = judge(run, profile, "rack01", "e", in_rack("nccl.x", test, profile))
    assert ("nccl.x.transport", Status.FAIL) in {(f.check, f.status) for f in wrongly}


def test_one_rail_alone_is_a_quarter_and_proven(mpi: MpiLab) -> None:
    one = {**IB_ONLY, "NCCL_IB_HCA": "=mlx5_ib2"}
    run = run_nccl(mpi.engine, mpi.launch("rail", environment=one))
    profile = load("gb300")
    [finding] = judge(run, profile, "rack01", "e", over_rail("nccl.one-rail", profile, "mlx5_ib2"))
    assert finding.status is Status.PASS and isinstance(finding.value, float) and 85 < finding.value < 105
    [other] = judge(run, profile, "rack01", "e", over_rail("nccl.one-rail", profile, "mlx5_ib1"))[:1]
    assert (other.check, other.status) == ("nccl.one-rail.rails", Status.FAIL)


def test_a_fault_of_the_model_shows_in_the_figure(mpi: MpiLab) -> None:
    mpi.world.faults.add("slow-node", node="rack01-n03", factor=0.4)
    try:
        slow = run_nccl(mpi.engine, mpi.launch("slow"))
        whole = run_nccl(mpi.engine, mpi.launch("whole", mpi.nodes[:2]))
    finally:
        mpi.world.faults.clear()
    assert [f.check for f in judge(slow, load("gb300"), "rack01", "e")] == ["nccl.all-reduce.slow"]
    assert [f.status for f in judge(whole, load("gb300"), "rack01", "e")] == [Status.PASS]


@pytest.mark.parametrize(("test", "wrong"), [("all_reduce", 2 * 2 * 3), ("sendrecv", 2 * 3)])
def test_data_that_is_really_spoiled_is_really_counted(mpi: MpiLab, test: str, wrong: int) -> None:
    """Both ranks of the node spoil three elements of what they received, on each side that is compared."""
    mpi.world.faults.add("corrupts-data", node="rack01-n02", count=3)
    size = 16 << 30
    try:
        run = run_nccl(mpi.engine, mpi.launch(f"spoiled-{test}", test=test, begin=size, end=size))
    finally:
        mpi.world.faults.clear()
    assert run.log is not None and run.log.exit_code == 1
    profile = load("gb300")
    findings = judge(run, profile, "rack01", "e", in_rack("nccl.x", test, profile))
    assert [(f.check, f.value) for f in findings if f.status is Status.FAIL] == [("nccl.x.wrong", wrong)]


def test_a_peer_that_shows_another_host_key_is_not_logged_in_to(mpi: MpiLab, tmp_path: Path) -> None:
    other = sshd.make_key(tmp_path / "other").with_suffix(".pub").read_text().split()
    one = mpi.launch("real-2")
    third = mpi.nodes[2]
    keys = {**one.host_keys, third.name: (f"[{third.address}]:{third.port} {other[0]} {other[1]}",)}
    run = run_nccl(mpi.engine, mpi.launch("real-2", host_keys=keys))
    assert run.log is not None and run.log.exit_code not in (0, None)
    assert "Host key verification failed" in run.log.stdout or "REMOTE HOST IDENTIFICATION" in run.log.stdout
    assert not any(mpi.ranks().values())
    findings = judge(run, load("gb300"), "rack01", "e")
    assert [f.status for f in findings] == [Status.UNKNOWN]


def test_ctrl_c_in_mid_run_leaves_no_process_and_no_key(mpi: MpiLab) -> None:
    seen: list[list[str]] = []

    def interrupt_when_started() -> None:
        if until(lambda: all_started(mpi)):
            seen.append(marked())
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt_when_started)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        run_nccl(mpi.engine, mpi.launch("real-3", environment={"NDCTL_STANDIN": "stubborn"}))
    thread.join()
    assert seen and len(seen[0]) > 8  # there was something to end: mpirun, ssh, daemons, ranks
    assert still_there(mpi) == []


def test_another_thread_can_end_the_run(mpi: MpiLab) -> None:
    one = mpi.launch("real-4", environment={"NDCTL_STANDIN": "hang"})
    ended: list[bool] = []

    def end_when_started() -> None:
        ended.append(until(lambda: all_started(mpi)))
        end_launch(mpi.engine, one)

    thread = threading.Thread(target=end_when_started)
    thread.start()
    run = run_nccl(mpi.engine, one)
    thread.join()
    assert ended == [True]
    assert run.log is not None and run.log.exit_code != 0 and not run.log.timed_out
    assert still_there(mpi) == []


@pytest.mark.parametrize("kind", ["hang", "stubborn"])
def test_a_collective_that_hangs_is_ended_by_its_deadline(mpi: MpiLab, kind: str) -> None:
    one = mpi.launch(f"real-5-{kind}", environment={"NDCTL_STANDIN": kind}, deadline_s=6.0)
    run = run_nccl(mpi.engine, one)
    assert [f.check for f in judge(run, load("gb300"), "rack01", "e")] == ["nccl.all-reduce.hang"]
    assert run.leftovers == () and still_there(mpi) == []


def test_an_error_of_one_rank_ends_all_and_is_a_failure(mpi: MpiLab) -> None:
    run = run_nccl(mpi.engine, mpi.launch("real-6", environment={"NDCTL_STANDIN": "fail"}))
    assert run.log is not None and run.log.exit_code == 3
    findings = judge(run, load("gb300"), "rack01", "e")
    assert [(f.check, f.status) for f in findings] == [("nccl.all-reduce.error", Status.FAIL)]
    assert "unhandled system error" in findings[0].message
    assert still_there(mpi) == []


class Losing:
    """A NodeRunner that no longer reaches one node after the run: its clean-up cannot be confirmed."""

    def __init__(self, mpi: MpiLab, lost: Node) -> None:
        self._mpi, self._lost = mpi, lost
        self.user = mpi.engine.user

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> dict[Node, NodeAnswer]:
        ids = {command.id for commands in requests.values() for command in commands}
        reached = {n: c for n, c in requests.items() if n != self._lost or "nccl-cleanup" not in ids}
        answers = self._mpi.engine.ask(reached)
        gone = Outcome(OutcomeKind.UNREACHABLE, "did not answer within 10 s")
        return {node: answers.get(node, NodeAnswer(node, gone)) for node in requests}


def test_a_node_that_dies_in_mid_run_fails_the_run_and_is_told_as_left(mpi: MpiLab) -> None:
    dying = mpi.nodes[2]
    home = str(mpi.homes[dying.name])

    def die() -> None:
        until(lambda: all_started(mpi))
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _belongs(entry, home):
                os.kill(int(entry.name), signal.SIGKILL)

    thread = threading.Thread(target=die)
    thread.start()
    # mpirun usually notices at once, and sometimes waits for the daemon that is gone; then its deadline ends it.
    one = mpi.launch("real-7", environment={"NDCTL_STANDIN": "hang"}, deadline_s=20.0)
    run = run_nccl(Losing(mpi, dying), one)
    thread.join()
    assert run.log is not None and run.log.exit_code not in (0, None) and not run.log.timed_out
    assert {f.check for f in judge(run, load("gb300"), "rack01", "e")} <= {
        "nccl.all-reduce.error", "nccl.all-reduce.hang", "nccl.all-reduce.no-result",
    }  # fmt: skip
    assert run.leftovers == ("rack01-n03: unreachable did not answer within 10 s",)
    assert {text.partition(":")[0] for text in mpi.leftovers()} == {"rack01-n03"}
    line = (mpi.homes[dying.name] / ".ssh" / "authorized_keys").read_text().splitlines()[-1]
    assert 'expiry-time="' in line  # what is left there ends by itself
    from ndctl.jobs.nccl import clean_up

    assert clean_up(mpi.engine, [one]) == {}  # the node is back


def _belongs(entry: Path, home: str) -> bool:
    try:
        text = (entry / "environ").read_bytes()
    except OSError:
        return False
    return f"NDCTL_JOB={OWN}".encode() in text and f"HOME={home}\0".encode() in text


def test_halves_run_side_by_side(mpi: MpiLab) -> None:
    runs = run_side_by_side(mpi.engine, [mpi.launch("real-8a", mpi.nodes[:2]), mpi.launch("real-8b", mpi.nodes[2:])])
    assert [run.log is not None and run.log.exit_code for run in runs] == [0, 0]
    assert all_started(mpi)


def test_nodes_with_one_home_for_all_lose_no_key_of_the_users(tmp_path: Path) -> None:
    """Eight nodes edit the same authorized_keys at once."""
    with lab(tmp_path, count=8, second=2, shared_home=True) as mpi:
        run = run_nccl(mpi.engine, mpi.launch("shared"))
        assert run.problem == "" and run.leftovers == ()
        assert run.log is not None and run.log.exit_code == 0
        assert mpi.leftovers() == []
        text = (next(iter(mpi.homes.values())) / ".ssh" / "authorized_keys").read_text()
        assert text.strip().splitlines()[0] == "# the user's own" and len(text.strip().splitlines()) == 2
