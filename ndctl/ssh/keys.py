"""What a user logs in with: private keys and certificates from files, then the agent's keys. Loaded once."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.ssh.known_hosts import fingerprint, parse_public_keys

if TYPE_CHECKING:
    import paramiko


_CERTIFICATE = "-cert-v01@openssh.com"
_AGENT_S = 5.0


@dataclass(frozen=True, slots=True)
class Identity:
    """One thing to offer: a paramiko key (perhaps with a certificate) and how a person knows it."""

    label: str
    key: Any

    @property
    def signing(self) -> bool:
        """Whether the agent is being waited for right now."""
        return isinstance(self.key, SharedAgentKey) and self.key.signing

    @property
    def trouble(self) -> str:
        """Why the agent did not sign with it, "" when it did or was never asked."""
        return self.key.trouble if isinstance(self.key, SharedAgentKey) else ""


@dataclass(frozen=True, slots=True)
class Identities:
    """`problems` say in words why a key that was named cannot be used; told when no other one is accepted."""

    offers: tuple[Identity, ...] = ()
    problems: tuple[str, ...] = ()


def load_identities(files: Iterable[Path], *, agent: bool) -> Identities:
    """Read every key file (a certificate `<file>-cert.pub` goes first, the plain key after it) and ask the agent.

    A file that is encrypted, or a public key, stands for the agent's key of the same kind, in its place; the agent's
    other keys come last.
    """
    offers: list[Identity | bytes] = []
    problems: dict[bytes, str] = {}
    for path in files:
        key, problem = _load(path)
        if key is None:
            public = _public_half(path)
            offers.append(public)
            problems[public or str(path).encode()] = problem
            continue
        certificate = path.with_name(f"{path.name}-cert.pub")
        if certificate.exists():
            try:
                certified, _ = _load(path)
                certified.load_certificate(str(certificate))
                offers.append(Identity(f"certificate {certificate}", certified))
            except Exception as error:  # paramiko raises many kinds here; the plain key is tried all the same
                problems[str(certificate).encode()] = f"{certificate} is not a certificate for {path} ({error})"
        offers.append(Identity(f"{path} ({fingerprint(key.asbytes())})", key))
    plain = {offer.key.asbytes() for offer in offers if isinstance(offer, Identity)}
    held = {blob: one for blob, one in _agent_keys(problems).items() if blob not in plain} if agent else {}
    found: list[Identity] = []
    for offer in offers:
        if isinstance(offer, Identity):
            found.append(offer)
        elif offer in held:
            found.append(held.pop(offer))
            del problems[offer]
    return Identities((*found, *held.values()), tuple(problems.values()))


def _public_half(path: Path) -> bytes:
    """The public key in the file itself or beside it; empty when there is none."""
    for file in (path, path.with_name(f"{path.name}.pub")):
        try:
            keys = parse_public_keys(file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if keys:
            return keys[0].blob
    return b""


def _load(path: Path) -> tuple[Any, str]:
    """(key, "") or (None, why not)."""
    import paramiko
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        text = path.read_bytes()
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror}"
    if text.startswith((b"sk-ssh-", b"sk-ecdsa-", b"ssh-", b"ecdsa-")):
        return None, f"{path} is a public key; the private one is needed, or the agent with it"
    if _is_security_key(text):
        return None, f"{path} is a security key (sk-…), which needs a touch; use the agent with another key"
    try:
        return _from_path(path), ""
    except (paramiko.PasswordRequiredException, TypeError):
        # cryptography says "encrypted, no password given" by TypeError
        return None, f"{path} is encrypted; add it to the agent first: ssh-add {path}"
    except (paramiko.SSHException, ValueError, UnsupportedAlgorithm, paramiko.pkey.UnknownKeyType) as error:
        return None, f"{path} is not a private key that can be used: {error or type(error).__name__}"


def _from_path(path: Path) -> paramiko.PKey:
    """`PKey.from_path` without its certificate: that one is offered apart, so that the plain key can follow."""
    import paramiko

    head = path.read_text(encoding="utf-8", errors="replace")
    if "BEGIN OPENSSH" not in head and "BEGIN EC " not in head and "BEGIN RSA " not in head:
        raise ValueError("no OpenSSH, RSA or EC private key in it")
    key = paramiko.PKey.from_path(str(path))
    key.public_blob = None
    return key


def _is_security_key(text: bytes) -> bool:
    import base64
    import binascii

    body = b"".join(line for line in text.splitlines() if not line.startswith(b"-----"))
    try:
        return b"sk-ssh-ed25519@openssh.com" in (raw := base64.b64decode(body)) or b"sk-ecdsa-sha2" in raw
    except binascii.Error:
        return False


class SharedAgentKey:
    """An agent's key or certificate for many connections at once: the agent's one socket takes one question at a time.

    An agent that refuses to sign must not end the connection, on which another key may be accepted: the refusal is
    kept in `trouble`, and the server is shown a signature that it cannot take.
    """

    def __init__(self, key: Any, lock: threading.Lock) -> None:
        import paramiko

        self._key = key
        self._lock = lock
        self._waiting = 0
        self.trouble = ""
        self.blob = bytes(key.blob)
        # paramiko would show a certificate's name with the plain key's bytes.
        name = str(key.get_name())
        self.public_blob = paramiko.pkey.PublicBlob(name, self.blob) if name.endswith(_CERTIFICATE) else None

    @property
    def signing(self) -> bool:
        return self._waiting > 0

    def get_name(self) -> str:
        return str(self._key.get_name())

    def asbytes(self) -> bytes:
        return self.blob

    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> Any:
        import paramiko

        self._waiting += 1
        try:
            with self._lock:
                return _signed(self._key, self.blob, data, algorithm)
        except (paramiko.SSHException, OSError) as error:
            self.trouble = f"the SSH agent did not sign with {self._key.comment or self.get_name()}: {error}"
            return paramiko.Message()
        finally:
            self._waiting -= 1


def _signed(key: Any, blob: bytes, data: bytes, algorithm: str | None) -> bytes:
    """The agent's signature (draft-ietf-sshm-ssh-agent, 3.6); asked by `blob`, so that a certificate alone will do."""
    import paramiko
    from paramiko.agent import ALGORITHM_FLAG_MAP, SSH2_AGENT_SIGN_RESPONSE, cSSH2_AGENTC_SIGN_REQUEST

    question = paramiko.Message()
    question.add_byte(cSSH2_AGENTC_SIGN_REQUEST)
    question.add_string(blob)
    question.add_string(data)
    question.add_int(ALGORITHM_FLAG_MAP.get(algorithm or "", 0))
    kind, answer = key.agent._send_message(question)
    if kind != SSH2_AGENT_SIGN_RESPONSE:
        raise paramiko.SSHException("it refused")
    return bytes(answer.get_binary())


