"""The administrator's public key: that it is one, of a kind Azure takes, and strong enough. No Azure is asked."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ndctl.azure.preflight.base import Ask, Probe
from ndctl.model.preflight import PreflightLine

RSA_BITS = 3072  # NIST SP 800-57 part 1: 128 bits of security
_USUAL = ("id_ed25519.pub", "id_rsa.pub")
_MAKE = "ssh-keygen -t ed25519, and name the .pub file as ssh.public_key"


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """wrong: why it cannot be used, "" when it can."""

    type: str = ""
    bits: int = 0
    wrong: str = ""


def key_facts(text: str) -> KeyFacts:
    """Of one line in OpenSSH's form. Source: RFC 4253, 6.6 (ssh-rsa: e, n) and RFC 8709 (ssh-ed25519)."""
    if "PRIVATE KEY" in text:
        return KeyFacts(wrong="it is a private key")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        return KeyFacts(wrong="it holds no key")
    kind, _, rest = lines[0].partition(" ")
    if kind not in ("ssh-ed25519", "ssh-rsa"):
        return KeyFacts(kind, wrong=f"Azure takes ssh-ed25519 and ssh-rsa, this is {kind[:40]}")
    encoded = rest.split(" ")[0] if rest else ""
    try:
        fields = _fields(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError) as error:
        return KeyFacts(kind, wrong=f"it cannot be read ({error})")
    if not fields or fields[0] != kind.encode():
        return KeyFacts(kind, wrong="the key inside is of another type than its name")
    if kind == "ssh-ed25519":
        whole = len(fields) == 2 and len(fields[1]) == 32
        return KeyFacts(kind, 256, "" if whole else "it is cut or damaged")
    if len(fields) != 3:
        return KeyFacts(kind, wrong="it is cut or damaged")
    bits = int.from_bytes(fields[2], "big").bit_length()
    short = f"{bits} bits, and {RSA_BITS} are the least that is safe" if bits < RSA_BITS else ""
    return KeyFacts(kind, bits, short)


def _fields(blob: bytes) -> list[bytes]:
    """The length-prefixed fields. Raises ValueError when they do not fill the blob."""
    found, at = [], 0
    while at < len(blob):
        length = int.from_bytes(blob[at : at + 4], "big")
        if at + 4 + length > len(blob):
            raise ValueError("it ends too early")
        found.append(blob[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    setting = ask.loaded.inventory.ssh.public_key
    if setting is not None and (" " in setting.strip() or "BEGIN" in setting):
        origin, text = "ssh.public_key", setting
    else:
        path = ask.loaded.path_of(setting) if setting is not None else _own()
        if path is None:
            yield probe.refused("there is no SSH key in ~/.ssh, and the inventory names none", _MAKE)
            return
        origin = str(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            yield probe.refused(f"{origin} cannot be read: {why}", _MAKE)
            return
    told = key_facts(text)
    facts = {"type": told.type, "bits": told.bits}
    if told.wrong:
        yield probe.refused(f"{origin}: {told.wrong}", _MAKE, facts=facts)
        return
    yield probe.proved(f"{origin}: {told.type}, {told.bits} bits", facts=facts)


def _own() -> Path | None:
    return next((path for name in _USUAL if (path := Path.home() / ".ssh" / name).is_file()), None)


PROBE = Probe("ssh-key", "SSH public key", "the key itself", _ask)
