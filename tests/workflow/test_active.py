"""The active tests of a rack, over folders that stand in for nodes: real scripts, a stand-in mpirun.

The stand-in reads the hostfile and prints a table whose figure is that of the worst address in it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ndctl.checks.root_cause import attribute
from ndctl.inventory.loader import Loaded
from ndctl.inventory.loader import load as load_inventory
from ndctl.jobs.active.registry import active_checks
from ndctl.jobs.lease import take
from ndctl.model.answers import Command, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.events import Event
from ndctl.model.findings import Finding
from ndctl.model.places import Node, Rack
from ndctl.model.status import Action, Group, Level, Status
from ndctl.workflow.active import ActiveResult, ActiveTests
from tests.jobs.local_nodes import LocalNodes

NCCL_CHECK = "nccl.all-reduce"
PAIRS_CHECK = "infiniband.write-bw"

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None and os.environ.get("CI") != "true", reason="no ssh-keygen on this machine"
)

_MPIRUN = r"""
here=${0%/*}; n=$(wc -l < hostfile); ranks=$((n * 4)); wrong=0; share=1000; end=
echo "$n" >> "$here/runs"
count=$(wc -l < "$here/runs")
test=${*%%_perf *}; test=${test##*/}
mode=nvls; base=950; via=P2P/MNNVL; rail=
case "$*" in *NCCL_NVLS_ENABLE=0*) mode=nvlink; base=450 ;; esac
case "$*" in *NCCL_MNNVL_ENABLE=0*) mode=ib; base=380; via=NET/IB/0/GDRDMA ;; esac
case "$*" in *NCCL_IB_HCA==*) rail=${*##*NCCL_IB_HCA==}; rail=${rail%% *}; rail=${rail%%\'*}; base=95 ;; esac
echo "$test $mode $rail" >> "$here/kinds"
has() { grep -q "^$1 " hostfile; }
on() { # whether a fault of this layer shows in this run
  case ${1:-host} in
  host) true ;;
  nvlink) [ $mode != ib ] ;;
  ib) [ $mode = ib ] ;;
  mlx5_*) [ $mode = ib ] && { [ -z "$rail" ] || [ "$rail" = "$1" ]; } ;;
  *) [ $mode = "$1" ] ;;
  esac
}
# Faults are told as the figure over NVLink with NVLS: of 950.
while read -r kind one other layer; do
  on "$layer" || continue
  case $kind in
  slow) has "$one" && share=$((other * 1000 / 950)) ;;
  path) has "$one" && has "$other" && share=526 ;;
  whole) [ "$n" -ge "$one" ] && share=526 ;;
  wrong) has "$one" && wrong=7 ;;
  socket) has "$one" && via=NET/Socket/0 && share=5 ;;
  once) [ "$count" = "$one" ] && share=526 ;;
  fail) has "$one" && end="x: Test NCCL failure common.cu:1 'unhandled system error'" ;;
  refuse) has "$one" && { echo "ssh: connect to host $one port 22: Connection refused"
    echo "ORTE was unable to reliably start one or more daemons."; exit 1; } ;;
  wait) : > "$here/waiting"; sleep 60 & wait $! ;;
  esac
done < "$here/faults"
[ -z "$end" ] || { echo "$end"; exit 3; }
busbw=$(((base * share + 500) / 1000))
echo "# Collective test starting: ${test}_perf"
i=0; while [ $i -lt $ranks ]; do
  echo "#  Rank $i Group  0 Pid $((i + 100)) on h$((i / 4)) device  $((i % 4)) [0018:01:00] NVIDIA GB300"; i=$((i + 1))
done
i=0; while [ $mode = ib ] && [ $i -lt $n ]; do
  rails="[0]mlx5_ib0:1/IB [1]mlx5_ib1:1/IB [2]mlx5_ib2:1/IB [3]mlx5_ib3:1/IB"; [ -z "$rail" ] || rails="[0]$rail:1/IB"
  echo "h$i:100:100 [0] NCCL INFO NET/IB : Using $rails [RO]; OOB eth0:10.0.0.1<0>"
  for r in 0 1 2 3; do
    [ -z "$rail" ] || r=0
    echo "h$i:100:100 [0] NCCL INFO Channel 0$r/0 : 3[3] -> 4[0] [send] via NET/IB/$r/GDRDMA"
  done; i=$((i + 1))
