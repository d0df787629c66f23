"""A validation that was cut off is gone on with: what had ended is not asked again, unless it booted since."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.errors import NdctlError
from ndctl.model.events import Event
from ndctl.model.findings import Run
from ndctl.model.places import Node
from ndctl.model.status import Group, Level, Verdict
from ndctl.record.store import Store
from ndctl.workflow import engines
from ndctl.workflow.resume import this_process
from ndctl.workflow.validate import Request, validate_inventories
from tests.checks.catalogue.rack_texts import answer, healthy, identity, imex_json, node

PER_RACK = 4
INVENTORY = "cluster: near\nprofile: gb300\nssh: {known_hosts: none}\nstatic:\n"


class Killed(BaseException):
    """The end of a process in the middle of its work."""


class Nodes:
    """A transport over three racks of four nodes; dies after so many answers, and counts what it was asked."""

    def __init__(self, dies_after: int = 10_000, booted_since: Sequence[str] = ()) -> None:
        self.left = dies_after
        self.booted_since = booted_since
        self.asked: Counter[str] = Counter()
        self.identified: Counter[str] = Counter()

    user = "azureuser"

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        given: dict[Node, NodeAnswer] = {}
        self.collect(requests, lambda one: given.update({one.node: one}))
        return given

    def collect(self, requests: Mapping[Node, Sequence[Command]], keep: Callable[[NodeAnswer], None]) -> None:
        for one, commands in requests.items():
            if self.left == 0:
                raise Killed
            self.left -= 1
            only_identity = [command.id for command in commands] == ["identity"]
            (self.identified if only_identity else self.asked)[one.name] += 1
            members = [node(at, f"10.0.{one.rack[-1]}.{at}") for at in range(1, PER_RACK + 1)]
            texts: Any = healthy(members)
            told = dict(next(text for other, text in texts.items() if other.name[-3:] == one.name[-3:]))
            boot = "second" if one.name in self.booted_since else "first"
            told["identity"] = identity(one, uptime_s="90000", boot_id=f"{one.name}-{boot}")
            told["imex-domain"] = imex_json([member.address for member in members])
            keep(answer(one, {command.id: told[command.id] for command in commands if command.id in told}))

    def host_key_lines(self, node: Node) -> tuple[str, ...]:
        return ()

    def stop(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(engines, "RACKS_IN_WORK", 1)  # one rack after the other, so that the death has one place
    path = tmp_path / "near.yaml"
    racks = [", ".join(f"10.0.{rack}.{at}" for at in range(1, PER_RACK + 1)) for rack in (1, 2, 3)]
    path.write_text(INVENTORY + "".join(f"  - {{rack: {at}, nodes: [{rack}]}}\n" for at, rack in enumerate(racks, 1)))
    return Request(
        paths=(path,),
        level=Level.QUICK,
        groups=frozenset({Group.NVLINK, Group.GPU}),
        record=tmp_path / "record.db",
    )


def validate(request: Request, nodes: Nodes, told: list[Event] | None = None) -> Run:
    return validate_inventories(
        request,
        on_event=(told if told is not None else []).append,
        now=lambda: datetime(2026, 12, 2, tzinfo=UTC),
        open_transport=lambda loaded, cluster, fanout: nodes,
    )


def test_what_had_ended_is_not_asked_again(request_: Request) -> None:
    undisturbed = validate(replace(request_, record=request_.paths[0].with_name("other.db")), Nodes())
    with pytest.raises(Killed):
        validate(request_, Nodes(dies_after=PER_RACK + 2))
    nodes, told = Nodes(), []
    run = validate(replace(request_, resume=True), nodes, told)
    assert set(nodes.asked) == {"rack02-n03", "rack02-n04", *(f"rack03-n0{at}" for at in range(1, 5))}
    assert set(nodes.asked.values()) == {1}
    assert set(nodes.identified) == {f"rack01-n0{at}" for at in range(1, 5)} | {"rack02-n01", "rack02-n02"}
    assert [(rack.name, rack.verdict, rack.findings) for rack in run.racks] == [
        (rack.name, rack.verdict, rack.findings) for rack in undisturbed.racks
    ]
    said = [event.message for event in told if event.step == "resumed"]
    assert said == ["had ended; no node has booted since", "2 of 4 nodes had answered and have not booted since"]


def test_who_booted_since_is_asked_anew_and_its_rack_with_it(request_: Request) -> None:
    with pytest.raises(Killed):
        validate(request_, Nodes(dies_after=2 * PER_RACK))
    nodes = Nodes(booted_since=["rack01-n02"])
    run = validate(replace(request_, resume=True), nodes)
    assert set(nodes.asked) == {"rack01-n02", *(f"rack03-n0{at}" for at in range(1, 5))}
    with Store(request_.record) as store:
        kept = store.answers.latest(run.id, "near", "rack01-n02", "identity")
    assert kept is not None and "rack01-n02-second" in kept.stdout
    assert len(run.racks) == 3 and all(rack.verdict is not Verdict.REJECTED for rack in run.racks)


def test_a_resumed_run_is_one_run_and_can_be_made_again(request_: Request) -> None:
    from ndctl.workflow.replay import kit_from, run_again

    with pytest.raises(Killed):
        validate(request_, Nodes(dies_after=PER_RACK + 1))
    with pytest.raises(Killed):
        validate(replace(request_, resume=True), Nodes(dies_after=PER_RACK + 1 + 2))
    run = validate(replace(request_, resume=True), Nodes())
    with Store(request_.record) as store:
        assert [line.id for line in store.runs()] == [run.id]
        again = run_again(kit_from(store, run.id))
        assert set(store.answers.nodes(run.id)) == {("near", n.name) for r in run.racks for n in r.nodes}
    assert [rack.findings for rack in again.racks] == [rack.findings for rack in run.racks]


def test_nothing_to_go_on_with_is_said(request_: Request) -> None:
    with pytest.raises(NdctlError, match="there is no run of near") as none:
        validate(replace(request_, resume=True), Nodes())
    assert none.value.exit_code == 2
    whole = validate(request_, Nodes())
    with pytest.raises(NdctlError, match=f"{whole.id} .quick level. was not cut off, it is whole"):
        validate(replace(request_, resume=True), Nodes())


def test_asked_otherwise_or_of_another_inventory_is_another_run(request_: Request) -> None:
    with pytest.raises(Killed):
        validate(request_, Nodes(dies_after=1))
    with pytest.raises(NdctlError, match="level was 'quick'"):
        validate(replace(request_, resume=True, level=Level.STANDARD), Nodes())
    path = request_.paths[0]
    path.write_text(path.read_text() + "tags: {owner: fabric}\n")
    with pytest.raises(NdctlError, match="has changed since") as changed:
        validate(replace(request_, resume=True), Nodes())
    assert changed.value.exit_code == 2


def cut_off(request: Request, second: int) -> str:
    """A run that dies in its second rack, begun at this second; its id."""
    began = datetime(2026, 12, 2, 0, 0, second, tzinfo=UTC)
    with pytest.raises(Killed):
        nodes = Nodes(dies_after=PER_RACK + 1)
        validate_inventories(request, now=lambda: began, open_transport=lambda *_: nodes)
    with Store(request.record) as store:
        return store.runs()[0].id


def test_an_earlier_run_is_named_and_gone_on_with(request_: Request) -> None:
    earlier = cut_off(request_, 1)
    other = cut_off(replace(request_, groups=frozenset({Group.GPU})), 2)
    with pytest.raises(NdctlError, match=f"run {other} cannot .* asked otherwise: groups was") as refused:
        validate(replace(request_, resume=True), Nodes())
    assert refused.value.hint == f"an earlier run that was asked like this was cut off: --resume-run {earlier}"
    nodes = Nodes()
    run = validate(replace(request_, resume_run=earlier), nodes)
    assert run.id == earlier and not any(name.startswith("rack01") for name in nodes.asked)
    with pytest.raises(NdctlError, match=f"run {earlier} .quick level. was not cut off") as whole:
        validate(replace(request_, resume_run=earlier), Nodes())
    assert f"--level quick --resume-run {other}" in whole.value.hint


def test_the_newest_is_whole_and_the_one_before_was_cut_off(request_: Request) -> None:
    earlier = cut_off(request_, 1)
    newest = validate_inventories(
        request_, now=lambda: datetime(2026, 12, 3, tzinfo=UTC), open_transport=lambda *_: Nodes()
    )
    with pytest.raises(NdctlError, match=f"the last run of near, {newest.id} .*it is whole") as whole:
        validate(replace(request_, resume=True), Nodes())
    assert f"--resume-run {earlier}" in whole.value.hint


def test_a_named_run_is_of_these_inventories_and_there(request_: Request) -> None:
    with Store(request_.record) as store:
        other = store.begin_new("2026-12-02T00-00-00", "2026-12-02T00:00:00Z", "quick", ["far"])
    with pytest.raises(NdctlError, match="cannot be gone on with: it is of far"):
        validate(replace(request_, resume_run=other), Nodes())
    with pytest.raises(NdctlError, match="no run 'nonsense'") as none:
        validate(replace(request_, resume_run="nonsense"), Nodes())
    assert none.value.exit_code == 2


def test_a_run_that_is_being_made_is_left_to_its_maker(request_: Request) -> None:
    from ndctl.inventory.loader import load_many
    from ndctl.workflow.resume import Resumed, resumable

    with pytest.raises(Killed):
        validate(request_, Nodes(dies_after=1))
    inventories = load_many(request_.paths)
    with Store(request_.record) as store:
        (line,) = store.runs()
        plan = store.plans(line.id)[""]
        parent = {**this_process(), "pid": os.getppid(), "began": "1"}
        store.keep_plan(line.id, "", {**plan, "process": parent})
        # Another process of that number, which began at another time, is not the maker.
        assert isinstance(resumable(store, inventories, request_.settings, alive=lambda _: True), Resumed)
        began = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19]
        store.keep_plan(line.id, "", {**plan, "process": {**parent, "began": began}})
        with pytest.raises(NdctlError, match=f"by process {os.getppid()}") as running:
            resumable(store, inventories, request_.settings)
        assert running.value.exit_code == 10
