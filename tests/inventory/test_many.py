"""Several inventories at once, and the worked examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ndctl.inventory.loader import json_schema, load, load_each, load_many, static_cluster
from ndctl.inventory.reach import CustomCloud
from ndctl.inventory.starter import starter
from ndctl.model.errors import ManyErrors, NdctlError

from .conftest import RIGHT, ROOT, STATIC

Write = Callable[..., Path]
EXAMPLES = sorted((ROOT / "inventories").glob("*.yaml"))


def test_folders_and_files_in_order_and_each_once(write: Write) -> None:
    b = write(RIGHT.replace("swc-a", "b1"), "b.yaml")
    a = write(RIGHT.replace("swc-a", "a1"), "a.yaml")
    write("not an inventory", "notes.txt")
    assert [one.inventory.cluster for one in load_many([b.parent])] == ["a1", "b1"]
    assert [one.inventory.cluster for one in load_many([b, a.parent, a])] == ["b1", "a1"]


def test_two_inventories_of_one_cluster_are_refused(write: Write) -> None:
    write(RIGHT, "a.yaml")
    folder = write("# again\n" + RIGHT, "b.yaml").parent
    with pytest.raises(NdctlError) as caught:
        load_many([folder])
    assert caught.value.message == f"cluster 'swc-a' is also in {folder}/a.yaml:1:1"
    assert str(caught.value.where) == f"{folder}/b.yaml:2:10"


def test_errors_of_all_files_come_together_and_the_sound_ones_are_kept(write: Write) -> None:
    write(RIGHT, "a.yaml")
    write(RIGHT.replace("racks: 64", "racks: x") + "foo: 1\n", "b.yaml")
    folder = write("", "c.yaml").parent
    sound, errors = load_each([folder, folder / "absent.yaml"])
    assert [one.path.name for one in sound] == ["a.yaml"]
    assert [Path(str(error.where.file)).name for error in errors if error.where] == [
        "b.yaml",
        "b.yaml",
        "c.yaml",
        "absent.yaml",
    ]
    with pytest.raises(ManyErrors):
        load_many([folder])


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NdctlError, match=r"no \*.yaml file"):
        load_many([tmp_path])


def as_json(text: str) -> Any:
    """What an editor sees: YAML with numbers as numbers, dates as text."""
    return json.loads(json.dumps(yaml.safe_load(text), default=str))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_loads_and_fits_the_json_schema(file: Path) -> None:
    loaded = load(file)
    assert loaded.inventory.cluster
    jsonschema.Draft202012Validator(json_schema()).validate(as_json(file.read_text(encoding="utf-8")))


def test_the_examples_are_what_they_are_for() -> None:
    by_name = {one.path.stem: one for one in load_many([ROOT / "inventories"])}
    assert set(by_name) == {"sim", "swc-a", "usgov-b", "lab-static"}
    assert isinstance(by_name["sim"].inventory.cloud, CustomCloud)
    assert by_name["sim"].path_of(by_name["sim"].inventory.cloud.ca or "") == ROOT / ".ndctl/sim/ca.pem"
    assert by_name["swc-a"].inventory.racks == 64
    assert by_name["usgov-b"].inventory.cloud == "usgov"
    assert by_name["usgov-b"].inventory.network.subnet  # type: ignore[union-attr]
    assert len(static_cluster(by_name["lab-static"]).nodes) == 21


@pytest.mark.parametrize("static", [False, True])
def test_starters_are_valid_and_fit_the_json_schema(static: bool, write: Write) -> None:
    text = starter("oslo-2", static=static)
    loaded = load(write(text))
    assert loaded.inventory.cluster == "oslo-2"
    assert "my-cluster" not in text
    jsonschema.Draft202012Validator(json_schema()).validate(as_json(text))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Oslo_2", "ndctl init oslo-2"), ("9", "e.g. ndctl init swc-a"), ("../x", "e.g. ndctl init swc-a")],
)
def test_a_starter_wants_a_cluster_name(name: str, hint: str) -> None:
    with pytest.raises(NdctlError) as caught:
        starter(name)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (RIGHT, True),
        (RIGHT.replace('"1"', "1") + "nccl_env: {A: 1}\ntags: {b: true}\n", True),
        (STATIC + "static: [{rack: 1, nodes: a}]\n", True),
        (STATIC + "static: [{rack: 1, nodes: [a, b]}]\n", True),
        (RIGHT + "rack: 3\n", False),
        (RIGHT + "cloud: {ca: x}\n", False),
        (RIGHT.replace("64", "ten"), False),
    ],
)
def test_the_json_schema_agrees_with_the_loader(text: str, fits: bool, write: Write) -> None:
    assert jsonschema.Draft202012Validator(json_schema()).is_valid(as_json(text)) is fits
    if fits:
        load(write(text))
    else:
        with pytest.raises(NdctlError):
            load(write(text))


def test_the_json_schema_is_valid_and_has_an_identity() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["$id"] == "urn:ndctl:schema:inventory:1"
