"""Names stay inside Azure's limits for every cluster and rack, and never collide."""

from __future__ import annotations

import re

import pytest

from ndctl.render import names

LONGEST = "a" + "b" * 30 + "c"
CLUSTERS = ["swc-a", "ab", "swedencentral-gb300-a", "swedencentral-gb300-b", LONGEST]


def test_a_reader_can_tell_what_is_what() -> None:
    assert names.rack_deployment("swc-a", 7) == "swc-a-rack07"
    assert names.scale_set("swc-a", 100) == "swc-a-rack100"
    assert names.computer_name_prefix("swc-a", 7) == "swc-a-r07-"


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("rack", [1, 64, 100, 1400])
def test_names_are_legal(cluster: str, rack: int) -> None:
    made = [
        function(cluster)
        for function in (
            names.foundation_deployment,
            names.virtual_network,
            names.network_security_group,
            names.nat_gateway,
            names.nat_public_ip,
            names.jump_vm,
            names.jump_nic,
            names.jump_public_ip,
            names.jump_os_disk,
            names.identity,
            names.interconnect_group,
        )
    ]
    assert len(set(made)) == len(made)
    made += [
        names.interconnect_block(cluster, rack),
        names.scale_set(cluster, rack),
        names.rack_deployment(cluster, rack),
    ]
    for name in made:
        assert re.fullmatch(r"[a-z][a-z0-9-]*[a-z0-9]", name)
        assert len(name) <= 47
    prefix = names.computer_name_prefix(cluster, rack)
    assert len(prefix) <= names.COMPUTER_NAME_PREFIX_LIMIT
    # A host name is the prefix and six digits in base 36: letters, digits and "-" inside, at most 64.
    assert re.fullmatch(r"[a-z][a-z0-9-]*", prefix)


def test_host_names_of_two_clusters_or_racks_never_meet() -> None:
    prefixes = [names.computer_name_prefix(cluster, rack) for cluster in CLUSTERS for rack in (1, 10, 100, 1001)]
    assert len(set(prefixes)) == len(prefixes)
    for one in prefixes:
        assert not [other for other in prefixes if other != one and other.startswith(one)]


def test_tags_are_sorted_and_ours_win() -> None:
    tags = names.tags("swc-a", 7, {"owner": "x", "managed-by": "someone"})
    assert tags == {"managed-by": "ndctl", "ndctl-cluster": "swc-a", "ndctl-rack": "rack07", "owner": "x"}
    assert list(tags) == sorted(tags)
    assert "ndctl-rack" not in names.tags("swc-a", None, {})


def test_resource_ids() -> None:
    made = names.resource_id("s", "g", "Microsoft.Network/virtualNetworks/subnets", "v", "racks")
    assert made == "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/racks"
    with pytest.raises(ValueError, match="needs 2 names, got 1"):
        names.resource_id("s", "g", "Microsoft.Network/virtualNetworks/subnets", "v")
