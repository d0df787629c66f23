"""A code in a text, and the message that belongs to it: by a key of the same brackets, or as the prose beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ndctl.parse.azure_keys import Pair, ends_at, runs_out

_LEAD = re.compile(r"[\s\"'\\:;,.)}\]=>|+-]{0,200}(?:message\s{0,4}[=:]\s{0,4}[\"'\\]{0,8})?", re.IGNORECASE)
_LABEL = re.compile(r"(?:Exception|RestError|(?:New|Set|Get|Update|Start|Remove)-Az\w{1,60}|Status Message) ?: ?['\"]?")
_HTTP_LINE = re.compile(r"\n\s{0,20}status(?: ?code)?: ?\d{3}", re.IGNORECASE)
_BACK = 1500
_WORDS = 12  # letters that make a message


@dataclass(frozen=True, slots=True)
class Mark:
    """A code in the text: where it stands, the frame around it, and where its message stands."""

    code: str
    start: int
    end: int
    frame: int = 0
    keyed: bool = False  # found by a key …
    assigned: bool = False  # … whose value is in quotes, as JSON and Go write it
    quoted: bool = False
    placed: bool = False  # stands where a tool prints a code
    said: tuple[int, int] | None = None  # the message, in `text`
    sure: bool = False
    cut: bool = False  # the code or the message ends with the text, and more may have stood there
    message: str = ""
    target: str = ""

    @property
    def span(self) -> tuple[int, int]:
        """From the first to the last place that is its own."""
        begin, end = self.said or (self.start, self.end)
        return min(self.start, begin), max(self.end, end)


def with_messages(marks: list[Mark], found: Sequence[Pair], text: str) -> list[Mark]:
    """Each code with the message and target of its own frame: the next one, or else the one before."""
    by_frame: dict[int, list[Pair]] = {}
    for pair in found:
        if pair.kind != "code":
            by_frame.setdefault(pair.frame, []).append(pair)
    in_frame: dict[int, list[int]] = {}
    for number, mark in enumerate(marks):
        in_frame.setdefault(mark.frame, []).append(number)
    done = list(marks)
    for frame, numbers in in_frame.items():
        for place, number in enumerate(numbers):
            mark = marks[number]
            stop = marks[numbers[place + 1]].start if place + 1 < len(numbers) else len(text)
            if frame == 0 and number + 1 < len(marks):
                stop = min(stop, marks[number + 1].start)
            back = marks[numbers[place - 1]].end if place else 0
            done[number] = _with_own(mark, by_frame.get(frame, []), back, stop)
    return [_with_prose(mark, number, done, text) for number, mark in enumerate(done)]


def _with_own(mark: Mark, own: Sequence[Pair], back: int, stop: int) -> Mark:
    after = [pair for pair in own if mark.end <= pair.start < stop and (mark.frame or pair.start - mark.end < 400)]
    before = [pair for pair in own if back <= pair.start < mark.start] if mark.frame else []
    for kind in ("message", "target"):
        pair = next((p for p in after if p.kind == kind), None)
        pair = pair or next((p for p in reversed(before) if p.kind == kind), None)
        if pair is None:
            continue
        if kind == "message":
            mark = replace(mark, said=(pair.start, pair.end), sure=True, cut=mark.cut or pair.cut, message=pair.value)
        else:
            mark = replace(mark, target=pair.value if pair.value.casefold() not in ("null", "none") else "")
    return mark


def _with_prose(mark: Mark, number: int, marks: Sequence[Mark], text: str) -> Mark:
    """A code without a message key: what follows it in its paragraph, or (.NET, the portal) what stands before."""
    if mark.said is not None:
        return mark
    ahead, behind = _prose_after(mark, number, marks, text), _prose_before(mark, number, marks, text)
    if mark.keyed and text[max(0, mark.start - 1) : mark.start] == "(":
        places = [behind]
    elif mark.placed or (mark.frame and mark.quoted) or "=" in text[mark.start : mark.end]:
        places = [ahead]
    elif _HTTP_LINE.search(text, max(0, mark.start - 60), mark.start):
        places = [behind, ahead]
    else:
        places = [ahead, behind]
    for begin, end in places:
        if sum(map(str.isalpha, text[begin:end])) > _WORDS:
            cut = mark.cut or runs_out(text, begin, end)
            return replace(mark, said=(begin, end), cut=cut, message=text[begin:end])
    return mark


def _prose_after(mark: Mark, number: int, marks: Sequence[Mark], text: str) -> tuple[int, int]:
    stop = marks[number + 1].start if number + 1 < len(marks) else len(text)
    begin = mark.end
    lead = _LEAD.match(text, begin, min(stop, begin + 400))
    if lead and "\n\n" not in lead[0]:
        begin = lead.end()
    if text[begin : begin + 1] in ("{", "["):
        return begin, begin
    return begin, ends_at(text, begin, min(stop, begin + 2000))


def _prose_before(mark: Mark, number: int, marks: Sequence[Mark], text: str) -> tuple[int, int]:
    """Back to the label that began the message, or to the blank line before it."""
    floor = max(marks[number - 1].span[1] if number else 0, mark.start - _BACK)
    before = text[floor : mark.start].rstrip(" \t\n(\"'\\")
    starts = [label.end() for label in _LABEL.finditer(before)][-1:]
    starts = starts or [blank.end() for blank in re.finditer(r"\n[ \t]*\n", before)]
    begin = next((start for start in reversed(starts) if sum(map(str.isalpha, before[start:])) > _WORDS), 0)
    begin += len(before[begin:]) - len(before[begin:].lstrip(" \t\n)]}.,;"))
    end = _HTTP_LINE.search(before, begin)
    return floor + begin, floor + (end.start() if end else len(before))
