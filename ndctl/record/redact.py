"""Secrets that a node's text might show, taken out before it is handed on: keys, signatures, tokens, passwords."""

from __future__ import annotations

import re

GONE = "[ndctl: a secret was here]"
_PATTERNS = (
    (re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?(?:-----END \1PRIVATE KEY-----|\Z)", re.DOTALL), GONE),
    # Azure: signatures of shared access, account keys, tokens; and what people put on command lines.
    (re.compile(r"(?i)([?&]sig=)[A-Za-z0-9%+/=]{20,}"), rf"\1{GONE}"),
    (re.compile(r"(?i)\b((?:account|shared|access|secret)[-_]?(?:access)?[-_]?key=)[^\s;,\"']{16,}"), rf"\1{GONE}"),
    (re.compile(r"(?i)\b(bearer |authorization: \w+ )[A-Za-z0-9._~+/=-]{20,}"), rf"\1{GONE}"),
    (re.compile(r"(?i)\b((?:password|passwd|client[-_]secret|api[-_]?key)[=:])[^\s;,\"'&]{4,}"), rf"\1{GONE}"),
)
# One cheap look decides whether a text is searched at all: logs are long, and secrets in them rare.
_HINT = re.compile(r"(?i)private key|sig=|key[=:]|bearer |authorization:|passw|secret")


def redacted(text: str) -> str:
    """The text, with GONE in place of what looks like a secret; the same object where there is none."""
    if not _HINT.search(text):
        return text
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text
