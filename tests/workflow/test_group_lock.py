"""Two machines keep out of each other's way by a tag on the resource group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ndctl.azure.clients import AzureClients, connect
from ndctl.azure.group_tags import drop_tags, merge_tags, read_tags
from ndctl.inventory.loader import Loaded
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.workflow.group_lock import GroupLock, lock_tag
from ndctl.workflow.lock_holder import Holder, holder_name, read
from ndctl.workflow.locks import this_holder

if TYPE_CHECKING:
    from conftest import Region

ELSEWHERE = "0123abcd"  # the mark of another machine


@pytest.fixture
def loaded(region: Region) -> Loaded:
    return region.loaded()


@pytest.fixture
def clients(loaded: Loaded) -> Iterator[AzureClients]:
    made = connect(loaded)
    made.resources.resource_groups.create_or_update(
        made.resource_group, {"location": made.region, "tags": {"owner": "fabric", "Costs": "42"}}
    )
    yield made
    made.close()


@pytest.fixture
def cluster(loaded: Loaded) -> str:
    return loaded.inventory.cluster


def holder(clients: AzureClients, **changes: object) -> Holder:
    now = clients.clock.now()
    one = Holder("deploy", "ops@ci-7", 4711, now - 60, now + 800, ELSEWHERE, "ab12")
    return replace(one, **changes)  # type: ignore[arg-type]


def held_by(clients: AzureClients, cluster: str, one: Holder) -> None:
    merge_tags(clients, {lock_tag(cluster): one.text()})


def test_a_claim_is_a_tag_beside_the_others_and_goes_with_its_holder(clients: AzureClients, cluster: str) -> None:
    with GroupLock(clients, cluster, "deploy") as lock:
        tags = read_tags(clients)
        assert tags is not None and tags["owner"] == "fabric" and tags["costs"] == "42"
        told = read(tags[lock_tag(cluster)])
        assert told is not None and told.name == this_holder() and told.pid == os.getpid()
        assert told.until - told.since == pytest.approx(900, abs=1) and len(told.text()) <= 256
    assert lock.problem == ""
    assert read_tags(clients) == {"owner": "fabric", "costs": "42"}


def test_the_second_machine_is_told_who_and_since_when_and_how_to_go_on(clients: AzureClients, cluster: str) -> None:
    one = holder(clients)
    held_by(clients, cluster, one)
    with pytest.raises(NdctlError) as caught, GroupLock(clients, cluster, "destroy"):
        pass
    assert caught.value.exit_code is ExitCode.LOCKED_OR_STALE
    assert f"deploy by ops@ci-7, process 4711, since {one.who[-20:]}" in caught.value.message
    assert f"ends by itself at {one.ends}" in caught.value.message
    assert "--break-lock ops@ci-7" in caught.value.hint
    assert read(str((read_tags(clients) or {})[lock_tag(cluster)])) is not None, "the refused one took the lock away"


def test_another_cluster_of_the_group_is_not_locked(clients: AzureClients, cluster: str) -> None:
    held_by(clients, f"{cluster}-b", holder(clients))
    with GroupLock(clients, cluster, "deploy"):
        pass


def test_a_claim_ends_by_azures_clock(clients: AzureClients, cluster: str) -> None:
    held_by(clients, cluster, holder(clients, until=clients.clock.now() - 1))
    with GroupLock(clients, cluster, "deploy"):
        pass


def test_it_is_broken_by_the_right_name_only(clients: AzureClients, cluster: str) -> None:
    held_by(clients, cluster, holder(clients))
    with pytest.raises(NdctlError) as caught, GroupLock(clients, cluster, "deploy", break_lock="ops@ci-8"):
        pass
    assert caught.value.code == "lock.other-holder" and caught.value.exit_code is ExitCode.LOCKED_OR_STALE
    with GroupLock(clients, cluster, "deploy", break_lock="ops@ci-7"):
        assert (read_tags(clients) or {})[lock_tag(cluster)].startswith(f"deploy by {this_holder()}")


def test_a_dead_process_of_this_machine_needs_no_breaking(clients: AzureClients, cluster: str) -> None:
    with GroupLock(clients, cluster, "deploy"):
        mine = read((read_tags(clients) or {})[lock_tag(cluster)])
    assert mine is not None
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    held_by(clients, cluster, replace(mine, pid=child, nonce="dead"))
    with GroupLock(clients, cluster, "deploy"):
        pass
    held_by(clients, cluster, replace(mine, pid=os.getppid(), nonce="alive"))
    with pytest.raises(NdctlError), GroupLock(clients, cluster, "deploy"):
        pass


def test_of_two_claims_written_together_one_holds(clients: AzureClients, cluster: str) -> None:
    """The other machine writes after our look and before our second one."""
    other = holder(clients)
    with pytest.raises(NdctlError) as caught:
        GroupLock(clients, cluster, "deploy", sleep=lambda _: held_by(clients, cluster, other)).acquire()
    assert "ops@ci-7" in caught.value.message
    assert read((read_tags(clients) or {})[lock_tag(cluster)]) == read(other.text())


def test_a_broken_lock_stops_its_holder(clients: AzureClients, cluster: str) -> None:
    with GroupLock(clients, cluster, "deploy", lease_s=0.06) as lock:
        held_by(clients, cluster, holder(clients))
        assert lock.stop.wait(30)
        assert lock.lost_to.startswith("deploy by ops@ci-7")
    assert "ops@ci-7" in (read_tags(clients) or {})[lock_tag(cluster)], "the loser took the winner's lock away"


def test_a_claim_is_renewed_while_it_is_held(clients: AzureClients, cluster: str) -> None:
    with GroupLock(clients, cluster, "deploy", lease_s=3) as lock:
        first = read((read_tags(clients) or {})[lock_tag(cluster)])
        assert first is not None
        deadline = clients.clock.now() + 30
        while clients.clock.now() < deadline:
            now = read((read_tags(clients) or {})[lock_tag(cluster)])
            assert now is not None and now.nonce == first.nonce
            if now.until > first.until:
                break
        else:
            raise AssertionError("never renewed")
    assert not lock.stop.is_set() and lock_tag(cluster) not in (read_tags(clients) or {})


def test_without_a_group_there_is_nothing_to_mark_until_it_is_made(region: Region) -> None:
    loaded = region.loaded()
    own = connect(loaded)
    with GroupLock(own, loaded.inventory.cluster, "deploy") as lock:
        assert read_tags(own) is None
        own.resources.resource_groups.create_or_update(own.resource_group, {"location": own.region})
        lock.acquire()
        assert lock_tag(loaded.inventory.cluster) in (read_tags(own) or {})
        lock.acquire()
    assert read_tags(own) == {}
    own.close()


def test_a_group_that_went_meanwhile_is_no_problem(clients: AzureClients, cluster: str) -> None:
    with GroupLock(clients, cluster, "destroy") as lock:
        clients.resources.resource_groups.begin_delete(clients.resource_group).wait(60)
    assert lock.problem == ""


def test_taking_away_is_by_name_and_leaves_the_rest(clients: AzureClients) -> None:
    merge_tags(clients, {"mine": "x" * 300})
    assert len((read_tags(clients) or {})["mine"]) == 256
    drop_tags(clients, {"mine": "x" * 256})
    assert read_tags(clients) == {"owner": "fabric", "costs": "42"}


@pytest.mark.parametrize("text", ["", "hands off", "deploy by x", "deploy by a process 1 since x until y z q"])
def test_a_tag_that_somebody_wrote_by_hand_locks_nothing(clients: AzureClients, cluster: str, text: str) -> None:
    assert read(text) is None
    merge_tags(clients, {lock_tag(cluster): text})
    with GroupLock(clients, cluster, "deploy"):
        pass


def test_names_fit_whatever_they_hold() -> None:
    one = Holder("deploy", holder_name("a b\tc" * 60, "host\n" * 30), 4194304, 0, 9e9, "f" * 8, "0" * 12)
    assert len(one.text()) <= 256 and read(one.text()) == one
