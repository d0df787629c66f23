"""The diff of two renderings for people: each part once, and what it would come to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndctl.report.render_diff import Part, RenderDiff


def diff_lines(diff: RenderDiff, inventory: str, old_label: str) -> list[str]:
    """The answer: empty differences are said in one line."""
    if diff.empty:
        return [f"{inventory} renders as it did in {old_label}"]
    lines: list[str] = []
    for part in diff.parts:
        lines += [f"{_names(part)}  {_KINDS[part.kind]}", *part.lines, *_comes_to(part), ""]
    if diff.cloud_init:
        lines += ["cloud-init of every node  changed", *diff.cloud_init, ""]
    return lines[:-1]


_KINDS = {
    "added": "is new: ndctl deploy would create",
    "removed": "is no longer asked for: ndctl deploy leaves it as it is",
    "changed": "changed",
}


def _names(part: Part) -> str:
    from ndctl.report.fold import node_set

    return part.names[0] if len(part.names) == 1 else node_set(part.names)


def _comes_to(part: Part) -> Iterator[str]:
    if part.kind != "changed":
        return
    if not part.consequences:
        yield "comes to: nothing for what exists (API versions, order of deployment)"
        return
    yield "comes to, where it is deployed:"
    for one in sorted(part.consequences, key=lambda c: (c.resource, c.path)):
        path = f" {one.path}" if one.path else ""
        yield f"  {one.effect.value:<13}  {one.resource}{path}{f'   ({one.note})' if one.note else ''}"
