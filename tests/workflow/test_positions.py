"""A node's name keeps its VM."""

from ndctl.azure.scale_sets import Instance
from ndctl.workflow.positions import Place, assign


def vm(instance_id: str, vm_id: str = "") -> Instance:
    return Instance(instance_id, f"/x/{instance_id}", vm_id or f"vm-{instance_id}", "succeeded", "running", "")


def test_first_discovery_numbers_by_instance_id_as_a_number() -> None:
    placed = assign({}, [vm("10"), vm("2"), vm("0")])
    assert {at: one.instance_id for at, one in placed.items()} == {1: "0", 2: "2", 3: "10"}


def test_names_stay_when_an_instance_goes() -> None:
    before = assign({}, [vm("0"), vm("1"), vm("2")])
    after = assign(before, [vm("0"), vm("2")])
    assert {at: one.instance_id for at, one in after.items()} == {1: "0", 3: "2"}


def test_a_replacement_takes_the_vacant_place() -> None:
    before = assign({}, [vm("0"), vm("1"), vm("2")])
    after = assign(before, [vm("0"), vm("2"), vm("7")])
    assert {at: one.instance_id for at, one in after.items()} == {1: "0", 2: "7", 3: "2"}


def test_same_vm_under_another_instance_id_keeps_its_place() -> None:
    before = {1: Place("0", "vm-a"), 2: Place("1", "vm-b")}
    after = assign(before, [vm("5", "vm-a"), vm("0", "vm-c")])
    assert after == {1: Place("5", "vm-a"), 2: Place("0", "vm-c")}


def test_same_instance_id_with_a_new_vm_keeps_its_place() -> None:
    before = {1: Place("0", "vm-a"), 2: Place("1", "vm-b")}
    assert assign(before, [vm("1", "vm-z"), vm("0", "vm-a")]) == {1: Place("0", "vm-a"), 2: Place("1", "vm-z")}


def test_order_of_azures_listing_does_not_matter() -> None:
    listed = [vm(str(n)) for n in range(18)]
    assert assign({}, listed) == assign({}, list(reversed(listed)))
