"""The agent signs logins to the rack's peers, and nothing else. Its other side is OpenSSH's own in test_relay.py."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest

from ndctl.ssh import relay_script
from ndctl.ssh.keys import Identity, load_identities
from ndctl.ssh.relay_agent import JOINT, AgentConnection, LoginAgent, Malformed
from tests.ssh import sshd as openssh
from tests.ssh.own_nodes import wait_until

SESSION = b"S" * 32
FAILURE, SUCCESS, EXTENSION_FAILURE, IDENTITIES, SIGNED = b"\x05", b"\x06", b"\x1c", 12, 14
PLAIN, HOSTBOUND = b"publickey", b"publickey-hostbound-v00@openssh.com"


def string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def framed(message: bytes) -> bytes:
    return string(message)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    openssh.require()
    folder = tmp_path_factory.mktemp("keys")
    made = {name: openssh.make_key(folder / name) for name in ("login", "host", "stranger")}
    made["rsa"] = openssh.make_key(folder / "rsa", "rsa")
    made["ecdsa"] = openssh.make_key(folder / "ecdsa", "ecdsa")
    return {name: paramiko.PKey.from_path(str(path)) for name, path in made.items()}


@pytest.fixture
def agent(keys: dict[str, Any]) -> LoginAgent:
    return LoginAgent(Identity("login", keys["login"]), {keys["host"].asbytes(): frozenset({"azureuser"})}, 3)


class Client:
    """What OpenSSH's client says to an agent."""

    def __init__(self, agent: LoginAgent, keys: dict[str, Any], login: str = "login") -> None:
        self.connection = AgentConnection(agent)
        self.keys = keys
        self.login = keys[login]

    def say(self, message: bytes) -> bytes:
        answer = self.connection.feed(framed(message))
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        return answer[4:]

    def bind(self, host: str = "host", session: bytes = SESSION, signer: str = "", forwarding: int = 0) -> bytes:
        key = self.keys[signer or host]
        signature = key.sign_ssh_data(session, "rsa-sha2-512" if key.get_name() == "ssh-rsa" else None).asbytes()
        body = string(self.keys[host].asbytes()) + string(session) + string(signature) + bytes([forwarding])
        return self.say(b"\x1b" + string(b"session-bind@openssh.com") + body)

    def request(
        self,
        *,
        user: bytes = b"azureuser",
        method: bytes = HOSTBOUND,
        session: bytes = SESSION,
        service: bytes = b"ssh-connection",
        host: str = "host",
        kind: int = 50,
        signature: int = 1,
        key: bytes = b"",
        algorithm: bytes = b"",
        more: bytes = b"",
    ) -> bytes:
        data = string(session) + bytes([kind]) + string(user) + string(service) + string(method) + bytes([signature])
        data += string(algorithm or self.login.get_name().encode()) + string(key or self.login.asbytes())
        return data + (string(self.keys[host].asbytes()) if method == HOSTBOUND else b"") + more

    def sign(self, data: bytes, flags: int = 0, key: bytes = b"") -> bytes:
        return self.say(b"\x0d" + string(key or self.login.asbytes()) + string(data) + flags.to_bytes(4, "big"))


@pytest.mark.parametrize("method", [PLAIN, HOSTBOUND])
def test_a_login_to_a_peer_is_signed(agent: LoginAgent, keys: dict[str, Any], method: bytes) -> None:
    client = Client(agent, keys)
    assert client.bind() == SUCCESS
    listed = client.say(b"\x0b")
    assert listed[0] == IDENTITIES and listed[1:5] == b"\0\0\0\1" and keys["login"].asbytes() in listed
    data = client.request(method=method)
    answer = client.sign(data)
    assert answer[0] == SIGNED
    public = paramiko.PKey.from_type_string("ssh-ed25519", keys["login"].asbytes())
    assert public.verify_ssh_sig(data, paramiko.Message(answer[5:]))


