"""NdctlError as text: `file:line:column  message`, the line itself with carets, then the hint."""

from __future__ import annotations

from pathlib import Path

from ndctl.model.errors import NdctlError, Where


def _source_lines(where: Where, hint: str) -> list[str]:
    if where.line is None:
        return []
    try:
        line = Path(where.file).read_text(encoding="utf-8", errors="replace").splitlines()[where.line - 1]
    except (OSError, IndexError):
        return []
    number = str(where.line)
    shown = [f"  {number} │ {line}"]
    if where.column is not None:
        caret = " " * (where.column - 1) + "^" * max(1, min(where.width, len(line) - where.column + 1))
        shown.append(f"  {' ' * len(number)} │ {caret} {hint}".rstrip())
    return shown


def render_error(error: NdctlError) -> str:
    """The whole text, ending in a newline."""
    head = f"{error.where}  {error.message}" if error.where else f"error: {error.message}"
    lines = [head]
    source = _source_lines(error.where, error.hint) if error.where else []
    lines += source
    if error.hint and not any(error.hint in line for line in source):
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines) + "\n"