done
echo "h0:100:100 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via $via"
inside=0; case $test in alltoall|sendrecv) inside=N/A ;; esac
echo "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
echo " 17179869184    4294967296     float     sum      -1  36171.1  474.96  $busbw.00  $wrong  36170.0  474.97  $busbw.00  $inside"
if [ $wrong = 0 ]; then echo "# Out of bounds values : 0 OK"; else echo "# Out of bounds values : $wrong FAILED"; fi
echo "# Avg bus bandwidth    : $busbw"
[ $wrong = 0 ]
"""  # noqa: E501


class Rig:
    """A rack of folders, with what is planted on it. It is a Transport."""

    def __init__(self, folder: Path, count: int = 8) -> None:
        self.nodes = LocalNodes(folder, count)
        self.rack = Rack("rack01", 1, count, self.nodes.nodes)
        self.events: list[Event] = []
        self.plant()
        self.nodes.tool("mpirun", _MPIRUN)
        self.nodes.tool("nvidia-smi", 'cat "$HOME/apps" 2>/dev/null; [ ! -e "$HOME/broken" ]')
        inventory = folder / "lab.yaml"
        addresses = ", ".join(node.address for node in self.nodes.nodes)
        inventory.write_text(f"cluster: lab\nprofile: gb300\nstatic:\n  - {{rack: 1, nodes: [{addresses}]}}\n")
        self.loaded: Loaded = load_inventory(inventory)

    user = "nobody"

    def plant(self, *faults: str) -> None:
        (self.nodes.tools / "faults").write_text("".join(f"{fault}\n" for fault in faults))
        (self.nodes.tools / "runs").write_text("")
        (self.nodes.tools / "kinds").write_text("")

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        return self.nodes.ask(requests)

    def collect(self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None]) -> None:
        for answer in self.ask(requests).values():
            on_answer(answer)

    def host_key_lines(self, node: Node) -> tuple[str, ...]:
        return (f"{node.address} ssh-ed25519 AAAA{node.name}",)

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def tests(self, group: Group = Group.NCCL, force: bool = False, only: str = "") -> ActiveTests:
        """The tests of standard level, or the one named."""
        level = Level.ACCEPTANCE if only else Level.STANDARD
        disabled = {check.id for check in active_checks() if check.id != only} if only else set()
        return ActiveTests(
            self, self.loaded, level=level, groups=frozenset({group}), force=force,
            holder="first@ops-1, run 1", token=f"run-{secrets.token_hex(4)}",
            disabled=frozenset(disabled), on_event=self.events.append,
        )  # fmt: skip

    def run(self, suspects: Sequence[str] = (), **more: Any) -> ActiveResult:
        answers = {node: NodeAnswer(node, Outcome(OutcomeKind.OK)) for node in self.nodes.nodes}
        return self.tests(**more).run(self.rack, answers, frozenset(suspects))

    @property
    def kinds(self) -> list[str]:
        """What each mpirun ran: test, layer that is on, rail."""
        return [line.strip() for line in (self.nodes.tools / "kinds").read_text().splitlines()]

    @property
    def runs(self) -> list[int]:
        """How many nodes took part in each mpirun."""
        return [int(line) for line in (self.nodes.tools / "runs").read_text().split()]

    def left(self) -> list[str]:
        found = []
        for node in self.nodes.nodes:
            found += [f"{node.name}: {path.name}" for path in self.nodes.home(node).glob(".ndctl*")]
            found += [f"{node.name}: {path.name}" for path in (self.nodes.root(node) / "run" / "lock").iterdir()]
            keys = self.nodes.keys(node)
            found += [f"{node.name}: key"] if keys.exists() and "ndctl" in keys.read_text() else []
        return found


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """After every test nothing is left on the nodes: no key, no directory, no lease."""
    one = Rig(tmp_path)
    yield one
    assert one.left() == []


def bad(result: ActiveResult) -> list[Finding]:
    """What stands, as the rack's judge sees it."""
    statuses = (Status.FAIL, Status.WARN, Status.UNKNOWN)
    return [f for f in attribute(result.findings) if f.status in statuses and not f.caused_by]


def test_a_healthy_rack_costs_one_run(rig: Rig) -> None:
    result = rig.run()
    assert [(f.check, f.status, f.value) for f in result.findings] == [(NCCL_CHECK, Status.PASS, 950.0)]
    assert rig.runs == [8] and result.ran and result.required == (NCCL_CHECK,)
    assert [(m["metric"], m["value"]) for m in result.measurements] == [("nccl.all_reduce.busbw", 950.0)]
    assert [(node, command) for node, command, _ in result.texts] == [("rack01-n01", "nccl-all_reduce-all")]


