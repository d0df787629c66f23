"""The catalogue of passive checks: every module of `checks/catalogue` that has a `CHECK`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ndctl.checks import catalogue as _package
from ndctl.checks.base import Check


@cache
def catalogue() -> tuple[Check, ...]:
    """All checks, in the order of their ids. Two checks of one id, or two commands of one id that differ, are a bug."""
    checks: list[Check] = []
    for module in pkgutil.iter_modules(_package.__path__):
        check = getattr(importlib.import_module(f"{_package.__name__}.{module.name}"), "CHECK", None)
        if check is not None:
            checks.append(check)
    checks.sort(key=lambda check: check.id)
    return tuple(checks)
