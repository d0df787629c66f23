"""`--relay rack` gives the answer that asking directly gives, and leaves nothing on any node."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from ndctl.model.events import Event
from ndctl.model.findings import Run
from ndctl.model.status import Group, Level, Verdict
from ndctl.record.store import Store
from ndctl.workflow.validate import Request, validate_inventories
from tests.e2e.lab import Lab
from tests.ssh.own_nodes import relay_folders, wait_until

pytestmark = pytest.mark.xdist_group("relay")
NODES = 5


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    one = Lab(tmp_path_factory.mktemp("lab"), nodes=NODES)
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _clean(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    before = relay_folders()
    yield
    lab.faults.clear()
    lab.sync()
    homes = [lab.world.trees.folder / vm.address / "home" for vm in lab.world.vms()]
    assert [str(home) for home in homes if (home / ".ssh" / "authorized_keys").exists()] == []
    wait_until(lambda: relay_folders() <= before)
    wait_until(lambda: not _processes("ndctl-relay"))


def _processes(word: str) -> list[str]:
    """Command lines with this word in them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and "pytest" not in line:
            found.append(line)
    return found


def ask(lab: Lab, *, relay: bool, events: list[Event] | None = None, **more: object) -> Run:
    lab.sync()
    told: list[Event] = [] if events is None else events
    request = Request(paths=(lab.inventory,), level=Level.QUICK, relay=relay)
    return validate_inventories(dataclasses.replace(request, **more), on_event=told.append)  # type: ignore[arg-type]


def gist(run: Run) -> tuple[Verdict, list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Verdict, findings and nodes, without what differs between any two runs: measured times and counters' values."""
    (rack,) = run.racks
    findings = sorted((f.check, f.node, f.subject, f.status.value, f.caused_by, f.action.value) for f in rack.findings)
    return rack.verdict, findings, [(n.name, n.status.value, n.outcome, n.detail) for n in rack.nodes]


def test_a_healthy_rack(lab: Lab) -> None:
    events: list[Event] = []
    relayed = ask(lab, relay=True, events=events)
    assert gist(relayed) == gist(ask(lab, relay=False))
    assert [event.message for event in events if "asked directly" in event.message] == []


def test_a_faulty_rack(lab: Lab) -> None:
    lab.faults.add("nvlink-down", node="rack01-n03", gpu=2, link=8)
    lab.faults.add("port-half-rate", node="rack01-n01", port="mlx5_ib2")
    relayed = ask(lab, relay=True)
    assert relayed.racks[0].verdict is Verdict.REJECTED
    assert gist(relayed) == gist(ask(lab, relay=False))


def test_a_peer_that_is_down(lab: Lab) -> None:
    lab.faults.add("node-down", node="rack01-n04")
    events: list[Event] = []
    relayed = ask(lab, relay=True, events=events)
    assert relayed.racks[0].verdict is Verdict.INCOMPLETE
    assert gist(relayed) == gist(ask(lab, relay=False))
    assert any("rack01-n04 is asked directly; through rack01-n01" in event.message for event in events)


def test_a_head_that_is_down(lab: Lab) -> None:
    lab.faults.add("node-down", node="rack01-n01")
    events: list[Event] = []
    relayed = ask(lab, relay=True, events=events)
    assert gist(relayed) == gist(ask(lab, relay=False))
    assert any("rack01-n01 is no head" in event.message for event in events)


def test_asked_twice_with_a_key_and_active_tests_between(lab: Lab) -> None:
    """Above quick level the head has a key of its own; it is gone at the end, as every test here sees."""
    run = ask(lab, relay=True, level=Level.STANDARD, groups=frozenset({Group.INFINIBAND}))
    (rack,) = run.racks
    assert [f for f in rack.findings if f.status.value in ("fail", "unknown")] == []
    assert any(f.check == "infiniband.write-bw" for f in rack.findings)


def test_the_record_says_how_it_was_asked(lab: Lab, tmp_path: Path) -> None:
    run = ask(lab, relay=True, record=tmp_path / "runs.sqlite", groups=frozenset({Group.HOST}))
    with Store(tmp_path / "runs.sqlite", create=False) as store:
        assert store.plans(run.id)[""]["relay"] == "rack"
