"""The control plane's subgroups against cliques, IMEX lists and partition keys: each mismatch for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ndctl.checks.catalogue import infiniband_pkeys, nvlink_clique, nvlink_imex_list
from ndctl.checks.catalogue.nvlink_subgroup import CHECK
from ndctl.model.answers import CommandResult, NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from tests.checks.catalogue.rack_texts import (
    GB300,
    answer,
    gpu_xml,
    healthy,
    ib_sysfs,
    judged,
    node,
    smi_xml,
    standing,
    view,
)

HOME = "11111111-aaaa-4bbb-8ccc-000000000001"
AWAY = "22222222-aaaa-4bbb-8ccc-000000000002"
NODES = [node(number) for number in range(1, 19)]
Texts = Mapping[str, str | CommandResult]


def given(change: Callable[[int], Texts], subgroup: Callable[[int], str]) -> list[NodeAnswer]:
    texts = healthy(NODES)
    return [
        answer(replace(one, subgroup=subgroup(number)), {**texts[one], **change(number)})
        for number, one in enumerate(NODES, 1)
    ]


def judge(
    change: Callable[[int], Texts] = lambda n: {}, subgroup: Callable[[int], str] = lambda n: HOME
) -> list[Finding]:
    assert CHECK.judge_rack is not None
    return list(CHECK.judge_rack(view(given(change, subgroup)), GB300))


def clique(name: str) -> Texts:
    return {"nvidia-smi-xml": smi_xml([gpu_xml(index, cliqueId=name) for index in range(4)])}


def found(findings: list[Finding]) -> set[tuple[str, str, Status]]:
    return {(f.check.removeprefix("nvlink.subgroup."), f.node, f.status) for f in standing(findings)}


def test_all_four_agree() -> None:
    (one,) = judge()
    assert one.status is Status.PASS and "18 nodes in one subgroup" in one.message
    assert "clique, IMEX list, partition" in one.message


def test_a_control_plane_that_tells_nothing_is_a_skip_with_the_reason() -> None:
    (one,) = judge(subgroup=lambda n: "")
    assert one.status is Status.SKIP and "tells no interconnect subgroup" in one.message


def test_a_record_that_differs_while_the_node_is_in_the_rack_warns_twice_over() -> None:
    findings = judge(subgroup=lambda n: AWAY if n == 4 else HOME)
    assert found(findings) == {("clique", "rack01-n04", Status.WARN), ("imex", "rack01-n04", Status.WARN)}
    assert all("record" in f.cause for f in standing(findings))


def test_one_of_the_two_is_explained_by_the_other() -> None:
    rack = judged(given(lambda n: {}, lambda n: AWAY if n == 4 else HOME), [CHECK])
    assert [f.check for f in standing(list(rack.findings))] == ["nvlink.subgroup.clique"]


def test_a_vm_that_landed_in_another_rack_is_told_as_that_and_explains_the_rest() -> None:
    def there(number: int) -> Texts:
        return {**clique("777"), "ib-sysfs": ib_sysfs(("0x8777", "0x7fff"), node=number)} if number == 4 else {}

    answers = given(there, lambda n: AWAY if n == 4 else HOME)
    rack = judged(answers, [CHECK, nvlink_clique.CHECK, nvlink_imex_list.CHECK, infiniband_pkeys.CHECK])
    (root,) = standing(list(rack.findings))
    assert (root.check, root.node, root.action) == ("nvlink.subgroup.elsewhere", "rack01-n04", Action.REDEPLOY)
    assert any(f.check == "nvlink.clique" and f.caused_by for f in rack.findings)
    assert any(f.check == "infiniband.pkeys" and f.caused_by for f in rack.findings)


def test_a_clique_that_differs_in_the_right_subgroup_is_the_fabrics() -> None:
    findings = judge(lambda n: clique("777") if n == 4 else {})
    assert found(findings) == {("clique", "rack01-n04", Status.FAIL)}
    rack = judged(given(lambda n: clique("777") if n == 4 else {}, lambda n: HOME), [CHECK, nvlink_clique.CHECK])
    assert {f.check for f in standing(list(rack.findings))} == {"nvlink.clique"}


def test_a_list_that_leaves_out_a_node_of_the_subgroup_is_a_finding_of_its_own() -> None:
    short = "".join(f"{one.address}\n" for one in NODES if one.name != "rack01-n04")
    findings = judge(lambda n: {"imex-node-list": short})
    assert found(findings) == {("imex", "rack01-n04", Status.FAIL)}
    assert "18 of 18 IMEX lists" in standing(findings)[0].message


def test_one_nodes_own_list_does_not_speak_for_the_rack() -> None:
    short = "".join(f"{one.address}\n" for one in NODES[:9])
    assert found(judge(lambda n: {"imex-node-list": short} if n == 2 else {})) == set()


def test_a_partition_key_that_differs_within_the_subgroup_is_a_finding_of_its_own() -> None:
    findings = judge(lambda n: {"ib-sysfs": ib_sysfs(("0x8013", "0x7fff"), node=n)} if n == 4 else {})
    assert found(findings) == {("partition", "rack01-n04", Status.FAIL)}


def test_a_key_of_another_subgroup_may_be_another() -> None:
    def given_keys(number: int) -> Texts:
        return {"ib-sysfs": ib_sysfs(("0x8013", "0x7fff"), node=number)} if number == 4 else {}

    findings = judge(given_keys, lambda n: AWAY if n == 4 else HOME)
    assert "partition" not in {kind for kind, _, _ in found(findings)}


def test_two_halves_are_a_split_and_nobody_is_blamed() -> None:
    (bad,) = standing(judge(subgroup=lambda n: AWAY if n > 9 else HOME))
    assert (bad.check, bad.node, bad.status) == ("nvlink.subgroup.split", "", Status.FAIL)


def test_nodes_of_which_nothing_is_told_are_named_in_a_skip() -> None:
    findings = judge(subgroup=lambda n: "" if n == 7 else HOME)
    assert {f.status for f in findings} == {Status.SKIP, Status.PASS}
    assert any("rack01-n07" in f.message for f in findings if f.status is Status.SKIP)


def test_gpus_that_name_no_clique_say_nothing_here() -> None:
    findings = judge(lambda n: clique("N/A") if n == 4 else {})
    assert found(findings) == set()


def test_spelling_is_no_difference() -> None:
    assert found(judge(subgroup=lambda n: HOME.upper() if n == 4 else HOME)) == set()
