"""A real sshd per module, and servers that misbehave where OpenSSH cannot."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ssh import sshd as openssh


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openssh.Sshd]:
    """Three nodes on one OpenSSH server, 127.1.1.1 to 127.1.1.3."""
    with openssh.start(tmp_path_factory.mktemp("sshd"), nodes=3) as running:
        yield running


@pytest.fixture
def start_sshd(tmp_path: Path) -> Iterator[Callable[..., openssh.Sshd]]:
    """Start servers of one's own; they are stopped when the test ends."""
    running: list[openssh.Sshd] = []

    def start(**options: object) -> openssh.Sshd:
        one = openssh.start(tmp_path / f"sshd{len(running)}", **options)  # type: ignore[arg-type]
        running.append(one)
        return one

    yield start
    for one in running:
        one.stop()


class CraftedServer:
    """Accepts on a port of 127.0.0.1 and says `greeting`, then nothing; counts its callers."""

    def __init__(self, greeting: bytes = b"", *, hang_up: bool = False) -> None:
        self.accepted = 0
        self._greeting = greeting
        self._hang_up = hang_up
        self._kept: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                caller.sendall(self._greeting)
            except OSError:
                continue
            if self._hang_up:
                caller.close()
            else:
                self._kept.append(caller)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for caller in self._kept:
            caller.close()


@pytest.fixture
def craft() -> Iterator[Callable[..., CraftedServer]]:
    made: list[CraftedServer] = []

    def make(greeting: bytes = b"", **options: bool) -> CraftedServer:
        made.append(CraftedServer(greeting, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
