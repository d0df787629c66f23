"""Values as SQLite holds them: compressed texts, and columns that any value fits into."""

from __future__ import annotations

import hashlib
import threading
import zlib
from typing import Any

import zstandard

# Text of tools is a fifteenth of its size by then. zlib, which the records before format 3 hold, took five times the
# CPU, on every node of a run.
_LEVEL = 1
_MAGIC = b"\x28\xb5\x2f\xfd"  # RFC 8878, 3.1.1; no text of zlib begins so
_of_thread = threading.local()  # a compressor may not work for two threads at once


def encoded(text: str) -> bytes:
    """Any str at all comes back as it was, lone surrogates and NULs too."""
    return text.encode("utf-8", "surrogatepass")


def pack(data: bytes) -> bytes:
    packer = getattr(_of_thread, "packer", None)
    if packer is None:
        packer = _of_thread.packer = zstandard.ZstdCompressor(level=_LEVEL)
    packed: bytes = packer.compress(data)
    return packed


def unpack(blob: bytes) -> str:
    """Raises ValueError or TypeError for what `pack` did not make, now or in an earlier format."""
    return unpacked(blob).decode("utf-8", "surrogatepass")


def unpacked(blob: bytes) -> bytes:
    """As `unpack`."""
    try:
        if blob[:4] != _MAGIC:
            return zlib.decompress(blob)
        data: bytes = zstandard.ZstdDecompressor().decompress(blob)
    except (zlib.error, zstandard.ZstdError, MemoryError) as error:  # a damaged head may announce any size
        raise ValueError(str(error) or "it announces more than the memory holds") from error
    return data


def digest(data: bytes) -> bytes:
    """Sixteen bytes by which a text is known again."""
    return hashlib.blake2b(data, digest_size=16).digest()


def column(value: Any) -> Any:
    """A value SQLite can hold: text without lone surrogates, integers of 64 bits (beyond that a float or text)."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        try:
            return float(value)
        except OverflowError:
            return hex(value)
    return value
