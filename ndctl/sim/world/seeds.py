"""Identities out of a seed: the same region has the same serials and keys every time it is built."""

from __future__ import annotations

import hashlib
import random


def digest(*parts: object) -> bytes:
    """32 bytes that depend on the parts and nothing else."""
    return hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()


def number(below: int, *parts: object) -> int:
    """A number in [0, below)."""
    return int.from_bytes(digest(*parts)[:8], "big") % below


def uuid(*parts: object) -> str:
    raw = bytearray(digest(*parts)[:16])
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def noise(spread: float, *parts: object) -> float:
    """A factor around 1, at most `spread` away from it."""
    return 1.0 + random.Random(digest(*parts)).uniform(-spread, spread)
