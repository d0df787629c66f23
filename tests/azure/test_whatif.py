"""ARM's what-if answer, and a template's own list, as changes."""

import pytest
from azure.mgmt.resource.deployments.models import ChangeType, WhatIfChange

from ndctl.azure.whatif import ChangeKind, PropertyChange, _change, from_template, split_id
from ndctl.render.rendered import Deployment

RACK = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/c-rack01"


def test_ids_are_split_at_the_last_provider() -> None:
    subnet = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/racks"
    assert split_id(subnet) == ("Microsoft.Network/virtualNetworks/subnets", "v/racks")


def test_modified_resource_with_nested_properties() -> None:
    told = WhatIfChange(
        {
            "resourceId": RACK,
            "changeType": "Modify",
            "delta": [
                {"path": "sku.capacity", "propertyChangeType": "Modify", "before": 16, "after": 18},
                {
                    "path": "tags",
                    "propertyChangeType": "Array",
                    "children": [{"path": "0", "propertyChangeType": "NoEffect", "before": None, "after": "x"}],
                },
            ],
        }
    )
    change = _change(told)
    assert (change.kind, change.name) == (ChangeKind.MODIFY, "c-rack01")
    assert change.properties == (
        PropertyChange("sku.capacity", "modify", 16, 18),
        PropertyChange("tags.0", "noeffect", None, "x"),
    )
    assert [one.noise for one in change.properties] == [False, True]


@pytest.mark.parametrize("kind", list(ChangeType))
def test_every_kind_of_the_sdk_is_known(kind: ChangeType) -> None:
    change = _change(WhatIfChange({"resourceId": RACK, "changeType": kind.value}))
    assert change.kind.value.replace(" ", "") == kind.value.casefold()


def test_a_kind_that_ndctl_does_not_know_is_unsupported_not_dropped() -> None:
    change = _change(WhatIfChange({"resourceId": RACK, "changeType": "Teleport"}))
    assert change.kind is ChangeKind.UNSUPPORTED


def test_template_lists_nested_names() -> None:
    resources = [
        {"type": "Microsoft.Network/virtualNetworks/subnets", "name": "v/racks"},
        {"type": "Microsoft.Compute/virtualMachineScaleSets", "name": "c-rack01", "sku": {"capacity": 18}},
    ]
    changes = from_template(
        Deployment("d", "rack01", {"resources": resources}, {}), "/subscriptions/s/resourceGroups/g"
    )
    assert [one.resource_id for one in changes] == [
        RACK,
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/racks",
    ]
    assert {one.kind for one in changes} == {ChangeKind.CREATE}
    assert {one.source for one in changes} == {"template"}
