"""Equal failures of many nodes are one line of the story."""

from __future__ import annotations

import io

import pytest

from ndctl.cli.folded_failures import FoldedFailures, folded
from ndctl.cli.rack_lines import rack_lines
from ndctl.model.events import Event


def failed(rack: int, at: int, message: str, address: str = "") -> Event:
    address = address or f"10.{rack}.0.{at}"
    text = message.replace("ADDRESS", address)
    name = f"rack{rack:02d}"
    return Event("collect", "failed", "swc", name, f"{name}-n{at:02d}", message=text, data={"address": address})


def test_1152_refused_logins_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with rack_lines(io.StringIO()) as sink:
        for rack in range(1, 65):
            for at in range(1, 19):
                sink(failed(rack, at, "auth-failed: ADDRESS refused azureuser with id_ed25519"))
    assert capsys.readouterr().err == (
        "swc rack[01-64]-n[01-18]  auth-failed: <address> refused azureuser with id_ed25519   (1,152 nodes)\n"
    )


def test_who_fails_otherwise_stays_apart_and_a_single_one_keeps_its_words() -> None:
    told = folded(
        [
            failed(1, 1, "refused: [ADDRESS]:2222 refused the connection"),
            failed(1, 2, "auth-failed: ADDRESS refused kim"),
            failed(1, 3, "refused: [ADDRESS]:2222 refused the connection"),
            failed(1, 4, "unreachable: jump host: 10.9.9.1 did not answer"),
            failed(1, 5, "unreachable: jump host: 10.9.9.2 did not answer"),
            failed(1, 6, "unreachable: jump host: 10.9.9.2 did not answer"),
        ]
    )
    assert [(one.rack, one.node, one.message) for one in told] == [
        ("rack01", "rack01-n[01,03]", "refused: [<address>]:2222 refused the connection   (2 nodes)"),
        ("rack01", "rack01-n02", "auth-failed: 10.1.0.2 refused kim"),
        ("rack01", "rack01-n04", "unreachable: jump host: 10.9.9.1 did not answer"),
        ("rack01", "rack01-n[05-06]", "unreachable: jump host: 10.9.9.2 did not answer   (2 nodes)"),
    ]


def test_unknown_host_keys_are_one_line() -> None:
    prints = ["A" * 43, "b" * 43]
    events = [
        failed(1, at, f"host-key-unknown: ADDRESS shows ssh-ed25519 SHA256:{one}, which no known_hosts file has")
        for at, one in enumerate(prints, 1)
    ]
    (one,) = folded(events)
    assert one.message.startswith("host-key-unknown: <address> shows ssh-ed25519 <fingerprint>, which")


def test_a_failure_is_told_within_a_while_and_before_what_speaks_of_the_run() -> None:
    now = [0.0]
    told: list[Event] = []
    sink = FoldedFailures(told.append, lambda: now[0], hold_s=10)
    running = Event("rack", "running", "swc", "rack01", message="1 of 18 nodes answered")
    sink(failed(1, 1, "refused"))
    sink(running)
    assert told == [running]
    now[0] = 10.0
    sink(running)
    assert [one.node for one in told] == ["", "rack01-n01", ""]
    sink(failed(1, 2, "refused"))
    sink(Event("note", "failed", message="interrupted: judging what was gathered so far"))
    assert [one.node or one.type for one in told[3:]] == ["rack01-n02", "note"]
    sink.flush()
    assert len(told) == 5


def test_with_v_every_node_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDCTL_VERBOSE", "1")
    told: list[Event] = []
    sink = FoldedFailures(told.append)
    for at in (1, 2):
        sink(failed(1, at, "refused"))
    assert [one.node for one in told] == ["rack01-n01", "rack01-n02"]
