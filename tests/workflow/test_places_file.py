"""Which VM stands behind which name is believed only where it can be right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.workflow.places_file import read_places, write_places
from ndctl.workflow.positions import Place

RIGHT = {"rack01": {1: Place("0", "vm-a"), 18: Place("17", "vm-b")}, "rack64": {2: Place("1", ""), 3: Place("2", "")}}
ONE = {"instance_id": "0", "vm_id": "vm-a"}


def told(racks: Any, **other: Any) -> str:
    return json.dumps({"schema": "ndctl.places/1", "cluster": "swc-a", "racks": racks, **other})


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    assert read_places(path, "swc-a", 36) == {}
    write_places(path, "swc-a", RIGHT)
    assert read_places(path, "swc-a", 36) == RIGHT


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (told({"rack01": {"-3": ONE}}), "rack01 has a position '-3'; they go from 1 to 36 at most"),
        (told({"rack01": {"0": ONE}}), "a position '0'"),
        (told({"rack01": {"37": ONE}}), "a position '37'"),
        (told({"rack01": {"9" * 5000: ONE}}), "a position '9"),
        (told({"rack01": {"01": ONE}}), "a position '01'"),
        (told({"rack01": {"one": ONE}}), "a position 'one'"),
        (told({"rack01": {"1": ONE, "2": ONE}}), "one VM, vm-a, is both rack01-n01 and rack01-n02"),
        (told({"rack01": {"1": ONE}, "rack02": {"4": ONE}}), "one VM, vm-a, is both rack01-n01 and rack02-n04"),
        (told({"rack01": {"1": ONE}}, cluster="swc-b"), "it is of cluster 'swc-b', not of swc-a"),
        (told({"rack01": {"1": ONE}}, cluster=None), "it does not say of which cluster it is"),
        (told({"rack1": {"1": ONE}}), "'rack1' is no rack's name"),
        (told({"rack01": None}), "rack01 has no list of positions"),
        (told({"rack01": {"1": None}}), "rack01-n01 is not told with its instance_id and vm_id"),
        (told({"rack01": {"1": {"instance_id": "", "vm_id": "x"}}}), "rack01-n01 is not told"),
        (told({"rack01": {"1": {"instance_id": 0, "vm_id": None}}}), "rack01-n01 is not told"),
        (told(None), "it has no racks"),
        (told({}, schema="ndctl.places/2"), "with the schema ndctl.places/1"),
        ("null", "with the schema ndctl.places/1"),
        ("", "it is no whole JSON: line 1, column 1"),
        ("{", "it is no whole JSON: line 1, column 2"),
        ("[" * 100_000, "it is no JSON that ndctl writes"),
        ("9" * 5000, "it is no JSON that ndctl writes"),
        ("\udcff", "it is no text: byte 0 is not UTF-8"),
    ],
)
def test_what_cannot_be_right_is_refused_in_words(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "nodes.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(NdctlError, match="which VM stands behind which name") as caught:
        read_places(path, "swc-a", 36)
    assert why in caught.value.message and caught.value.exit_code is ExitCode.USAGE
    assert caught.value.hint.endswith(f"mv {path} {path}.old")
    assert not any(word in caught.value.message for word in ("Error", "NoneType", "object"))


def test_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(NdctlError, match=r"cannot be read \(Is a directory\)"):
        read_places(tmp_path, "swc-a", 36)
