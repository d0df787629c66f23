"""Flaps, addresses, places, rates, GPUDirect, capabilities and counters of the rails: who is named, and who is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from ndctl.checks.base import Check
from ndctl.checks.catalogue import (
    infiniband_addresses,
    infiniband_capabilities,
    infiniband_counters,
    infiniband_flaps,
    infiniband_gpudirect,
    infiniband_ports,
    infiniband_rails,
)
from ndctl.model.answers import CommandResult
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.profiles import load
from tests.checks.catalogue.rack_texts import (
    GB300,
    answer,
    counters,
    fabric_map,
    healthy,
    ib_sysfs,
    identity,
    node,
    port_changes,
    standing,
    view,
)

NODES = [node(number) for number in range(1, 19)]
Texts = Mapping[str, str | CommandResult]
DAY = 86_400


def judge(
    check: Check, change: Callable[[int], Texts], nodes: int = 18, exercised: frozenset[tuple[str, str]] = frozenset()
) -> list[Finding]:
    texts = healthy(NODES[:nodes])
    given = [answer(one, {**texts[one], **change(number)}) for number, one in enumerate(NODES[:nodes], 1)]
    found: list[Finding] = []
    if check.judge_node is not None:
        found += [f for one in given for f in check.judge_node(one, GB300)]
    if check.judge_rack is not None:
        found += check.judge_rack(replace(view(given), exercised=exercised), GB300)
    return found


def of_third(check: Check, change: Texts) -> list[Finding]:
    return standing(judge(check, lambda number: change if number == 3 else {}))


def flaps(*changes: tuple[str, int, str], uptime_s: float = 90_000.1) -> Texts:
    return {"kernel-log": port_changes(*changes), "identity": identity(NODES[2], uptime_s=str(uptime_s))}


def lost(device: str, *moments: int) -> list[tuple[str, int, str]]:
    return [
        one for at in moments for one in ((device, at, "DOWN"), (device, at + 4, "INIT"), (device, at + 8, "ACTIVE"))
    ]


# ---- flaps


def test_three_losses_within_three_hours_are_a_failure_of_that_port() -> None:
    (bad,) = of_third(infiniband_flaps.CHECK, flaps(*lost("mlx5_ib2", 70_000, 71_000, 75_000)))
    assert (bad.check, bad.status, bad.node, bad.subject) == (
        "infiniband.flaps", Status.FAIL, "rack01-n03", "mlx5_ib2",
    )  # fmt: skip
    assert bad.value == 3 and "healthagent" in bad.source and bad.health_category.endswith("IBPortFlapping")


def test_three_losses_over_a_day_are_a_warning() -> None:
    (bad,) = of_third(infiniband_flaps.CHECK, flaps(*lost("mlx5_ib2", 20_000, 50_000, 80_000)))
    assert (bad.check, bad.status, bad.action) == ("infiniband.flaps.lost", Status.WARN, Action.WATCH)


def test_training_in_the_first_minutes_is_no_loss() -> None:
    assert of_third(infiniband_flaps.CHECK, flaps(*lost("mlx5_ib2", 40, 100, 200))) == []


def test_a_port_that_never_came_up_lost_nothing() -> None:
    log = port_changes(("mlx5_ib2", 70_000, "DOWN"))
    text = "".join(line for line in log.splitlines(True) if not ("mlx5_ib2" in line and "ACTIVE" in line))
    assert of_third(infiniband_flaps.CHECK, {"kernel-log": text}) == []


def test_losses_of_days_ago_are_history() -> None:
    given = flaps(*lost("mlx5_ib2", 1000, 2000, 3000), uptime_s=5 * DAY)
    found = [f for f in judge(infiniband_flaps.CHECK, lambda n: given if n == 3 else {}) if f.node == "rack01-n03"]
    assert [f.status for f in found] == [Status.PASS] and "3 more than a day ago" in found[0].message


def test_what_all_ports_lose_at_once_is_the_fabrics() -> None:
    all_down = [one for index in range(4) for one in lost(f"mlx5_ib{index}", 80_000)]
    found = standing(judge(infiniband_flaps.CHECK, lambda n: flaps(*all_down)))
    assert [(f.check, f.node, f.value) for f in found] == [("infiniband.flaps.fabric", "", 72)]


def test_a_rails_switch_that_restarts_is_told_once_and_another_cable_beside_it_for_itself() -> None:
    own = lost("mlx5_ib0", 70_000, 71_000, 72_000)
    found = standing(
        judge(infiniband_flaps.CHECK, lambda n: flaps(*lost("mlx5_ib1", 80_000 + n), *(own if n == 3 else [])))
    )
    assert {(f.check, f.node, f.subject) for f in found} == {
        ("infiniband.flaps.fabric", "", "rack01 mlx5_ib1"),
        ("infiniband.flaps", "rack01-n03", "mlx5_ib0"),
    }


def test_two_nodes_at_one_moment_are_two_cables() -> None:
    found = standing(judge(infiniband_flaps.CHECK, lambda n: flaps(*lost("mlx5_ib1", 80_000)) if n in (3, 4) else {}))
    assert {(f.check, f.node) for f in found} == {
        ("infiniband.flaps.lost", "rack01-n03"),
        ("infiniband.flaps.lost", "rack01-n04"),
    }


def test_a_log_without_states_of_ports_is_no_pass() -> None:
    found = [f for f in judge(infiniband_flaps.CHECK, lambda n: {}) if f.node == "rack01-n03"]
    assert [f.status for f in found] == [Status.SKIP] and "6.15" in found[0].message


def test_the_carrier_tells_where_the_log_does_not() -> None:
    shaky = fabric_map(mlx5_ib1="port mlx5_ib1 0102:00:00.0 0 ib1 16")
    (bad,) = of_third(infiniband_flaps.CHECK, {"fabric-map": shaky})
    assert (bad.check, bad.status, bad.subject, bad.value) == ("infiniband.flaps.carrier", Status.WARN, "mlx5_ib1", 7)


def test_a_loss_that_the_log_tells_is_not_told_twice() -> None:
    shaky = fabric_map(mlx5_ib2="port mlx5_ib2 0103:00:00.0 1 ib2 16")
    given = {**flaps(*lost("mlx5_ib2", 70_000, 71_000, 75_000)), "fabric-map": shaky}
    assert [f.check for f in of_third(infiniband_flaps.CHECK, given)] == ["infiniband.flaps"]


def test_the_ethernet_function_may_come_and_go() -> None:
    text = port_changes() + "".join(
        f"2026-12-02T2{hour}:00:00.000001+0000 host kernel: mlx5_core 7870:00:02.0 mlx5_an0: Port: 1 Link {state}\n"
        for hour in range(3)
        for state in ("DOWN", "ACTIVE")
    )
    assert of_third(infiniband_flaps.CHECK, {"kernel-log": text}) == []


# ---- addresses


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"lid": "0x0"}, "no-lid"),
        ({"lid": "0xffff"}, "no-lid"),
        ({"sm_lid": "0x0"}, "no-subnet-manager"),
        ({"gid": "fe80:0000:0000:0000:0000:0000:0000:0000"}, "no-gid"),
        ({"gid": "fec0:0000:0000:0001:0015:5dff:fe99:0001"}, "subnet"),
    ],
)
def test_a_port_without_an_address_is_named(change: dict[str, str], kind: str) -> None:
    found = of_third(infiniband_addresses.CHECK, {"ib-sysfs": ib_sysfs(node=3, **change)})
    named = {(f.check, f.node, f.status) for f in found if f.check != "infiniband.addresses.twice"}
    assert named == {(f"infiniband.addresses.{kind}", "rack01-n03", Status.FAIL)}
    assert {f.subject for f in found if f.node} == {f"mlx5_ib{index}" for index in range(4)}


def test_an_address_held_twice_names_both_and_blames_neither() -> None:
    found = of_third(infiniband_addresses.CHECK, {"ib-sysfs": ib_sysfs(node=5)})
    assert {f.check for f in found} == {"infiniband.addresses.twice"} and {f.node for f in found} == {""}
    assert any("rack01-n03 mlx5_ib0" in f.message and "rack01-n05 mlx5_ib0" in f.message for f in found)


def test_equal_lids_on_different_rails_are_no_fault() -> None:
    texts = [ib_sysfs(node=number).splitlines() for number in range(1, 19)]
    own = [
        "\n".join(f"{line.rpartition(':')[0]}:0x{n + 1:x}" if "/lid:" in line else line for line in t)
        for n, t in enumerate(texts)
    ]
    found = judge(infiniband_addresses.CHECK, lambda n: {"ib-sysfs": own[n - 1]})
    assert [f.status for f in found] == [Status.PASS], found


def test_a_rail_split_over_two_subnets_blames_nobody() -> None:
    def half(number: int) -> Texts:
        prefix = "fe80:0000:0000:0000" if number > 9 else "fec0:0000:0000:0001"
        text = "\n".join(line.replace("fe80:0000:0000:0000", prefix) for line in ib_sysfs(node=number).splitlines())
        return {"ib-sysfs": text}

    found = standing(judge(infiniband_addresses.CHECK, half))
    assert {f.check for f in found} == {"infiniband.addresses.subnets"} and {f.node for f in found} == {""}


def test_ports_that_are_down_are_not_asked_for_addresses() -> None:
    text = ib_sysfs(node=3, state="1: DOWN", phys_state="2: Polling", lid="0xffff", sm_lid="0x0")
    assert of_third(infiniband_addresses.CHECK, {"ib-sysfs": text}) == []


# ---- rails


def test_two_rails_that_changed_places_are_named() -> None:
    found = of_third(infiniband_rails.CHECK, {"fabric-map": fabric_map(swap=True)})
    assert {(f.check, f.node, f.subject, f.status) for f in found} == {
        ("infiniband.rails.differs", "rack01-n03", "mlx5_ib0", Status.WARN),
        ("infiniband.rails.differs", "rack01-n03", "mlx5_ib3", Status.WARN),
    }
    assert "4. on the bus, NUMA node 1" in found[0].message + found[1].message


def test_addresses_that_a_hypervisor_made_up_are_not_compared() -> None:
    other = fabric_map().replace("0101:", "a101:").replace("0102:", "a102:").replace("0103:", "a103:")
    other = other.replace("0104:", "a104:")
    assert of_third(infiniband_rails.CHECK, {"fabric-map": other}) == []


def test_a_missing_rail_is_not_told_of_the_others_places() -> None:
    found = of_third(infiniband_rails.CHECK, {"fabric-map": fabric_map(mlx5_ib3="")})
    assert found == []


def test_places_that_are_not_told_are_skipped_and_a_broken_listing_is_unknown() -> None:
    blank = {f"mlx5_ib{index}": f"port mlx5_ib{index} ? ? ? ?" for index in range(4)}
    text = "\n".join(line for line in fabric_map(**blank).splitlines() if not line.startswith("gpu")) + "\n"
    found = judge(infiniband_rails.CHECK, lambda n: {"fabric-map": text})
    assert {f.status for f in found} == {Status.SKIP}
    cut = of_third(infiniband_rails.CHECK, {"fabric-map": fabric_map()[:80]})
    assert [(f.node, f.status) for f in cut] == [("rack01-n03", Status.UNKNOWN)]


# ---- rates


def rates(rate: str) -> Callable[[int], Texts]:
    return lambda number: {"ib-sysfs": ib_sysfs(node=number, rate=rate)}


def test_a_whole_rack_at_another_rate_is_said_once() -> None:
    found = standing(judge(infiniband_ports.CHECK, rates("400 Gb/sec (4X NDR)")))
    (bad,) = found
    assert (bad.check, bad.node, bad.status, bad.action) == (
        "infiniband.ports.rack-rate", "", Status.FAIL, Action.FIX_INVENTORY,
    )  # fmt: skip
    assert "72 of 72 rails" in bad.message and "4X NDR" in bad.message


def test_beside_a_rack_at_another_rate_only_what_is_worse_is_named() -> None:
    def given(number: int) -> Texts:
        return rates("200 Gb/sec (4X HDR)" if number == 3 else "400 Gb/sec (4X NDR)")(number)

    found = standing(judge(infiniband_ports.CHECK, given))
    assert {(f.check, f.node) for f in found} == {
        ("infiniband.ports.rack-rate", ""),
        ("infiniband.ports.port-rate", "rack01-n03"),
    }


def test_lost_lanes_are_told_as_what_they_are() -> None:
    found = of_third(infiniband_ports.CHECK, {"ib-sysfs": ib_sysfs(node=3, rate="400 Gb/sec (2X XDR)")})
    assert {(f.check, f.node, f.status) for f in found} == {("infiniband.ports.port-width", "rack01-n03", Status.FAIL)}
    assert "2X instead of 4X" in found[0].message


def test_one_node_alone_at_another_rate_is_named_by_port() -> None:
    found = standing(judge(infiniband_ports.CHECK, rates("400 Gb/sec (4X NDR)"), nodes=1))
    assert {f.check for f in found} == {"infiniband.ports.port-rate"} and len(found) == 4


# ---- GPUDirect


CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024"


@pytest.mark.parametrize(
    ("listing", "kernel", "status"),
    [
        (fabric_map(), "6.8.0-1043-azure-nvidia", Status.PASS),
        (fabric_map(modules="module nvidia_peermem\nmodules\n", driver=CLOSED), "6.8.0-1043-azure", Status.PASS),
        (fabric_map(driver=CLOSED), "6.8.0-1043-azure", Status.WARN),
        (fabric_map(), "5.4.0-150-generic", Status.WARN),
        (fabric_map(), "", Status.UNKNOWN),
        (fabric_map(driver="?"), "6.8.0", Status.UNKNOWN),
        (fabric_map(modules=""), "6.8.0", Status.UNKNOWN),
        (fabric_map()[:60], "6.8.0", Status.UNKNOWN),
    ],
    ids=["dmabuf", "peermem", "closed-driver", "old-kernel", "no-kernel", "no-driver", "no-modules", "cut"],
)
def test_gpudirect_is_passed_only_where_one_way_is_seen(listing: str, kernel: str, status: Status) -> None:
    given = {"fabric-map": listing, "identity": identity(NODES[2], kernel=kernel)}
    (found,) = [
        f for f in judge(infiniband_gpudirect.CHECK, lambda n: given if n == 3 else {}) if f.node == "rack01-n03"
    ]
    assert found.status is status
    assert (found.action is Action.FIX_IMAGE) is (status is Status.WARN)


def test_capabilities_never_fail() -> None:
    sharp = fabric_map().replace("end\n", "sharp /opt/mellanox/sharp/lib/libsharp_coll.so\nend\n")
    for have in (0, 5, 18):
        given = [{"fabric-map": sharp} if number <= have else {} for number in range(1, 19)]
        found = judge(infiniband_capabilities.CHECK, lambda n, given=given: given[n - 1])  # type: ignore[misc]
        told = {f.subject: f.status for f in found}
        assert told == {
            "rack01 SHARP": Status.PASS if have == 18 else Status.SKIP,
            "rack01 adaptive routing": Status.SKIP,
        }
    assert any("service level 1" in f.message for f in found)


# ---- counters


def traffic(moved: int) -> str:
    return counters() + "".join(
        f"/sys/class/infiniband/mlx5_ib{index}/ports/1/counters/port_{way}_data:{1000 + moved}\n"
        for index in range(4)
        for way in ("rcv", "xmit")
    )


USED = frozenset((one.name, f"mlx5_ib{index}") for one in NODES for index in range(4))


def test_counters_that_stand_still_under_traffic_prove_nothing() -> None:
    def given(number: int) -> Texts:
        return {"ib-counters-before": traffic(0), "ib-counters-after": traffic(0 if number == 3 else 9_000_000)}

    found = standing(judge(infiniband_counters.CHECK, given, exercised=USED))
    assert {(f.check, f.node, f.status) for f in found} == {
        ("infiniband.counters.not-observable", "rack01-n03", Status.UNKNOWN)
    }
    assert len(found) == 4
    assert standing(judge(infiniband_counters.CHECK, given)) == [], "without a test of ours a port may rest"


def test_the_widths_of_counters_are_known() -> None:
    for name, value in (("link_downed", 255), ("symbol_error", 65535), ("port_rcv_errors", 2**32 - 1)):
        pegged = {"ib-counters-before": counters(**{name: value}), "ib-counters-after": counters(**{name: value})}
        (found,) = of_third(infiniband_counters.CHECK, pegged)
        assert (found.check, found.status, found.subject) == (
            "infiniband.counters.pegged", Status.UNKNOWN, "mlx5_ib1",
        ), name  # fmt: skip
    still = {"ib-counters-before": counters(symbol_error=255), "ib-counters-after": counters(symbol_error=255)}
    assert of_third(infiniband_counters.CHECK, still) == [], "255 is a plain count where the counter is wider"


def test_every_profile_says_what_a_flap_is() -> None:
    for name in ("gb300", "gb200", "h200"):
        fabric = load(name).infiniband
        assert fabric.link_losses and fabric.link_loss_window_s and fabric.carrier_losses
