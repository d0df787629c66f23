"""What goes wrong between a client and Azure, in the shape in which Azure shows it."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceResponseError

from ndctl.sim.faults import FaultBook
from tests.sim.arm_clients import Region, faults, identity, region, template

__all__ = ["faults", "region"]


def listed(region: Region, **options: Any) -> list[Any]:
    return list(region.resources.resource_groups.list(**options))


def test_a_reset_connection_has_no_answer_and_the_next_one_has(region: Region, faults: FaultBook) -> None:
    faults.add("connection-reset", count=1)
    with pytest.raises(ServiceResponseError, match=r"reset|closed|aborted"):
        listed(region, retry_total=0)
    listed(region, retry_total=0)


def test_throttling_of_writes_leaves_reads_alone(region: Region, faults: FaultBook) -> None:
    faults.add("throttle", count=1, retry_after=7, of="writes")
    listed(region, retry_total=0)
    with pytest.raises(HttpResponseError) as caught:
        region.resources.resource_groups.create_or_update("rg-throttled", {"location": "swedencentral"}, retry_total=0)
    assert caught.value.status_code == 429 and caught.value.response is not None
    assert caught.value.response.headers["x-ms-ratelimit-remaining-subscription-writes"] == "0"


def test_only_looks_at_operations_fail(region: Region, faults: FaultBook) -> None:
    group = region.group("rg-polls")
    faults.add("poll-error", count=1, status=503)
    body: Any = {"properties": {"mode": "Incremental", "template": template(identity("one"))}}
    begin = region.deployments.deployments.begin_create_or_update
    with pytest.raises(HttpResponseError) as caught:
        begin(group, "d", body, retry_total=0).result()
    assert caught.value.status_code == 503
    begin(group, "e", body).result()
    names = [one.name for one in region.resources.resources.list_by_resource_group(group)]
    assert names == ["one"]


def test_a_token_from_before_is_refused_with_a_challenge(region: Region, faults: FaultBook) -> None:
    listed(region)
    faults.add("token-expired")
    with pytest.raises(ClientAuthenticationError) as caught:
        listed(region)
    assert caught.value.response is not None
    assert 'error="invalid_token"' in caught.value.response.headers["WWW-Authenticate"]
    assert "ExpiredAuthenticationToken" in caught.value.response.text()
    faults.clear()
    listed(region)


def test_the_regions_clock_can_be_off(region: Region, faults: FaultBook) -> None:
    dates: list[str] = []

    def look(response: Any) -> None:
        dates.append(response.http_response.headers["Date"])

    listed(region, raw_response_hook=look)
    faults.add("azure-clock-skew", seconds=-3600)
    listed(region, raw_response_hook=look)
    usual, skewed = (parsedate_to_datetime(one).timestamp() for one in dates)
    assert abs(usual - time.time()) < 60
    assert usual - skewed == pytest.approx(3600, abs=60)


def test_a_lock_keeps_one_resource_and_the_group_it_is_in(region: Region, faults: FaultBook) -> None:
    group = region.group("rg-locked")
    region.deploy(group, "d", template(identity("keep-me"), identity("let-go")))
    faults.add("delete-locked", name="keep-me")
    listed_ = {one.name: one.id for one in region.resources.resources.list_by_resource_group(group)}
    with pytest.raises(HttpResponseError) as caught:
        region.resources.resources.begin_delete_by_id(listed_["keep-me"].lstrip("/"), api_version="2024-11-30").result()
    assert caught.value.status_code == 409 and caught.value.error is not None
    assert caught.value.error.code == "ScopeLocked"
    region.resources.resources.begin_delete_by_id(listed_["let-go"].lstrip("/"), api_version="2024-11-30").result()
    with pytest.raises(HttpResponseError) as caught:
        region.resources.resource_groups.begin_delete(group)
    assert caught.value.error is not None and caught.value.error.code == "ScopeLocked"
    faults.clear()
    region.resources.resource_groups.begin_delete(group).result()


def test_a_lock_on_a_group_keeps_it_and_everything_in_it(region: Region, faults: FaultBook) -> None:
    group, other = region.group("rg-shut"), region.group("rg-free")
    for one in (group, other):
        region.deploy(one, "d", template(identity("inside")))
    faults.add("delete-locked", name="rg-shut")
    [inside] = list(region.resources.resources.list_by_resource_group(group))
    for delete in (
        lambda: region.resources.resource_groups.begin_delete(group),
        lambda: region.resources.resources.begin_delete_by_id(inside.id.lstrip("/"), api_version="2024-11-30"),
    ):
        with pytest.raises(HttpResponseError) as caught:
            delete()
        assert caught.value.status_code == 409 and caught.value.error is not None
        assert caught.value.error.code == "ScopeLocked"
        assert f"are locked: '{region.resources.resource_groups.get(group).id}'" in caught.value.message
    region.resources.resource_groups.begin_delete(other).result()
    assert not region.resources.resource_groups.check_existence(other)
