"""Facts that no document settles: what is asked, how a real rack proves it, which figure of a profile it would set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.profiles.marked_yaml import read
from ndctl.profiles.schema import Known, Profile, Strict

_FILE = Path(__file__).parent / "open_facts.yaml"
Answer = float | bool


class Ask(Strict):
    """What every node is asked, read-only. finds: a pattern whose group is the value, once or more in an answer."""

    shell: str = Field(min_length=3)
    finds: str

    @field_validator("finds")
    @classmethod
    def _one_group(cls, value: str) -> str:
        if re.compile(value).groups != 1:
            raise ValueError("the pattern has one group, the value")
        return value


class OpenFact(Strict):
    """One question.

    azure:    it is one of racks on Azure only
    profiles: of these only; None: of all
    proves:   what a person runs on a real rack
    ask, arm: how ndctl asks by itself, if it can: nodes, or Azure
    compares: "racks": the answer is yes when all racks have a value in common
    spread:   fraction within which values are one
    fallback: what holds until it is answered; `{path}` is the profile's figure
    sets:     the profile's figure that an answer replaces; else `unwired` says why nothing reads the answer
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    question: str = Field(min_length=10, pattern=r"\?$")
    why: str = Field(min_length=20)
    source: str = Field(min_length=5)
    kind: Literal["number", "yes-no"]
    azure: bool = False
    profiles: tuple[str, ...] | None = None
    proves: str = Field(min_length=3)
    ask: Ask | None = None
    arm: Literal["single-placement-group"] | None = None
    compares: Literal["values", "racks"] = "values"
    spread: float = Field(0.0, ge=0, lt=0.5)
    fallback: str = Field(min_length=2)
    sets: str | None = None
    unwired: str = ""

    @model_validator(mode="after")
    def _used_or_said_why_not(self) -> OpenFact:
        if bool(self.sets) == bool(self.unwired):
            raise ValueError("either it sets a figure, or it says why nothing reads it")
        return self

    def applies(self, profile: Profile, static: bool) -> bool:
        if (static and self.azure) or (self.profiles is not None and profile.name not in self.profiles):
            return False
        return self.sets is None or figure(profile, self.sets) is not None

    @property
    def wanted(self) -> str:
        """What an answer looks like."""
        return "yes or no" if self.kind == "yes-no" else "a number above 0 and below 1e15, as digits, without a unit"

    def read(self, text: str) -> Answer:
        """What a person answers. Raises NdctlError (exit 2)."""
        word = text.strip().lower()
        if self.kind == "yes-no" and word in ("yes", "no", "true", "false"):
            return word in ("yes", "true")
        if self.kind == "number" and re.fullmatch(r"\d{1,15}(\.\d{1,6})?", word) and float(word) > 0:
            return float(word)
        raise NdctlError(
            "first-contact.value", f"'{text}' is no answer to {self.id}: {self.question}", hint=self.wanted,
            exit_code=ExitCode.USAGE,
        )  # fmt: skip

    def fits(self, value: object) -> bool:
        """Whether a kept value is one that `read` or a node could have given."""
        if self.kind == "yes-no":
            return isinstance(value, bool)
        return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15


@cache
def open_facts() -> Mapping[str, OpenFact]:
    """Id -> fact, in the order of the file."""
    try:
        return {
            name: OpenFact.model_validate({"id": name, **told}) for name, told in read(_FILE, "open facts").data.items()
        }
    except ValidationError as error:
        raise NdctlError("first-contact.data", f"{_FILE.name}: {error}", exit_code=ExitCode.INTERNAL) from error


def fact(name: str) -> OpenFact:
    """Raises NdctlError (exit 2) where there is none of that id."""
    from ndctl.profiles.placed_errors import did_you_mean

    known = open_facts()
    if name not in known:
        raise NdctlError(
            "first-contact.unknown", f"there is no open fact '{name}'", hint=did_you_mean(name, known),
            exit_code=ExitCode.USAGE,
        )  # fmt: skip
    return known[name]


def figure(profile: Profile, path: str) -> Known[Any] | None:
    """The profile's figure at a dotted path; None where this profile has none."""
    here: Any = profile
    for name in path.split("."):
        here = getattr(here, name)
        if here is None:
            return None
    assert isinstance(here, Known)
    return here


def with_figure(profile: Profile, path: str, value: Answer, source: str, date: str) -> Profile:
    """The profile with one figure replaced, and who says so."""
    names = path.split(".")
    places: list[BaseModel] = [profile]
    for name in names[:-1]:
        places.append(getattr(places[-1], name))
    before: Known[Any] = getattr(places[-1], names[-1])
    own: Any = bool(value) if isinstance(before.value, bool) else type(before.value)(value)
    changed: BaseModel = before.model_copy(
        update={
            "value": own,
            "source": source,
            "date": date,
            "mark": "V",
            "note": f"before: {before.value}, {before.origin}",
        }
    )
    for place, name in zip(reversed(places), reversed(names), strict=True):
        changed = place.model_copy(update={name: changed})
    assert isinstance(changed, Profile)
    return changed
