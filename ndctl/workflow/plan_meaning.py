"""What the changes of a plan come to: in place, a reimage, a replacement, machines that go; and what is only noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ndctl.azure.whatif import Change, ChangeKind, PropertyChange
from ndctl.render.effects import Effect, Meaning, meaning_of, worst

_SAID_BY_AZURE = Meaning(Effect.NOISE, "Azure says that it has no effect", "ARM what-if")


def meaning(change: Change, one: PropertyChange) -> Meaning:
    """Of one property. Azure's own word that it has no effect comes first, then the table."""
    return _SAID_BY_AZURE if one.noise else meaning_of(change.type, one.path, one.before, one.after)


def only_noise(change: Change) -> bool:
    """A modification in which nothing of substance is listed; shown and counted, but nothing to deploy for."""
    return (
        change.kind is ChangeKind.MODIFY
        and bool(change.properties)
        and all(meaning(change, one).effect is Effect.NOISE for one in change.properties)
    )


def effects(changes: Iterable[Change]) -> Counter[Effect]:
    """How many properties come to what. Deleting a resource counts as one that deletes, a modification that Azure
    does not detail as one of unknown effect."""
    found: Counter[Effect] = Counter()
    for change in changes:
        if change.kind is ChangeKind.DELETE:
            found[Effect.DELETES] += 1
        elif change.kind is ChangeKind.MODIFY and not change.properties:
            found[Effect.UNKNOWN] += 1
        else:
            found.update(meaning(change, one).effect for one in change.properties)
    return found


def worst_effect(changes: Iterable[Change]) -> Effect | None:
    """The one word for them; None when nothing that exists is changed."""
    return worst(effect for effect in effects(changes) if effect is not Effect.NOISE)
