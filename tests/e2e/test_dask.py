"""Racks spread over the worker processes of a Dask cluster give the answer that one process gives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ndctl.model.errors import NdctlError
from ndctl.model.events import Event
from ndctl.model.findings import Run
from ndctl.model.status import Group, Level, Status, Verdict
from ndctl.record.store import Store
from ndctl.workflow import dask_engine
from ndctl.workflow.dask_engine import DaskEngine
from ndctl.workflow.engines import Engine, LocalEngine
from ndctl.workflow.replay import kit_from, run_again
from ndctl.workflow.select import Selection
from ndctl.workflow.validate import Request, validate_inventories
from tests.e2e.lab import Lab

pytestmark = pytest.mark.xdist_group("lab-2")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    one = Lab(tmp_path_factory.mktemp("dask"), racks=3, nodes=3)
    yield one
    one.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=2,
        processes=True,
        dashboard_address=None,
        host="127.0.0.1",
        worker_class="distributed.Nanny",
        silence_logs=50,
    ) as one:
        yield one


@pytest.fixture(autouse=True)
def _clean(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    yield
    lab.faults.clear()
    lab.sync()


def ask(lab: Lab, engine: Engine, record: Path, told: list[Event] | None = None, **more: Any) -> Run:
    lab.sync()
    request = Request(paths=(lab.inventory,), record=record, **more)
    return validate_inventories(request, engine=engine, on_event=(told if told is not None else []).append)


def essence(run: Run) -> list[tuple[Any, ...]]:
    """The answer without what differs from one asking to the next: measured values, and texts that hold them."""
    return [
        (
            rack.name,
            rack.verdict,
            rack.usable_nodes,
            sorted((f.check, f.status.value, f.node, f.subject, f.action.value, f.caused_by) for f in rack.findings),
        )
        for rack in run.racks
    ]


def test_the_answer_is_that_of_one_process_and_its_record_is_whole(lab: Lab, cluster: Any, tmp_path: Path) -> None:
    lab.faults.add("nvlink-down", node="rack02-n02", gpu=1, link=4)
    lab.faults.add("port-down", node="rack03-n01")
    told: list[Event] = []
    local = ask(lab, LocalEngine(), tmp_path / "local.db", level=Level.QUICK)
    with DaskEngine(cluster.scheduler_address) as engine:
        spread = ask(lab, engine, tmp_path / "dask.db", told, level=Level.QUICK)
    assert essence(spread) == essence(local)
    assert spread.exit_code == local.exit_code == 7
    ended = {event.rack for event in told if event.type == "rack" and event.status == "done"}
    assert ended == {"rack01", "rack02", "rack03"}, "events stream back"
    with Store(tmp_path / "dask.db") as store:
        assert len(store.answers.nodes(spread.id)) == 9
        assert essence(run_again(kit_from(store, spread.id))) == essence(spread)


def test_active_tests_run_on_workers_within_the_bound_of_the_whole_run(lab: Lab, cluster: Any, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"level": Level.STANDARD, "groups": frozenset({Group.GPU, Group.NCCL})}
    told: list[Event] = []
    with DaskEngine(cluster.scheduler_address) as engine:
        spread = ask(lab, engine, tmp_path / "dask.db", told, max_nodes_under_test=3, **asked)
    assert spread.exit_code == 0, essence(spread)
    assert all(any(f.check.startswith("nccl.all-reduce") for f in rack.findings) for rack in spread.racks)
    testing, most = set(), 0
    for event in told:
        if event.type == "job" and "over 3 nodes" in event.message:
            (testing.discard if "GB/s" in event.message else testing.add)(event.rack)
            most = max(most, len(testing))
    assert most == 1


def test_the_racks_of_a_killed_worker_are_done_elsewhere(lab: Lab, cluster: Any, tmp_path: Path) -> None:
    """Killed as soon as it works on a rack: its nanny starts another, and the answer is what it would have been."""
    lab.faults.add("gpu-missing", node="rack01-n03", gpu=2)
    told: list[Event] = []
    killed: list[int] = []

    def kill_who_works() -> None:
        from distributed import Client

        with Client(cluster.scheduler_address, set_as_default=False) as client:
            end = time.monotonic() + 60
            while not killed and time.monotonic() < end:
                busy = [address for address, tasks in client.processing().items() if tasks]
                if busy:
                    pids = client.run(os.getpid, workers=busy[:1])
                    killed.extend(pids.values())
                    os.kill(killed[0], signal.SIGKILL)
                time.sleep(0.05)

    killer = threading.Thread(target=kill_who_works)
    killer.start()
    with DaskEngine(cluster.scheduler_address) as engine:
        spread = ask(
            lab, engine, tmp_path / "dask.db", told, level=Level.STANDARD, groups=frozenset({Group.GPU, Group.NCCL})
        )
    killer.join(60)
    assert len(killed) == 1
    assert [rack.verdict for rack in spread.racks] == [Verdict.REJECTED, Verdict.ACCEPTED, Verdict.ACCEPTED]
    failed = {
        (f.check, f.node) for r in spread.racks for f in r.findings if f.status is Status.FAIL and not f.caused_by
    }
    assert failed == {("gpu.count", "rack01-n03")}


def test_ctrl_c_reaches_the_workers(lab: Lab, cluster: Any, tmp_path: Path) -> None:
    """One rack's tool hangs for longer than the test lasts; the stop comes while it is asked."""
    lab.faults.add("hung-nvidia-smi", node="rack02-n02")
    told: list[Event] = []

    def interrupt() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if any(event.type == "rack" and event.rack == "rack02" and "2 of 3" in event.message for event in told):
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.05)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with DaskEngine(cluster.scheduler_address) as engine:
        begun = time.monotonic()
        run = ask(lab, engine, tmp_path / "dask.db", told, level=Level.QUICK)
    interrupter.join(60)
    assert run.interrupted and run.exit_code == 130
    assert time.monotonic() - begun < 25
    outcomes = {node.name: node.outcome for rack in run.racks for node in rack.nodes}
    assert outcomes["rack02-n02"] == "interrupted" and outcomes["rack02-n01"] == "ok"


