"""ndctl init: writes an inventory that is right as it is, and never writes over one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ndctl.cli import init as verb
from ndctl.cli.show_error import render_error
from ndctl.inventory.loader import load
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.render import render


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The verb alone, in an empty folder, for a user with no home and so no SSH key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "no-home"))
    app = typer.Typer()
    app.callback()(lambda: None)
    verb.register(app)
    return app


def run(app: typer.Typer, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["init", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(app: typer.Typer, *arguments: str) -> NdctlError:
    with pytest.raises(NdctlError) as caught:
        CliRunner().invoke(app, ["init", *arguments], catch_exceptions=False)
    assert caught.value.exit_code == ExitCode.USAGE
    return caught.value


def test_it_lints_and_renders_as_it_is(app: typer.Typer) -> None:
    assert run(app, "oslo-2") == "oslo-2.yaml\n"
    loaded = load("oslo-2.yaml")
    rendered = render(loaded)
    assert len(rendered.racks) == 1
    assert "sshPublicKey" in rendered.missing_parameters  # no key here: left to deployment


def test_the_static_one_loads(app: typer.Typer) -> None:
    run(app, "lab", "--static")
    assert load("lab.yaml").inventory.static


def test_nothing_is_overwritten_without_force(app: typer.Typer) -> None:
    Path("oslo.yaml").write_text("mine", encoding="utf-8")
    error = refused(app, "oslo")
    assert Path("oslo.yaml").read_text(encoding="utf-8") == "mine"
    assert render_error(error) == (
        "oslo.yaml  is there already and was left as it is\n"
        "hint: -o FILE writes another file, --force overwrites this one\n"
    )
    run(app, "oslo", "--force")
    assert load("oslo.yaml").inventory.cluster == "oslo"


def test_another_file_and_stdout(app: typer.Typer) -> None:
    run(app, "oslo", "-o", "other.yaml")
    assert load("other.yaml").inventory.cluster == "oslo"
    assert run(app, "oslo", "-o", "-") == Path("other.yaml").read_text(encoding="utf-8")
    assert not Path("oslo.yaml").exists()


def test_a_place_that_cannot_be_written(app: typer.Typer, tmp_path: Path) -> None:
    assert "cannot be written" in refused(app, "oslo", "-o", "no/such/folder.yaml").message
    assert "cannot be written" in refused(app, "oslo", "--force", "-o", str(tmp_path)).message


def test_a_name_that_is_none(app: typer.Typer) -> None:
    assert refused(app, "Oslo_2").hint == "ndctl init oslo-2"
    assert not list(Path().glob("*.yaml"))


def test_the_program_exits_with_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ndctl", "init", "oslo"]
    first = subprocess.run(command, cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False)
    again = subprocess.run(command, cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False)
    assert (first.returncode, first.stdout) == (0, "oslo.yaml\n")
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith("oslo.yaml  is there already")
