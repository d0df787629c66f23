"""The real infiniband-diags on a simulated subnet: healthy, with links down, with errors; read and judged by ndctl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ndctl.checks.judge import judge_text
from ndctl.model.findings import Finding, Judgement
from ndctl.model.status import Status
from ndctl.parse import ib_counters, iblinkinfo, ibstat
from tests.parse.ibsim_lab import HOSTS, Subnet, library_or_skip

pytestmark = pytest.mark.xdist_group("ibsim")


@pytest.fixture
def subnet(tmp_path: Path) -> Iterator[Subnet]:
    """A subnet of its own for each test: ibsim takes a moment, and what one test breaks no other sees."""
    with Subnet(tmp_path, library_or_skip()) as one:
        yield one


def bad(judged: Judgement) -> list[Finding]:
    return [one for one in judged.findings if one.status in (Status.FAIL, Status.WARN, Status.UNKNOWN)]


def test_a_healthy_subnet_is_content(subnet: Subnet) -> None:
    links = iblinkinfo.parse(subnet.ask("iblinkinfo"))
    active = [link for link in links.links if link.state == "Active"]
    assert len(active) == 20 and {link.node for link in active} == {*HOSTS, "S-leaf0", "S-leaf1", "S-spine0"}
    assert {link.peer for link in active if link.node == "S-spine0"} == {"S-leaf0", "S-leaf1"}
    assert not links.errors and not links.unknown_fields
    judged = judge_text("iblinkinfo", subnet.ask("iblinkinfo"))
    assert (judged.status, bad(judged)) == (Status.PASS, [])

    judged = judge_text("ibqueryerrors", subnet.ask("ibqueryerrors"))
    assert (judged.status, bad(judged)) == (Status.PASS, [])
    counted = ib_counters.parse(subnet.ask("ibqueryerrors"))
    assert counted.checked == {"nodes": 9, "ports": 30} and counted.bad == {"nodes": 0, "ports": 0}

    text = subnet.ask("perfquery")
    (port,) = ib_counters.parse(text).ports
    assert port.counters["SymbolErrorCounter"] == 0 and port.counters["PortXmitPkts"] > 0
    assert judge_text("perfquery", text).status is Status.PASS

    (adapter,) = ibstat.parse(subnet.ask("ibstat", host="H-n05")).ports
    assert (adapter.device, adapter.state, adapter.phys_state, adapter.link_layer) == (
        "ibsim0", "Active", "LinkUp", "InfiniBand",
    )  # fmt: skip
    assert adapter.lid and adapter.sm_lid
    assert judge_text("ibstat", subnet.ask("ibstat", host="H-n05")).status is Status.PASS


def test_detection_knows_the_tools_by_their_text(subnet: Subnet) -> None:
    for tool in ("iblinkinfo", "ibqueryerrors", "perfquery", "ibstat"):
        assert judge_text("auto", subnet.ask(tool)).tool == tool


def test_a_link_that_is_down_is_named_by_its_host(subnet: Subnet) -> None:
    subnet.say('Unlink "H-n03"[1]')
    subnet.until(lambda: "State: Down" in subnet.ask("ibstat", host="H-n03"), "the link to go down")
    (found,) = bad(judge_text("ibstat", subnet.ask("ibstat", host="H-n03")))
    assert (found.check, found.status, found.subject) == ("infiniband.port-down", Status.FAIL, "ibsim0 port 1")
    assert "Polling" in found.message

    (found,) = bad(judge_text("iblinkinfo", subnet.ask("iblinkinfo", host="H-n03")))
    assert (found.check, found.status) == ("fabric-links.down", Status.FAIL)
    assert found.subject.startswith("H-n03 port 1")

    # Seen from the others the host is not there at all, and its switch port looks like one without a cable.
    seen = iblinkinfo.parse(subnet.ask("iblinkinfo"))
    assert "H-n03" not in {link.node for link in seen.links}
    (port,) = [link for link in seen.links if (link.node, link.port) == ("S-leaf0", 3)]
    assert (port.state, port.phys_state, port.peer) == ("Down", "Polling", "")
    judged = judge_text("iblinkinfo", subnet.ask("iblinkinfo"))
    assert judged.status is Status.PASS and judged.findings[0].value == 18


def test_a_port_that_no_longer_answers_is_told(subnet: Subnet) -> None:
    subnet.say('Error "H-n05"[1] 100')
    subnet.until(lambda: "timed out" in subnet.ask("iblinkinfo"), "its answers to be dropped")
    judged = judge_text("iblinkinfo", subnet.ask("iblinkinfo"))
    assert judged.status is not Status.PASS
    assert any(one.check == "fabric-links.errors" and "timed out" in one.message for one in judged.findings)

    text = subnet.ask("perfquery", "-G", "0x100009", "1")
    judged = judge_text("perfquery", text)
    assert judged.status is Status.UNKNOWN and judged.findings, text


def test_errors_are_counted_at_the_port_that_has_them(subnet: Subnet) -> None:
    subnet.say('PerformanceSet "H-n02"[1] PortCounters.SymbolErrorCounter=77')
    subnet.say('PerformanceSet "S-spine0"[2] PortCounters.LinkDownedCounter=255')
    subnet.until(lambda: "LinkDownedCounter == 255" in subnet.ask("ibqueryerrors"), "the counters to be set")
    text = subnet.ask("ibqueryerrors")
    found = bad(judge_text("ibqueryerrors", text))
    assert {(one.check, one.subject, one.unit, one.value) for one in found} >= {
        ("infiniband.counter-total", "H-n02 port 1", "SymbolErrorCounter", 77),
        ("infiniband.counter-pegged", "S-spine0 port 2", "LinkDownedCounter", 255),
    }
    assert {one.subject.split(" port ")[0] for one in found} == {"H-n02", "S-spine0"}, "nobody else is blamed"
    assert ib_counters.parse(text).bad == {"nodes": 2, "ports": 2}

    (found_here,) = bad(judge_text("perfquery", subnet.ask("perfquery")))
    assert (found_here.unit, found_here.value) == ("SymbolErrorCounter", 77)


def test_errors_that_are_cleared_are_gone(subnet: Subnet) -> None:
    subnet.say('PerformanceSet "H-n02"[1] PortCounters.SymbolErrorCounter=77')
    subnet.until(lambda: "SymbolErrorCounter == 77" in subnet.ask("ibqueryerrors"), "the counter to be set")
    subnet.ask("perfquery", "-R")  # reads and resets
    assert judge_text("perfquery", subnet.ask("perfquery")).status is Status.PASS
    assert judge_text("ibqueryerrors", subnet.ask("ibqueryerrors")).status is Status.PASS


def test_a_real_text_cut_anywhere_hides_no_error(subnet: Subnet) -> None:
    subnet.say('PerformanceSet "H-n02"[1] PortCounters.SymbolErrorCounter=77')
    subnet.until(lambda: "SymbolErrorCounter == 77" in subnet.ask("ibqueryerrors"), "the counter to be set")
    for tool in ("ibqueryerrors", "perfquery"):
        text = subnet.ask(tool)
        assert judge_text(tool, text).status is Status.WARN
        for end in range(len(text)):
            assert judge_text(tool, text[:end]).status is not Status.PASS, text[:end]
    for tool in ("iblinkinfo", "ibstat"):
        text = subnet.ask(tool)
        for end in range(0, len(text), 7):
            assert judge_text(tool, text[:end]).findings, text[:end]
