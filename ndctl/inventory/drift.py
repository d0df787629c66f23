"""What of Azure may differ from what was rendered: the inventory's list of drift that is known and accepted."""

from __future__ import annotations

import datetime

from pydantic import Field, field_validator

from ndctl.inventory.reach import Strict
from ndctl.profiles.placed_errors import problem


class DriftIgnored(Strict):
    path: str = Field(
        min_length=1,
        pattern=r"^[^\s:]+(:[^\s:]*)?$",
        description="a property, or resource/name:property; * stands for anything",
        examples=["tags.cost-*", "networkSecurityGroups/*:properties.securityRules.*"],
    )
    reason: str = Field(min_length=3, description="why, in at least three letters")
    until: str | None = Field(
        None, pattern=r"^\d{4}-\d{2}-\d{2}$", description="expiry date, YYYY-MM-DD", examples=["2027-01-31"]
    )

    @field_validator("until")
    @classmethod
    def _date(cls, value: str | None) -> str | None:
        try:
            datetime.date.fromisoformat(value or "2000-01-01")
        except ValueError:
            raise problem(f"'{value}' is no day of the calendar", hint="YYYY-MM-DD") from None
        return value


class Drift(Strict):
    ignore: tuple[DriftIgnored, ...] = ()
