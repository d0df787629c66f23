"""Inventories of these tests: one that is right, and a way to write one that is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ndctl.model.errors import ManyErrors, NdctlError

RIGHT = """\
cluster: swc-a
region: swedencentral
zone: "1"
subscription: 00000000-0000-0000-0000-000000000000
resource_group: rg-swc-a
racks: 64
vm_size: Standard_ND128isr_GB300_v6
network: {create: 10.40.0.0/16}
"""
STATIC = """\
cluster: lab
profile: gb300
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str | bytes, name: str = "one.yaml") -> Path:
        file = tmp_path / name
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    return write


def each(error: NdctlError) -> list[NdctlError]:
    return error.errors if isinstance(error, ManyErrors) else [error]


def told(error: NdctlError) -> list[tuple[int | None, int | None, str]]:
    """(line, column, message) of every error."""
    return [(one.where and one.where.line, one.where and one.where.column, one.message) for one in each(error)]  # type: ignore[misc]
