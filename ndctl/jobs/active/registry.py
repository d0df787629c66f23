"""The active checks: every module of `jobs/active` that has an ACTIVE."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ndctl.jobs import active as _package
from ndctl.jobs.active.base import ActiveCheck
from ndctl.model.status import Level


@cache
def active_checks() -> tuple[ActiveCheck, ...]:
    """All of them, cheap levels first, then by cost and id.

    Raises ValueError for two of one id: a bug of the catalogue.
    """
    found: list[ActiveCheck] = []
    for module in pkgutil.iter_modules(_package.__path__):
        check = getattr(importlib.import_module(f"{_package.__name__}.{module.name}"), "ACTIVE", None)
        if check is not None:
            found.append(check)
    ids = [check.id for check in found]
    twins = sorted({one for one in ids if ids.count(one) > 1})
    if twins:
        raise ValueError(f"defined twice among the active checks: {', '.join(twins)}")
    levels = list(Level)
    return tuple(sorted(found, key=lambda check: (levels.index(check.level), check.cost_s, check.id)))