def test_a_slow_node_is_one_finding_with_its_figure_and_the_tests_spent(rig: Rig) -> None:
    rig.plant("slow 10.0.0.6 500")
    result = rig.run()
    [finding] = bad(result)
    assert (finding.check, finding.node, finding.status) == (f"{NCCL_CHECK}.slow-node", "rack01-n06", Status.FAIL)
    assert finding.value == 500.0 and finding.unit == "GB/s" and "890" in finding.expected and finding.source
    spent = int(re.search(r"tests spent: (\d+) tests", finding.message)[1])  # type: ignore[index]
    more = int(re.search(r"(\d+) more tests", finding.cause)[1])  # type: ignore[index]
    assert spent + more == len(rig.runs) and (spent, more) == (9, 8)
    assert "without it, NCCL all_reduce 950 GB/s at 16 GiB over 7 nodes" in finding.message
    assert finding.action is Action.REPLACE_AND_REPORT and finding.cause
    rack = next(f for f in attribute(result.findings) if f.check == f"{NCCL_CHECK}.slow")
    assert rack.caused_by == f"{NCCL_CHECK}.slow-node@rack01-n06" and "rack01-n06" in rack.cause
    passed = [f for f in result.findings if f.status is Status.PASS]
    assert [f.subject for f in passed] == ["rack01 without rack01-n06"]
    story = next(text for _, command, text in result.texts if command == "nccl-isolation")
    assert "rack01-n06 fails with different partners that are good: accused" in story
    assert finding.evidence == "rack01-n01/nccl-isolation"
    assert min(rig.runs) >= 4  # no group whose floor is looser than the rack's


def test_a_mildly_slow_node_is_a_warning(rig: Rig) -> None:
    rig.plant("slow 10.0.0.6 720")
    [finding] = bad(rig.run())
    assert (finding.check, finding.node, finding.status) == (f"{NCCL_CHECK}.slow-node", "rack01-n06", Status.WARN)
    assert finding.action is not Action.REPLACE_AND_REPORT


@pytest.mark.parametrize(
    ("fault", "word", "action"),
    [
        ("wrong 10.0.0.3 x", "error-node", Action.REPLACE_AND_REPORT),
        ("fail 10.0.0.3 x", "error-node", Action.INVESTIGATE),
        ("socket 10.0.0.3 x", "fall-back-node", Action.RESTART_IMEX),
    ],
)
def test_other_faults_are_located_too(rig: Rig, fault: str, word: str, action: Action) -> None:
    rig.plant(fault)
    [finding] = bad(rig.run())
    assert (finding.check, finding.node) == (f"{NCCL_CHECK}.{word}", "rack01-n03")
    assert finding.action is action


def test_two_slow_nodes_are_two_findings(rig: Rig) -> None:
    rig.plant("slow 10.0.0.2 500", "slow 10.0.0.7 400")
    findings = bad(rig.run())
    assert {(f.node, f.value) for f in findings} == {("rack01-n02", 500.0), ("rack01-n07", 400.0)}


def test_a_path_names_no_node(rig: Rig) -> None:
    rig.plant("path 10.0.0.2 10.0.0.7")
    [finding] = bad(rig.run())
    assert finding.check == f"{NCCL_CHECK}.path" and finding.node == ""
    assert finding.subject == "rack01-n02 ↔ rack01-n07"


def test_a_passing_disturbance_is_a_warning_and_the_rack_passes(rig: Rig) -> None:
    rig.plant("once 1 x")
    result = rig.run()
    [finding] = bad(result)
    assert finding.check == f"{NCCL_CHECK}.transient" and finding.status is Status.WARN
    assert finding.value == 500.0 and finding.action is Action.WATCH
    assert [(f.check, f.subject) for f in result.findings if f.status is Status.PASS] == [(NCCL_CHECK, "rack01")]
    assert rig.runs[0] == rig.runs[-1] == 8


def test_two_nodes_cannot_be_told_apart(tmp_path: Path) -> None:
    rig = Rig(tmp_path, count=2)
    rig.plant("slow 10.0.0.2 400")
    [finding] = bad(rig.run())
    assert finding.check == f"{NCCL_CHECK}.slow" and finding.node == ""
    assert "rack01-n01, rack01-n02 cannot be told apart" in finding.cause


