"""What kubectl's templates print; that they do is tried with a real kubectl in tests/jobs/test_occupancy_kubectl.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ndctl.parse.kube_node import KubePod, parse

TEXT = (
    "node aks-gb300-1 cordoned\n"
    "taint NoSchedule node.kubernetes.io/unschedulable\n"
    "taint NoExecute sku\n"
    "pod kube-system/nvidia-device-plugin-x7k2p Running cpu=100m memory=64Mi\n"
    "pod ml/train-0 Running cpu=64 nvidia.com/gpu=4 rdma/hca=0 claim=imex claim=imex\n"
    "end\n"
)


def test_a_node_with_its_pods() -> None:
    facts = parse(TEXT)
    assert (facts.node, facts.cordoned, facts.complete, facts.problems) == ("aks-gb300-1", True, True, ())
    assert facts.taints == (("NoSchedule", "node.kubernetes.io/unschedulable"), ("NoExecute", "sku"))
    assert facts.pods[0] == KubePod("kube-system/nvidia-device-plugin-x7k2p", "Running")
    assert facts.pods[1] == KubePod("ml/train-0", "Running", (("nvidia.com/gpu", "4"),), ("imex",))


def test_line_ends_of_another_system_and_strange_lines() -> None:
    assert parse(TEXT.replace("\n", "\r\n")) == parse(TEXT)
    odd = parse("Warning: something\n" + TEXT, "error: more\n")
    assert odd.complete and odd.problems == ("error: more", "Warning: something")


@given(st.integers(0, len(TEXT) - 2))
def test_what_is_cut_is_never_complete(cut: int) -> None:
    facts = parse(TEXT[:cut])
    assert not facts.complete or TEXT[:cut].rstrip("\n").endswith("end")


@given(st.text(max_size=400))
def test_any_text_gives_facts_and_never_a_whole_list_of_pods_without_a_node(text: str) -> None:
    facts = parse(text, text)
    assert not facts.complete or facts.node
