"""What an Azure error code and message mean: the table `azure_errors.yaml`, loaded, checked and searched."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator


class FaultClass(StrEnum):
    AUTH = "auth"
    PERMISSION = "permission"
    QUOTA = "quota"
    CAPACITY = "capacity"
    POLICY = "policy"
    IMAGE = "image"
    NETWORK = "network"
    TEMPLATE = "template"
    THROTTLE = "throttle"
    CONFLICT = "conflict"
    PLATFORM = "platform"
    UNKNOWN = "unknown"  # not in the table; never written in it


class KnownError(BaseModel):
    """One entry: what a code (or a message) means and what to do. `retry` is about the same request, unchanged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    codes: tuple[str, ...] = ()
    message: str | None = None
    fault_class: FaultClass = Field(alias="class")
    retry: Literal["now", "later", "never"]
    meaning: str
    next: str
    source: str

    @field_validator("message")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            re.compile(value)
        return value

    @property
    def retryable(self) -> bool:
        return self.retry != "never"

    def fits(self, code: str, message: str) -> bool:
        if self.codes and code.casefold() not in {c.casefold() for c in self.codes}:
            return False
        return self.message is None or re.search(self.message, message, re.IGNORECASE | re.DOTALL) is not None


UNKNOWN = KnownError.model_validate(
    {
        "id": "unknown",
        "class": "unknown",
        "retry": "never",
        "meaning": "ndctl does not know this error.",
        "next": "Read Azure's message; if it does not help, open a support case with the correlation id.",
        "source": "ndctl",
    }
)


@cache
def known_errors() -> tuple[KnownError, ...]:
    """The whole table in the order it is searched."""
    text = Path(__file__).with_name("azure_errors.yaml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[KnownError, ...]).validate_python(yaml.safe_load(text))


def classify(code: str, message: str) -> KnownError:
    """The first entry that fits the innermost code and message; `UNKNOWN` when none does."""
    return next((entry for entry in known_errors() if entry.fits(code, message)), UNKNOWN)
