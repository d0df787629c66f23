"""The catalogue of passive checks: every module of `checks/catalogue` that has a `CHECK`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ndctl.checks import catalogue as _package
from ndctl.checks.base import Check


@cache
def catalogue() -> tuple[Check, ...]:
    """All checks, in the order of their ids.

    Raises ValueError for two checks of one id, or two commands of one id that differ: a bug of the catalogue.
    """
    checks: list[Check] = []
    for module in pkgutil.iter_modules(_package.__path__):
        check = getattr(importlib.import_module(f"{_package.__name__}.{module.name}"), "CHECK", None)
        if check is not None:
            checks.append(check)
    checks.sort(key=lambda check: check.id)
    _no_twins(checks)
    return tuple(checks)


def _no_twins(checks: list[Check]) -> None:
    ids = [check.id for check in checks]
    commands = {command.id: command for check in checks for command in check.commands}
    wrong = [one for one in ids if ids.count(one) > 1]
    wrong += [c.id for check in checks for c in check.commands if commands[c.id] != c]
    if wrong:
        raise ValueError(f"defined twice in the catalogue: {', '.join(sorted(set(wrong)))}")
