"""Partition keys, cliques, ports, counters and GPU counts: splits, half answers and N/A."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ndctl.checks.base import Check
from ndctl.checks.catalogue import (
    gpu_count,
    gpu_health,
    gpu_identity,
    host_identity,
    infiniband_counters,
    infiniband_pkeys,
    infiniband_ports,
    nvlink_clique,
    nvlink_fabric,
)
from ndctl.model.answers import CommandResult
from ndctl.model.findings import Finding
from ndctl.model.status import Status
from tests.checks.catalogue.rack_texts import (
    GB300,
    LINKS,
    answer,
    blamed,
    counters,
    gpu_xml,
    healthy,
    ib_sysfs,
    identity,
    node,
    result,
    smi_xml,
    standing,
    view,
)

NODES = [node(number) for number in range(1, 19)]
Texts = Mapping[str, str | CommandResult]


def judge(check: Check, change: Callable[[int], Texts], nodes: int = 18, expected: int | None = None) -> list[Finding]:
    texts = healthy(NODES[:nodes])
    given = [answer(one, {**texts[one], **change(number)}) for number, one in enumerate(NODES[:nodes], 1)]
    found: list[Finding] = []
    if check.judge_node is not None:
        found += [f for one in given for f in check.judge_node(one, GB300)]
    if check.judge_rack is not None:
        found += check.judge_rack(view(given, expected), GB300)
    return found


def of_one(check: Check, change: Texts) -> list[Finding]:
    return [f for f in judge(check, lambda number: change if number == 3 else {}) if f.node in ("rack01-n03", "")]


def keys(*values: str) -> Texts:
    return {"ib-sysfs": ib_sysfs(values)}


def test_one_node_in_another_partition_is_named_on_its_rails() -> None:
    found = judge(infiniband_pkeys.CHECK, lambda n: keys("0x8013", "0x7fff") if n == 2 else {})
    assert {(f.node, f.status) for f in standing(found)} == {("rack01-n02", Status.FAIL)}
    assert {f.subject for f in found} == {"mlx5_ib0", "mlx5_ib1", "mlx5_ib2", "mlx5_ib3"}


def test_a_limited_member_is_named_as_one() -> None:
    found = judge(infiniband_pkeys.CHECK, lambda n: keys("0x0012") if n == 2 else {})
    assert blamed(found) == {"rack01-n02"} and "limited member" in found[0].message


def test_two_halves_of_keys_are_a_split_and_nobody_is_blamed() -> None:
    (bad,) = judge(infiniband_pkeys.CHECK, lambda n: keys("0x8013", "0x7fff") if n > 9 else {})
    assert (bad.check, bad.node, bad.status) == ("infiniband.pkeys.split", "", Status.FAIL)
    assert "0x8012" in bad.message and "0x8013" in bad.message


def test_a_minority_that_the_silent_nodes_could_turn_is_not_blamed() -> None:
    found = judge(infiniband_pkeys.CHECK, lambda n: keys("0x8013") if n > 3 else {}, nodes=5, expected=18)
    assert [(f.check, f.node) for f in found] == [("infiniband.pkeys.split", "")]


@pytest.mark.parametrize(
    ("values", "status"),
    [(("0xffff",), Status.WARN), (("0x7fff",), Status.FAIL), (("0x0012", "0x7fff"), Status.FAIL)],
    ids=["full-default", "limited-default", "all-limited"],
)
def test_a_rack_without_a_key_of_its_own_is_told_of_the_rack(values: tuple[str, ...], status: Status) -> None:
    (bad,) = judge(infiniband_pkeys.CHECK, lambda n: keys(*values))
    assert (bad.node, bad.status) == ("", status)


def test_rails_whose_keys_cannot_be_read_are_unknown_one_by_one() -> None:
    text = "\n".join(line for line in ib_sysfs().splitlines() if "mlx5_ib2/ports/1/pkeys" not in line)
    found = of_one(infiniband_pkeys.CHECK, {"ib-sysfs": text})
    assert [(f.subject, f.status) for f in standing(found)] == [("mlx5_ib2", Status.UNKNOWN)]


def test_the_ethernet_function_has_no_say() -> None:
    assert [f.status for f in judge(infiniband_pkeys.CHECK, lambda n: {})] == [Status.PASS]
    assert {f.status for f in judge(infiniband_ports.CHECK, lambda n: {})} == {Status.PASS}


def test_ports_are_passed_though_their_keys_are_wrong() -> None:
    (found,) = of_one(infiniband_ports.CHECK, keys("0x7fff"))
    assert found.status is Status.PASS


def xml(**changes: str) -> Texts:
    return {"nvidia-smi-xml": smi_xml([gpu_xml(index, **changes) for index in range(4)])}


def test_two_halves_of_cliques_are_a_split_and_nobody_is_blamed() -> None:
    found = judge(nvlink_clique.CHECK, lambda n: xml(cliqueId="7") if n > 9 else {})
    assert [(f.check, f.node, f.status) for f in found] == [("nvlink.clique.split", "", Status.FAIL)]


def test_a_node_of_another_fabric_is_named() -> None:
    other = "99999999-77d4-4c11-9a6e-0d2b5e7f9a10"
    found = judge(nvlink_clique.CHECK, lambda n: xml(clusterUuid=other) if n == 5 else {})
    assert blamed(found) == {"rack01-n05"} and "another NVLink fabric" in found[0].message


@pytest.mark.parametrize("uuid", ["N/A", "00000000-0000-0000-0000-000000000000"])
def test_gpus_without_a_clique_are_unknown_there(uuid: str) -> None:
    found = standing(judge(nvlink_clique.CHECK, lambda n: xml(clusterUuid=uuid) if n == 5 else {}))
    assert [(f.node, f.status) for f in found] == [("rack01-n05", Status.UNKNOWN)]


def test_one_gpu_that_still_registers_does_not_hide_anothers_fault() -> None:
    gpus = [gpu_xml(0, state="In Progress", status="N/A"), gpu_xml(1, summary="Unhealthy"), gpu_xml(2), gpu_xml(3)]
    found = of_one(nvlink_fabric.CHECK, {"nvidia-smi-xml": smi_xml(gpus)})
    assert {(f.check, f.status) for f in found} == {
        ("nvlink.fabric.settling", Status.UNKNOWN),
        ("nvlink.fabric.health", Status.FAIL),
    }


def test_fields_that_say_na_are_no_health() -> None:
    blank = {"sram": "N/A", "dram": "N/A", "remap_pending": "N/A", "remap_failure": "N/A", "recovery": "N/A"}
    assert all(f.status is Status.UNKNOWN for f in of_one(gpu_health.CHECK, xml(**blank)))


def test_names_that_say_na_are_no_identity() -> None:
    found = of_one(gpu_identity.CHECK, xml(product_name="N/A"))
    assert found and {f.status for f in found} == {Status.UNKNOWN}


@pytest.mark.parametrize(("other", "names"), [(9, set()), (1, {"rack01-n01"})])
def test_a_version_is_wrong_only_beside_a_majority(other: int, names: set[str]) -> None:
    found = judge(gpu_identity.CHECK, lambda n: {"nvidia-smi-xml": smi_xml(driver="570.1")} if n <= other else {})
    assert {f.status for f in found} == {Status.WARN}
    assert blamed(found) == names
    kernels = judge(
        host_identity.CHECK, lambda n: {"identity": identity(NODES[n - 1], kernel="6.9")} if n <= other else {}
    )
    assert blamed(kernels) == names and any(f.check == "host.identity.kernel" for f in kernels)


def test_host_figures_that_are_no_numbers_are_unknown() -> None:
    (found,) = of_one(host_identity.CHECK, {"identity": identity(NODES[2], memory_kb="²", cpus="many")})
    assert found.status is Status.UNKNOWN and "cpus, memory_kb" in found.message


def count(change: Texts) -> Finding:
    (found,) = of_one(gpu_count.CHECK, change)
    return found


def test_a_gpu_on_the_bus_and_not_in_the_list_is_named() -> None:
    found = count({"nvidia-smi-xml": smi_xml([gpu_xml(index) for index in (0, 1, 3)])})
    assert (found.status, found.subject) == (Status.FAIL, "GPU at 0018:01:00.0")


def test_a_listing_that_breaks_off_blames_no_gpu() -> None:
    text = smi_xml()
    found = count({"nvidia-smi-xml": result("nvidia-smi-xml", text[: text.index('<gpu id="00000018')], truncated=True)})
    assert found.status is Status.UNKNOWN and "breaks off" in found.message


def test_without_a_bus_a_missing_gpu_is_counted_and_not_placed() -> None:
    found = count({"nvidia-smi-xml": smi_xml([gpu_xml(index) for index in (0, 1, 3)]), "gpu-pci": ""})
    assert (found.status, found.subject) == (Status.FAIL, "1 GPU") and "could not be read" in found.message


@pytest.mark.parametrize(
    ("said", "bus", "status"),
    [
        ("No devices were found\n", "", Status.FAIL),
        ("", "", Status.UNKNOWN),
        ("NVIDIA-SMI has failed\n", None, Status.FAIL),
    ],
)
def test_no_gpu_at_all_is_a_fault_where_somebody_looked(said: str, bus: str | None, status: Status) -> None:
    found = count(
        {"nvidia-smi-xml": result("nvidia-smi-xml", said, code=9), **({} if bus is None else {"gpu-pci": bus})}
    )
    assert (found.check, found.status) == ("gpu.driver", status)


def test_fewer_device_files_than_gpus_is_a_warning_and_none_says_nothing() -> None:
    assert count({"gpu-device-files": "nvidia0\nnvidia1\nnvidia2\n"}).status is Status.WARN
    assert count({"gpu-device-files": ""}).status is Status.PASS


def grown(before: str, after: str) -> list[Finding]:
    return of_one(infiniband_counters.CHECK, {"ib-counters-before": before, "ib-counters-after": after})


def test_growth_counts_and_totals_do_not() -> None:
    (same,) = grown(counters(symbol_error=500), counters(symbol_error=500))
    assert same.status is Status.PASS
    (bad,) = grown(counters(symbol_error=500), counters(symbol_error=714))
    assert (bad.status, bad.subject, bad.value) == (Status.WARN, "mlx5_ib1", 214)


@pytest.mark.parametrize(("after", "status"), [(0, Status.PASS), (3, Status.WARN)])
def test_a_counter_that_was_reset_grew_by_what_it_shows(after: int, status: Status) -> None:
    (found,) = grown(counters(link_downed=90), counters(link_downed=after))
    assert found.status is status


@pytest.mark.parametrize(
    ("name", "value", "pegged"),
    [("symbol_error", 65535, True), ("symbol_error", 255, False), ("link_downed", 255, True),
     ("local_link_integrity_errors", 15, True), ("port_rcv_errors", 2**32 - 1, True)],
)  # fmt: skip
def test_a_counter_is_pegged_at_the_end_of_its_own_width(name: str, value: int, pegged: bool) -> None:
    (found,) = grown(counters(**{name: value}), counters(**{name: value}))
    assert found.status is (Status.UNKNOWN if pegged else Status.PASS)


def test_ports_without_counters_are_not_observable() -> None:
    (found,) = grown(counters(ports=3), counters(ports=3))
    assert (found.status, found.value) == (Status.UNKNOWN, 3)
    (none,) = grown("", "")
    assert none.status is Status.UNKNOWN
    (ethernet,) = grown("/sys/class/infiniband/mlx5_an0/ports/1/counters/symbol_error:1\n" * 2, "x\n")
    assert ethernet.status is Status.UNKNOWN


def test_counters_not_shown_are_told_and_odd_values_left_out() -> None:
    def some(text: str) -> str:
        return "".join(row for row in text.splitlines(True) if "symbol_error" not in row).replace(
            "link_downed:0", "link_downed:²"
        )

    (found,) = grown(some(counters()), some(counters()))
    assert found.status is Status.PASS and "not shown here: link_downed, symbol_error" in found.message


def test_links_of_the_healthy_text_are_whole() -> None:
    assert LINKS.count("53.125 GB/s") == GB300.gpu.count.value * GB300.nvlink.links_per_gpu.value
