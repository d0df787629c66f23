"""Short proofs that something has not moved."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ndctl.model.jsonable import jsonable


def digest_of(value: Any) -> str:
    """SHA-256 of the value as JSON with sorted keys, in hex: equal values give equal digests on every machine."""
    text = json.dumps(jsonable(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
