"""The administrator's public key: from the inventory's text, or the file it names. Never a private key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ndctl.model.errors import ExitCode, NdctlError, Where

# What Azure takes for Linux VMs (learn.microsoft.com, "Create and manage SSH keys", read 2026-12).
_ACCEPTED = ("ssh-ed25519", "ssh-rsa")
_OTHER_KINDS = ("ecdsa-", "sk-", "ssh-dss")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """`text` is None when nobody has a key yet; `note` then says why and what to do."""

    text: str | None
    note: str = ""


def public_key(setting: str | None, path_of: Callable[[str], Path], where: Where) -> PublicKey:
    """Resolve `ssh.public_key`. A file that does not exist is no error: a template can be rendered without a key.

    Raises NdctlError (exit 2) for a private key, an unreadable file or a kind of key Azure refuses.
    """
    if setting is None:
        return PublicKey(None, "ssh.public_key is not set: give a value, or deploy with ndctl, which finds your key")
    if _looks_like_key(setting):
        return PublicKey(_checked(setting, "ssh.public_key", where))
    path = path_of(setting)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return PublicKey(None, f"{setting} does not exist: make it with ssh-keygen -t ed25519, then render again")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(f"cannot read the public key {setting}: {error}", where) from error
    return PublicKey(_checked(text, setting, where))


def _looks_like_key(text: str) -> bool:
    return text.lstrip().startswith((*_ACCEPTED, *_OTHER_KINDS, "-----BEGIN"))


def _checked(text: str, origin: str, where: Where) -> str:
    if "PRIVATE KEY" in text:
        raise _refused(f"{origin} holds a private key", where, hint="name the file that ends in .pub")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise _refused(f"{origin} holds no key", where)
    kind, *rest = lines[0].split()
    if kind not in _ACCEPTED or not rest:
        raise _refused(
            f"{origin}: Azure takes ssh-ed25519 and ssh-rsa keys, this is {kind}", where, hint="ssh-keygen -t ed25519"
        )
    return lines[0]


def _refused(message: str, where: Where, hint: str = "") -> NdctlError:
    return NdctlError("render.public-key", message, hint=hint, where=where, exit_code=ExitCode.USAGE)