def test_who_failed_a_passive_check_is_left_out_first(rig: Rig) -> None:
    rig.plant("slow 10.0.0.6 500")
    result = rig.run(suspects=["rack01-n06"])
    assert rig.runs == [8, 7]
    slow = next(f for f in result.findings if f.check == f"{NCCL_CHECK}.slow")
    assert slow.cause == "rack01-n06; without, NCCL all_reduce 950 GB/s at 16 GiB over 7 nodes"
    assert [f.subject for f in result.findings if f.status is Status.PASS] == ["rack01 without rack01-n06"]


def test_another_culprit_beside_the_suspects_is_looked_for_among_the_others(rig: Rig) -> None:
    rig.plant("slow 10.0.0.6 500", "slow 10.0.0.1 450")
    result = rig.run(suspects=["rack01-n06"])
    passive = Finding(
        check="nvlink.links.link-down", status=Status.FAIL, subject="GPU 2 link 8", node="rack01-n06", message="down"
    )
    result.findings.append(passive)
    assert {(f.check, f.node) for f in bad(result)} == {
        ("nvlink.links.link-down", "rack01-n06"), (f"{NCCL_CHECK}.slow-node", "rack01-n01"),
    }  # fmt: skip


def test_a_launch_that_fails_measures_nothing_and_accuses_nobody(rig: Rig) -> None:
    rig.plant("refuse 10.0.0.5 x")
    [finding] = bad(rig.run())
    assert (finding.check, finding.status, finding.node) == (f"{NCCL_CHECK}.no-result", Status.UNKNOWN, "")
    assert "rack01-n05" in finding.message
    assert rig.runs == [8]


def test_an_isolation_that_cannot_go_on_says_why(rig: Rig) -> None:
    rig.plant("slow 10.0.0.6 500")

    def other_takes_over(requests: Mapping[Node, Sequence[Command]]) -> None:
        ids = {command.id for commands in requests.values() for command in commands}
        if "nccl-cleanup" in ids and not taken:
            taken.append(True)
            for node in rig.nodes.nodes:
                path = rig.nodes.root(node) / "run" / "lock" / "ndctl-active-test"
                path.write_text("99999999999\nother\nsecond@ops-2, since noon\n")

    taken: list[bool] = []
    rig.nodes.watch = other_takes_over
    result = rig.run()
    [finding] = bad(result)
    assert finding.check == f"{NCCL_CHECK}.slow" and "who it is was not found" in finding.cause
    assert "second@ops-2" in finding.cause
    assert rig.runs == [8]
    assert len(rig.left()) == 8  # the other's lease is not ours to remove
    for node in rig.nodes.nodes:
        (rig.nodes.root(node) / "run" / "lock" / "ndctl-active-test").unlink()


def test_a_node_in_use_is_left_out_and_the_others_are_tested(rig: Rig) -> None:
    (rig.nodes.home(rig.nodes.nodes[2]) / "apps").write_text("GPU-1, 4711, /usr/bin/python3\nGPU-2, 4711, x\n")
    result = rig.run()
    left = [f for f in result.findings if f.status is Status.SKIP]
    assert [(f.check, f.node) for f in left] == [(f"{NCCL_CHECK}.left-out", "rack01-n03")]
    assert "python3 4711" in left[0].message or "x 4711" in left[0].message
    assert rig.runs == [7]
    assert [f.status for f in result.findings if f.check == NCCL_CHECK] == [Status.PASS]
    assert rig.left() == []


def test_force_tests_nodes_in_use_and_says_so(rig: Rig) -> None:
    (rig.nodes.home(rig.nodes.nodes[2]) / "apps").write_text("GPU-1, 4711, /usr/bin/python3\n")
    result = rig.run(force=True)
    assert rig.runs == [8] and result.findings[0].status is Status.PASS
    assert result.remarks == ["rack01-n03 was tested all the same (--force): its GPUs are in use: python3 4711"]
    assert any("--force" in event.message for event in rig.events)


def test_where_all_nodes_are_in_use_nothing_runs(rig: Rig) -> None:
    for node in rig.nodes.nodes:
        (rig.nodes.home(node) / "apps").write_text("GPU-1, 4711, /usr/bin/python3\n")
    result = rig.run()
    assert rig.runs == [] and not result.ran and rig.left() == []
    assert {f.status for f in result.findings} == {Status.SKIP}
    assert any(f.check == NCCL_CHECK and "python3 4711" in f.message for f in result.findings)


