"""The small SSH agent that is served on a head's connection while its peers are logged in to.

It offers one key, the one that let ndctl in on the head (held in this process, or a key of the user's own agent), and
signs nothing but logins to that rack's peers: the agent connection must first be bound to an SSH session
(session-bind@openssh.com) whose host key is one of the peers' and has signed that session's id; then a publickey
userauth request of that session is signed, for the user expected on that host. So a head that is not what it seems can
log in nowhere else with it. The number of signatures is bounded, and `close` ends all signing.
Sources: draft-ietf-sshm-ssh-agent, OpenSSH's PROTOCOL.agent (session-bind) and PROTOCOL (publickey-hostbound-v00).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import paramiko

from ndctl.ssh.keys import Identity, SharedAgentKey

_REQUEST_IDENTITIES = 11
_IDENTITIES_ANSWER = 12
_SIGN_REQUEST = 13
_SIGN_RESPONSE = 14
_EXTENSION = 27
_FAILURE = bytes([5])
_SUCCESS = bytes([6])
_EXTENSION_FAILURE = bytes([28])
_USERAUTH_REQUEST = 50
JOINT = b"login@ndctl"  # string bind, string sign: see relay_mux
_SESSION_BIND = b"session-bind@openssh.com"
_PLAIN, _HOSTBOUND = b"publickey", b"publickey-hostbound-v00@openssh.com"
_RSA_FLAGS = {4: "rsa-sha2-512", 2: "rsa-sha2-256"}
LONGEST = 65_536


class Malformed(Exception):
    """A message that is not what its type says."""


class LoginAgent:
    """What one pass may be signed for.

    allowed: host key blob -> users who may log in there
    quick:   a signature takes no time worth a thread; a key of the user's own agent may ask a person first
    """

    def __init__(self, identity: Identity, allowed: Mapping[bytes, frozenset[str]], most_signatures: int) -> None:
        certificate = identity.key.public_blob
        self.blob: bytes = certificate.key_blob if certificate is not None else identity.key.asbytes()
        self.quick = not isinstance(identity.key, SharedAgentKey)
        self._key = identity.key
        self._allowed = allowed
        self._left = most_signatures
        self._lock = threading.Lock()
        self._open = True

    def close(self) -> None:
        """From now on nothing is signed."""
        with self._lock:
            self._open = False

    def expects(self, host_key: bytes) -> bool:
        return host_key in self._allowed

    def sign(self, host_key: bytes, session: bytes, data: bytes, flags: int) -> bytes | None:
        """The signature of a login to the host the session is with, or None."""
        users = self._allowed.get(host_key, ())
        if not any(data == text for user in users for text in login_requests(user, session, host_key, self.blob)):
            return None
        with self._lock:
            if not self._open or self._left <= 0:
                return None
            self._left -= 1
        algorithm = next((name for flag, name in _RSA_FLAGS.items() if flags & flag), None)
        signature = self._key.sign_ssh_data(data, algorithm)
        return signature if isinstance(signature, bytes) else bytes(signature.asbytes())


class AgentConnection:
    """One connection to the agent: the bytes of requests in, the bytes of answers out."""

    def __init__(self, agent: LoginAgent) -> None:
        self._agent = agent
        self._buffer = bytearray()
        self._bound: tuple[bytes, bytes] | None = None  # host key, session id

    def feed(self, data: bytes) -> bytes:
        """The answers to what has come whole. Raises Malformed for what no agent's client sends."""
        self._buffer += data
        answers = bytearray()
        while len(self._buffer) >= 4:
            size = int.from_bytes(self._buffer[:4], "big")
            if not 0 < size <= LONGEST:
                raise Malformed
            if len(self._buffer) < 4 + size:
                break
            answer = self._answer(bytes(self._buffer[4 : 4 + size]))
            del self._buffer[: 4 + size]
            answers += len(answer).to_bytes(4, "big") + answer
        return bytes(answers)

    def _answer(self, message: bytes) -> bytes:
        kind, body = message[0], _Reader(message[1:])
        try:
            if kind == _REQUEST_IDENTITIES:
                return (
                    bytes([_IDENTITIES_ANSWER]) + (1).to_bytes(4, "big") + _string(self._agent.blob) + _string(b"ndctl")
                )
            if kind == _SIGN_REQUEST:
                blob, data, flags = body.string(), body.string(), body.number()
                signed = None
                if self._bound is not None and blob == self._agent.blob:
                    signed = self._agent.sign(*self._bound, data, flags)
                return _FAILURE if signed is None else bytes([_SIGN_RESPONSE]) + _string(signed)
            if kind == _EXTENSION:
                name = body.string()
                if name == JOINT:
                    return self._login(body.string(), body.string())
                if name == _SESSION_BIND:
                    return _SUCCESS if self._bind(body) else _EXTENSION_FAILURE
        except Malformed:
            return _FAILURE
        return _FAILURE

    def _login(self, bind: bytes, sign: bytes) -> bytes:
        """The two messages of a login that shares this connection with others, as if it had one of its own."""
        alone = AgentConnection(self._agent)
        if bind[:1] != bytes([_EXTENSION]) or sign[:1] != bytes([_SIGN_REQUEST]) or alone._answer(bind) != _SUCCESS:
            return _FAILURE
        return alone._answer(sign)

    def _bind(self, body: _Reader) -> bool:
        host_key, session, signature, forwarding = body.string(), body.string(), body.string(), body.byte()
        if self._bound is not None or forwarding or not self._agent.expects(host_key):
            return False
        if not _signed_by(host_key, session, signature):
            return False
        self._bound = (host_key, session)
        return True


def login_requests(user: str, session: bytes, host_key: bytes, key: bytes) -> Iterator[bytes]:
    """Every text that asks for the login of `user` with this key in this session: nothing else is ever signed."""
    kind = _Reader(key).string()
    algorithms: tuple[bytes, ...] = (kind,)
    if kind.startswith(b"ssh-rsa"):
        algorithms = tuple(kind.replace(b"ssh-rsa", name.encode()) for name in _RSA_FLAGS.values())
    begin = _string(session) + bytes([_USERAUTH_REQUEST]) + _string(user.encode()) + _string(b"ssh-connection")
    for algorithm in algorithms:
        end = b"\1" + _string(algorithm) + _string(key)
        yield begin + _string(_HOSTBOUND) + end + _string(host_key)
        yield begin + _string(_PLAIN) + end


def _signed_by(host_key: bytes, session: bytes, signature: bytes) -> bool:
    kind = _Reader(host_key).string().decode("ascii", "replace")
    try:
        key = paramiko.PKey.from_type_string(kind, host_key)
        return bool(key.verify_ssh_sig(session, paramiko.Message(signature)))
    except (paramiko.SSHException, ValueError, paramiko.pkey.UnknownKeyType):
        return False


def _string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


class _Reader:
    """The wire types of RFC 4251, strictly: what is not there raises Malformed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise Malformed
        self._at += count
        return self._data[self._at - count : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def string(self) -> bytes:
        return self.take(self.number())
