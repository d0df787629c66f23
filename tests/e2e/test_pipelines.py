"""The worked pipelines: their scripts are run as they are, against the embedded region and a stand-in token service."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ndctl.inventory.loader import load_many
from ndctl.report import schemas

if TYPE_CHECKING:
    from conftest import Region

PIPELINES = Path(__file__).parents[2] / "inventories" / "pipelines"
JOB_TOKEN = "job-token-that-stays-out-of-arguments"
EVENT = Draft202012Validator(schemas.load("event"))


def github() -> dict[str, Any]:
    told = yaml.safe_load((PIPELINES / "github-actions.yaml").read_text())
    job = told["jobs"]["bootstrap"]
    step = next(one for one in job["steps"] if one.get("name") == "Bootstrap")
    return {"workflow": told, "job": job, "env": job["env"], "script": step["run"], "steps": job["steps"]}


def devops() -> dict[str, Any]:
    told = yaml.safe_load((PIPELINES / "azure-devops.yaml").read_text())
    job = told["jobs"][0]
    step = next(one for one in job["steps"] if one.get("displayName") == "Bootstrap")
    return {"job": job, "env": step["env"], "script": step["inputs"]["inlineScript"], "steps": job["steps"]}


def test_pipelines_are_not_taken_for_inventories() -> None:
    names = [one.path.name for one in load_many([PIPELINES.parent])]
    assert "sim.yaml" in names and not any("pipelines" in name for name in names)
    assert [one for one in names if one in ("github-actions.yaml", "azure-devops.yaml")] == []


def test_no_secret_is_stored() -> None:
    for file in PIPELINES.glob("*.yaml"):
        text = file.read_text()
        assert "secrets." not in text and "CLIENT_SECRET" not in text and "servicePrincipalKey" not in text
    assert github()["workflow"]["permissions"] == {"contents": "read", "id-token": "write"}
    used = [one["uses"] for one in github()["steps"] if "uses" in one]
    assert used == ["actions/checkout@v5", "actions/setup-python@v6", "actions/upload-artifact@v6"]
    tasks = [one["task"] for one in devops()["steps"] if "task" in one]
    assert tasks == ["UsePythonVersion@0", "AzureCLI@2", "PublishPipelineArtifact@1"]


class Tokens(ThreadingHTTPServer):
    """Both services' token endpoints: a bearer in, the federated token out."""

    def __init__(self, token: str) -> None:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(f"{self.command} {self.path}")
                right = self.headers["Authorization"] == f"bearer {JOB_TOKEN}"
                self.send_response(200 if right else 401)
                self.end_headers()
                self.wfile.write(json.dumps({"value": token, "oidcToken": token} if right else {}).encode())

            do_POST = do_GET

            def log_message(self, *given: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = asked
        self.url = f"http://127.0.0.1:{self.server_port}/token"


@pytest.fixture
def tokens(region: Region) -> Iterator[Tokens]:
    server = Tokens(region.directory.file("federated.jwt").read_text().strip())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


def environment(told: dict[str, str], values: dict[str, str], work: Path) -> dict[str, str]:
    """The step's variables, with what the service would fill in; nothing may be left unfilled."""

    def fill(text: str) -> str:
        for key, value in values.items():
            text = re.sub(rf"\$\{{\{{ {re.escape(key)} \}}\}}|\$\({re.escape(key)}\)", lambda _, v=value: v, text)
        assert "${{" not in text and "$(" not in text, text
        return text

    programs = work / "bin"
    programs.mkdir(exist_ok=True)
    for name, runs in {"ndctl": f"{sys.executable} -m ndctl", "python": sys.executable}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {runs} "$@"\n')
        (programs / name).chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AZURE_", "ACTIONS_", "SYSTEM_"))}
    return {**kept, "PATH": f"{programs}:{os.environ['PATH']}", **{key: fill(text) for key, text in told.items()}}


def ran(script: str, env: dict[str, str], work: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], cwd=work, env=env, capture_output=True, text=True, timeout=180, check=False
    )


