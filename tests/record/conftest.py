"""A fresh record, and a way to be an ordinary user where the tests run as root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ndctl.record.store import Store

_NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "runs.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path) as made:
        yield made


@pytest.fixture
def as_user() -> Iterator[Path]:
    """A folder of an ordinary user, who runs the test: root may write everywhere, and would see no refusal."""
    folder = Path(tempfile.mkdtemp(prefix="ndctl-record-"))
    root = os.geteuid() == 0
    if root:
        os.chown(folder, _NOBODY, -1)
        os.seteuid(_NOBODY)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)
