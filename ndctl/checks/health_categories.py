"""Which category of Azure's Guest Health Reporting a finding belongs to; the mapping is data beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, model_validator

from ndctl.model.findings import Finding

PREFIX = "Resource.Hpc.Unhealthy."
_FILE = Path(__file__).with_suffix(".yaml")


class Categories(BaseModel):
    """known: all kinds that Azure takes; checks: id of a check or finding -> kind; formerly: old word -> kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    known: tuple[str, ...]
    checks: Mapping[str, str]
    formerly: Mapping[str, str]

    @model_validator(mode="after")
    def _only_known(self) -> Categories:
        wrong = sorted({*self.checks.values(), *self.formerly.values()} - set(self.known))
        if wrong:
            raise ValueError(f"no category of Azure's: {', '.join(wrong)}")
        return self


@cache
def categories() -> Categories:
    return Categories.model_validate(yaml.safe_load(_FILE.read_text(encoding="utf-8")))


def is_category(word: str) -> bool:
    """Whether Azure takes it in a report: Resource.Hpc.Unhealthy.NvLink."""
    return word.startswith(PREFIX) and word.removeprefix(PREFIX) in categories().known


def category_of(finding: Finding) -> str:
    """The whole word; "" where none fits."""
    told = finding.health_category.removeprefix(PREFIX)
    data = categories()
    if finding.health_category.startswith(PREFIX):
        kind = data.formerly.get(told, told)
        if kind in data.known:
            return PREFIX + kind
    parts = finding.check.split(".")
    for end in range(len(parts), 0, -1):
        kind = data.checks.get(".".join(parts[:end]), "")
        if kind:
            return PREFIX + kind
    return ""
