"""The wheel alone, in an empty virtual environment, used from another folder: templates and examples travel with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=180,
    )
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `ndctl` script of an environment that holds only the wheel; what it depends on is lent from here."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True, timeout=120
    )
    site = next((folder / "lib").glob("python*/site-packages"))
    # A path in a .pth file is not searched for further .pth files, so the source tree is not lent along.
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "ndctl"


def run(script: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NDCTL"))}
    environment["NDCTL_STATE_DIR"] = str(folder / "state")
    return subprocess.run(
        [str(script), *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_it_holds_all_that_is_read_at_run_time(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in (ROOT / "templates").rglob("*.j2"):
        assert f"ndctl/_data/templates/{path.relative_to(ROOT / 'templates')}" in names
    for path in (ROOT / "inventories").glob("*.yaml"):
        assert f"ndctl/_data/inventories/{path.name}" in names
    for pattern in (
        "profiles/data/*.yaml",
        "report/schemas/*.json",
        "checks/*.yaml",
        "checks/pages/*.yaml",
        "inventory/starters/*",
    ):
        for path in (ROOT / "ndctl").glob(pattern):
            if path.is_file():
                assert f"ndctl/{path.relative_to(ROOT / 'ndctl')}" in names
    assert not [name for name in names if name.startswith("tests/")]


def test_the_main_verbs_work_from_another_folder(installed: Path, tmp_path: Path) -> None:
    where = run(installed.parent / "python", tmp_path, "-c", "import ndctl; print(ndctl.__file__)")
    assert str(ROOT) not in where.stdout, "the source tree must not be what is tested"
    for arguments in (
        ("init", "far-a"),
        ("inventory", "lint", "far-a.yaml"),
        ("render", "far-a.yaml"),
        ("checks",),
        ("explain", "gpu.count"),
    ):
        done = run(installed, tmp_path, *arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    assert (tmp_path / "out" / "far-a" / "rack01.json").exists()
    paste = tmp_path / "paste.txt"
    paste.write_text((ROOT / "tests/captures/nccl-tests/03-alltoall-8xa100.txt").read_text())
    judged = run(installed, tmp_path, "judge", "auto", "paste.txt", "-o", "json")
    answer = json.loads(judged.stdout)
    assert (answer["schema"], answer["tool"]) == ("ndctl.judge/1", "nccl-tests")