def fitting(region: Region, **changes: Any) -> Path:
    """An inventory that names no identity: sign-in is by the pipeline's environment alone."""
    told = yaml.safe_load(region.inventory(vms_per_rack=2, **changes).read_text())
    told["cloud"].pop("identity")
    for place, key in (("cloud", "ca"), ("ssh", "public_key"), ("ssh", "private_key")):
        told[place][key] = str(region.directory.file(told[place][key]))
    path = region.directory.file(f"pipeline-{told['cluster']}.yaml")
    path.write_text(yaml.safe_dump(told))
    return path


@pytest.mark.skipif(shutil.which("curl") is None and not os.environ.get("CI"), reason="curl is not installed")
@pytest.mark.parametrize("service", ["github", "devops"])
def test_the_script_signs_in_by_federation_and_bootstraps(
    region: Region, tokens: Tokens, tmp_path: Path, service: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    identity = json.loads(region.directory.file("identity.json").read_text())
    inventory = fitting(region)
    if service == "github":
        told = github()
        values = {
            "vars.AZURE_CLIENT_ID": identity["client_id"],
            "vars.AZURE_TENANT_ID": identity["tenant_id"],
            "vars.NDCTL_STATE_DIR": str(tmp_path / "state"),
            "runner.temp": str(tmp_path),
            "inputs.inventories": str(inventory),
            "inputs.level": "quick",
        }
        given = {"ACTIONS_ID_TOKEN_REQUEST_URL": f"{tokens.url}?v=1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": JOB_TOKEN}
    else:
        told = devops()
        values = {
            "System.AccessToken": JOB_TOKEN,
            "Agent.TempDirectory": str(tmp_path),
            "parameters.inventories": str(inventory),
            "parameters.level": "quick",
        }
        given = {
            "servicePrincipalId": identity["client_id"],
            "tenantId": identity["tenant_id"],
            "SYSTEM_OIDCREQUESTURI": tokens.url,
            "AZURESUBSCRIPTION_SERVICE_CONNECTION_ID": "connection",
            "NDCTL_STATE_DIR": str(tmp_path / "state"),
        }
        region.faults.add("allocation-failure", rack=1)
    done = ran(told["script"], {**environment(told["env"], values, work), **given}, work)
    events = [json.loads(line) for line in (work / "events.jsonl").read_text().splitlines()]
    assert [one for event in events for one in EVENT.iter_errors(event)] == []
    answer = events[-1]["data"]
    if service == "github":
        assert done.returncode == 0, done.stderr
        assert answer["exit_code"] == 0 and "all racks accepted" in done.stdout
        assert tokens.asked == ["GET /token?v=1&audience=api://AzureADTokenExchange"]
    else:
        assert done.returncode == answer["exit_code"] == 5, done.stderr
        assert events[-1]["error"] == {"code": "AllocationFailed", "class": "capacity", "retryable": True}
        assert "task.logissue type=error" in done.stdout
        assert tokens.asked == ["POST /token?api-version=7.1&serviceConnectionId=connection"]
    assert not (tmp_path / "federated-token").exists()
    assert JOB_TOKEN not in done.stdout + done.stderr


@pytest.mark.parametrize("service", [github, devops])
@pytest.mark.parametrize("code", [0, 4, 6, 7, 130])
def test_what_each_exit_status_comes_to(tokens: Tokens, tmp_path: Path, service: Any, code: int) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ndctl").write_text(f'#!/bin/sh\necho "$@" > called\nexit {code}\n')
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for program in (tmp_path / "bin").iterdir():
        program.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "token"),
        "INVENTORIES": "inventories",
        "LEVEL": "standard",
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{tokens.url}?v=1",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": JOB_TOKEN,
        "SYSTEM_OIDCREQUESTURI": tokens.url,
        "SYSTEM_ACCESSTOKEN": JOB_TOKEN,
        "servicePrincipalId": "a",
        "tenantId": "b",
        "AZURESUBSCRIPTION_SERVICE_CONNECTION_ID": "c",
    }
    done = ran(service()["script"], env, tmp_path)
    assert done.returncode == (0 if code in (0, 6) else code), done.stderr
    assert ("warning" in done.stdout) == (code == 6) and ("error" in done.stdout) == (code in (4, 7, 130))
    assert (tmp_path / "called").read_text().split() == [
        "bootstrap", "inventories", "--yes", "--level", "standard", "--events", "jsonl",
    ]  # fmt: skip
