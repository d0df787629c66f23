"""Values as SQLite holds them: compressed texts, and columns that any value fits into."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

_ZLIB_LEVEL = 3  # text of tools is a tenth of its size by then; more would cost the client's CPU on every node
# Most texts are short: with a window as long as they are, and small tables, setting up costs a tenth of what it costs
# with zlib's own, and they come out as small. Whatever reads zlib reads them.
_SHORT_BITS, _SHORT_MEMORY = 14, 6
_SHORT = 2**_SHORT_BITS


def encoded(text: str) -> bytes:
    """Any str at all comes back as it was, lone surrogates and NULs too."""
    return text.encode("utf-8", "surrogatepass")


def pack(data: bytes) -> bytes:
    if len(data) > _SHORT:
        return zlib.compress(data, _ZLIB_LEVEL)
    packer = zlib.compressobj(_ZLIB_LEVEL, zlib.DEFLATED, _SHORT_BITS, _SHORT_MEMORY)
    return packer.compress(data) + packer.flush()


def unpack(blob: bytes) -> str:
    """Raises zlib.error, ValueError or TypeError for what `pack` did not make."""
    return zlib.decompress(blob).decode("utf-8", "surrogatepass")


def digest(data: bytes) -> bytes:
    """Sixteen bytes by which a text is known again."""
    return hashlib.blake2b(data, digest_size=16).digest()


def column(value: Any) -> Any:
    """A value SQLite can hold: text without lone surrogates, integers of 64 bits (beyond that a float or text)."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        try:
            return float(value)
        except OverflowError:
            return hex(value)
    return value