@pytest.mark.parametrize(
    "change",
    [
        {"user": b"root"},
        {"session": b"T" * 32},
        {"service": b"ssh-userauth"},
        {"method": b"hostbased"},
        {"method": b"password"},
        {"host": "stranger"},
        {"kind": 51},
        {"signature": 0},
        {"key": b"another"},
        {"algorithm": b"ssh-rsa"},
        {"more": b"x"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_anything_else_is_not(agent: LoginAgent, keys: dict[str, Any], change: dict[str, Any]) -> None:
    client = Client(agent, keys)
    assert client.bind() == SUCCESS
    assert client.sign(client.request(**change)) == FAILURE
    assert client.sign(client.request())[0] == SIGNED, "the connection goes on"


def test_texts_that_are_no_login_are_not_signed(agent: LoginAgent, keys: dict[str, Any]) -> None:
    """A file (`ssh-keygen -Y sign`), a git commit, cut requests."""
    client = Client(agent, keys)
    client.bind()
    whole = client.request()
    for data in (b"", b"SSHSIG" + string(b"git"), whole[:-1], whole[:40], b"\xff" * 200):
        assert client.sign(data) == FAILURE


def test_nothing_is_signed_for_a_session_that_is_not_bound(agent: LoginAgent, keys: dict[str, Any]) -> None:
    assert Client(agent, keys).sign(Client(agent, keys).request()) == FAILURE


@pytest.mark.parametrize(
    "bind",
    [{"host": "stranger"}, {"signer": "stranger"}, {"forwarding": 1}],
    ids=["a host of no peer", "another key's signature", "to be forwarded"],
)
def test_a_session_with_somebody_else_is_not_bound(
    agent: LoginAgent, keys: dict[str, Any], bind: dict[str, Any]
) -> None:
    """A head that goes elsewhere, or pretends that a session there is one with a peer."""
    client = Client(agent, keys)
    assert client.bind(**bind) == EXTENSION_FAILURE
    assert client.sign(client.request()) == FAILURE


def test_a_connection_is_bound_once(agent: LoginAgent, keys: dict[str, Any]) -> None:
    client = Client(agent, keys)
    assert client.bind() == SUCCESS
    assert client.bind(session=b"U" * 32) == EXTENSION_FAILURE
    assert client.sign(client.request(session=b"U" * 32)) == FAILURE


def test_signatures_are_counted_over_all_connections(agent: LoginAgent, keys: dict[str, Any]) -> None:
    answers = []
    for _ in range(5):
        client = Client(agent, keys)
        client.bind()
        answers.append(client.sign(client.request())[0])
    assert answers == [SIGNED] * 3 + [FAILURE[0]] * 2


def test_after_the_pass_nothing_is_signed(agent: LoginAgent, keys: dict[str, Any]) -> None:
    client = Client(agent, keys)
    client.bind()
    agent.close()
    assert client.sign(client.request()) == FAILURE


@pytest.mark.parametrize(("flags", "algorithm"), [(2, b"rsa-sha2-256"), (4, b"rsa-sha2-512")])
def test_rsa_keys_sign_as_they_are_asked(keys: dict[str, Any], flags: int, algorithm: bytes) -> None:
    agent = LoginAgent(Identity("rsa", keys["rsa"]), {keys["ecdsa"].asbytes(): frozenset({"azureuser"})}, 1)
    client = Client(agent, keys, login="rsa")
    assert client.bind("ecdsa") == SUCCESS
    data = client.request(host="ecdsa", algorithm=algorithm)
    answer = client.sign(data, flags)
    assert answer[0] == SIGNED and answer[9:].startswith(algorithm)
    assert keys["rsa"].verify_ssh_sig(data, paramiko.Message(answer[5:]))


def test_a_certificate_is_offered_as_one(tmp_path: Path) -> None:
    authority, key = openssh.make_key(tmp_path / "authority"), openssh.make_key(tmp_path / "key")
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "me", "-n", "azureuser", f"{key}.pub"]
    subprocess.run(sign, check=True, timeout=30, stdin=subprocess.DEVNULL)
    certified, plain = load_identities([key], agent=False).offers
    offered = LoginAgent(certified, {}, 1).blob
    assert b"ssh-ed25519-cert-v01@openssh.com" in offered[:40]
    assert LoginAgent(plain, {}, 1).blob == replace(plain).key.asbytes()


def test_other_requests_are_refused(agent: LoginAgent, keys: dict[str, Any]) -> None:
    """Adding, removing and locking keys, an unknown extension, an empty body."""
    client = Client(agent, keys)
    for message in (
        b"\x11key",
        b"\x12key",
        b"\x13",
        b"\x16pass",
        b"\x1b" + string(b"query"),
        b"\x1b",
        b"\x0d",
        b"\xff",
    ):
        assert client.say(message) == FAILURE


def test_what_comes_in_pieces_is_put_together(agent: LoginAgent, keys: dict[str, Any]) -> None:
    connection = AgentConnection(agent)
    message = framed(b"\x0b")
    assert connection.feed(message[:3]) == b""
    assert connection.feed(message[3:4]) == b""
    assert connection.feed(message[4:] + message + message[:2]).count(keys["login"].asbytes()) == 2


@pytest.mark.parametrize("size", [0, 65_537, 2**32 - 1])
def test_impossible_lengths_end_the_connection(agent: LoginAgent, size: int) -> None:
    with pytest.raises(Malformed):
        AgentConnection(agent).feed(size.to_bytes(4, "big"))


class TestSharedByTheLoginsOfAHead:
    """relay_mux.py on a socket of this machine, the agent behind it."""

    @pytest.fixture
    def mux(self, agent: LoginAgent, tmp_path: Path) -> Iterator[Callable[[], MuxClient]]:
        upstream = socket.socket(socket.AF_UNIX)
        upstream.bind(str(tmp_path / "up"))
        upstream.listen()
        program = Path(relay_script.__file__).with_name("relay_mux.py")
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(program), str(tmp_path / "down"), str(tmp_path / "up")]
        )
        channel, _ = upstream.accept()

        def serve() -> None:
            connection = AgentConnection(agent)
            while data := channel.recv(65_536):
                channel.sendall(connection.feed(data))

        threading.Thread(target=serve, daemon=True).start()
        wait_until((tmp_path / "down").exists)
        made: list[MuxClient] = []

        def connect() -> MuxClient:
            made.append(MuxClient(tmp_path / "down"))
            return made[-1]

        yield connect
        for one in made:
            one.sock.close()
        channel.shutdown(socket.SHUT_RDWR)
        assert process.wait(10) == 0, "it ends with the client's connection"
        channel.close()
        upstream.close()

    def test_each_login_is_judged_for_itself(
        self, agent: LoginAgent, keys: dict[str, Any], mux: Callable[[], MuxClient]
    ) -> None:
        clients = [Client(agent, keys) for _ in range(4)]
        for client in clients:
            client.connection = mux()  # type: ignore[assignment]
        sessions = [bytes([at]) * 32 for at in range(4)]
        for client, session in zip(clients, sessions, strict=True):
            assert client.bind(session=session) == SUCCESS
            assert keys["login"].asbytes() in client.say(b"\x0b")
        assert clients[2].sign(clients[2].request(session=sessions[2]))[0] == SIGNED
        assert clients[0].sign(clients[0].request(session=sessions[1])) == FAILURE, "another login's session"
        assert clients[1].sign(clients[1].request(session=sessions[1], user=b"root")) == FAILURE
        assert clients[1].sign(clients[1].request(session=sessions[1]))[0] == SIGNED
        clients[3].connection.sock.close()  # type: ignore[attr-defined]
        assert clients[0].sign(clients[0].request(session=sessions[0]))[0] == SIGNED
        assert clients[1].sign(clients[1].request(session=sessions[1])) == FAILURE, "the signatures are used up"

    def test_a_bind_that_is_not_true_is_found_out_at_the_signature(
        self, agent: LoginAgent, keys: dict[str, Any], mux: Callable[[], MuxClient]
    ) -> None:
        for bind in ({"host": "stranger"}, {"signer": "stranger"}, {"forwarding": 1}):
            client = Client(agent, keys)
            client.connection = mux()  # type: ignore[assignment]
            client.bind(**bind)  # type: ignore[arg-type]
            assert client.sign(client.request()) == FAILURE

    def test_nothing_without_a_bind_and_nothing_else(
        self, agent: LoginAgent, keys: dict[str, Any], mux: Callable[[], MuxClient]
    ) -> None:
        client = Client(agent, keys)
        client.connection = mux()  # type: ignore[assignment]
        assert client.sign(client.request()) == FAILURE
        assert client.say(b"\x11key") == FAILURE

    def test_a_joint_message_is_a_bind_and_a_login_or_nothing(self, agent: LoginAgent, keys: dict[str, Any]) -> None:
        client = Client(agent, keys)
        for bind, sign in ((b"", b""), (b"\x0b", b"\x0d"), (b"\x1b", b"\x0d"), (b"\x1b" + string(JOINT), b"\x0d")):
            assert client.say(b"\x1b" + string(JOINT) + string(bind) + string(sign)) == FAILURE
        assert client.say(b"\x1b" + string(JOINT)) == FAILURE


class MuxClient:
    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(str(path))

    def feed(self, message: bytes) -> bytes:
        self.sock.sendall(message[:3])
        self.sock.sendall(message[3:])
        answer = self.sock.recv(65_536)
        while len(answer) < 4 + int.from_bytes(answer[:4], "big"):
            answer += self.sock.recv(65_536)
        return answer
