"""Every check there is, passive and active, and whether what an inventory switches off exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches

from ndctl.checks.registry import catalogue
from ndctl.inventory.loader import Loaded
from ndctl.jobs.active.registry import active_checks
from ndctl.model.errors import ExitCode, ManyErrors, NdctlError, Where
from ndctl.model.status import Group, Level
from ndctl.profiles.schema import Profile


@dataclass(frozen=True, slots=True)
class KnownCheck:
    """One line of `ndctl checks`.

    level:    the level from which on it is asked
    required: without its answer a rack is incomplete
    commands: ids of what nodes are asked, as `ndctl report RUN --raw NODE/COMMAND` names them
    active:   uses GPUs or the fabric, so only idle nodes are touched
    applies:  whether it is asked on this hardware
    cost_s:   seconds a healthy rack takes (active checks only; a passive one's cost is on its page)
    """

    id: str
    group: Group
    level: Level
    title: str
    required: bool
    commands: tuple[str, ...]
    applies: Callable[[Profile], bool]
    active: bool = False
    cost_s: float = 0.0


def known_checks() -> tuple[KnownCheck, ...]:
    """In the order of their ids."""
    passive = (
        KnownCheck(
            check.id,
            check.group,
            check.level,
            check.title,
            check.required,
            tuple(one.id for one in check.commands),
            check.applies,
        )
        for check in catalogue()
    )
    active = (
        KnownCheck(
            check.id,
            check.group,
            check.level,
            check.title,
            check.required,
            check.texts,
            check.applies,
            active=True,
            cost_s=check.cost_s,
        )
        for check in active_checks()
    )
    return tuple(sorted((*passive, *active), key=lambda check: check.id))


def wrongly_disabled(loaded: Loaded) -> list[NdctlError]:
    """An error, at its line, for each of `disabled_checks` that names no check: it would switch nothing off."""
    if not loaded.inventory.disabled_checks:
        return []  # nothing is switched off; the active tests take 0.2 s to import
    ids = [check.id for check in known_checks()]
    errors = []
    for index, entry in enumerate(loaded.inventory.disabled_checks):
        if entry.check in ids:
            continue
        near = _nearest(entry.check, ids)
        errors.append(
            NdctlError(
                "inventory.unknown-check",
                f"there is no check '{entry.check}'",
                hint=f"did you mean '{near}'?" if near else "`ndctl checks` lists them",
                where=loaded.where(("disabled_checks", index, "check")),
                exit_code=ExitCode.USAGE,
            )
        )
    return errors


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """One entry of `disabled_checks`. `until` is its last day, YYYY-MM-DD; after it the check is asked again."""

    check: str
    reason: str
    until: str
    in_force: bool
    where: Where

    @property
    def warning(self) -> str:
        """What to say of one that has expired."""
        return (
            f"'{self.check}' was switched off until {self.until} ({self.reason}): that has expired, it is asked again"
        )


def switched_off(loaded: Loaded, today: date) -> tuple[SwitchedOff, ...]:
    """What the inventory switches off, in its order, those that have expired too. `today` is UTC's."""
    return tuple(
        SwitchedOff(
            entry.check,
            entry.reason,
            entry.until,
            date.fromisoformat(entry.until) >= today,
            loaded.where(("disabled_checks", index, "until")),
        )
        for index, entry in enumerate(loaded.inventory.disabled_checks)
    )


def refuse_wrongly_disabled(inventories: Sequence[Loaded]) -> None:
    """Raises NdctlError, or ManyErrors, exit 2."""
    errors = [error for loaded in inventories for error in wrongly_disabled(loaded)]
    if errors:
        raise errors[0] if len(errors) == 1 else ManyErrors(errors)


def _nearest(name: str, ids: list[str]) -> str:
    """The check that a finding's id belongs to ("nvlink.links.link-down"), else the one spelled most like it."""
    whole = next((one for one in ids if name.startswith(one + ".")), "")
    return whole or next(iter(get_close_matches(name, ids, n=1)), "")
