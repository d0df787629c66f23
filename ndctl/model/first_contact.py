"""What became of the facts that no document settles: what is gone by, what real racks told, what was answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

FIRST_CONTACT_SCHEMA = "ndctl.first-contact/1"


class Standing(StrEnum):
    """answered: a person said so; confirmed: racks told what is gone by anyway; differs: they told something else;
    open: nobody said anything yet."""

    ANSWERED = "answered"
    CONFIRMED = "confirmed"
    DIFFERS = "differs"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Found:
    """What asking gave. value: None where nothing usable was told; told: what was said, by how many; why: a reason."""

    value: float | bool | None
    told: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class FactNow:
    """One fact. in_force: what ndctl goes by now, in words; answer: the kept one, with its date and who gave it;
    sets: the profile's figure it takes the place of, "" where nothing reads it (`unwired` says why)."""

    id: str
    question: str
    why: str
    source: str
    proves: str
    standing: Standing
    in_force: str
    found: Found
    answer: float | bool | None = None
    answered: str = ""
    sets: str = ""
    unwired: str = ""
    next_step: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "question": self.question,
            "why": self.why,
            "source": self.source,
            "proves": self.proves,
            "standing": self.standing.value,
            "in_force": self.in_force,
            "found": {"value": self.found.value, "told": self.found.told, "why": self.found.why},
            "answer": self.answer,
            "answered": self.answered,
            "sets": self.sets,
            "unwired": self.unwired,
            "next_step": self.next_step,
        }


def first_contact_dict(
    cluster: str, inventory: str, profile: str, asked: Sequence[str], answered: int, facts: Sequence[FactNow]
) -> dict[str, Any]:
    """The published form. asked: names of the nodes that were asked; answered: how many of them answered."""
    return {
        "schema": FIRST_CONTACT_SCHEMA,
        "cluster": cluster,
        "inventory": inventory,
        "profile": profile,
        "nodes": {"asked": list(asked), "answered": answered},
        "counts": {one.value: sum(fact.standing is one for fact in facts) for one in Standing},
        "facts": [one.as_dict() for one in facts],
    }