def _agent_keys(problems: dict[bytes, str]) -> dict[bytes, Identity]:
    """What the agent holds, by public blob, in its order."""
    if not os.environ.get("SSH_AUTH_SOCK"):
        return {}
    answers: queue.SimpleQueue[list[Any] | str] = queue.SimpleQueue()

    def ask() -> None:
        import paramiko

        try:
            answers.put(list(paramiko.Agent().get_keys()))
        except (OSError, paramiko.SSHException) as error:
            answers.put(str(error))

    # Reading from the agent has no deadline of its own; one that hangs is left behind.
    threading.Thread(target=ask, name="ndctl-agent", daemon=True).start()
    try:
        keys = answers.get(timeout=_AGENT_S)
    except queue.Empty:
        keys = f"silent for {_AGENT_S:g} s"
    if isinstance(keys, str):
        problems[b"agent"] = f"the SSH agent did not answer: {keys}"
        return {}
    lock = threading.Lock()
    return {bytes(key.blob): Identity(_agent_label(key), SharedAgentKey(key, lock)) for key in keys}


def _agent_label(key: Any) -> str:
    what = "certificate" if key.get_name().endswith(_CERTIFICATE) else "key"
    return f"agent {what} {key.comment or key.get_name()} ({fingerprint(bytes(key.blob))})"
