"""What validate does around the asking: several inventories, clusters that cannot be asked, settling racks."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from ndctl.inventory.loader import load
from ndctl.model.errors import NdctlError
from ndctl.model.findings import Finding, RackResult
from ndctl.model.places import Cluster, Rack
from ndctl.model.status import Level, Status, Verdict
from ndctl.record.store import Store
from ndctl.workflow import gathered
from ndctl.workflow.gathered import Gathered, settle
from ndctl.workflow.validate import Request, validate_inventories

LAB = "cluster: {name}\nprofile: gb300\nssh: {{known_hosts: none}}\nstatic:\n  - {{rack: 1, nodes: [127.88.1.1:1]}}\n"
AZURE = """cluster: far
cloud: {endpoint: "https://127.0.0.1:1", authority: "https://127.0.0.1:1/", identity: identity.json}
subscription: 00000000-0000-0000-0000-000000000000
resource_group: rg-far
region: simregion
racks: 2
vm_size: Standard_ND128isr_GB300_v6
network: {create: 10.0.0.0/16}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path / "state"))


def inventory(folder: Path, name: str) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(AZURE if name == "far" else LAB.format(name=name))
    return path


def test_a_cluster_that_cannot_be_asked_does_not_cost_the_others_answer(tmp_path: Path) -> None:
    paths = (inventory(tmp_path, "far"), inventory(tmp_path, "near"))
    told: list[str] = []
    run = validate_inventories(Request(paths=paths, level=Level.QUICK), on_event=lambda e: told.append(e.message))
    assert [(rack.cluster, rack.name, rack.verdict) for rack in run.racks] == [
        ("near", "rack01", Verdict.INCOMPLETE),
        ("far", "rack01", Verdict.INCOMPLETE),
        ("far", "rack02", Verdict.INCOMPLETE),
    ]
    far = run.racks[1].findings[0]
    assert far.status is Status.UNKNOWN and far.message.startswith("not asked: ")
    assert run.exit_code == 8
    assert Store(create=False).load("last") == run


def test_alone_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NdctlError) as error:
        validate_inventories(Request(paths=(inventory(tmp_path, "far"),), level=Level.QUICK))
    assert error.value.exit_code == 2 and "identity" in error.value.message


def test_an_unreachable_rack_is_incomplete_and_recorded(tmp_path: Path) -> None:
    run = validate_inventories(Request(paths=(inventory(tmp_path, "near"),), level=Level.STANDARD))
    node = run.racks[0].nodes[0]
    assert (node.status, node.outcome) == (Status.UNKNOWN, "refused")
    assert run.racks[0].usable_nodes == ()
    assert run.exit_code == 8


def test_settling_racks_are_asked_again_until_they_settle_or_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rack = Rack("rack01", 1, 1, ())
    one = Gathered(load(inventory(tmp_path, "near")), Cluster("near", (rack,)), [], date(2026, 12, 2))
    answers = {"left": 2}

    def judged(_: Gathered, __: Rack) -> RackResult:
        settling = Finding(check="nvlink.imex.settling", status=Status.UNKNOWN, subject="x", message="starting")
        return RackResult("rack01", "near", Verdict.INCOMPLETE, findings=(settling,) if answers["left"] > 0 else ())

    def ask_again(_: object) -> None:
        answers["left"] -= 1

    monkeypatch.setattr(gathered, "judged", judged)
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    settle(one, rack, ask_again, lambda event: None, clock=lambda: now[0], sleep=sleep)
    assert answers["left"] == 0 and now[0] == 2 * gathered.SETTLE_EVERY_S
    answers["left"], now[0] = 10_000, 0.0
    settle(one, rack, ask_again, lambda event: None, clock=lambda: now[0], sleep=sleep)
    assert now[0] == gathered.SETTLE_S, "it stops at the deadline and leaves the judging to others"


def test_a_waiver_that_has_expired_is_said(tmp_path: Path) -> None:
    path = inventory(tmp_path, "near")
    entry = "  - {{check: {}, reason: was odd, until: {}}}\n".format
    path.write_text(
        path.read_text() + "disabled_checks:\n" + entry("gpu.count", "2020-01-31") + entry("gpu.xid", "2099-01-31")
    )
    told: list[str] = []
    validate_inventories(Request(paths=(path,), level=Level.QUICK), on_event=lambda e: told.append(e.message))
    warned = [message for message in told if "warning" in message]
    assert (
        len(warned) == 1 and f"{path}:7:" in warned[0] and "'gpu.count' was switched off until 2020-01-31" in warned[0]
    )
