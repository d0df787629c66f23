"""From every error a text tells to the ones that count: causes without their wrappers, each once, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ndctl.checks.azure_errors import (
    UNDECIDED,
    UNKNOWN,
    FaultClass,
    KnownError,
    begun,
    classify,
    codes_of_several_meanings,
    points_inside,
)
from ndctl.parse.azure_error import AzureText, Told
from ndctl.parse.azure_text import squash

_MAY_BE_THROTTLED = {
    FaultClass.UNKNOWN,
    FaultClass.TEMPLATE,
    FaultClass.PLATFORM,
    FaultClass.POLICY,
    FaultClass.CONFLICT,
}


@dataclass(frozen=True, slots=True)
class Root:
    """One cause.

    outer:   the code of what it stands in, its own where it stands alone
    message: its own, or where it has none the one of what it stands in
    targets: what Azure says it is about, of every time it was printed
    """

    told: Told
    known: KnownError
    outer: str = ""
    message: str = ""
    targets: tuple[str, ...] = ()
    times: int = 1


def roots(text: AzureText) -> tuple[Root, ...]:
    """The causes in the order of the text; those that the table knows come first. Empty where no error is told."""
    judged = [(told, meaning(told)) for told in text.errors]
    if not judged:
        return tuple(_by_status(text.statuses))
    kept = [number for number in range(len(judged)) if not _only_frames(number, judged)]
    found = _merged([_root(number, judged) for number in kept])
    return tuple(sorted(found, key=lambda root: root.known.fault_class is FaultClass.UNKNOWN))


def meaning(told: Told) -> KnownError:
    """What an error means by its code and message, or by what stands around it where its message does not tell."""
    known = classify(told.code, told.message)
    if told.cut and told.code and not known.sentences and (cut_short := begun(told.code)):
        return cut_short
    if known.kind == "cause" and _could_mean_more(told.code, known):
        around = classify(told.code, f"{told.message}\n{told.context}")
        known = around if around.kind == "cause" else known
    if told.status == 429 and known.fault_class in _MAY_BE_THROTTLED:
        return classify("429", "")
    if known is UNKNOWN and told.status and told.status != 409:
        return classify(str(told.status), "")
    return known


def _decided(told: Told, known: KnownError) -> KnownError:
    """UNDECIDED for a code of several meanings without the words that tell which."""
    generic = known.kind == "generic" and known.names(told.code)
    wide = generic and (told.cut or known.fault_class in (FaultClass.CONFLICT, FaultClass.TEMPLATE))
    missing = not told.message or told.cut
    return UNDECIDED if missing and (wide or (known is not UNKNOWN and _could_mean_more(told.code, known))) else known


def _could_mean_more(code: str, known: KnownError) -> bool:
    several = code.casefold() in codes_of_several_meanings()
    return known is UNKNOWN or (several and known.names(code) and not known.message)


def _only_frames(number: int, judged: Sequence[tuple[Told, KnownError]]) -> bool:
    """Whether an error only stands around others that tell more, or tells nothing while others do."""
    told, known = judged[number]
    own, best = _tells(told, known), max(_tells(*pair) for pair in judged)
    inner = [_tells(*pair) for pair in judged if number in pair[0].inside]
    if max(inner, default=0) == _KNOWN or (inner and max(inner) > own):
        return True
    if own == _UNKNOWN_CODE:  # adds nothing to a known error it stands in; a wrapped line cuts codes short
        codes = (one.code.casefold() for one, _ in judged if one.code != told.code)
        inside_known = any(_tells(*judged[outer]) == _KNOWN for outer in told.inside)
        return inside_known or any(code.startswith(told.code.casefold()) for code in codes)
    if own < best:
        return True
    # Of wrappers alone the innermost counts: the last one that has a code.
    if own == _WRAPPER:
        last = max(range(len(judged)), key=lambda place: (bool(judged[place][0].code), place))
        return number != last
    return False


_WRAPPER, _VAGUE_CODE, _UNKNOWN_CODE, _KNOWN = range(4)


def _tells(told: Told, known: KnownError) -> int:
    """How much an error tells: it points inside, a wide code alone, a code nobody knows, a known cause."""
    if known.kind == "wrapper" or points_inside(told.message):
        return _WRAPPER
    if known.fault_class is FaultClass.UNKNOWN:
        return _UNKNOWN_CODE
    return _KNOWN if known.kind == "cause" or (told.sure and told.message) else _VAGUE_CODE


def _root(number: int, judged: Sequence[tuple[Told, KnownError]]) -> Root:
    told, known = judged[number]
    message = told.message or next((judged[outer][0].message for outer in told.inside if judged[outer][0].message), "")
    return Root(told, _decided(told, known), _outer(number, judged), message, (told.target,) if told.target else ())


def _outer(number: int, judged: Sequence[tuple[Told, KnownError]]) -> str:
    """The code of the outermost error around this one: by brackets, or the wrapper that the text began with."""
    told, _ = judged[number]
    around = [judged[other][0].code for other in sorted(told.inside, key=lambda o: len(judged[o][0].inside))]
    before = [one.code for one, known in judged[:number] if known.kind == "wrapper" or points_inside(one.message)]
    return next(filter(None, [*around, *before]), told.code)


def _merged(found: Sequence[Root]) -> list[Root]:
    """The same error printed several times, whole or cut, with or without its message, is one."""
    kept: list[Root] = []
    for root in found:
        twin = next((number for number, one in enumerate(kept) if _same(one, root)), None)
        if twin is None:
            kept.append(root)
            continue
        first = kept[twin]
        better = max(first, root, key=lambda one: (one.told.sure, bool(one.told.code), len(one.told.message)))
        told = replace(better.told, code=first.told.code or root.told.code)
        told_more = better.known.fault_class is not FaultClass.UNKNOWN
        known = better.known if told_more and not _could_mean_more(told.code, better.known) else first.known
        targets = tuple(dict.fromkeys(first.targets + root.targets))
        kept[twin] = Root(told, known, first.outer or root.outer, better.message, targets, first.times + 1)
    return kept


def _same(one: Root, other: Root) -> bool:
    codes = {one.told.code.casefold(), other.told.code.casefold()} - {""}
    if len(codes) > 1:
        return False
    first, second = squash(one.told.message), squash(other.told.message)
    if first[:60] and second[:60] and (first[:400] in second or second[:400] in first):
        return True
    if not first or not second or not (one.told.sure and other.told.sure):
        return bool(codes) or one.known is other.known
    return False


def _by_status(statuses: Sequence[int]) -> Iterator[Root]:
    """Where a text holds no more than a failed HTTP status, that is the error."""
    for status in statuses[:1]:
        known = classify(str(status), "")
        if known is not UNKNOWN:
            told = Told(str(status), "", status=status, sure=False)
            yield Root(told, _decided(told, known), str(status), f"HTTP status {status}")
