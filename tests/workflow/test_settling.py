"""A rack that still starts is waited for, with a clock of its own, and judged by what it says in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.events import Event
from ndctl.model.findings import Run
from ndctl.model.places import Node
from ndctl.model.status import Group, Level, Verdict
from ndctl.workflow.gathered import SETTLE_EVERY_S, SETTLE_S
from ndctl.workflow.validate import Request, validate_inventories
from tests.checks.catalogue.rack_texts import answer, gpu_xml, healthy, identity, imex_json, node, smi_xml

INVENTORY = "cluster: near\nprofile: gb300\nssh: {known_hosts: none}\nstatic:\n  - {rack: 1, nodes: [%s]}\n"
STARTING = smi_xml([gpu_xml(i, state="In Progress", status="N/A", cliqueId="N/A", clusterUuid="N/A") for i in range(4)])


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))


class Rack:
    """A transport over 18 nodes whose third one is ready at a moment of the clock; keeps what it was asked."""

    def __init__(self, ready_at: float, uptime_s: float) -> None:
        self.now = 0.0
        self.ready_at, self.uptime_s = ready_at, uptime_s
        self.asked: list[Mapping[Node, Sequence[Command]]] = []
        self.slept: list[float] = []

    @property
    def user(self) -> str:
        return "azureuser"

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        given: dict[Node, NodeAnswer] = {}
        self.collect(requests, lambda one: given.update({one.node: one}))
        return given

    def host_key_lines(self, node: Node) -> tuple[str, ...]:
        return ()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def collect(self, requests: Mapping[Node, Sequence[Command]], keep: Callable[[NodeAnswer], None]) -> None:
        self.asked.append(requests)
        texts: Any = healthy([node(number, f"10.0.0.{number}") for number in range(1, 19)])
        by_name = {one.name: text for one, text in texts.items()}
        for one, commands in requests.items():
            told = dict(by_name[one.name])
            told["identity"] = identity(one, uptime_s=str(self.uptime_s + self.now))
            told["imex-domain"] = imex_json([f"10.0.0.{number}" for number in range(1, 19)])
            if one.name == "rack01-n03" and self.now < self.ready_at:
                told["nvidia-smi-xml"] = STARTING
            keep(answer(one, {command.id: told[command.id] for command in commands if command.id in told}))

    def stop(self) -> None: ...

    def close(self) -> None: ...


def validate(rack: Rack, folder: Path, told: list[Event]) -> Run:
    path = folder / "near.yaml"
    path.write_text(INVENTORY % ", ".join(f"10.0.0.{number}" for number in range(1, 19)))
    request = Request(paths=(path,), level=Level.QUICK, groups=frozenset({Group.NVLINK, Group.GPU}))
    return validate_inventories(
        request,
        on_event=told.append,
        now=lambda: datetime(2026, 12, 2, tzinfo=UTC),
        open_transport=lambda loaded, cluster, fanout: rack,
        clock=lambda: rack.now,
        sleep=rack.sleep,
    )


def test_a_node_that_registers_after_its_boot_is_waited_for_and_accepted(tmp_path: Path) -> None:
    rack, told = Rack(ready_at=40.0, uptime_s=100.0), []
    run = validate(rack, tmp_path, told)
    assert run.racks[0].verdict is Verdict.ACCEPTED
    assert sum(rack.slept) == SETTLE_EVERY_S * 3
    assert [event.rack for event in told if event.status == "waiting"] == ["rack01"] * 3


def test_it_is_asked_again_for_fabric_and_imex_and_not_for_first_readings(tmp_path: Path) -> None:
    rack = Rack(ready_at=10.0, uptime_s=100.0)
    validate(rack, tmp_path, [])
    first, again = rack.asked
    assert {len(commands) for commands in again.values()} and len(again) == 18
    ids = {command.id for commands in again.values() for command in commands}
    assert {"nvidia-smi-xml", "imex-domain"} <= ids
    assert "nvlink-errors-before" not in ids and "kernel-log" not in ids
    assert ids < {command.id for commands in first.values() for command in commands}


def test_what_does_not_settle_is_unknown_after_the_deadline(tmp_path: Path) -> None:
    rack = Rack(ready_at=1e9, uptime_s=100.0)
    run = validate(rack, tmp_path, [])
    assert sum(rack.slept) == SETTLE_S
    assert run.racks[0].verdict is Verdict.INCOMPLETE
    assert any(f.check == "nvlink.fabric.settling" and f.node == "rack01-n03" for f in run.racks[0].findings)


def test_long_after_the_boot_nobody_waits(tmp_path: Path) -> None:
    rack = Rack(ready_at=1e9, uptime_s=90_000.0)
    assert validate(rack, tmp_path, []).racks[0].verdict is Verdict.INCOMPLETE
    assert rack.slept == [] and len(rack.asked) == 1


def test_a_rack_that_is_ready_is_not_asked_twice(tmp_path: Path) -> None:
    rack = Rack(ready_at=0.0, uptime_s=100.0)
    assert validate(rack, tmp_path, []).racks[0].verdict is Verdict.ACCEPTED
    assert len(rack.asked) == 1
