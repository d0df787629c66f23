"""Ctrl-C and kill, by the program itself against stand-in nodes over SSH."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ndctl.model.errors import NdctlError
from ndctl.record.store import Store
from tests.e2e.lab import Lab

pytestmark = pytest.mark.xdist_group("lab-2")
LONGEST_S = 240


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    one = Lab(tmp_path_factory.mktemp("interrupted"), racks=2, nodes=3)
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _clean(lab: Lab) -> Iterator[None]:
    yield
    lab.faults.clear()
    lab.sync()


class Program:
    """`ndctl validate` as a process of its own, with its record in `folder`."""

    def __init__(self, lab: Lab, folder: Path, *options: str) -> None:
        self.record = folder / "record.db"
        self._out, self._err = (folder / f"{name}{len(list(folder.iterdir()))}" for name in ("out", "err"))
        self._begun = time.monotonic()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "from ndctl.cli.main import run; run()",
                    "validate",
                    str(lab.inventory),
                    "--record",
                    str(self.record),
                    "-o",
                    "json",
                    *options,
                ],
                stdout=out,
                stderr=err,
                env={**os.environ, "NDCTL_STATE_DIR": str(folder / "state")},
            )

    def wait_for(self, reached: Callable[[Store, str], bool]) -> None:
        """Until the record shows it."""
        while time.monotonic() - self._begun < LONGEST_S:
            assert self.process.poll() is None, self.told
            try:
                with Store(self.record, create=False) as store:
                    if any(reached(store, line.id) for line in store.runs()):
                        return
            except NdctlError:
                pass  # the record is not there yet
            time.sleep(0.05)
        raise AssertionError(self.told)

    def end(self) -> tuple[int, float]:
        """(exit status, seconds it took from now)."""
        begun = time.monotonic()
        code = self.process.wait(LONGEST_S)
        return code, time.monotonic() - begun

    @property
    def told(self) -> str:
        return self._err.read_text()

    @property
    def answer(self) -> Any:
        return json.loads(self._out.read_text())

    @property
    def silent(self) -> bool:
        return not self._out.read_text()


def answered(nodes: int) -> Callable[[Store, str], bool]:
    return lambda store, run: len(store.answers.nodes(run)) >= nodes


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_the_first_ctrl_c_keeps_what_there_is_and_leaves_within_the_grace(
    lab: Lab, tmp_path: Path, sent: signal.Signals
) -> None:
    lab.faults.add("hung-nvidia-smi", node="rack02-n02")
    program = Program(lab, tmp_path, "--level", "quick")
    program.wait_for(answered(5))
    program.process.send_signal(sent)
    code, seconds = program.end()
    assert code == 130, program.told
    assert seconds < 15, "five seconds of grace, and the judging"
    run = program.answer
    assert run["interrupted"] is True and run["exit_code"] == 130
    verdicts = {rack["name"]: rack["verdict"] for rack in run["racks"]}
    assert verdicts["rack02"] == "incomplete"
    outcomes = {node["name"]: node["outcome"] for rack in run["racks"] for node in rack["nodes"]}
    assert outcomes["rack02-n02"] == "interrupted"
    assert [name for name, outcome in outcomes.items() if outcome != "ok"] == ["rack02-n02"]


@pytest.mark.parametrize(
    "sent", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)]
)
def test_the_second_ctrl_c_leaves_at_once(
    lab: Lab, tmp_path: Path, sent: tuple[signal.Signals, signal.Signals]
) -> None:
    lab.faults.add("hung-nvidia-smi", node="rack02-n02")
    program = Program(lab, tmp_path, "--level", "quick")
    program.wait_for(answered(5))
    program.process.send_signal(sent[0])
    time.sleep(1.0)
    program.process.send_signal(sent[1])
    code, seconds = program.end()
    assert code == 130
    assert seconds < 4
    assert program.silent


def jobs(program: bytes) -> set[bytes]:
    """The marks of active tests that run `program` on a node."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            if program in (process / "cmdline").read_bytes().split(b"\0"):
                environment = (process / "environ").read_bytes().split(b"\0")
                found |= {one for one in environment if one.startswith(b"NDCTL_JOB=")}
    return found


def test_sigterm_ends_active_tests_on_the_nodes_and_the_run_can_be_gone_on_with(lab: Lab, tmp_path: Path) -> None:
    lab.faults.add("hung-dcgmi", node="rack02-n02")
    options = ("--level", "acceptance", "--only", "gpu", "--rack", "2")
    cut = Program(lab, tmp_path, *options)
    mine: set[bytes] = set()

    def is_at_it(store: Store, run: str) -> bool:
        mine.update(one for one in jobs(b"dcgmi") if one.startswith(f"NDCTL_JOB={run}-".encode()))
        return bool(mine)

    cut.wait_for(is_at_it)
    cut.process.send_signal(signal.SIGTERM)
    code, _ = cut.end()
    assert code == 130 and cut.answer["interrupted"] is True, cut.told
    assert [rack["verdict"] for rack in cut.answer["racks"]] == ["incomplete"]
    assert not mine & jobs(b"dcgmi")
    lab.faults.clear()
    lab.sync()
    rest = Program(lab, tmp_path, *options, "--resume")  # a lease that was left would keep it out
    assert rest.end()[0] == 0, rest.told
    assert [rack["verdict"] for rack in rest.answer["racks"]] == ["accepted"]


def test_killed_outright_and_gone_on_with_is_as_if_undisturbed(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    options = ("--level", "standard", "--only", "gpu,nccl", "--max-nodes-under-test", "3")
    whole = Program(lab, tmp_path / "whole", *options)
    assert whole.end()[0] == 0, whole.told
    cut = Program(lab, tmp_path / "cut", *options)

    def a_rack_has_ended(store: Store, run: str) -> bool:
        return any("/" in part for part in store.plans(run))

    cut.wait_for(a_rack_has_ended)
    cut.process.send_signal(signal.SIGKILL)
    assert cut.end()[0] == -signal.SIGKILL
    rest = Program(lab, tmp_path / "cut", *options, "--resume")
    assert rest.end()[0] == 0, rest.told
    assert "had ended; no node has booted since" in rest.told
    with Store(rest.record) as store:
        (line,) = store.runs()
        assert line.exit_code == 0
    told = [{(f["check"], f["status"]) for f in rack["findings"]} for rack in rest.answer["racks"]]
    assert told == [{(f["check"], f["status"]) for f in rack["findings"]} for rack in whole.answer["racks"]]
    assert any(check.startswith("nccl.") and status == "pass" for check, status in told[0] | told[1])
    leftover = subprocess.run(["pgrep", "-f", f"NDCTL_JOB={line.id}"], capture_output=True, text=True, timeout=30)
    assert leftover.stdout == ""
