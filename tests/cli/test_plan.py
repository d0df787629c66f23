"""A plan as people read it: nothing hidden, equal racks folded."""

from ndctl.azure.faults import fault_from_body
from ndctl.azure.whatif import Change, ChangeKind, PropertyChange
from ndctl.cli.plan_text import plan_lines
from ndctl.model.errors import ExitCode
from ndctl.workflow.plan import Act, Plan, Step

GROUP = "/subscriptions/s/resourceGroups/rg/providers/"


def change(kind: ChangeKind, resource: str, rack: str, **more: object) -> Change:
    name = f"swc-a-{rack}"
    after = {"sku": {"name": "Standard_ND128isr_GB300_v6", "capacity": 18}}
    full = f"Microsoft.Compute/{resource}"
    return Change(kind, f"{GROUP}{full}/{name}", full, name, after=after, **more)  # type: ignore[arg-type]


def created(number: int) -> Step:
    rack = f"rack{number:02d}"
    both = ("interconnectBlocks", "virtualMachineScaleSets")
    changes = tuple(change(ChangeKind.CREATE, resource, rack) for resource in both)
    return Step(f"swc-a-{rack}", rack, Act.CREATE, changes, 18)


def unchanged(number: int) -> Step:
    rack = f"rack{number:02d}"
    changes = (change(ChangeKind.NO_CHANGE, "virtualMachineScaleSets", rack),)
    return Step(f"swc-a-{rack}", rack, Act.NO_CHANGE, changes, 18, 18)


def made(*racks: Step, **more: object) -> Plan:
    foundation = Step("swc-a-foundation", "", Act.NO_CHANGE)
    base = {"group_exists": True, "digests": {"inventory": "i", "templates": "t", "live": "l"}}
    return Plan(
        "swc-a", "swc-a.yaml", "s", "rg", "swedencentral", "1", foundation=foundation, racks=racks, **{**base, **more}
    )


def test_one_new_rack_among_63() -> None:
    plan = made(*(unchanged(n) for n in range(1, 64)), created(64), not_provable=("free capacity for 18 more VMs",))
    assert plan_lines(plan, verbose=False) == [
        "swc-a  swedencentral/1   foundation: no change   racks: 63 no change · 1 create · 0 modify · 0 delete",
        "  rack64  + interconnectBlocks/swc-a-rack64              capacity 18",
        "          + virtualMachineScaleSets/swc-a-rack64         18 × Standard_ND128isr_GB300_v6",
        "not provable before deploy: free capacity for 18 more VMs",
    ]


def test_equal_racks_are_one_entry_and_each_its_own_with_v() -> None:
    plan = made(*(created(n) for n in range(1, 65)))
    folded = plan_lines(plan, verbose=False)
    assert len(folded) == 3 and folded[1].startswith(
        "  rack01-rack64  + interconnectBlocks/swc-a-rack01 … swc-a-rack64"
    )
    assert len(plan_lines(plan, verbose=True)) == 1 + 1 + 64 * 2


def test_an_unequal_rack_is_never_folded_away() -> None:
    odd = change(
        ChangeKind.MODIFY,
        "virtualMachineScaleSets",
        "rack02",
        properties=(PropertyChange("sku.capacity", "modify", 16, 18),),
    )
    plan = made(created(1), Step("swc-a-rack02", "rack02", Act.MODIFY, (odd,), 18, 16), created(3))
    text = "\n".join(plan_lines(plan, verbose=False))
    assert "rack02  ~ virtualMachineScaleSets/swc-a-rack02" in text and "sku.capacity: 16 -> 18" in text


