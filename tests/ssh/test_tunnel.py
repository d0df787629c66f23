"""Sending and closing on a shared login take turns: data after a close would end it for every node behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ndctl.model.answers import Command
from ndctl.ssh.engine import Engine
from ndctl.ssh.settings import Hop
from ndctl.ssh.tunnel import Tunnel, handle_close, prepare
from tests.ssh import sshd as openssh


class SlowChannel:
    """Stands in for a paramiko channel that is held up between building a packet and sending it."""

    def __init__(self) -> None:
        self.closed = False
        self.out_window_size = 100
        self.wire: list[str] = []
        self.building, self.go_on = threading.Event(), threading.Event()
        self.recv = self.settimeout = self.getpeername = None

    def send(self, data: bytes) -> int:
        self.building.set()
        assert self.go_on.wait(10)
        self.wire.append("data")
        return len(data)

    def close(self) -> None:
        self.closed = True
        self.wire.append("close")

    _handle_close = None


@pytest.mark.parametrize("closer", ["this side", "the server"])
def test_data_never_follows_a_close(closer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import paramiko

    monkeypatch.setattr(paramiko.Channel, "_handle_close", lambda channel, message: channel.close())
    channel: Any = SlowChannel()
    told: list[str] = []
    tunnel = Tunnel(prepare(channel), lambda: told.append("closed"))
    sending = threading.Thread(target=tunnel.send, args=(b"x",), daemon=True)
    close = tunnel.close if closer == "this side" else lambda: handle_close(channel, paramiko.Message())
    closing = threading.Thread(target=close, daemon=True)
    sending.start()
    assert channel.building.wait(10)
    closing.start()
    closing.join(0.2)  # it has every chance to be too early
    channel.go_on.set()
    sending.join(10)
    closing.join(10)
    assert channel.wire == ["data", "close"]
    with pytest.raises(OSError, match="closed"):
        tunnel.send(b"y")
    tunnel.close()
    tunnel.close()
    assert told == ["closed"]


def test_a_full_window_is_no_reason_to_hold_the_turn() -> None:
    channel: Any = SlowChannel()
    channel.out_window_size = 0
    tunnel = Tunnel(prepare(channel), lambda: None)
    with pytest.raises(TimeoutError):
        tunnel.send(b"x")
    tunnel.close()
    assert channel.wire == ["close"]


def test_no_login_is_lost_to_its_channels(start_sshd: Callable[..., openssh.Sshd], tmp_path: Path) -> None:
    """Many short visits through one login each: the bastion must never have had to end one."""
    bastion, behind = start_sshd(), start_sshd(nodes=36)
    settings = behind.settings(
        jumps=((Hop(bastion.nodes[0].address, bastion.user, bastion.port),),),
        private_keys=(bastion.client_key, behind.client_key),
        known_hosts=(behind.known_hosts, bastion.known_hosts),
    )
    with Engine(settings) as engine:
        for _ in range(3):
            answers = engine.ask({node: [Command("true", "true")] for node in behind.nodes})
            assert [answer.outcome for answer in answers.values() if not answer.outcome.ok] == []
    assert "nonexistent channel" not in bastion.log
