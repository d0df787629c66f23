"""The key-value pairs an Azure error is made of, in any syntax: JSON, Go, PowerShell, Ruby, Python, .NET, YAML, XML.

A pair is found by its key; which quote closes its value is told by the backslashes before it, so JSON inside strings
inside JSON needs no decoding, and nothing has to be whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

# Looked for in lower case; what stands before it is looked at afterwards, so that a long text stays cheap.
_KEY = re.compile(
    r"(?:(?P<code>code|error[ _]?code|sub[ _]?code|error[ _]?type|azure[ ]error)"
    r"|(?P<message>message|error[ _]?message|status[ _]?message|msg|error_description)"
    r"|(?P<target>target))"
    r"(?P<close>\\{0,64}[\"'])?[ \t]{0,20}(?:=>|[:=])\s{0,200}"
    r"|<(?:\w{1,8}:)?(?:(?P<xcode>code|errorcode)|(?P<xmessage>message))>\s{0,40}"
)
_NOT_BEFORE = re.compile(r"(?:[\w.$/-]|\b(?:exit|status|return|zip) )\Z")
_QUOTE = re.compile(r"(?<!\\)(\\{0,64})([\"'])")
# What may stand behind the quote that ends a message.
_AFTER_END = re.compile(
    r"\s{0,200}(?:[,;})\]]|\Z|\\{0,64}[\"']\s{0,20}(?:[,;})\]\n]|\w+[ ]?=|\\{0,64}[\"']|\Z)"
    r"|(?:Target|Details|InnerError|AdditionalInfo|\w+)[ ]?=)|[ \t]{0,20}\n"
)
_IN_QUOTES = re.compile(r"[^\"'\\<>{}\[\],;]{0,120}")
_IS_JSON = re.compile(r"\s{0,40}(?:\{\s{0,40}\\{0,64}[\"'}]|\[\s{0,40}\{)")
_BARE_CODE = re.compile(r"[A-Za-z][\w.]{0,80}(?:/[\w.]{1,80}){0,3}|\d{3}(?!\w)")
# What begins a new thing, so that it ends a message written without quotes.
_NEXT_THING = re.compile(
    r"\n[ \t]{0,40}(?:\n|\Z|At [\w./~\\]{1,4}|\+ |-{5}|\* |\[|\{|Traceback|"
    r"(?:exception details|inner errors?|target|status|error ?code|code|message|headers|content|"
    r"correlation ?id|request ?id|activity ?id|timestamp)[ \t]{0,20}:|[A-Z]\w{1,20}-\w{2,60}[ ]?:)"
    r"|\n[ \t]{0,8}##\[|</\w|;\s{0,4}\w{2,20}=|\s(?:Target|Details|InnerError)[=:]",
    re.IGNORECASE,
)
_YAML_BLOCK = re.compile(r"[>|][+-]?\s{1,80}")
_SENTENCE_END = re.compile(r"[.!](?:\s|\Z)|[)'\"\]}]\s{0,20}\Z")
LONGEST = 4000
MOST_PAIRS = 6000
# A bracket, or the beginning of something new that no bracket left open before reaches into.
_BRACKET = re.compile(r"^(?:\{|error|warning|fatal|traceback|\d{4}-\d\d-\d\d|level=|time=)|[{}\[\]]", re.MULTILINE)
_MOST_BRACKETS = 1_000_000
_DEEPEST = 200
_GOES_ON = ("[", "{", ",", ":", ">", "(")
_PAIR_OF = {"}": "{", "]": "["}


@dataclass(frozen=True, slots=True)
class Pair:
    """One key and its value. `frame` is the brackets it stands in (0: none); `nested`: the value is an object.

    kind:   code | message | target
    quoted: the key was in quotes, as JSON writes it
    cut:    the value's end is not in the text
    """

    kind: str
    start: int
    end: int
    value: str
    frame: int = 0
    quoted: bool = False
    valued_quoted: bool = False
    nested: bool = False
    cut: bool = False


def lowered(text: str) -> str:
    """The text in lower case, every character in its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(m if len(m.lower()) != 1 else m.lower() for m in text)


def pairs(text: str, lower: str) -> list[Pair]:
    """Every pair in the order of the text, at most MOST_PAIRS; `lower` is the text in lower case."""
    found = []
    for match in _KEY.finditer(lower):
        kind = next(name for name in ("code", "message", "target", "xcode", "xmessage") if match[name] is not None)
        before = lower[max(0, match.start() - 7) : match.start()]
        quoted = match["close"] is not None
        if not kind.startswith("x") and (before[-1:] not in ("'", '"') if quoted else _NOT_BEFORE.search(before)):
            continue
        one = _read(text, kind.removeprefix("x"), match.start(), match.end(), quoted)
        if one is not None:
            found.append(one)
            if len(found) >= MOST_PAIRS:
                break
    return found