def test_refused_unsupported_surplus_and_foreign_are_said() -> None:
    quota = fault_from_body({"code": "QuotaExceeded", "message": "2304 cores needed, 0 left"})
    unsupported = change(ChangeKind.UNSUPPORTED, "interconnectBlocks", "rack02", note="no preview")
    plan = made(
        Step("swc-a-rack01", "rack01", Act.REFUSED, (), 18, fault=quota),
        Step("swc-a-rack02", "rack02", Act.MODIFY, (unsupported,), 18, 16, notes=("16 of 18 VMs exist",)),
        Step("swc-a-rack65", "rack65", Act.SURPLUS, live_vms=18, notes=("live, but beyond the racks",)),
        foreign=2,
        group_exists=False,
    )
    text = "\n".join(plan_lines(plan, verbose=False))
    for part in (
        "1 refused · 1 beyond the inventory",
        "! refused: QuotaExceeded (quota, trying again will not help): 2304 cores needed, 0 left",
        "Azure cannot predict this type: no preview",
        "16 of 18 VMs exist",
        "rack65    live, but beyond the racks",
        "untouched: 2 resources",
        "resource group rg does not exist and would be created",
    ):
        assert part in text, part
    assert plan.exit_code is ExitCode.PREFLIGHT


def test_what_azure_cannot_predict_is_shown_though_nothing_else_changes() -> None:
    unsupported = [change(ChangeKind.UNSUPPORTED, "interconnectBlocks", f"rack0{n}") for n in (1, 2)]
    steps = [Step(one.name, one.name[6:], Act.NO_CHANGE, (one,), 18, 18) for one in unsupported]
    lines = plan_lines(made(*steps), verbose=False)
    assert lines[1].startswith("  rack01-rack02  ? interconnectBlocks/swc-a-rack01 … swc-a-rack02")


def test_permission_outranks_other_refusals() -> None:
    faults = [fault_from_body({"code": code, "message": ""}) for code in ("QuotaExceeded", "AuthorizationFailed")]
    plan = made(*(Step(f"r{n}", f"rack0{n}", Act.REFUSED, fault=fault) for n, fault in enumerate(faults, 1)))
    assert plan.exit_code is ExitCode.PERMISSION


def test_every_changed_property_says_what_it_comes_to_and_noise_is_counted() -> None:
    changed = change(
        ChangeKind.MODIFY,
        "virtualMachineScaleSets",
        "rack02",
        properties=(
            PropertyChange(
                "properties.virtualMachineProfile.storageProfile.imageReference.version", "modify", "1", "2"
            ),
            PropertyChange("tags.owner", "create", None, "x"),
            PropertyChange("properties.overprovision", "noeffect", None, False),
            PropertyChange("properties.provisioningState", "delete", "Succeeded", None),
        ),
    )
    plan = made(Step("swc-a-rack02", "rack02", Act.MODIFY, (changed,), 18, 18))
    text = "\n".join(plan_lines(plan, verbose=False))
    assert "imageReference.version: 1 -> 2   needs reimage" in text
    assert "tags.owner: nothing -> x   in place" in text
    assert "2 noise: listed by Azure, without effect (-v shows them)" in text
    told = "comes to: needs reimage (1), in place (1): running VMs keep the old value until each is reimaged"
    assert f"{told}; 18 VMs are there" in text
    everything = "\n".join(plan_lines(plan, verbose=True))
    assert "properties.overprovision: nothing -> False   noise: Azure says that it has no effect" in everything
    assert "properties.provisioningState: Succeeded -> nothing   noise: Azure writes it" in everything


def test_what_azure_would_refuse_is_said_before_it_is_tried() -> None:
    block = change(
        ChangeKind.MODIFY,
        "interconnectBlocks",
        "rack01",
        properties=(PropertyChange("sku.name", "modify", "a", "b"),),
    )
    gone = change(ChangeKind.DELETE, "virtualMachineScaleSets", "rack01")
    lines = plan_lines(made(Step("swc-a-rack01", "rack01", Act.MODIFY, (block, gone), 18, 18)), verbose=False)
    assert any("sku.name: a -> b   replaces (only tags and sku.capacity of a block can change)" in one for one in lines)
    assert any("comes to: deletes (1), replaces (1)" in one for one in lines)
