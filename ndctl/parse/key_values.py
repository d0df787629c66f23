"""`key=value` lines, as ndctl's own node commands print them."""

from __future__ import annotations


def parse(text: str) -> dict[str, str]:
    """The pairs of all lines with a "="; an empty value is left out, since it means that nothing was read."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, value in pairs if value.strip()}
