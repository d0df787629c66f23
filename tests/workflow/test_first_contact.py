"""First contact against the embedded region, and against nodes that tell other things than expected."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from ndctl.inventory.loader import Loaded, load
from ndctl.inventory.proven import answers
from ndctl.model.answers import Command, CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.first_contact import FactNow, Standing, first_contact_dict
from ndctl.model.places import Cluster, Node, Rack
from ndctl.model.status import Level
from ndctl.profiles.open_facts import open_facts
from ndctl.report import schemas
from ndctl.ssh.settings import SshSettings
from ndctl.workflow.bootstrap import Ask, Chain
from ndctl.workflow.first_contact import Kept, first_contact
from ndctl.workflow.recording import inventory_part
from ndctl.workflow.remembered import remembered_inventory
from ndctl.workflow.remote_rack import RackOrder
from ndctl.workflow.state_dir import cluster_dir
from ndctl.workflow.validate import Request

if TYPE_CHECKING:
    from conftest import Region

NOW = datetime(2026, 12, 2, 3, 20, 11, tzinfo=UTC)
MEMORY = "MemTotal:       904809536 kB\nMemFree: 1 kB\n"
HEALTHY = {"port-rate": "800 Gb/sec (4X XDR)\n" * 4, "host-memory": MEMORY, "gpu-memory": "277.5\n" * 4,
           "c2c-links": "5\n" * 4, "umad": "no\n"}  # fmt: skip

OTHER = '{"schema": "ndctl.first-contact-answers/1", "answers": {"umad": {"value": "x"}}}'


class Nodes:
    """A transport whose nodes say what the test says."""

    def __init__(self, said: Mapping[str, Mapping[str, str]] | None, ok: bool = True) -> None:
        self._said, self._ok = said, ok

    def __call__(self, loaded: Loaded, cluster: Cluster, fanout: int) -> Any:
        return self

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        outcome = Outcome(OutcomeKind.OK if self._ok else OutcomeKind.REFUSED)
        found = {}
        for node, commands in requests.items():
            texts = {**HEALTHY, **(self._said or {}).get(node.name, {})} if self._ok else {}
            found[node] = NodeAnswer(
                node, outcome, {c.id: CommandResult(c.id, 0, texts[c.id]) for c in commands if c.id in texts}
            )
        return found

    def close(self) -> None:
        pass


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "lab.yaml"
    (tmp_path / "known_hosts").write_text("")
    path.write_text(
        "cluster: lab\nprofile: gb300\nssh: {known_hosts: known_hosts}\n"
        "static:\n  - {rack: 1, nodes: [127.0.0.1, 127.0.0.2, 127.0.0.3]}\n"
    )
    return path


def walked(path: Path, nodes: Nodes, **options: Any) -> dict[str, FactNow]:
    loaded = load(path)
    kept = Kept(loaded, lambda: NOW)
    found = first_contact(loaded, kept, open_transport=nodes, **options)
    told = first_contact_dict("lab", str(path), loaded.profile.name, found.nodes, found.answered, found.facts)
    told = json.loads(json.dumps(told))
    assert [e.message for e in Draft202012Validator(schemas.load("first-contact")).iter_errors(told)] == []
    return {one.id: one for one in found.facts}


def test_what_racks_confirm_is_kept_and_becomes_the_source(lab: Path) -> None:
    found = walked(lab, Nodes(None))
    assert found["port-rate"].standing is Standing.CONFIRMED and found["port-rate"].found.value == 800
    assert "single-placement-group" not in found, "racks that are not on Azure are not asked about it"
    assert found["sharp"].standing is Standing.OPEN and "--answer sharp=" in found["sharp"].next_step
    rate = load(lab).profile.infiniband.rate_gbps
    assert (rate.value, rate.mark) == (800.0, "V")
    assert rate.origin == "first contact with lab, found: 8 × 800, on 2 of 2 nodes, 2026-12-02"


def test_what_racks_tell_otherwise_changes_nothing_until_a_person_says_so(lab: Path) -> None:
    slow = {f"rack01-n{n:02d}": {"port-rate": "400 Gb/sec (4X NDR)\n" * 4} for n in (1, 2)}
    found = walked(lab, Nodes(slow))["port-rate"]
    assert found.standing is Standing.DIFFERS and found.found.value == 400
    assert found.next_step.endswith(f"ndctl first-contact {lab} --answer port-rate=400")
    assert load(lab).profile.infiniband.rate_gbps.value == 800
    Kept(load(lab), lambda: NOW).answer(["port-rate=400"])
    assert load(lab).profile.infiniband.rate_gbps.value == 400
    assert "answered by" in load(lab).profile.infiniband.rate_gbps.origin
    assert walked(lab, Nodes(slow))["port-rate"].standing is Standing.ANSWERED
    assert walked(lab, Nodes(None))["port-rate"].standing is Standing.DIFFERS, "the racks contradict the answer"
    Kept(load(lab), lambda: NOW).answer(["port-rate="])
    assert load(lab).profile.infiniband.rate_gbps.value == 800


def test_a_replay_and_a_worker_go_by_the_same_answers(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both judge with a profile of their own, far from this cluster's state folder."""
    Kept(load(lab), lambda: NOW).answer(["port-rate=400", "c2c-links=10"])
    loaded = load(lab)
    part = json.loads(json.dumps(inventory_part(loaded)))
    order = RackOrder(
        version="1", inventory=loaded.inventory.model_dump(mode="json"), path=str(lab), digest=loaded.digest,
        profile=loaded.profile.name, proven=loaded.proven, settings=SshSettings(user="x"), rack=Rack("rack01", 1, 3),
        request=Request(paths=(lab,)), today=NOW.date(), token="t", holder="h", host_keys=(), past=None, known={},
    )  # fmt: skip
    sent = pickle.dumps(order)
    monkeypatch.setenv("NDCTL_STATE_DIR", str(lab.parent / "elsewhere"))
    assert load(lab).profile.infiniband.rate_gbps.value == 800
    for there in (remembered_inventory("lab", part), pickle.loads(sent).loaded()):
        assert there.profile == loaded.profile
        assert there.profile.infiniband.rate_gbps.origin == loaded.profile.infiniband.rate_gbps.origin
    assert "proven" not in inventory_part(load(lab)), (
        "a record of a cluster of which nothing was answered stays as it was"
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"rack01-n01": {"port-rate": "400 Gb/sec (4X NDR)\n"}}, "the nodes do not agree"),
        ({f"rack01-n{n:02d}": {"port-rate": ""} for n in (1, 2)}, "none of 2 nodes told it"),
        ({f"rack01-n{n:02d}": {"port-rate": "N/A\n[Not Supported]\n"} for n in (1, 2)}, "none of 2 nodes told it"),
        ({f"rack01-n{n:02d}": {"port-rate": "800 Gb"} for n in (1, 2)}, "none of 2 nodes told it"),
    ],
)
def test_nodes_that_disagree_or_say_nothing_leave_it_open(lab: Path, said: Any, why: str) -> None:
    found = walked(lab, Nodes(said))["port-rate"]
    assert (found.standing, found.found.value, found.found.why) == (Standing.OPEN, None, why)
    assert "port-rate" not in answers(cluster_dir(load(lab).inventory, lab))


