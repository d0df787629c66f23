"""What an Azure error code and message mean: the table `azure_errors.yaml`, loaded, checked and searched."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator

from ndctl.parse.azure_error import Vocabulary
from ndctl.parse.azure_text import Sentence, squash

# An error that says it is only the frame around another one.
_POINTS_INSIDE = re.compile(
    r"see (?:the )?(?:inner ?errors?|details|deployment operations)|list (?:of )?deployment operations|innererror",
    re.IGNORECASE,
)


class FaultClass(StrEnum):
    AUTH = "auth"
    PERMISSION = "permission"
    QUOTA = "quota"
    CAPACITY = "capacity"
    POLICY = "policy"
    IMAGE = "image"
    NETWORK = "network"
    TEMPLATE = "template"
    THROTTLE = "throttle"
    CONFLICT = "conflict"
    PLATFORM = "platform"
    UNKNOWN = "unknown"  # not in the table; in it only for what hides its cause


class KnownError(BaseModel):
    """One entry: what a code (or a sentence) means and what to do. `retry` is about the same request, unchanged.

    The head of azure_errors.yaml says what the keys are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    codes: tuple[str, ...] = ()
    code_like: str | None = None
    message: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    kind: Literal["cause", "generic", "wrapper"] = "cause"
    fault_class: FaultClass = Field(alias="class")
    retry: Literal["now", "later", "never"]
    meaning: str = Field(min_length=10)
    next: str = Field(min_length=10)
    source: str = Field(min_length=3)

    @field_validator("code_like")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"'{value}' is no regular expression: {error}") from error
        return value

    @field_validator("message", "says")
    @classmethod
    def _are_sentences(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for words in value:
            Sentence.of(words)
        return value

    @model_validator(mode="after")
    def _can_fit(self) -> KnownError:
        if self.id not in ("unknown", "undecided") and not (self.codes or self.code_like or self.says):
            raise ValueError(f"{self.id}: codes, code_like or says is needed")
        return self

    @property
    def retryable(self) -> bool:
        return self.retry != "never"

    @cached_property
    def _codes(self) -> frozenset[str]:
        return frozenset(code.casefold() for code in self.codes)

    @cached_property
    def _message(self) -> tuple[Sentence, ...]:
        return tuple(map(Sentence.of, self.message))

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        return tuple(map(Sentence.of, self.says))

    def said_in(self, squashed: str) -> bool:
        """Whether a squashed text proves this error, whatever its code."""
        return any(sentence.inside(squashed) for sentence in self.sentences) and self._agrees(squashed)

    def named(self, code: str, squashed: str) -> bool:
        """Whether the code is one of these and the message does not speak against it."""
        return self.names(code) and self._agrees(squashed)

    def resembles(self, code: str, squashed: str) -> bool:
        """Whether the code belongs to the family of this entry."""
        return bool(self.code_like and re.fullmatch(self.code_like, code, re.IGNORECASE)) and self._agrees(squashed)

    def names(self, code: str) -> bool:
        return code.casefold() in self._codes

    def _agrees(self, squashed: str) -> bool:
        return not self._message or any(sentence.inside(squashed) for sentence in self._message)


UNKNOWN = KnownError.model_validate(
    {
        "id": "unknown",
        "class": "unknown",
        "retry": "never",
        "meaning": "ndctl does not know this error.",
        "next": "Read Azure's message; if it does not help, open a support case with the correlation id.",
        "source": "ndctl",
    }
)
UNDECIDED = KnownError.model_validate(
    {
        "id": "undecided",
        "class": "unknown",
        "retry": "never",
        "meaning": "This code has several meanings, and the words that tell which are not in this text.",
        "next": "Get the whole message (az deployment operation group list, or the command again with --debug).",
        "source": "ndctl",
    }
)


@cache
def known_errors() -> tuple[KnownError, ...]:
    """The whole table in the order it is searched."""
    text = Path(__file__).with_name("azure_errors.yaml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[KnownError, ...]).validate_python(yaml.safe_load(text))


@cache
def vocabulary() -> Vocabulary:
    """The codes and sentences of the table, for the reader of texts."""
    entries = known_errors()
    return Vocabulary(
        codes=frozenset(code for entry in entries for code in entry.codes),
        sentences=tuple(sentence for entry in entries for sentence in entry.sentences),
    )


def points_inside(message: str) -> bool:
    """Whether a message says of its error that it is only the frame around another one."""
    return _POINTS_INSIDE.search(message) is not None


@cache
def codes_of_several_meanings() -> frozenset[str]:
    """Codes, in lower case, that mean one thing or another by their message."""
    return frozenset(code.casefold() for entry in known_errors() if entry.message for code in entry.codes)


def begun(code: str) -> KnownError | None:
    """The meaning of a code whose end was cut off: UNDECIDED where codes that begin so differ.

    None where no code begins so, or where it is whole.
    """
    start = code.casefold()
    fitting = [entry for entry in known_errors() if any(one.casefold().startswith(start) for one in entry.codes)]
    if not fitting or any(entry.names(code) for entry in fitting):
        return None
    return fitting[0] if len({(entry.fault_class, entry.retryable) for entry in fitting}) == 1 else UNDECIDED


def classify(code: str, message: str) -> KnownError:
    """The first entry that fits the innermost code and message; `UNKNOWN` when none does.

    An entry that names the code, or whose sentence is in the message, goes before a mere family of codes.
    """
    squashed = squash(message)
    entries = known_errors()
    by_code = next((entry for entry in entries if entry.named(code, squashed)), None)
    by_words = next((entry for entry in entries if entry.said_in(squashed)), None)
    if by_code and by_words:
        return min(by_code, by_words, key=entries.index)
    if by_code is None and (by_words is None or by_words.kind == "wrapper"):
        by_code = next((entry for entry in entries if code and entry.resembles(code, squashed)), None)
    return by_code or by_words or UNKNOWN
