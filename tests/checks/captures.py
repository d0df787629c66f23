"""Captured outputs and what each is owed: status, the check that says so, and words of its message or cause."""

from __future__ import annotations

from pathlib import Path

CAPTURES = Path(__file__).parent.parent / "captures"


def capture(tool: str, name: str) -> str:
    """The text of the one capture whose file name begins with `name`."""
    (file,) = (CAPTURES / tool).glob(f"{name}*")
    return file.read_text(encoding="utf-8", errors="replace")


def all_captures(tool: str) -> list[Path]:
    return sorted(file for file in (CAPTURES / tool).iterdir() if file.name[0].isdigit())
