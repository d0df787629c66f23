"""What a real rack has proven of a cluster (`ndctl first-contact`) takes the place of the profile's own figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndctl.inventory.schema import Inventory
from ndctl.inventory.state_place import cluster_place
from ndctl.model.errors import ExitCode, NdctlError, Where
from ndctl.profiles.open_facts import Answer, open_facts, with_figure
from ndctl.profiles.schema import Profile

ANSWERS_SCHEMA = "ndctl.first-contact-answers/1"
ANSWERS_FILE = "first-contact.json"


@dataclass(frozen=True, slots=True)
class Proven:
    """One kept answer. how: "answered" by a person or "found" by asking; date: YYYY-MM-DD; by: who, or what told it."""

    value: Answer
    how: str
    date: str
    by: str

    @property
    def said(self) -> str:
        """ "answered by user@host", "found: 8 × 800, on 2 of 2 nodes"."""
        return f"answered by {self.by}" if self.how == "answered" else f"{self.how}: {self.by}"


def answers(folder: Path) -> dict[str, Proven]:
    """Id -> answer. Raises NdctlError (exit 2) for a file that cannot be read: judging without it would be silent."""
    file = folder / ANSWERS_FILE
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from error
    try:
        kept = json.loads(text)
        if kept["schema"] != ANSWERS_SCHEMA:
            raise ValueError(kept["schema"])
        return read(kept["answers"])
    except json.JSONDecodeError as error:
        raise _unreadable(file, f"it is no whole JSON: line {error.lineno}, column {error.colno}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unreadable(file, f"it holds no answers of the form {ANSWERS_SCHEMA}") from error


def proven_of(profile: Profile, inventory: Inventory, path: Path) -> dict[str, Proven]:
    """The answers kept of this cluster that replace a figure of the profile. One of another ndctl is passed over."""
    static = inventory.static is not None
    return {
        name: one
        for name, one in answers(cluster_place(inventory, path)).items()
        if (fact := open_facts().get(name)) and fact.sets and fact.fits(one.value) and fact.applies(profile, static)
    }


def with_proven(profile: Profile, cluster: str, proven: Mapping[str, Proven]) -> Profile:
    """The profile, with the figures that were proven on this cluster."""
    for name, one in proven.items():
        fact = open_facts().get(name)
        if fact is None or fact.sets is None or not fact.fits(one.value) or not fact.applies(profile, static=False):
            continue
        profile = with_figure(profile, fact.sets, one.value, f"first contact with {cluster}, {one.said}", one.date)
    return profile


def told(proven: Mapping[str, Proven]) -> dict[str, dict[str, Any]]:
    """As JSON; `read` is its inverse."""
    return {
        name: {"value": one.value, "how": one.how, "date": one.date, "by": one.by}
        for name, one in sorted(proven.items())
    }


def read(kept: Mapping[str, Any]) -> dict[str, Proven]:
    """Raises KeyError, TypeError or AttributeError for what `told` did not give."""
    return {name: _proven(one) for name, one in kept.items()}


def _proven(kept: Mapping[str, Any]) -> Proven:
    value, how, date, by = (kept[key] for key in ("value", "how", "date", "by"))
    if not isinstance(value, (bool, int, float)) or not all(isinstance(one, str) and one for one in (how, date, by)):
        raise TypeError("an answer has value, how, date and by")
    return Proven(value, how, date, by)


def _unreadable(file: Path, why: str) -> NdctlError:
    return NdctlError(
        "first-contact.answers",
        f"what was proven of this cluster cannot be read: {why}",
        hint=f"restore it, or move it away and ask anew with ndctl first-contact: mv {file} {file}.old",
        where=Where(file),
        exit_code=ExitCode.USAGE,
    )
