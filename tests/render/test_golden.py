"""The rendered files of a few inventories, kept in git: a change of template shows as a diff of what ARM gets.

NDCTL_UPDATE_GOLDEN=1 pytest tests/render/test_golden.py writes them anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from ndctl.render.rendered import Rendered

GOLDEN = Path(__file__).parents[1] / "golden"


def test_rendered_files_equal_the_goldens(case: tuple[str, Rendered]) -> None:
    name, rendered = case
    folder = GOLDEN / name
    files = rendered.files()
    if os.environ.get("NDCTL_UPDATE_GOLDEN") == "1":
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)
    for file, text in files.items():
        assert text == (folder / file).read_text(encoding="utf-8"), f"{name}/{file} changed"
