"""Error codes that stand in a text without a key: `(Code) …`, `Code: …`, `with error: Code: …`, AADSTS numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from ndctl.parse.azure_text import Legible, squash

# A code that no prose would use: two humps at least, and long, or joined by underscores.
_DISTINCT = re.compile(
    r"(?:[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+|[A-Za-z]+_[A-Za-z_]+|[A-Z]{2,}[a-z]\w+|Compute\.\w+)\Z"
)
_SHAPED = re.compile(r"[A-Z][A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*\Z")
_IN_PARENTHESES = re.compile(
    r"(?:^[ \t]{0,40}|[\]'\"][ \t]{0,8}|[:>]\s{0,8})\(([A-Z][A-Za-z0-9.]{3,80})\)[ \t]{1,4}(?=\S)", re.MULTILINE
)
_BEFORE_COLON = re.compile(
    r"(?:with\s{1,80}error:\s{1,80}|-> ?|: |^(?:ERROR|Error): ?)([A-Z][A-Za-z0-9.]{3,80}) ?:\s{1,80}(?=[^\s(])",
    re.MULTILINE,
)
_BEGINS_LINE = re.compile(r"^([A-Z][A-Za-z0-9.]{3,80}) ?: (?=\S)", re.MULTILINE)
_OF_A_PROGRAM = ("Error", "Exception")  # TypeError, SocketException: a program's own failure
_SIGN_IN = re.compile(r"AADSTS\d{4,9}")
# `"name": "QuotaExceeded"` is a thing that bears the word; these keys tell an error's code.
_NAMED = re.compile(r"(\w+)\\{0,64}[\"']\s{0,20}(?::|=>)\s{0,20}\\{0,64}[\"']\Z")
_TELLING_KEYS = {"code", "errorcode", "subcode", "status", "statuscode", "reason", "error", "errortype", "type", "msg",
                 "title", "message", "value", "category", "exception", "stderr", "err"}  # fmt: skip
# Words in such a string are about errors, they are none.
_ABOUT = re.compile(
    r"[\"'](?:\w{0,40}name|\w{0,40}description|comments?|notes?|label|documentation|help)\\{0,64}[\"']"
    r"\s{0,20}(?::|=>)\s{0,20}\\{0,64}[\"'][^\"']*\Z",
    re.IGNORECASE,
)
_MOST_HITS = 2000


@dataclass(frozen=True, slots=True)
class Word:
    """A code and where it stands; `shaped`: known by its place, not by its name."""

    code: str
    start: int
    end: int
    shaped: bool = False


def is_shaped(code: str) -> bool:
    """Written as Azure writes codes: CamelCase of two words at least."""
    return _SHAPED.match(code) is not None


def words(legible: Legible, known: Collection[str]) -> list[Word]:
    """Every code of `known` that no prose would use, and codes of any name in the places of codes; in text order."""
    text = legible.text
    found = [Word(m[0], m.start(), m.end()) for m in _SIGN_IN.finditer(text)]
    names = {code.casefold() for code in known}
    found += [Word(m[1], m.start(1), m.end(1), shaped=True) for m in _IN_PARENTHESES.finditer(text)]
    for pattern in (_BEFORE_COLON, _BEGINS_LINE):
        found += [
            Word(m[1], m.start(1), m.end(1), shaped=True)
            for m in pattern.finditer(text)
            if m[1].casefold() in names
            or (pattern is _BEFORE_COLON and is_shaped(m[1]) and not m[1].endswith(_OF_A_PROGRAM))
        ]
    found += _known(legible, known)
    found.sort(key=lambda word: (word.start, -word.end, not word.shaped))
    apart: list[Word] = []
    for word in found:
        if not apart or word.start >= apart[-1].end:
            apart.append(word)
    return apart[:_MOST_HITS]


def _known(legible: Legible, known: Iterable[str]) -> Iterator[Word]:
    text = legible.text
    present = [code for code in known if _DISTINCT.match(code) and squash(code) in legible.squashed]
    plain = [code for code in present if code in text]
    for code in sorted(plain, key=len, reverse=True):
        start = text.find(code)
        hits = 0
        while start >= 0 and hits < _MOST_HITS:
            if _stands_alone(text, start, start + len(code)):
                hits += 1
                yield Word(code, start, start + len(code))
            start = text.find(code, start + len(code))
    for code in present:
        if legible.squashed.count(squash(code)) <= text.count(code):
            continue  # nowhere wrapped in the middle
        wrapped = re.compile(r"(?:[ \t]{0,80}\n[ \t]{0,80})?".join(map(re.escape, code)))
        for match in islice(wrapped.finditer(text), _MOST_HITS):
            if _stands_alone(text, match.start(), match.end()):
                yield Word(code, match.start(), match.end())


def _stands_alone(text: str, start: int, end: int) -> bool:
    before, after = text[max(0, start - 60) : start], text[end : end + 1]
    if (before[-1:].isalnum() or before[-1:] in ("_", "-", "#")) or after.isalnum() or after in ("_", "-", "("):
        return False
    if before[-1:] == "/" and not before.lower().endswith("failed/"):
        return False  # a part of an address or of a resource's id
    named = _NAMED.search(re.sub(r"[ \t]*\n[ \t]*", "", before))
    if named is not None:
        return named[1].lower() in _TELLING_KEYS
    return _ABOUT.search(text[max(0, start - 300) : start]) is None
