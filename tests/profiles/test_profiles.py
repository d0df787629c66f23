"""The shipped profiles: what they promise, and that every number says who says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ndctl import profiles
from ndctl.model.errors import ExitCode, ManyErrors, NdctlError
from ndctl.profiles.loader import SITE_FOLDER_VARIABLE
from ndctl.profiles.schema import Known, Profile

GIB_16 = 16 * 2**30


def known_values(model: BaseModel) -> Iterator[Known[Any]]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        items = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
        for item in items:
            if isinstance(item, Known):
                yield item
            elif isinstance(item, BaseModel):
                yield from known_values(item)


@pytest.fixture(params=["gb300", "gb200", "h200"])
def profile(request: pytest.FixtureRequest) -> Profile:
    return profiles.load(request.param)


def test_three_profiles_are_shipped() -> None:
    assert profiles.names() == ["gb200", "gb300", "h200"]


def test_every_number_has_source_and_date(profile: Profile) -> None:
    values = list(known_values(profile))
    assert len(values) > 40
    assert all(one.source and one.date[:2] == "20" for one in values)


def test_what_is_taken_from_elsewhere_is_not_marked_as_read_in_a_primary_source(profile: Profile) -> None:
    borrowed = [one for one in known_values(profile) if "scaled" in one.source or "taken from" in one.note]
    assert all(one.mark in "IU" for one in borrowed)


def test_gb300_is_what_azure_promises() -> None:
    gb300 = profiles.load("gb300")
    assert gb300.vms_per_rack.value == 18
    assert gb300.gpu.count.value == 4
    assert (gb300.nvlink.links_per_gpu.value, gb300.nvlink.link_gb_per_s.value) == (18, 53.125)
    assert (gb300.infiniband.ports.value, gb300.infiniband.rate_gbps.value) == (4, 800)
    assert gb300.infiniband.ignore_devices.value == ("mlx5_an*",)
    assert gb300.nvlink.host_fabric_manager.value == "absent"
    assert gb300.nccl.environment["rack"]["NCCL_MNNVL_ENABLE"] == "1"
    assert gb300.nccl.environment["infiniband"]["NCCL_MNNVL_ENABLE"] == "0"


def test_half_of_gb300s_port_rate_is_below_its_floor_and_below_gb200s_rate_is_not() -> None:
    gb300, gb200 = profiles.load("gb300").infiniband, profiles.load("gb200").infiniband
    assert gb300.write_bw_fraction.value * gb300.rate_gbps.value > gb200.rate_gbps.value


def test_h200_keeps_nvlink_inside_the_vm_and_wants_the_fabric_manager() -> None:
    h200 = profiles.load("h200")
    assert h200.nvlink.domain.value == "node"
    assert h200.nvlink.host_fabric_manager.value == "required"
    assert h200.azure.placement.value == "none"
    assert h200.azure.single_placement_group.value is True


def test_whole_gb300_rack_is_held_to_azures_own_figures() -> None:
    floor = profiles.load("gb300").floor("all_reduce", "rack", 18)
    assert floor is not None
    assert floor.min_bytes == GIB_16
    assert (floor.expected.value, floor.warn_below.value, floor.fail_below.value) == (937, 800, 600)
    assert floor.expected.origin == "Azure SKU performance baseline, 2026-04"


@pytest.mark.parametrize("nodes", [2, 3, 4, 8, 16, 17])
def test_part_of_a_gb300_rack_is_held_to_less_and_says_that_it_is_inferred(nodes: int) -> None:
    gb300 = profiles.load("gb300")
    floor, whole = gb300.floor("all_reduce", "rack", nodes), gb300.floor("all_reduce", "rack", 18)
    assert floor is not None and whole is not None
    assert floor.warn_below.value < whole.warn_below.value
    assert floor.fail_below.value < whole.fail_below.value
    assert floor.expected.mark != "V" and floor.note


def test_one_vm_has_no_rack_floor_but_one_of_its_own() -> None:
    gb300 = profiles.load("gb300")
    assert gb300.floor("all_reduce", "rack", 1) is None
    assert gb300.floor("all_reduce", "node", 1) is not None
    assert gb300.floor("alltoall", "rack", 18) is None


@pytest.mark.parametrize(
    ("size", "name"),
    [
        ("Standard_ND128isr_GB300_v6", "gb300"),
        ("standard_nd128isrg5_gb300_V6", "gb300"),
        ("Standard_ND128isr_NDR_GB200_v6", "gb200"),
        ("Standard_ND96isr_H200_v5", "h200"),
    ],
)
def test_profile_of_a_vm_size_in_any_case(size: str, name: str) -> None:
    assert profiles.for_vm_size(size).name == name


def test_unknown_name_and_size_say_what_was_meant() -> None:
    with pytest.raises(NdctlError) as unknown:
        profiles.load("gb30")
    assert (unknown.value.code, unknown.value.hint) == ("profile.unknown", "did you mean 'gb300'?")
    with pytest.raises(NdctlError) as size:
        profiles.for_vm_size("Standard_ND128isr_GB300_v9")
    assert size.value.exit_code == ExitCode.USAGE
    assert "Standard_ND128isr_GB300_v6" in size.value.hint


def shipped_text(name: str) -> str:
    return (Path(profiles.__file__).parent / "data" / f"{name}.yaml").read_text(encoding="utf-8")


def test_a_new_size_is_a_new_file_and_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shipped_text("gb300").replace("name: gb300", "name: gb400", 1)
    text = text.replace("[Standard_ND128isr_GB300_v6, Standard_ND128isrG5_GB300_v6]", "[Standard_ND999_GB400_v7]")
    (tmp_path / "gb400.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv(SITE_FOLDER_VARIABLE, str(tmp_path))
    assert profiles.names() == ["gb200", "gb300", "gb400", "h200"]
    assert profiles.for_vm_size("Standard_ND999_GB400_v7").name == "gb400"


def test_a_sites_own_file_replaces_the_shipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gb300.yaml").write_text(shipped_text("gb300").replace("value: 937", "value: 940"), encoding="utf-8")
    monkeypatch.setenv(SITE_FOLDER_VARIABLE, str(tmp_path))
    floor = profiles.load("gb300").floor("all_reduce", "rack", 18)
    assert floor is not None and floor.expected.value == 940


def test_a_changed_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SITE_FOLDER_VARIABLE, str(tmp_path))
    file = tmp_path / "gb300.yaml"
    file.write_text(shipped_text("gb300"), encoding="utf-8")
    assert profiles.load("gb300").vms_per_rack.value == 18
    file.write_text(shipped_text("gb300").replace("{value: 18, unit: VMs", "{value: 9, unit: VMs", 1), encoding="utf-8")
    assert profiles.load("gb300").vms_per_rack.value == 9


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("architecture: arm64", "architecture: arm", "'arm' is no azure.architecture", 9),
        ("architecture: arm64", "architekture: arm64", "unknown key 'architekture'", 9),
        ("architecture: arm64", "architecture: [", "a bracket that is never closed", 9),
        ("name: gb300", "name: other", "named 'other' inside", 2),
    ],
)
def test_a_bad_file_is_told_at_its_line(
    old: str, new: str, message: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gb300.yaml").write_text(shipped_text("gb300").replace(old, new, 1), encoding="utf-8")
    monkeypatch.setenv(SITE_FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(NdctlError) as caught:
        profiles.load("gb300")
    error = caught.value.errors[0] if isinstance(caught.value, ManyErrors) else caught.value
    assert message in error.message
    assert error.where is not None and error.where.line == line
    assert error.exit_code == ExitCode.USAGE


def test_floors_out_of_order_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gb300.yaml").write_text(shipped_text("gb300").replace("value: 937", "value: 700"), encoding="utf-8")
    monkeypatch.setenv(SITE_FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(NdctlError, match="must rise"):
        profiles.load("gb300")


def test_a_site_folder_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SITE_FOLDER_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(NdctlError, match="names no folder"):
        profiles.names()


def test_importing_the_package_loads_no_pydantic() -> None:
    code = "import sys, ndctl.profiles; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