def _read(text: str, kind: str, start: int, at: int, quoted: bool) -> Pair | None:
    opening = _QUOTE.match(text, at)
    if opening is None and text[at : at + 1] in ("{", "["):
        return Pair(kind, start, at, "", quoted=quoted, nested=True) if kind == "message" else None
    if kind == "message":
        value, end, cut = _in_quotes(text, opening) if opening else _unquoted(text, at)
        if _IS_JSON.match(value):
            return Pair(kind, start, end, "", quoted=quoted, nested=True, cut=cut)
        return Pair(kind, start, end, value, quoted=quoted, valued_quoted=opening is not None, cut=cut)
    if opening:
        inner = _IN_QUOTES.match(text, opening.end())
        value, end = (inner[0], inner.end()) if inner else ("", opening.end())
        value = "".join(value.split()) if kind == "code" else " ".join(value.split())
        return Pair(kind, start, end, value, quoted=quoted, valued_quoted=True, cut=end >= len(text))
    bare = _BARE_CODE.match(text, at)
    if bare is None:
        return None
    return Pair(kind, start, bare.end(), bare[0].rstrip("."), quoted=quoted, cut=bare.end() >= len(text))


def _in_quotes(text: str, opening: re.Match[str]) -> tuple[str, int, bool]:
    """Value, end, whether it was cut: to the first quote of the same kind, not deeper escaped, that ends something."""
    begin = opening.end()
    limit = min(len(text), begin + LONGEST)
    for quote in _QUOTE.finditer(text, begin, limit):
        if quote[2] == opening[2] and len(quote[1]) <= len(opening[1]) and _AFTER_END.match(text, quote.end()):
            return text[begin : quote.start()], quote.end(), False
    return text[begin:limit], limit, True


def _unquoted(text: str, begin: int) -> tuple[str, int, bool]:
    block = _YAML_BLOCK.match(text, begin)
    begin = block.end() if block else begin
    limit = min(len(text), begin + LONGEST // 2)
    end = ends_at(text, begin, limit)
    return text[begin:end], end, runs_out(text, begin, end)


def ends_at(text: str, begin: int, limit: int) -> int:
    """Where a message without quotes that begins at `begin` ends: before the next thing, `limit` at the latest."""
    found = _NEXT_THING.search(text, begin, limit)
    return found.start() if found else limit


def runs_out(text: str, begin: int, end: int) -> bool:
    """Whether a message without quotes ends with the text before its first sentence does."""
    return end >= len(text) and _SENTENCE_END.search(text, begin, end) is None


class Frames:
    """Which brackets each place of a text stands in. Frame 0 is none."""

    def __init__(self, lower: str, places: Sequence[int]) -> None:
        """`places` are ascending; brackets after the last one are not looked at."""
        self._parent = [-1]
        self._at: list[int] = []
        self._places = list(places)
        open_ones: list[tuple[str, int]] = []
        brackets = islice(_BRACKET.finditer(lower, 0, places[-1] if places else 0), _MOST_BRACKETS)
        bracket = next(brackets, None)
        for place in places:
            while bracket is not None and bracket.start() < place:
                self._step(lower, bracket, open_ones)
                bracket = next(brackets, None)
            self._at.append(open_ones[-1][1] if open_ones else 0)

    def _step(self, lower: str, bracket: re.Match[str], open_ones: list[tuple[str, int]]) -> None:
        mark, start = bracket[0], bracket.start()
        if mark in _PAIR_OF:
            # A stray bracket of prose closes nothing; one that was left open is closed by its parent's end.
            depth = next((n for n, one in enumerate(reversed(open_ones[-3:]), 1) if one[0] == _PAIR_OF[mark]), 0)
            if depth:
                del open_ones[-depth:]
            return
        begins_line = start == 0 or lower[start - 1] == "\n"
        if mark not in "{[" or (
            mark == "{" and begins_line and lower[max(0, start - 60) : start].strip()[-1:] not in _GOES_ON
        ):
            open_ones.clear()
        if mark in "{[" and len(open_ones) < _DEEPEST:
            self._parent.append(open_ones[-1][1] if open_ones else 0)
            open_ones.append((mark, len(self._parent) - 1))

    def of(self, place: int) -> int:
        return self._at[bisect_right(self._places, place) - 1]

    def inside(self, inner: int, outer: int) -> bool:
        """Whether frame `inner` is a proper part of frame `outer`."""
        while inner > 0 and outer > 0:
            inner = self._parent[inner]
            if inner == outer:
                return True
        return False
