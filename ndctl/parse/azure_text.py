"""Pasted text of any Azure tool made legible, and sentences found in it however it was wrapped.

Two views of one text: `text`, in which escapes of line ends, typographic quotes and frames of boxes are undone while
escaped quotes stay (they tell which quote closes which), and `squashed`, in which case, blanks and quotes are gone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from ndctl.parse.tidy import straight, unescaped

_UNICODE_ESCAPE = re.compile(r"(?<!\\)\\{1,64}u00(22|27|26|3[cCeE]|0[dD]|0[aA])")
_UNICODE_WIDE = re.compile(r"(?<!\\)\\{1,64}u(20[0-9a-fA-F]{2}|25[0-7][0-9a-fA-F]|00[aA]0)")
_UNICODE = {"22": '\\"', "27": "'", "26": "&", "3c": "<", "3e": ">", "0d": "", "0a": "\n"}
_LINE_END = re.compile(r"(?<!\\)(?:\\{1,64}r)?\\{1,64}n")
_BLANK = re.compile(r"(?<!\\)\\{1,64}[rt]")
# Frames of terraform, e-mail quotes, marks and stamps of build servers, packer's and shells' own prefixes.
_PREFIX = re.compile(
    r"^(?:[ \t]{0,20}[\u2500-\u257f|>]{1,4}(?![=\w])){0,3}"
    r"(?:[ \t]{0,8}\d{4}-\d\d-\d\dT[\d:.]{5,20}Z )?"
    r"(?:[ \t]{0,8}##\[(?:error|warning|debug)\])?"
    r"(?:==> [\w.-]{1,60}:(?: |$))?"
    r"(?:STD(?:ERR|OUT): )?",
    re.MULTILINE,
)
_FAR, _NEAR = 300, 60
_STEP = 256
_LONG = 4 * 2**20  # characters; a paste is never longer, a log is
_AROUND = 4000
_HINT = re.compile(
    r"error|code|fail|aadsts|exceed|too many|throttl|denied|authoriz|disallow|restrict|not (?:available|allowed)"
    r"|not accepted|unavailable|quota|deployment|legal terms|is in progress|terminal prov"
)
_SQUASH = str.maketrans("", "", " \t\n\r\"'`\\")


def squash(text: str) -> str:
    """The text without case, blanks, line ends, quotes and backslashes."""
    return text.lower().translate(_SQUASH)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words that may stand anywhere in a text, wrapped or not; `...` is up to 300 characters of anything, `..` 60.

    parts: the squashed pieces; gaps[i]: the most characters between parts[i] and parts[i + 1]
    """

    parts: tuple[str, ...]
    gaps: tuple[int, ...]

    @classmethod
    def of(cls, words: str) -> Sentence:
        pieces = re.split(r"(\.{2,3}(?= |$))", words)
        parts = tuple(squash(piece) for piece in pieces[::2])
        if not all(parts):
            raise ValueError(f"'{words}' must neither begin nor end with a gap")
        return cls(parts, tuple(_FAR if gap == "..." else _NEAR for gap in pieces[1::2]))

    def spans(self, squashed: str, most: int = 200) -> Iterator[tuple[int, int]]:
        """Where it stands in a squashed text, first to last; linear in the text."""
        if not all(part in squashed for part in self.parts):
            return
        position = 0
        while most and (start := squashed.find(self.parts[0], position)) >= 0:
            end = start + len(self.parts[0])
            for part, gap in zip(self.parts[1:], self.gaps, strict=True):
                found = squashed.find(part, end, end + gap + len(part))
                if found < 0:
                    break
                end = found + len(part)
            else:
                yield start, end
                most -= 1
            position = start + len(self.parts[0])

    def inside(self, squashed: str) -> bool:
        return next(self.spans(squashed, most=1), None) is not None


class Legible:
    """A text in both views; `place` leads from the squashed one back to the other."""

    def __init__(self, text: str) -> None:
        self.text = _legible(_worth_reading(text))
        pieces = [squash(self.text[at : at + _STEP]) for at in range(0, len(self.text), _STEP)]
        self.squashed = "".join(pieces)
        self._steps = list(accumulate(map(len, pieces), initial=0))  # where each step of `text` begins in `squashed`

    def place(self, squashed_at: int) -> int:
        """Where the character `squashed_at` of `squashed` stands in `text`."""
        number = bisect_right(self._steps, squashed_at) - 1
        left = squashed_at - self._steps[number]
        position = number * _STEP
        for mark in self.text[position : position + _STEP]:
            kept = len(squash(mark))
            if left < kept:
                break
            left -= kept
            position += 1
        return min(position, len(self.text))


def _worth_reading(text: str) -> str:
    """The whole text; of a log of many megabytes the surroundings of what may be errors, from its beginning on."""
    if len(text) <= _LONG:
        return text
    kept: list[str] = []
    size = end = 0
    lower = text.lower()
    while size < _LONG and (hint := _HINT.search(lower, end)):
        begin = max(end, hint.start() - _AROUND)
        end = min(len(text), hint.end() + _AROUND)
        kept.append(("" if begin == end or not kept else "\n\n") + text[begin:end])
        size += end - begin
    return "".join(kept)


def _legible(text: str) -> str:
    if "\\u" in text:
        text = _UNICODE_WIDE.sub(lambda match: chr(int(match[1], 16)), text)
    text = straight(unescaped(text))
    if "\\" in text:
        if "u00" in text:
            text = _UNICODE_ESCAPE.sub(lambda match: _UNICODE[match[1].lower()], text)
        text = _LINE_END.sub("\n", text)
        text = _BLANK.sub(" ", text)
    return _PREFIX.sub("", text)


def paragraph(text: str, column: int = 0, most: int = 2000) -> str:
    """A message on one line. Where lines were wrapped in the middle of words, they are joined without a blank.

    column: where in its line the message begins
    """
    lines = text[: 2 * most].rstrip().split("\n")
    lengths = [len(line) + (0 if number else column) for number, line in enumerate(lines)]
    widest = max(lengths)
    joined = ""
    for number, line in enumerate(lines):
        joined += line.strip()
        if number + 1 < len(lines):
            inside_word = lengths[number] == widest >= 60 and line[-1:].isalnum() and lines[number + 1][:1].isalnum()
            joined += "" if inside_word else " "
    return " ".join(joined.replace('\\"', '"').split())[:most]