def test_no_scheduler_is_said_within_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.e2e.lab import free_port

    monkeypatch.setattr(dask_engine, "CONNECT_S", 1.0)
    with pytest.raises(NdctlError, match="no Dask scheduler answers") as error:
        DaskEngine(f"tcp://127.0.0.1:{free_port()}")
    assert error.value.exit_code == 2


@pytest.mark.parametrize("address", ["nonsense", "tls://10.0.0.4", "10.0.0.4:port", ""])
def test_what_is_no_address_is_said_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributed.Client", lambda *_, **__: pytest.fail("it was tried"))
    with pytest.raises(NdctlError, match="no address") as error:
        DaskEngine(address)
    assert error.value.exit_code == 2


def test_a_lost_scheduler_is_said_and_no_rack_is_accepted(
    lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from tests.e2e.lab import free_port

    address = f"tcp://127.0.0.1:{free_port()}"
    modules = ("distributed.cli.dask_scheduler", "distributed.cli.dask_worker")
    options = (["--host", "127.0.0.1", "--port", address.rpartition(":")[2]], [address, "--no-nanny"])
    scheduler, worker = (
        subprocess.Popen(
            [sys.executable, "-m", module, *given, "--no-dashboard"],
            cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for module, given in zip(modules, options, strict=True)
    )  # fmt: skip
    told: list[Event] = []

    def kill_it_when_racks_are_at_work(event: Event) -> None:
        told.append(event)
        if event.type == "rack" and event.status == "started":
            scheduler.kill()

    try:
        with DaskEngine(address) as engine:
            request = Request(paths=(lab.inventory,), record=tmp_path / "dask.db", level=Level.STANDARD)
            run = validate_inventories(request, engine=engine, on_event=kill_it_when_racks_are_at_work)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert run.exit_code == 8 and {rack.verdict for rack in run.racks} == {Verdict.INCOMPLETE}
    assert any("scheduler was lost" in event.message for event in told if event.status == "failed")
    assert "Traceback" not in capfd.readouterr().err
    causes = {f.cause for rack in run.racks for f in rack.findings if f.check == "host.reachable"}
    assert any("--resume goes on" in cause for cause in causes)
    lab.sync()
    asked = replace(request, selection=Selection(nodes="@incomplete"), record=tmp_path / "dask.db", level=Level.QUICK)
    again = validate_inventories(asked)
    assert {node.name for rack in again.racks for node in rack.nodes} == {n.name for r in run.racks for n in r.nodes}


def test_a_run_whose_scheduler_was_lost_is_gone_on_with(lab: Lab, cluster: Any, tmp_path: Path) -> None:
    """Of its three racks one has come back when the others are lost."""
    record = tmp_path / "dask.db"
    lost: list[str] = []
    take = dask_engine._SentWork._report

    def lose_two(work: Any, rack: Any, future: Any) -> Any:
        if rack.name == "rack01":
            return take(work, rack, future)
        future.cancel()
        lost.append(rack.name)
        return take(work, rack, future)

    with pytest.MonkeyPatch.context() as patch, DaskEngine(cluster.scheduler_address) as engine:
        patch.setattr(dask_engine._SentWork, "_report", lose_two)
        run = ask(lab, engine, record, level=Level.QUICK)
    assert sorted(lost) == ["rack02", "rack03"] and run.exit_code == 8 and not run.interrupted
    told: list[Event] = []
    with DaskEngine(cluster.scheduler_address) as engine:
        rest = ask(lab, engine, record, told, level=Level.QUICK, resume=True)
    assert rest.id == run.id and rest.exit_code == 0
    assert [event.rack for event in told if event.message.startswith("had ended")] == ["rack01"]
    with pytest.raises(NdctlError, match="is whole"):
        ask(lab, LocalEngine(), record, level=Level.QUICK, resume=True)


def test_the_program_takes_engine_and_scheduler_together(lab: Lab, cluster: Any, tmp_path: Path) -> None:
    def ndctl(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from ndctl.cli.main import run; run()", "validate", str(lab.inventory), *options],
            capture_output=True,
            text=True,
            timeout=180,
        )

    alone = ndctl("--engine", "dask")
    assert alone.returncode == 2 and "go together" in alone.stderr
    lab.sync()
    whole = ndctl("--engine", "dask", "--scheduler", cluster.scheduler_address, "--level", "quick", "-o", "json")
    assert whole.returncode == 0, whole.stderr
