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


def linted(app: typer.Typer, text: str) -> list[tuple[str, str]]:
    """(the line of the inventory, its warning) of each warning."""
    Path("a.yaml").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["inventory", "lint", "a.yaml"], catch_exceptions=False)
    assert result.exit_code == 0 and result.stdout.startswith("a.yaml: ok")
    told = [line.partition("  warning: ") for line in result.stderr.splitlines()]
    return [(text.splitlines()[int(where.split(":")[1]) - 1].strip(), warning) for where, _, warning in told]


def test_lint_warns_of_key_files_that_are_not_here(app: typer.Typer) -> None:
    Path("keys").mkdir()
    Path("keys/own").write_text("x")
    [(line, warning)] = linted(
        app, starter("a1").replace("ssh:\n", "ssh:\n  public_key: keys/own.pub\n  private_key: keys/own\n")
    )
    assert line == "public_key: keys/own.pub"
    assert warning.startswith(f"there is no file {Path.cwd()}/keys/own.pub on this machine: ssh-keygen")


def test_lint_warns_of_every_file_it_names(app: typer.Typer) -> None:
    cloud = "cloud: {endpoint: 'https://arm.example'}\n".replace("}", ",\n  ca: no/ca.pem,\n  identity: id.json}")
    text = starter("a1").replace("ssh:\n", "ssh:\n  public_key: dir\n  private_key: empty\n  known_hosts: dir\n")
    Path("dir").mkdir()
    Path("empty").touch()
    warned = linted(app, f"{text}\n{cloud}")
    assert [(line, warning.partition(": ")[0]) for line, warning in warned] == [
        ("public_key: dir", f"{Path.cwd()}/dir is a directory"),
        ("private_key: empty", f"{Path.cwd()}/empty is empty"),
        ("ca: no/ca.pem,", f"there is no file {Path.cwd()}/no/ca.pem on this machine"),
        ("identity: id.json}", f"there is no file {Path.cwd()}/id.json on this machine"),
        ("known_hosts: dir", f"{Path.cwd()}/dir is a directory"),
    ]
    assert all(": " in warning for _, warning in warned), "each says what to do"


@pytest.mark.parametrize(
    ("text", "said"),
    [("-----BEGIN OPENSSH PRIVATE KEY-----\n", "holds a private key"), ("ecdsa-sha2-nistp256 AAAA\n", "this is ecdsa")],
)
def test_a_public_key_that_would_be_refused_is_an_error_at_its_line(app: typer.Typer, text: str, said: str) -> None:
    inventory = starter("a1").replace("ssh:\n", "ssh:\n  public_key: own\n")
    Path("a.yaml").write_text(inventory, encoding="utf-8")
    Path("own").write_text(text)
    with pytest.raises(NdctlError, match=said) as caught:
        CliRunner().invoke(app, ["inventory", "lint", "a.yaml"], catch_exceptions=False)
    assert caught.value.exit_code == ExitCode.USAGE and caught.value.where is not None
    assert inventory.splitlines()[(caught.value.where.line or 0) - 1].strip() == "public_key: own"


def test_a_private_key_as_public_key_of_static_racks(app: typer.Typer) -> None:
    static = "cluster: lab\nprofile: gb300\nssh: {public_key: own}\nstatic:\n- {rack: 7, nodes: 'gpu[01-03]'}\n"
    Path("own").write_text("ecdsa-sha2-nistp256 AAAA\n")
    assert linted(app, static) == []
    Path("own").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    with pytest.raises(NdctlError, match="holds a private key"):
        CliRunner().invoke(app, ["inventory", "lint", "a.yaml"], catch_exceptions=False)


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
