"""Whatever a file holds, loading gives an inventory or an NdctlError: never a traceback."""

from __future__ import annotations

import tempfile
from pathlib import Path

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ndctl.cli.show_error import render_error
from ndctl.inventory.loader import load, static_cluster
from ndctl.inventory.schema import Inventory
from ndctl.model.errors import ExitCode, NdctlError

from .conftest import RIGHT, STATIC, each

FEW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def survives(data: bytes) -> bool:
    """Load it, and show what is wrong with it. True when it was an inventory."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "one.yaml"
        file.write_bytes(data)
        try:
            loaded = load(file)
        except NdctlError as error:
            for one in each(error):
                assert one.exit_code == ExitCode.USAGE
                assert one.where is not None
                assert render_error(one).encode("utf-8", "backslashreplace").startswith(str(file).encode())
            return False
        assert len(loaded.digest) == 64
        static_cluster(loaded)
        return True


def test_the_texts_that_are_broken_below_are_right() -> None:
    assert survives(RIGHT.encode())
    assert survives((STATIC + "static: [{rack: 1, nodes: 'a[1-3]'}]\n").encode())


@FEW
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    survives(data)


@FEW
@given(st.text(alphabet=st.sampled_from(list("ab:- \n\t[]{}&*!|>'\"%@`#?,~0\\Ux\r\ufeff\u2028")), max_size=80))
def test_any_text_of_yaml_marks(text: str) -> None:
    survives(text.encode())


@FEW
@given(
    st.integers(0, len(RIGHT)),
    st.integers(0, 12),
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace").decode()),
)
def test_any_change_of_a_right_inventory(start: int, cut: int, put: str) -> None:
    survives((RIGHT[:start] + put + RIGHT[start + cut :]).encode())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@FEW
@given(st.dictionaries(st.sampled_from(sorted(Inventory.model_fields)), VALUES, max_size=4))
def test_any_value_under_any_key(changes: dict[str, object]) -> None:
    whole = {**yaml.safe_load(RIGHT), **changes}
    survives(yaml.safe_dump(whole, allow_unicode=True).encode("utf-8", "replace"))


@FEW
@given(st.text(alphabet="ab01[]-,/:@.&^!* ", max_size=30))
def test_any_node_set(nodes: str) -> None:
    entry = {"cluster": "lab", "profile": "h200", "static": [{"rack": 1, "nodes": nodes}]}
    survives(yaml.safe_dump(entry).encode())