def test_memory_of_another_node_may_differ_a_little(lab: Path) -> None:
    near = {"rack01-n01": {"host-memory": "MemTotal: 903809536 kB\n"}}
    assert walked(lab, Nodes(near))["host-memory"].standing is Standing.CONFIRMED
    far = {"rack01-n01": {"host-memory": "MemTotal: 452404768 kB\n"}}
    assert walked(lab, Nodes(far))["host-memory"].found.why == "the nodes do not agree"


def test_nobody_answers_and_nobody_is_asked(lab: Path) -> None:
    silent = walked(lab, Nodes(None, ok=False))
    assert {one.standing for one in silent.values()} == {Standing.OPEN}
    assert walked(lab, Nodes(None), ask=False)["port-rate"].found.why == "not asked"


@pytest.mark.parametrize("told", [["port-rate"], ["port-rate=fast"], ["nothing=1"], ["umad=no", "port-rate=-3"]])
def test_a_wrong_answer_keeps_nothing(lab: Path, told: list[str]) -> None:
    with pytest.raises(NdctlError) as caught:
        Kept(load(lab), lambda: NOW).answer(told)
    assert caught.value.exit_code == 2
    assert answers(cluster_dir(load(lab).inventory, lab)) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "other", "answers": {}}', "[" * 100_000, "\udcff", OTHER])
