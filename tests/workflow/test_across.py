"""Tests between racks: who is paired, leases on both, nodes in use left out, findings at the racks they are about."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ndctl.inventory.loader import load
from ndctl.jobs.active.base import Outcome as JobOutcome
from ndctl.jobs.active.registry import active_checks
from ndctl.jobs.lease import give_back, take
from ndctl.model.answers import Command, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.events import Event
from ndctl.model.findings import Finding
from ndctl.model.places import Node, Rack, node_name
from ndctl.model.status import Group, Level, Status
from ndctl.workflow.across import AcrossTests, RackSoFar, rack_pairs
from ndctl.workflow.active import ActiveResult
from ndctl.workflow.bounds import NodeBound
from tests.jobs.local_nodes import LocalNodes
from tests.workflow.test_active import _MPIRUN

CHECK = "nccl.across-racks"
needs_ssh_keygen = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None and os.environ.get("CI") != "true", reason="no ssh-keygen on this machine"
)


class Racks:
    """Two racks of three folders each. It is a Transport."""

    user = "nobody"

    def __init__(self, folder: Path) -> None:
        self.local = LocalNodes(folder, 0)
        self.racks = []
        inventory = "cluster: lab\nprofile: gb300\nstatic:\n"
        for number in (1, 2):
            nodes = tuple(
                Node(node_name(number, n), f"rack{number:02d}", address=f"10.0.{number}.{n}") for n in (1, 2, 3)
            )
            for node in nodes:
                self.local.home(node).mkdir(parents=True)
                (self.local.root(node) / "run" / "lock").mkdir(parents=True)
            self.racks.append(Rack(f"rack{number:02d}", number, 3, nodes))
            inventory += f"  - {{rack: {number}, nodes: [{', '.join(node.address for node in nodes)}]}}\n"
        self.local.tool("mpirun", _MPIRUN)
        self.local.tool("nvidia-smi", 'cat "$HOME/apps" 2>/dev/null; true')
        self.plant()
        (folder / "lab.yaml").write_text(inventory)
        self.loaded = load(folder / "lab.yaml")
        self.events: list[Event] = []

    def plant(self, *faults: str) -> None:
        (self.local.tools / "faults").write_text("".join(f"{fault}\n" for fault in faults))
        for name in ("runs", "kinds"):
            (self.local.tools / name).write_text("")

    @property
    def launches(self) -> int:
        return len((self.local.tools / "runs").read_text().split())

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(node for rack in self.racks for node in rack.nodes)

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        return self.local.ask(requests)

    def collect(self, requests: Mapping[Node, Sequence[Command]], on_answer: Callable[[NodeAnswer], None]) -> None:
        for answer in self.ask(requests).values():
            on_answer(answer)

    def host_key_lines(self, node: Node) -> tuple[str, ...]:
        return (f"{node.address} ssh-ed25519 AAAA{node.name}",)

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def tests(self, level: Level = Level.ACCEPTANCE, **more: Any) -> AcrossTests:
        given: dict[str, Any] = {"groups": frozenset(Group), "force": False, "disabled": frozenset(), **more}
        return AcrossTests(
            self, self.loaded, level=level, holder="first@ops-1, run 1", token=f"run-{secrets.token_hex(4)}",
            on_event=self.events.append,
            **given,
        )  # fmt: skip

    def tested(self, away: Sequence[str] = ()) -> list[RackSoFar]:
        kinds = {node: OutcomeKind.UNREACHABLE if node.name in away else OutcomeKind.OK for node in self.nodes}
        return [
            RackSoFar(rack, {n: NodeAnswer(n, Outcome(kinds[n])) for n in rack.nodes}, ActiveResult())
            for rack in self.racks
        ]

    def run(self, away: Sequence[str] = (), spent_s: float = 0.0, **more: Any) -> dict[str, ActiveResult]:
        racks = self.tested(away)
        self.tests(**more).run(racks, spent_s=spent_s)
        return {one.rack.name: one.result for one in racks}

    def left(self) -> list[str]:
        found = []
        for node in self.nodes:
            found += [f"{node.name}: {path.name}" for path in self.local.home(node).glob(".ndctl*")]
            found += [f"{node.name}: {path.name}" for path in (self.local.root(node) / "run" / "lock").iterdir()]
            keys = self.local.keys(node)
            found += [f"{node.name}: key"] if keys.exists() and "ndctl" in keys.read_text() else []
        return found


@pytest.fixture
def racks(tmp_path: Path) -> Iterator[Racks]:
    two = Racks(tmp_path)
    yield two
    assert two.left() == []


def told(result: ActiveResult) -> list[tuple[str, str, Status]]:
    return [(f.check.removeprefix(CHECK).lstrip("."), f.node or f.subject, f.status) for f in result.findings]


def names(count: int) -> list[RackSoFar]:
    return [RackSoFar(Rack(f"rack{n:02d}", n, 0), {}, ActiveResult()) for n in range(1, count + 1)]


@pytest.mark.parametrize("count", [2, 3, 4, 7, 64])
def test_every_rack_is_paired_and_in_one_pair_of_a_wave(count: int) -> None:
    waves = rack_pairs(names(count))
    met = [one.rack.name for wave in waves for pair in wave for one in pair]
    assert set(met) == {f"rack{n:02d}" for n in range(1, count + 1)}
    for wave in waves:
        inside = [one.rack.name for pair in wave for one in pair]
        assert len(inside) == len(set(inside))


def test_one_rack_alone_is_asked_for_nothing(racks: Racks) -> None:
    [one, _] = racks.tested()
    racks.tests().run([one])
    assert one.result == ActiveResult() and racks.local.asked == []
    assert rack_pairs(names(1)) == []


@needs_ssh_keygen
def test_good_racks_pass_both_and_cost_two_turns(racks: Racks) -> None:
    kept: list[tuple[list[str], JobOutcome]] = []
    tested = racks.tested()
    racks.tests().run(tested, lambda some, outcome: kept.append(([rack.name for rack in some], outcome)))
    for one in tested:
        assert told(one.result) == [("", one.rack.name, Status.PASS)]
        assert one.result.required == (CHECK,) and one.result.ran
        assert one.result.findings[0].value == 380.0
    assert racks.launches == 6
    assert (racks.local.tools / "kinds").read_text().split("\n")[0].strip() == "all_reduce ib"
    [(both, outcome)] = kept
    assert both == ["rack01", "rack02"] and len(outcome.texts) == 6
    # Every node of both racks held the lease before the first launch.
    leased = {name for asked in racks.local.asked for name, ids in asked.items() if "lease" in ids}
    assert leased == {node.name for node in racks.nodes}


@needs_ssh_keygen
def test_a_slow_node_is_its_racks_and_the_other_rack_passes(racks: Racks) -> None:
    racks.plant("slow 10.0.2.2 250")
    results = racks.run()
    assert told(results["rack01"]) == [("", "rack01", Status.PASS)]
    assert told(results["rack02"]) == [("slow-node", "rack02-n02", Status.FAIL), ("", "rack02", Status.PASS)]
    assert "rack01-n02" in results["rack02"].findings[0].message


@needs_ssh_keygen
def test_a_path_is_told_of_both_racks_after_it_was_asked_again(racks: Racks) -> None:
    racks.plant("path 10.0.1.1 10.0.2.1")
    results = racks.run()
    for result in results.values():
        assert ("path", "rack01-n01 ↔ rack02-n01", Status.WARN) in told(result)
    assert racks.launches == 3 * 3 + 1


@needs_ssh_keygen
def test_nodes_in_use_are_left_out_and_forced_only_when_told(racks: Racks) -> None:
    (racks.local.home(racks.nodes[4]) / "apps").write_text("GPU-1, 4711, /usr/bin/python3\n")
    results = racks.run()
    assert ("left-out", "rack02-n02", Status.SKIP) in told(results["rack02"])
    assert not any(kind == "left-out" for kind, _, _ in told(results["rack01"]))
    assert "4711" in results["rack02"].findings[0].message and racks.launches == 4
    racks.plant()
    assert all(status is Status.PASS for one in racks.run(force=True).values() for _, _, status in told(one))


def test_a_rack_that_another_tests_is_skipped_for_both(racks: Racks) -> None:
    other = take(racks.local, racks.nodes[5:], "second@ops-2, run 9", "other", 600)
    results = racks.run()
    for result in results.values():
        assert [(kind, status) for kind, _, status in told(result)] == [("", Status.SKIP)]
        assert "second@ops-2, run 9" in result.findings[0].message and not result.ran
    assert racks.launches == 0 and other.taken
    give_back(racks.local, other)


def test_a_rack_that_does_not_answer_is_said_of_both(racks: Racks) -> None:
    results = racks.run(away=[node.name for node in racks.nodes[3:]])
    for result in results.values():
        assert [f.message for f in result.findings] == ["no node of rack02 answered"]
        assert result.required == (CHECK,)


@needs_ssh_keygen
def test_no_more_nodes_than_allowed_are_under_test_as_many_of_each_rack(racks: Racks) -> None:
    bound = NodeBound(4)
    results = racks.run(bound=bound)
    out = [who for one in results.values() for kind, who, _ in told(one) if kind == "left-out"]
    assert out == ["rack01-n03", "rack02-n03"] and racks.launches == 4
    assert bound.take(4, lambda: False) == 4  # all were given back


def test_a_spent_budget_leaves_it_out(racks: Racks) -> None:
    results = racks.run(budget_s=600.0, spent_s=550.0)
    assert all("the budget of 10m is spent" in one.findings[0].message for one in results.values())
    assert racks.local.asked == []


@pytest.mark.parametrize(
    "more",
    [{"level": Level.STANDARD}, {"groups": frozenset({Group.GPU})}, {"disabled": frozenset({CHECK})}],
    ids=["level", "group", "disabled"],
)
def test_it_is_not_asked_for_where_it_was_not_chosen(racks: Racks, more: dict[str, Any]) -> None:
    assert all(one == ActiveResult() for one in racks.run(**more).values())


def test_stopped_before_it_began(racks: Racks) -> None:
    tests = racks.tests()
    tests.stop()
    both = racks.tested()
    tests.run(both)
    assert {f.message for one in both for f in one.result.findings} == {"interrupted"}


def test_the_racks_own_tests_do_not_run_it() -> None:
    [check] = [check for check in active_checks() if check.across]
    assert check.id == CHECK and check.level is Level.ACCEPTANCE


def test_findings_of_the_other_rack_are_not_taken(racks: Racks, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        Finding(check=CHECK, status=Status.PASS, subject="rack01", message="x"),
        Finding(check=f"{CHECK}.slow-node", status=Status.FAIL, subject="s", node="rack02-n01", message="x"),
        Finding(check=f"{CHECK}.path", status=Status.WARN, subject="rack01-n01 ↔ rack02-n01", message="x"),
    ]
    tests = racks.tests()
    monkeypatch.setattr(tests, "_tested", lambda left, right, spent: JobOutcome(findings=list(found)))
    both = racks.tested()
    tests.run(both)
    assert both[0].result.findings == [found[0], found[2]] and both[1].result.findings == [found[1], found[2]]
