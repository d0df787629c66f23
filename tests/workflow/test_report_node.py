"""A report is made of a finding that still holds, with the identifiers of its own run, and sent once."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

import ndctl
from ndctl.azure.clients import AzureClients, connect
from ndctl.azure.repair import act
from ndctl.checks.health_categories import PREFIX, categories, category_of, is_category
from ndctl.checks.pages import pages
from ndctl.cli.main import run
from ndctl.cli.report_node import as_dict
from ndctl.inventory.loader import Loaded
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.jsonable import dumps
from ndctl.model.status import Level
from ndctl.report import schemas
from ndctl.workflow.deploy import deploy
from ndctl.workflow.nodes import discover
from ndctl.workflow.plan import make_plan
from ndctl.workflow.prepare import render_to_deploy
from ndctl.workflow.report_node import follow, make_report, send
from ndctl.workflow.validate import Request, validate_inventories
from tests.model.builders import finding

if TYPE_CHECKING:
    from conftest import Region

NODE = "rack01-n02"


@pytest.fixture
def loaded(region: Region) -> Loaded:
    return region.loaded(vms_per_rack=2)


@pytest.fixture
def clients(region: Region, loaded: Loaded) -> Iterator[AzureClients]:
    made = connect(loaded)
    rendered = render_to_deploy(loaded)
    deploy(loaded, rendered, make_plan(loaded, rendered, made), made)
    region.faults.add("nvlink-down", node=NODE, cluster=loaded.inventory.cluster, gpu=2, link=8)
    validate_inventories(Request((loaded.path,), level=Level.QUICK))
    yield made
    made.close()


def test_printed_sent_once_and_followed(loaded: Loaded, clients: AzureClients) -> None:
    report = make_report(loaded, NODE, clients)
    node = next(one for one in discover(loaded, clients).nodes if one.name == NODE)
    told = report.body["properties"]
    assert told["impactCategory"] == "Resource.Hpc.Unhealthy.NvLink"
    assert told["impactedResourceId"] == node.resource_id
    assert told["additionalProperties"]["VmUniqueId"] == node.vm_id
    assert told["additionalProperties"]["PhysicalHostName"] == report.host != ""
    assert told["additionalProperties"]["SerialNumber"].startswith("165")
    assert report.unverified == ""
    printed = as_dict(report, loaded.inventory.cluster, 0)
    assert list(Draft202012Validator(schemas.load("health-report")).iter_errors(json.loads(dumps(printed)))) == []

    with pytest.raises(NdctlError, match=r"not registered to use namespace 'Microsoft.Impact'") as refused:
        send(loaded, report, clients)
    assert refused.value.exit_code is ExitCode.PREFLIGHT
    clients.resources.providers.register("Microsoft.Impact")
    sent = send(loaded, report, clients)
    assert sent.sent and not sent.already

    again = make_report(loaded, NODE, clients)
    assert again.already == report.name and not send(loaded, again, clients).sent
    waits: list[float] = []
    ended = follow(sent, clients, wait_s=100, clock=lambda: len(waits), sleep=waits.append)
    assert [one.code for one in ended.insights] == [
        "AcknowledgedUnhealthy", "UpdatingNodeHealthState", "NodeRemovedFromService",
    ]  # fmt: skip
    assert ended.ended and len(waits) == 3
    printed = as_dict(ended, loaded.inventory.cluster, 0)
    assert list(Draft202012Validator(schemas.load("health-report")).iter_errors(json.loads(dumps(printed)))) == []
    stopped = follow(sent, clients, wait_s=0, clock=lambda: 0.0, sleep=waits.append)
    assert stopped.ended and len(waits) == 3


def test_what_azure_lists_is_not_reported_again(
    loaded: Loaded, clients: AzureClients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients.resources.providers.register("Microsoft.Impact")
    report = make_report(loaded, NODE, clients)
    assert send(loaded, report, clients).sent
    for kept in (tmp_path / "state").rglob("reports.json"):
        kept.unlink()
    assert send(loaded, report, clients).already == report.name


def test_a_finding_from_before_a_reboot_is_refused(loaded: Loaded, clients: AzureClients) -> None:
    node = next(one for one in discover(loaded, clients).nodes if one.name == NODE)
    act(clients, f"{loaded.inventory.cluster}-rack01", node.instance_id, "restart")
    with pytest.raises(NdctlError, match="rack01-n02 was rebooted since run") as refused:
        make_report(loaded, NODE, clients)
    assert refused.value.exit_code is ExitCode.PREFLIGHT and "ndctl validate" in refused.value.hint


def test_nothing_to_report_is_refused(loaded: Loaded, clients: AzureClients) -> None:
    with pytest.raises(NdctlError, match=r"found no failure of infiniband.ports on rack01-n02"):
        make_report(loaded, NODE, clients, check="infiniband.ports")
    with pytest.raises(NdctlError, match="is no category of Azure's"):
        make_report(loaded, NODE, clients, category="NvLinks")
    assert make_report(loaded, NODE, clients, category="ManualInvestigation").category == PREFIX + "ManualInvestigation"


# What has a kind of its own at Azure, by the id that a finding which wants a host replaced can have.
KINDS = {
    "gpu.count.missing": "HpcMissingGpu",
    "gpu.health.gpu-lost": "XID79FallenOffBus",
    "gpu.health.gpu-unreachable": "HpcMissingGpu",
    "gpu.health.inforom-corrupt": "HpcInforomCorruption",
    "gpu.health.remap-failure": "HpcRowRemapFailure",
    "gpu.health.remapped-rows": "HpcRowRemapFailure",
    "gpu.health.retired-pages": "ECCPageRetirementTableFull",
    "gpu.hbm-bandwidth.slow": "GPUMemoryBWFailure",
    "gpu.diag.memory": "HpcGpuDcgmDiagFailure",
    "gpu.thermals.hot": "HpcDcgmiThermalReport",
    "gpu.xid.48": "XID48DoubleBitECC",
    "gpu.xid.74": "NvLink",
    "gpu.xid.79": "XID79FallenOffBus",
    "gpu.xid.95": "XID95UncontainedECCError",
    "gpu.xid.149": "NvLink",
    "gpu.xid.999": "GpuXIDError",
    "infiniband.flaps": "IBPortFlapping",
    "infiniband.ports.down": "IBPortDown",
    "infiniband.ports.missing": "MissingIB",
    "infiniband.write-bw.slow": "IBPerformance",
    "nvlink.links.gpu-lost": "XID79FallenOffBus",
    "nvlink.links.link-down": "NvLink",
    "host.numa.cpus-offline": "CPUPerformance",
}
# Checks of which Azure knows no kind of its own: their hosts are reported as unhealthy, or to be looked at.
UNNAMED = {
    *("gpu.c2c", "gpu.clocks", "gpu.gemm", "gpu.health", "gpu.identity", "gpu.links", "gpu.memcpy", "gpu.power"),
    *("gpu.processes", "infiniband.adapters"),
}


def test_what_azure_has_a_kind_for_is_reported_as_that() -> None:
    made = {check: category_of(finding(check=check, health_category="")).removeprefix(PREFIX) for check in KINDS}
    assert made == KINDS


def test_every_other_finding_falls_back_only_where_that_is_said() -> None:
    ids = [
        f"{page.check}.{detail}".rstrip(".")
        for page in pages().values()
        if page.check.partition(".")[0] in ("gpu", "nvlink", "infiniband", "nccl", "host")
        for detail in ("", *page.details)
    ]
    assert len(ids) > 200
    told = {one: category_of(finding(check=one, health_category="")) for one in ids}
    assert [one for one, category in told.items() if not is_category(category)] == []
    vague = {
        one for one, kind in told.items() if kind.removeprefix(PREFIX) in ("HpcGenericFailure", "ManualInvestigation")
    }
    named = {one for one in vague if one.startswith(("host.", "nccl.")) or ".".join(one.split(".")[:2]) in UNNAMED}
    assert vague - named == set()


def test_every_category_in_the_sources_is_one_that_azure_takes() -> None:
    known = {*categories().known}
    wrong = []
    for source in Path(ndctl.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(PREFIX):
                kind = node.value.removeprefix(PREFIX)
                if kind and kind not in known:
                    wrong.append((source.name, kind))
    assert wrong == []


def test_a_second_look_does_not_ask_to_send_it_again(
    loaded: Loaded, clients: AzureClients, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed() -> str:
        with pytest.raises(SystemExit) as ended:
            run(["report-node", str(loaded.path), NODE])
        assert ended.value.code == 0
        return capsys.readouterr().err

    assert "not sent. To send this: ndctl report-node" in printed()
    clients.resources.providers.register("Microsoft.Impact")
    sent = send(loaded, make_report(loaded, NODE, clients), clients)
    told = printed()
    assert "To send this" not in told
    assert f"what came of report {sent.name}: ndctl report-node {loaded.path} {NODE} --send --wait" in told