def test_answers_that_cannot_be_read_are_not_passed_over_in_silence(lab: Path, text: str) -> None:
    (cluster_dir(load(lab).inventory, lab) / "first-contact.json").write_text(text, errors="surrogateescape")
    with pytest.raises(NdctlError, match="cannot be read") as caught:
        load(lab)
    assert caught.value.exit_code == 2 and "mv " in caught.value.hint
    assert "Error" not in caught.value.message and ("it is no whole JSON" in caught.value.message) == (
        text in ("", "{", "\udcff")
    )


def test_an_answer_of_another_ndctl_is_passed_over(lab: Path) -> None:
    one = {"value": 3, "how": "answered", "date": "2026-12-02", "by": "a@b"}
    kept = {"of-the-future": one, "port-rate": {**one, "value": True}, "sharp": one}
    (cluster_dir(load(lab).inventory, lab) / "first-contact.json").write_text(
        json.dumps({"schema": "ndctl.first-contact-answers/1", "answers": kept})
    )
    assert load(lab).profile.infiniband.rate_gbps.value == 800


def test_keys_are_compared_between_racks_and_azure_is_asked(region: Region) -> None:
    """Two racks of the region, over SSH and ARM."""
    path = region.inventory(racks=2, vms_per_rack=1)
    before = first_contact(load(path), Kept(load(path)))
    assert before.nodes == () and {one.standing for one in before.facts} == {Standing.OPEN}
    assert before.exit_code is ExitCode.OK, "nothing stands yet: nothing failed"
    by_id = {one.id: one for one in before.facts}
    assert "deployed no scale set" in by_id["single-placement-group"].found.why
    Chain(load(path), Ask(level=Level.QUICK)).run()
    after = first_contact(load(path), Kept(load(path)))
    found = {one.id: one for one in after.facts}
    assert after.nodes == ("rack01-n01", "rack02-n01") and after.answered == 2 and after.exit_code is ExitCode.OK
    assert found["single-placement-group"].found.value is False
    assert found["pkey-across-scale-sets"].found.value is True
    assert found["pkey-across-scale-sets"].standing is Standing.CONFIRMED
    wired = ("port-rate", "host-memory", "gpu-memory", "c2c-links", "single-placement-group")
    assert {found[name].standing for name in wired} == {Standing.CONFIRMED}
    Kept(load(path)).answer(["single-placement-group=yes"])
    from ndctl.render.build import render

    template = json.dumps(render(load(path)).racks[0].template)
    assert '"singlePlacementGroup": true' in template


def test_racks_that_cannot_be_asked_are_told_with_the_reason_for_it(lab: Path) -> None:
    def refusing(*_: Any) -> Nodes:
        raise NdctlError("azure.not-signed-in", "nobody is signed in", exit_code=ExitCode.PERMISSION)

    walked = first_contact(load(lab), Kept(load(lab)), open_transport=refusing)
    assert walked.exit_code is ExitCode.PERMISSION and walked.refused is not None
    assert walked.refused.message == "nobody is signed in", "told once, and not fact after fact"
    by_itself = {one.id for one in open_facts().values() if one.ask is not None or one.arm is not None}
    for one in walked.facts:
        assert one.found.why == ("not asked" if one.id in by_itself else "ndctl cannot ask this by itself"), one.id
    assert first_contact(load(lab), Kept(load(lab)), ask=False).exit_code is ExitCode.OK


def test_what_racks_told_stays_where_azure_then_refuses(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    import ndctl.azure.placement

    def refused(*_: Any) -> None:
        raise NdctlError("azure.refused", "not permitted", exit_code=ExitCode.PERMISSION)

    path = region.inventory(racks=1, vms_per_rack=1)
    Chain(load(path), Ask(level=Level.QUICK)).run()
    monkeypatch.setattr(ndctl.azure.placement, "single_placement_groups", refused)
    walked = first_contact(load(path), Kept(load(path)))
    found = {one.id: one for one in walked.facts}
    assert walked.exit_code is ExitCode.PERMISSION and walked.answered == 1
    assert found["port-rate"].standing is Standing.CONFIRMED
    assert found["single-placement-group"].found.why == "not asked"
