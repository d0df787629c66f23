"""first-contact and bootstrap as a person types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ndctl.inventory.loader import load

if TYPE_CHECKING:
    from conftest import Region, Said

    Ndctl = Callable[..., Said]

STATIC = Path(__file__).parents[2] / "inventories" / "lab-static.yaml"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path))


def test_an_answer_is_kept_and_told(ndctl: Ndctl) -> None:
    first = ndctl("first-contact", STATIC, "--no-ask")
    assert first.code == 0 and "OPEN       port-rate: Which rate" in first.out
    assert f"ndctl first-contact {STATIC} --answer port-rate=…" in first.out
    answered = ndctl("first-contact", STATIC, "--no-ask", "--answer", "port-rate=400", "--answer", "umad=no")
    assert "ANSWERED   port-rate" in answered.out and "2 answered, 0 confirmed, 0 differs, 6 open" in answered.out
    told = json.loads(ndctl("first-contact", STATIC, "--no-ask", "-o", "json").out)
    assert told["counts"] == {"answered": 2, "confirmed": 0, "differs": 0, "open": 6}
    rate = next(one for one in told["facts"] if one["id"] == "port-rate")
    assert (rate["answer"], rate["in_force"], rate["sets"]) == (400, "400", "infiniband.rate_gbps")


def test_a_wrong_answer(ndctl: Ndctl) -> None:
    said = ndctl("first-contact", STATIC, "--no-ask", "--answer", "port-rat=400")
    assert said.code == 2 and "did you mean 'port-rate'" in said.err and said.out == ""
    bare = ndctl("first-contact", STATIC, "--no-ask", "--answer", "port-rate")
    assert bare.code == 2 and "there is no value" in bare.err and "port-rate=VALUE" in bare.err
    for text in ("0", "1000000000000000", "4e2", "400 Gb/s"):
        much = ndctl("first-contact", STATIC, "--no-ask", "--answer", f"port-rate={text}")
        assert much.code == 2 and "above 0 and below 1e15" in much.err, text


def test_static_racks_are_not_bootstrapped(ndctl: Ndctl) -> None:
    said = ndctl("bootstrap", STATIC, "--yes", "-o", "json")
    told = json.loads(said.out)
    assert said.code == told["exit_code"] == 2
    assert told["clusters"][0]["stages"][0]["next_step"] == f"ndctl validate {STATIC}"
    assert "exit 2" in ndctl("bootstrap", STATIC, "--yes").out


def test_it_asks_before_it_begins(ndctl: Ndctl) -> None:
    said = ndctl("bootstrap", STATIC)
    assert said.code == 2 and "--yes" in said.err


@pytest.mark.parametrize("verb", ["bootstrap", "first-contact"])
def test_help_tells_the_exit_status(ndctl: Ndctl, verb: str) -> None:
    assert "Exit status: 0" in " ".join(ndctl(verb, "--help").out.split())


def test_what_is_known_is_printed_where_nobody_is_signed_in(ndctl: Ndctl, region: Region) -> None:
    inventory = region.inventory()
    region.change(inventory, cloud={**load(inventory).inventory.cloud.model_dump(), "endpoint": "https://127.0.0.1:1"})
    said = ndctl("first-contact", inventory)
    assert said.code in (3, 4) and "OPEN       port-rate" in said.out
    assert "error" in said.err and "hint" in said.err
    assert "127.0.0.1:1" not in said.out and "127.0.0.1:1" in said.err, "the error is told once"
    assert "racks say" not in said.out and "not asked" in said.out
    assert ndctl("first-contact", inventory, "--no-ask").code == 0
