"""Errors of Azure in pasted text of any wrapper: az, Terraform, PowerShell, the SDKs, controllers' logs, raw JSON.

Nothing has to be whole or to be JSON: codes are found by their keys, by their places or by name, each gets the message
that belongs to it, and brackets and quotes tell which error stands inside which. What they mean is not judged here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ndctl.parse.azure_keys import Frames, Pair, ends_at, lowered, pairs, runs_out
from ndctl.parse.azure_marks import Mark, with_messages
from ndctl.parse.azure_text import Legible, Sentence, paragraph, squash
from ndctl.parse.azure_words import is_shaped, words

_STATUS = re.compile(
    r"(?:status[ _]?code|httpstatuscode|status|response|http/\d(?:\.\d)?|http error)\W{0,8}([45]\d\d)\b(?!\.\d)"
)
_TROUBLE = re.compile(
    r"error|fail|exception|denied|not |n't|cannot|invalid|exceed|unable|must|missing|disallow|refus|reject|too "
    r"|unexpected"
)
_OF_AZURE = re.compile(
    r"azure|microsoft|\baz\b|windows\.net|aka\.ms|subscription|resource ?group|new-az|vmss|virtualmachine|autorest"
    r"|azapi|bicep|deployment|terminal provisioning"
)
# Codes of a state, not of an error.
_STATES = {"ok", "succeeded", "success", "accepted", "created", "running", "inprogress", "ready", "updating", "none",
           "notstarted", "null", "true", "false", "informational", "info", "warning", "error", "canceled"}  # fmt: skip
_DETAILS = re.compile(
    r"[\s\"'\\;,.)]{0,40}(?:target[=:]\s?\S{1,300}\s{1,40})?\W{0,40}"
    r"(?:details|inner ?errors?|exception details|additionalinfo)\b"
)
_CALLED_CODE = re.compile(r"code\W{1,60}\Z")  # a key that a wrapped line broke
_HUMP = re.compile(r"[A-Z][a-z0-9]")
_NEAR = 3000  # characters in which a text must speak of Azure for a word that others print too
_TELLS_ALONE = 30  # letters of a sentence that only Azure prints
_MOST_ERRORS = 400


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What is known of Azure's errors before a text is read: codes, and sentences that prove an error."""

    codes: frozenset[str] = frozenset()
    sentences: tuple[Sentence, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """One error as the text tells it.

    code:    "" where only a sentence tells it
    message: one line, "" where none belongs to it
    target:  what Azure says it is about, "" if not told
    sure:    the message is its own by a key, and not merely the text beside the code
    cut:     the code or the message ends with the text, and more may have stood there
    context: the text around it, for an error whose message is lost
    status:  the HTTP status beside it
    inside:  the numbers of the errors it stands in, by their place in the list
    """

    code: str
    message: str
    target: str = ""
    sure: bool = True
    cut: bool = False
    context: str = ""
    status: int | None = None
    inside: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AzureText:
    """Every error of a text in its order; `statuses` are the HTTP statuses of Azure's answers, 400 and above."""

    errors: tuple[Told, ...] = ()
    statuses: tuple[int, ...] = ()


def parse(text: str, vocabulary: Vocabulary | None = None) -> AzureText:
    """The errors a text tells. Without a vocabulary only codes that stand in the place of one are found."""
    vocabulary = vocabulary or Vocabulary()
    legible = Legible(text)
    lower = lowered(legible.text)
    known = {code.casefold() for code in vocabulary.codes}
    marks, frames = _marks(legible, lower, vocabulary, known)
    marks = _with_sentences(marks, legible, lower, vocabulary)
    marks = _distinct(marks)[:_MOST_ERRORS]
    errors = tuple(_told(number, marks, frames, legible.text, lower) for number in range(len(marks)))
    statuses = [m for m in islice(_STATUS.finditer(lower), _MOST_ERRORS) if _speaks_of_azure(lower, m.start())]
    return AzureText(errors, tuple(dict.fromkeys(int(status[1]) for status in statuses)))


def _marks(legible: Legible, lower: str, vocabulary: Vocabulary, known: set[str]) -> tuple[list[Mark], Frames]:
    text = legible.text
    found = pairs(text, lower)
    bare = words(legible, vocabulary.codes)
    places = sorted({pair.start for pair in found} | {word.start for word in bare})
    frames = Frames(lower, places)
    codes = [
        Mark(
            code,
            pair.start,
            pair.end,
            frames.of(pair.start),
            True,
            pair.valued_quoted,
            pair.quoted,
            cut=pair.cut and code.casefold() not in known,
        )
        for pair in found
        if pair.kind == "code" and (code := _code(pair, known))
    ]
    # A bare word inside a keyed code is that code; where the key's value was wrapped, the word is the whole of it.
    spans = {mark.start: mark for mark in codes}
    for word in bare:
        owner = next((mark for mark in codes if mark.start <= word.start < mark.end), None)
        if owner is None:
            spans[word.start] = Mark(word.code, word.start, word.end, frames.of(word.start), placed=word.shaped)
        elif not word.shaped and word.end > owner.end:
            spans[owner.start] = replace(owner, code=word.code, end=word.end)
    marks = [spans[start] for start in sorted(spans)]
    marks = with_messages(marks, [replace(p, frame=frames.of(p.start)) for p in found], text)
    # The SDKs of Python print a code twice: `(Code) message`, then `Code:` and `Message:`.
    twice = {mark.code for mark in marks if mark.keyed} & {mark.code for mark in marks if not mark.keyed}
    return [mark for mark in marks if mark.code in twice or _is_error(mark, known, lower)], frames


def _code(pair: Pair, known: set[str]) -> str:
    """The code of a pair, "" where it is a state or no code at all."""
    value = pair.value
    if "/" in value:  # instance views: ProvisioningState/failed/AllocationFailed
        parts = value.split("/")
        if "failed" not in (part.casefold() for part in parts[1:]):
            return ""
        last = parts[-1]
        value = last if last.casefold() in known or is_shaped(last) else "ProvisioningState/failed"
    if value.casefold() in known or value == "ProvisioningState/failed":
        return value if not value.isdigit() or pair.valued_quoted or not pair.quoted else ""
    if value.isdigit() or value.casefold() in _STATES:
        return ""
    if pair.cut and any("/" in code and code.partition("/")[0].startswith(value.casefold()) for code in known):
        return ""  # the state itself, which may be a good one, is cut off
    cut_short = pair.cut and len(value) > 3 and any(code.startswith(value.casefold()) for code in known)
    return value if is_shaped(value) or cut_short else ""


def _is_error(mark: Mark, known: set[str], lower: str) -> bool:
    """Whether a code is told as an error of Azure, and is not some other program's."""
    if mark.code.startswith("AADSTS"):
        return True
    if mark.code.casefold() in known:
        if not mark.code.isdigit() and (mark.keyed or _CALLED_CODE.search(lower, max(0, mark.start - 60), mark.start)):
            return True
        only_azure_says_it = len(_HUMP.findall(mark.code)) >= (2 if mark.placed else 3)
        return only_azure_says_it or _speaks_of_azure(lower, mark.start)
    if mark.cut and any(code.startswith(mark.code.casefold()) for code in known):
        return True
    around = lower[max(0, mark.start - 300) : mark.start] + mark.message.lower()[:2000]
    if not _TROUBLE.search(around):
        return False
    return (mark.assigned and mark.sure) or _speaks_of_azure(lower, mark.start)


def _speaks_of_azure(lower: str, place: int) -> bool:
    begin, end = max(0, place - _NEAR), place + _NEAR
    return bool(_OF_AZURE.search(lower, begin, end) or _OF_AZURE.search("".join(lower[begin:end].split("\n"))))


def _with_sentences(marks: list[Mark], legible: Legible, lower: str, vocabulary: Vocabulary) -> list[Mark]:
    """The codes, and an error without a code wherever a sentence tells one that belongs to no code."""
    hits = _sentences(legible, lower, vocabulary)
    if not hits:
        return marks
    taken = [mark.span for mark in marks]
    text = legible.text
    more: list[Mark] = []
    for hit in hits:
        if any(start <= hit < end for start, end in taken) or (more and more[-1].said and hit < more[-1].said[1]):
            continue
        floor = max([end for _, end in taken if end <= hit] + [m.said[1] for m in more if m.said] + [hit - 600, 0])
        stop = min([start for start, _ in taken if start > hit] + [hit + 1500, len(text)])
        begin = _sentence_start(text, floor, hit)
        end = ends_at(text, hit, stop)
        more.append(Mark("", hit, hit, said=(begin, end), cut=runs_out(text, begin, end), message=text[begin:end]))
    return sorted([*marks, *more], key=lambda mark: mark.start)


def _sentences(legible: Legible, lower: str, vocabulary: Vocabulary) -> list[int]:
    """Where sentences stand, ascending. A short one, which others may print too, counts near words of Azure only."""
    places = set()
    for sentence in vocabulary.sentences:
        for _, end in sentence.spans(legible.squashed):
            place = legible.place(end - len(sentence.parts[-1]))  # a gap may begin anywhere
            if sum(map(len, sentence.parts)) >= _TELLS_ALONE or _speaks_of_azure(lower, place):
                places.add(place)
    return sorted(places)


def _sentence_start(text: str, floor: int, hit: int) -> int:
    """Back to the beginning of the message: a blank line, an opening quote after a key, or a label's colon."""
    before = text[floor:hit]
    start = before.rfind("\n\n") + 2 if "\n\n" in before else 0
    for opening in re.finditer(r"(?:[:=]\s{0,8}\\{0,64}[\"']|: |\n(?=\S))", before[start:]):
        after = before[start + opening.end() :]
        if after[:1] in ("'", '"'):
            continue
        if opening[0] != "\n" or text[hit - len(after) :][:1].isupper():
            begin = start + opening.end()
            if len(before) - begin < 400:
                return floor + begin
    return floor + start


def _distinct(marks: Sequence[Mark]) -> list[Mark]:
    """The same code with the same message is one error, however often it is printed."""
    seen = set()
    kept = []
    for mark in marks:
        key = (mark.code.casefold(), squash(mark.message), mark.target)
        if key not in seen:
            seen.add(key)
            kept.append(mark)
    return kept


def _told(number: int, marks: Sequence[Mark], frames: Frames, text: str, lower: str) -> Told:
    mark = marks[number]
    floor = max(marks[number - 1].span[1] if number else 0, mark.start - 600)
    floor = min(floor, mark.start)
    stop = min(marks[number + 1].start if number + 1 < len(marks) else len(text), mark.end + 1500)
    begins = text.find(mark.message[:40], mark.said[0]) if mark.said else 0
    column = begins - text.rfind("\n", 0, max(begins, 0)) - 1
    near = _STATUS.search(lower, floor, max(stop, mark.span[1]))
    return Told(
        code=mark.code,
        message=paragraph(mark.message, column).strip(" '\""),
        target=mark.target,
        sure=mark.sure,
        cut=mark.cut,
        context=text[floor:stop],
        status=int(near[1]) if near else None,
        inside=tuple(other for other, outer in enumerate(marks) if _holds(outer, mark, frames, lower)),
    )


def _holds(outer: Mark, inner: Mark, frames: Frames, lower: str) -> bool:
    """Whether one error stands inside the other: in its brackets, in its message, or behind its `Details`."""
    if outer is inner:
        return False
    if frames.inside(inner.frame, outer.frame):
        return True
    if inner.start <= outer.start:
        return False
    begin, end = outer.said or (outer.start, outer.end)
    if begin <= inner.start < end:
        return True
    details = _DETAILS.match(lower, max(end, outer.end))
    return details is not None and details.end() <= inner.start and "\n\n" not in lower[details.end() : inner.start]
