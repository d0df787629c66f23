"""Attribution loses nothing, goes in no circle, and hides nothing worse; verdicts only ever get worse."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ndctl.checks.root_cause import attribute, reference
from ndctl.checks.verdict import node_result, rack_verdict, reachability
from ndctl.model.answers import CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.findings import Finding, NodeResult
from ndctl.model.places import Node
from ndctl.model.status import Status, Verdict

CHECKS = (
    "host.reachable", "gpu.driver", "gpu.count", "gpu.health.recovery-action", "gpu.health.ecc-uncorrectable",
    "gpu.health.remap-pending", "gpu.health.persistence-mode", "gpu.xid.48", "gpu.xid.79", "gpu.xid.145",
    "gpu.xid.149", "gpu.xid.154", "nvlink.links.link-down", "nvlink.links.gpu-count", "nvlink.fabric.state",
    "nvlink.clique", "nvlink.imex.not-ready", "nvlink.errors", "infiniband.ports.port-down", "infiniband.counters",
    "infiniband.pkeys", "infiniband.write-bw", "nccl.all-reduce", "nccl.all-reduce.slow-node",
    "nccl.all-reduce-ib.slow", "nccl.one-rail.slow", "nccl.across-racks.slow-node", "nccl.across-racks.path",
)  # fmt: skip
SUBJECTS = ("GPU 2 (0018:01:00.0, serial 1)", "GPU 2 (0018:01:00.0, serial 1) link 8", "GPU at 0018:01:00.0", "1 GPU",
            "mlx5_ib1 port 1", "mlx5_ib1", "rack01", "rack01 without n2", "n1 ↔ n2 mlx5_ib1", "SSH")  # fmt: skip
findings = st.lists(
    st.builds(
        Finding,
        check=st.sampled_from(CHECKS),
        status=st.sampled_from(Status),
        subject=st.sampled_from(SUBJECTS),
        node=st.sampled_from(["", "n1", "n2"]),
        message=st.just("m"),
        caused_by=st.sampled_from(["", "", "", "", "gpu.xid.149@n1", "elsewhere@n9"]),
    ),
    max_size=14,
)
BADNESS = {Status.SKIP: 0, Status.PASS: 0, Status.WARN: 1, Status.UNKNOWN: 2, Status.FAIL: 3}
RANK = {Verdict.ACCEPTED: 0, Verdict.DEGRADED: 1, Verdict.INCOMPLETE: 2, Verdict.REJECTED: 3}


def bare(finding: Finding) -> Finding:
    return replace(finding, caused_by="", explains=(), action=Finding.__dataclass_fields__["action"].default)


@settings(max_examples=400)
@given(findings)
def test_attribution_loses_and_adds_nothing(given_findings: list[Finding]) -> None:
    made = attribute(given_findings)
    assert [bare(f) for f in made] == [bare(f) for f in given_findings]
    assert Counter(f.status for f in made) == Counter(f.status for f in given_findings)


@settings(max_examples=400)
@given(findings)
def test_what_is_explained_names_a_finding_that_stands_and_is_as_bad(given_findings: list[Finding]) -> None:
    made = attribute(given_findings)
    for before, after in zip(given_findings, made, strict=True):
        if not before.caused_by and after.caused_by:
            roots = [f for f in made if reference(f) == after.caused_by and not f.caused_by]
            assert roots, after
            assert max(BADNESS[f.status] for f in roots) >= BADNESS[after.status]
            assert after not in roots


@settings(max_examples=400)
@given(findings)
def test_explaining_never_makes_a_rack_better_than_its_worst_finding(given_findings: list[Finding]) -> None:
    free = [replace(f, caused_by="") for f in given_findings]
    worst = max((BADNESS[f.status] for f in free), default=0)
    assert max((BADNESS[f.status] for f in attribute(free) if not f.caused_by), default=0) == worst


@settings(max_examples=200)
@given(findings)
def test_attribution_is_settled_after_one_pass(given_findings: list[Finding]) -> None:
    once = attribute(given_findings)
    assert [f.caused_by for f in attribute(once)] == [f.caused_by for f in once]


def results(*statuses: Status) -> list[NodeResult]:
    return [NodeResult(f"n{number}", status) for number, status in enumerate(statuses, 1)]


@settings(max_examples=400)
@given(findings, st.lists(st.sampled_from(Status), max_size=4), st.integers(0, 5), st.sets(st.sampled_from(CHECKS[:4])))
def test_a_rack_is_never_accepted_with_a_node_missing_unknown_or_failed(
    given_findings: list[Finding], statuses: list[Status], expected: int, required: set[str]
) -> None:
    verdict = rack_verdict(given_findings, results(*statuses), expected, required)
    if verdict in (Verdict.ACCEPTED, Verdict.DEGRADED):
        assert len(statuses) >= expected and statuses and Status.UNKNOWN not in statuses
        assert required
        assert not any(f.status in (Status.FAIL, Status.UNKNOWN) for f in given_findings if not f.caused_by)
        for check in required:
            assert any(f.check == check or f.check.startswith(check + ".") for f in given_findings)


@settings(max_examples=400)
@given(findings, st.integers(0, 13), st.sampled_from(Status), st.sets(st.sampled_from(CHECKS[:4]), min_size=1))
def test_a_finding_made_worse_never_improves_the_verdict(
    given_findings: list[Finding], at: int, worse: Status, required: set[str]
) -> None:
    nodes = results(Status.PASS, Status.PASS)
    before = rack_verdict(given_findings, nodes, 2, required)
    changed = list(given_findings)
    if at < len(changed) and BADNESS[worse] >= BADNESS[changed[at].status] and changed[at].status is not Status.SKIP:
        changed[at] = replace(changed[at], status=worse)
        assert RANK[rack_verdict(changed, nodes, 2, required)] >= RANK[before]
    more = Finding(check="gpu.more", status=worse, subject="GPU", message="m")
    assert RANK[rack_verdict([*given_findings, more], nodes, 2, required)] >= RANK[before]


def fail(check: str, subject: str, node: str = "n1", status: Status = Status.FAIL) -> Finding:
    return Finding(check=check, status=status, subject=subject, node=node, message=f"{check} of {subject}")


def roots(*given_findings: Finding) -> list[str]:
    return [f.check for f in attribute(given_findings) if not f.caused_by]


GPU2 = SUBJECTS[0]


def test_a_link_that_is_down_does_not_explain_an_ecc_error_of_its_gpu() -> None:
    assert roots(fail("nvlink.links.link-down", f"{GPU2} link 8"), fail("gpu.xid.48", GPU2)) == [
        "nvlink.links.link-down",
        "gpu.xid.48",
    ]


def test_a_switched_off_persistence_mode_does_not_hide_an_ecc_error() -> None:
    weak = fail("gpu.health.persistence-mode", GPU2, status=Status.WARN)
    assert roots(weak, fail("gpu.xid.48", GPU2)) == ["gpu.health.persistence-mode", "gpu.xid.48"]


def test_counters_and_log_of_one_memory_error_are_one_fault() -> None:
    assert roots(fail("gpu.health.ecc-uncorrectable", GPU2), fail("gpu.xid.48", GPU2)) == [
        "gpu.health.ecc-uncorrectable"
    ]


def test_what_was_measured_without_a_node_is_not_its_fault() -> None:
    cause = fail("nvlink.links.link-down", GPU2, "rack01-n04")
    whole = fail("nccl.all-reduce", "rack01", "")
    rest = fail("nccl.all-reduce", "rack01 without rack01-n04", "")
    assert roots(cause, whole, rest) == ["nvlink.links.link-down", "nccl.all-reduce"]
    assert attribute([cause, whole, rest])[1].caused_by == "nvlink.links.link-down@rack01-n04"


def test_a_node_that_nccl_names_is_not_explained_by_another_nodes_fault() -> None:
    assert roots(fail("gpu.count", "1 GPU", "n1"), fail("nccl.all-reduce", "n2", "n2")) == [
        "gpu.count",
        "nccl.all-reduce",
    ]


def test_a_chain_ends_at_the_finding_that_stands() -> None:
    chain = [
        fail("gpu.xid.149", f"{GPU2} link 8"),
        replace(fail("gpu.xid.145", "GPU 1", "n2"), caused_by="gpu.xid.149@n1"),
        fail("nvlink.links.link-down", f"{GPU2} link 8"),
    ]
    made = attribute(chain)
    assert [f.caused_by for f in made] == ["nvlink.links.link-down@n1", "nvlink.links.link-down@n1", ""]


def test_silence_of_a_node_counts_as_unknown_whatever_it_said_before() -> None:
    where = Node("n1", "rack01")
    kept = {"identity": CommandResult("identity", 0, "x")}
    broken = NodeAnswer(where, Outcome(OutcomeKind.CONNECTION_LOST, "broke"), kept)
    assert node_result(where, broken, reachability({where: broken})).status is Status.UNKNOWN
    mute = NodeAnswer(where, Outcome(OutcomeKind.OK, "no `timeout`"))
    assert node_result(where, mute, reachability({where: mute})).status is Status.UNKNOWN
    assert node_result(where, mute, reachability({where: mute}, asked=False)).status is Status.PASS


def test_one_tests_culprit_explains_what_the_other_nccl_tests_show() -> None:
    culprit = fail("nccl.all-reduce.slow-node", "all_reduce")
    others = [
        fail(f"nccl.{test}.slow", "rack01", "") for test in ("all-reduce", "all-reduce-ib", "one-rail", "alltoall")
    ]
    assert roots(culprit, *others) == ["nccl.all-reduce.slow-node"]
    # Without that node it is slow, too: there is another.
    assert len(roots(culprit, fail("nccl.alltoall.slow", "rack01 without n1", ""))) == 2


def test_a_bad_port_explains_infiniband_only_and_not_nvlink() -> None:
    port = fail("infiniband.ports.half-rate", "mlx5_ib1 port 1")
    assert roots(port, fail("nccl.all-reduce-ib.slow", "rack01", "")) == ["infiniband.ports.half-rate"]
    assert len(roots(port, fail("nccl.all-reduce.slow", "rack01", ""))) == 2


def test_across_racks_a_nodes_fault_explains_its_own_pairs_alone() -> None:
    culprit = fail("nccl.all-reduce-ib.slow-node", "all_reduce over InfiniBand only")
    assert len(roots(culprit, fail("nccl.across-racks.slow-node", "all_reduce across racks"))) == 1
    for other in (
        fail("nccl.across-racks.slow-node", "all_reduce across racks", "n2"),
        fail("nccl.across-racks.path", "n2 ↔ n3", ""),
        fail("nccl.across-racks.slow", "rack01 ↔ rack02", ""),
    ):
        assert len(roots(culprit, other)) == 2
