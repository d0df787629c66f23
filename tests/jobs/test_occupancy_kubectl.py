"""The script that asks Kubernetes, with a real kubectl against a stand-in API server that serves JSON over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from ndctl.jobs.occupancy import Occupancy, Use, occupancy
from ndctl.jobs.occupancy_commands import COMPUTE_PROCESSES, KUBERNETES
from ndctl.model.answers import CommandResult
from ndctl.parse.kube_node import parse
from tests.jobs.local_nodes import LocalNodes

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None and os.environ.get("CI") != "true", reason="no kubectl on this machine"
)


def pod(name: str, phase: str = "Running", limits: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    namespace, _, short = name.partition("/")
    containers = [{"name": "main", "image": "i", "resources": {"limits": limits} if limits else {}}, {"name": "side"}]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": short, "namespace": namespace},
        "spec": {"nodeName": "aks-gb300-1", "containers": containers, **spec},
        "status": {"phase": phase},
    }


class Cluster:
    """One node with the fields kubectl looks at; `forbid_pods` answers 403."""

    def __init__(self) -> None:
        self.node: dict[str, Any] = {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": "aks-gb300-1"},
            "spec": {},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
        }
        self.pods = [pod("kube-system/nvidia-device-plugin-x7k2p", limits={"cpu": "100m"})]
        self.forbid_pods = False
        self.asked: list[str] = []

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        resources = [
            {"name": "nodes", "singularName": "node", "namespaced": False, "kind": "Node", "verbs": ["get", "list"]},
            {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]},
        ]
        match path:
            case "/api":
                return 200, {"kind": "APIVersions", "versions": ["v1"]}
            case "/apis":
                return 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
            case "/api/v1":
                return 200, {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}
            case "/api/v1/nodes/aks-gb300-1":
                return 200, self.node
            case "/api/v1/nodes":
                return 200, {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [self.node]}
            case "/api/v1/pods" if self.forbid_pods:
                return 403, _status(403, "Forbidden", "pods is forbidden: cannot list resource")
            case "/api/v1/pods" if query.get("fieldSelector") == ["spec.nodeName=aks-gb300-1"]:
                return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods}
        return 404, _status(404, "NotFound", f"{path} not found")


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    one = Cluster()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlparse(self.path)
            code, body = one.answer(url.path, parse_qs(url.query))
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    one.nodes = LocalNodes(tmp_path, 1)  # type: ignore[attr-defined]
    one.nodes.tool("nvidia-smi", "exit 0")  # type: ignore[attr-defined]
    one.nodes.tool("hostname", '[ "$1" = -I ] && echo "10.0.0.1 " || echo somehost')  # type: ignore[attr-defined]
    config = one.nodes.home(one.nodes.nodes[0]) / ".kube" / "config"  # type: ignore[attr-defined]
    config.parent.mkdir()
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{server.server_port}'}}}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
    )
    yield one
    server.shutdown()
    server.server_close()
    thread.join(10)


def ask(cluster: Cluster) -> tuple[CommandResult, Occupancy]:
    nodes: LocalNodes = cluster.nodes  # type: ignore[attr-defined]
    [node] = nodes.nodes
    answer = nodes.ask({node: [KUBERNETES, COMPUTE_PROCESSES]})[node]
    return answer.results[KUBERNETES.id], occupancy(answer)


def test_a_node_of_another_name_is_found_by_its_address_and_is_free(cluster: Cluster) -> None:
    result, told = ask(cluster)
    assert told == Occupancy(Use.FREE, "Kubernetes runs no pod with GPUs there"), result
    facts = parse(result.stdout)
    assert facts.node == "aks-gb300-1" and not facts.cordoned and [p.phase for p in facts.pods] == ["Running"]


def test_a_pod_that_asked_for_gpus(cluster: Cluster) -> None:
    cluster.pods.append(pod("ml/train-0", limits={"cpu": "64", "memory": "100Gi", "nvidia.com/gpu": "4"}))
    assert ask(cluster)[1] == Occupancy(Use.BUSY, "Kubernetes runs pod ml/train-0 there (nvidia.com/gpu 4)")


def test_pods_that_ended_hold_nothing(cluster: Cluster) -> None:
    cluster.pods += [pod(f"ml/old-{p}", p, {"nvidia.com/gpu": 4}) for p in ("Succeeded", "Failed")]
    assert ask(cluster)[1].use is Use.FREE


def test_claims_and_init_containers(cluster: Cluster) -> None:
    claim = [{"name": "imex-channel", "resourceClaimTemplateName": "t"}]
    cluster.pods.append(pod("ml/dra-0", resourceClaims=claim))
    assert ask(cluster)[1] == Occupancy(Use.BUSY, "Kubernetes runs pod ml/dra-0 there (claim imex-channel)")
    init = [{"name": "warm", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
    cluster.pods[-1] = pod("ml/init-0", "Pending", initContainers=init)
    assert ask(cluster)[1] == Occupancy(Use.BUSY, "Kubernetes runs pod ml/init-0 there (nvidia.com/gpu 1)")


def test_a_cordoned_node_without_gpu_pods_is_free(cluster: Cluster) -> None:
    cluster.node["spec"] = {
        "unschedulable": True,
        "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "sku", "value": "gpu", "effect": "NoSchedule"},
        ],
    }
    result, told = ask(cluster)
    assert told == Occupancy(Use.FREE, "Kubernetes runs no pod with GPUs there, and lets none come")
    facts = parse(result.stdout)
    assert facts.cordoned and facts.taints[1] == ("NoSchedule", "sku")


def test_pods_that_may_not_be_listed_are_no_proof(cluster: Cluster) -> None:
    cluster.forbid_pods = True
    result, told = ask(cluster)
    assert result.exit_code != 0 and told == Occupancy(Use.FREE)
    assert not parse(result.stdout).complete


def test_a_host_that_is_no_node_there(cluster: Cluster) -> None:
    cluster.node["status"] = {"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}
    result, told = ask(cluster)
    assert "no node somehost" in result.stderr and told == Occupancy(Use.FREE)


def test_a_server_that_is_away_is_told_in_one_line(cluster: Cluster) -> None:
    nodes: LocalNodes = cluster.nodes  # type: ignore[attr-defined]
    config = nodes.home(nodes.nodes[0]) / ".kube" / "config"
    config.write_text(
        config.read_text().split("http://")[0] + "http://127.0.0.1:1'}}]\n" + config.read_text().split("\n", 4)[4]
    )
    result, told = ask(cluster)
    assert result.exit_code != 0 and len(result.stderr.splitlines()) == 1 and "refused" in result.stderr
    assert told == Occupancy(Use.FREE)
