"""An explanation for people: the meaning first, then how it is known and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ndctl.report.lines import Line

_INDENT = 2


def explanation_lines(
    word: str, means: str, facts: Mapping[str, str], lists: Mapping[str, tuple[str, ...]]
) -> Iterator[Line]:
    """The page, one line for each fact and each item of a list."""
    yield Line(f"{word}   {_one(means)}", "bold", _INDENT)
    width = max(map(len, facts), default=0)
    for name, text in facts.items():
        yield Line(f"{' ' * _INDENT}{name:<{width}}  {_one(text)}", "", _INDENT + width + 2)
    for name, items in lists.items():
        if not items:
            continue
        yield Line(f"{' ' * _INDENT}{name}")
        for item in items:
            yield Line(f"{' ' * 2 * _INDENT}- {_one(item)}", "", 2 * _INDENT + 2)


def _one(text: str) -> str:
    return " ".join(text.split())
