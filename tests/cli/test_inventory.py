"""ndctl inventory lint, show, schema."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ndctl.cli import inventory as verb
from ndctl.inventory.loader import json_schema
from ndctl.inventory.starter import starter
from ndctl.model.errors import ExitCode, ManyErrors, NdctlError

EXAMPLES = Path(__file__).resolve().parents[2] / "inventories"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    verb.register(app)
    app.callback()(lambda: None)
    return app


def run(app: typer.Typer, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["inventory", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_lint_says_what_an_inventory_means(app: typer.Typer) -> None:
    assert run(app, "lint", str(EXAMPLES)).splitlines() == [
        f"{EXAMPLES}/lab-static.yaml: ok (cluster lab, 2 static racks, 21 nodes, profile gb300)",
        f"{EXAMPLES}/sim.yaml: ok (cluster sim, 2 racks, 36 VMs, profile gb300)",
        f"{EXAMPLES}/swc-a.yaml: ok (cluster swc-a, 64 racks, 1,152 VMs, profile gb300)",
        f"{EXAMPLES}/usgov-b.yaml: ok (cluster usgov-b, 4 racks, 72 VMs, profile gb300)",
    ]


def test_one_of_a_thing_is_singular(app: typer.Typer) -> None:
    Path("a.yaml").write_text(starter("a1"), encoding="utf-8")
    assert run(app, "lint", "a.yaml") == "a.yaml: ok (cluster a1, 1 rack, 18 VMs, profile gb300)\n"


def test_lint_warns_of_key_files_that_are_not_here(app: typer.Typer) -> None:
    text = starter("a1").replace("ssh:\n", "ssh:\n  public_key: keys/own.pub\n  private_key: keys/own\n")
    Path("a.yaml").write_text(text, encoding="utf-8")
    Path("keys").mkdir()
    Path("keys/own").touch()
    result = CliRunner().invoke(app, ["inventory", "lint", "a.yaml"], catch_exceptions=False)
    assert result.exit_code == 0 and result.stdout.startswith("a.yaml: ok")
    [line] = result.stderr.splitlines()
    assert line.endswith(f"warning: there is no file {Path.cwd()}/keys/own.pub on this machine")
    assert text.splitlines()[int(line.split(":")[1]) - 1].startswith("  public_key")


def test_lint_raises_the_errors_of_all_files(app: typer.Typer) -> None:
    Path("a.yaml").write_text(starter("a1").replace("racks: 1", "racks: x\nfoo: 1"), encoding="utf-8")
    with pytest.raises(ManyErrors) as caught:
        CliRunner().invoke(app, ["inventory", "lint", "a.yaml", "absent.yaml"], catch_exceptions=False)
    assert [str(error.where).partition(":")[0] for error in caught.value.errors] == ["a.yaml", "a.yaml", "absent.yaml"]
    assert caught.value.exit_code == ExitCode.USAGE


def test_the_program_shows_line_and_caret_on_stderr_and_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(starter("good"), encoding="utf-8")
    (tmp_path / "swc-a.yaml").write_text(starter("swc-a").replace("racks: 1\n", "rack: 64\n"), encoding="utf-8")
    command = [sys.executable, "-m", "ndctl", "inventory", "lint", "good.yaml", "swc-a.yaml"]
    result = subprocess.run(command, cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stdout == "good.yaml: ok (cluster good, 1 rack, 18 VMs, profile gb300)\n"
    assert result.stderr.splitlines() == [
        "swc-a.yaml:20:1  unknown key 'rack'",
        "  20 │ rack: 64",
        "     │ ^^^^ did you mean 'racks'?",
    ]


def test_show_as_a_table(app: typer.Typer) -> None:
    lines = run(app, "show", str(EXAMPLES / "swc-a.yaml")).splitlines()
    assert lines[0].endswith("cluster swc-a, 64 racks, 1,152 VMs, profile gb300")
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines[3:]}
    assert rows["racks"] == ["64", "inventory line 7"]
    assert rows["vms_per_rack"] == ["18", "profile gb300 (Azure ND GB300 v6 size page, 2026-08-12)"]
    assert rows["protect"][0] == "true"
    assert rows["nccl_env"] == ["(none)", "default"]


def test_show_as_json(app: typer.Typer) -> None:
    answer = json.loads(run(app, "show", str(EXAMPLES / "sim.yaml"), "-o", "json"))
    assert answer["schema"] == "ndctl.inventory/1"
    assert (answer["cluster"], answer["profile"], len(answer["digest"])) == ("sim", "gb300", 64)
    assert {"key": "racks", "value": 2, "origin": "inventory line 12"} in answer["values"]


def test_show_of_a_bad_inventory_is_its_error(app: typer.Typer) -> None:
    with pytest.raises(NdctlError, match="no such file"):
        CliRunner().invoke(app, ["inventory", "show", "absent.yaml"], catch_exceptions=False)


def test_schema_is_what_the_library_says(app: typer.Typer) -> None:
    assert json.loads(run(app, "schema")) == json_schema()
