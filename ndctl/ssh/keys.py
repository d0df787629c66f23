"""What a user logs in with: private keys and certificates from files, then the agent's keys. Loaded once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.ssh.known_hosts import fingerprint

if TYPE_CHECKING:
    import paramiko


@dataclass(frozen=True, slots=True)
class Identity:
    """One thing to offer: a paramiko key (perhaps with a certificate) and how a person knows it."""

    label: str
    key: Any


@dataclass(frozen=True, slots=True)
class Identities:
    """`problems` say in words why a key that was named cannot be used; told when no other one is accepted."""

    offers: tuple[Identity, ...] = ()
    problems: tuple[str, ...] = ()


def load_identities(files: Iterable[Path], *, agent: bool) -> Identities:
    """Read every key file (a certificate `<file>-cert.pub` goes first, the plain key after it) and ask the agent."""
    offers: list[Identity] = []
    problems: list[str] = []
    for path in files:
        key, problem = _load(path)
        if key is None:
            problems.append(problem)
            continue
        certificate = path.with_name(f"{path.name}-cert.pub")
        if certificate.exists():
            try:
                certified, _ = _load(path)
                certified.load_certificate(str(certificate))
                offers.append(Identity(f"certificate {certificate}", certified))
            except Exception as error:  # paramiko raises many kinds here; the plain key is tried all the same
                problems.append(f"{certificate} is not a certificate for {path} ({error})")
        offers.append(Identity(f"{path} ({fingerprint(key.asbytes())})", key))
    if agent:
        offers.extend(_agent_keys(problems, {offer.key.asbytes() for offer in offers}))
    return Identities(tuple(offers), tuple(problems))


def _load(path: Path) -> tuple[Any, str]:
    """(key, "") or (None, why not)."""
    import paramiko
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        text = path.read_bytes()
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror}"
    if text.startswith((b"sk-ssh-", b"sk-ecdsa-", b"ssh-", b"ecdsa-")):
        return None, f"{path} is a public key; the private one is needed"
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
    """An agent's key for many connections at once: the agent's one socket takes one question at a time."""

    def __init__(self, key: Any, lock: threading.Lock) -> None:
        self._key = key
        self._lock = lock
        self.public_blob = None

    def get_name(self) -> str:
        return str(self._key.get_name())

    def asbytes(self) -> bytes:
        return bytes(self._key.asbytes())

    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> Any:
        with self._lock:
            return self._key.sign_ssh_data(data, algorithm)


def _agent_keys(problems: list[str], already: set[bytes]) -> list[Identity]:
    if not os.environ.get("SSH_AUTH_SOCK"):
        return []
    import paramiko

    try:
        keys = paramiko.Agent().get_keys()
    except (OSError, paramiko.SSHException) as error:
        problems.append(f"the SSH agent did not answer: {error}")
        return []
    lock = threading.Lock()
    return [
        Identity(f"agent key {key.comment or key.get_name()} ({fingerprint(key.asbytes())})", SharedAgentKey(key, lock))
        for key in keys
        if key.asbytes() not in already
    ]