def test_a_node_that_does_not_tell_is_left_out_and_unknown(rig: Rig) -> None:
    (rig.nodes.home(rig.nodes.nodes[2]) / "broken").touch()
    result = rig.run()
    assert rig.runs == [7]
    assert [(f.check, f.node, f.status) for f in bad(result)] == [
        (f"{NCCL_CHECK}.left-out", "rack01-n03", Status.UNKNOWN)
    ]
    assert [f.status for f in result.findings if f.check == NCCL_CHECK] == [Status.PASS]


def test_an_answer_that_is_not_understood_is_not_idle(rig: Rig) -> None:
    (rig.nodes.home(rig.nodes.nodes[2]) / "apps").write_text("[Not Supported]\n")
    assert ("rack01-n03", Status.UNKNOWN) in {(f.node, f.status) for f in rig.run().findings}


def test_a_rack_that_another_tests_is_skipped_with_its_holder(rig: Rig) -> None:
    other = take(rig.nodes, rig.nodes.nodes[:1], "second@ops-2, run 9", "other", 600)
    result = rig.run()
    assert [(f.check, f.status) for f in result.findings] == [(NCCL_CHECK, Status.SKIP)]
    assert "second@ops-2, run 9" in result.findings[0].message
    assert rig.runs == [] and other.taken
    from ndctl.jobs.lease import give_back

    give_back(rig.nodes, other)


def test_stopping_ends_the_run_and_clears_up(rig: Rig) -> None:
    rig.plant("wait x x")
    tests = rig.tests()

    def stop_when_running() -> None:
        end = time.monotonic() + 60
        while not (rig.nodes.tools / "waiting").exists() and time.monotonic() < end:
            time.sleep(0.02)
        tests.stop()

    thread = threading.Thread(target=stop_when_running)
    thread.start()
    answers = {node: NodeAnswer(node, Outcome(OutcomeKind.OK)) for node in rig.nodes.nodes}
    begun = time.monotonic()
    result = tests.run(rig.rack, answers, frozenset())
    thread.join()
    assert time.monotonic() - begun < 50
    assert not any(f.status is Status.PASS for f in result.findings)
    assert tests.run(rig.rack, answers, frozenset()).findings[0].message == "interrupted"


def test_fewer_than_two_nodes_are_no_collective(rig: Rig) -> None:
    answers = {rig.nodes.nodes[0]: NodeAnswer(rig.nodes.nodes[0], Outcome(OutcomeKind.OK))}
    result = rig.tests().run(rig.rack, answers, frozenset())
    assert [(f.status, f.message) for f in result.findings] == [
        (Status.SKIP, "1 node of the rack can be tested; 2 are needed")
    ]
    assert rig.tests(Group.INFINIBAND).run(rig.rack, answers, frozenset()).required == (PAIRS_CHECK,)


def test_ctrl_c_while_a_rack_is_tested_ends_it_clears_up_and_is_judged(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ndctl.model.status import Level, Verdict
    from ndctl.record.store import Store
    from ndctl.workflow.replay import kit_from, run_again
    from ndctl.workflow.validate import Request, validate_inventories

    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    rig.plant("wait x x")

    def interrupt_when_running() -> None:
        end = time.monotonic() + 60
        while not (rig.nodes.tools / "waiting").exists() and time.monotonic() < end:
            time.sleep(0.02)
        if (rig.nodes.tools / "waiting").exists():
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt_when_running)
    thread.start()
    request = Request(
        paths=(rig.loaded.path,), groups=frozenset({Group.NCCL}), level=Level.STANDARD, record=tmp_path / "record.db"
    )
    run = validate_inventories(request, open_transport=lambda *_: rig)
    thread.join()
    assert run.interrupted and run.exit_code == 130
    assert [rack.verdict for rack in run.racks] == [Verdict.INCOMPLETE]
    # That it gave no result was our doing: no node and no launch is blamed for it.
    told = [(f.check, f.status, f.message) for f in run.racks[0].findings if f.check.startswith("nccl.")]
    assert told == [(NCCL_CHECK, Status.SKIP, "interrupted")]
    assert run.racks[0].nodes[0].outcome == "ok"
    with Store(tmp_path / "record.db", create=False) as store:
        again = run_again(kit_from(store, "last"))
    assert again.racks == run.racks
