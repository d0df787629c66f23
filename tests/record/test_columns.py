"""Texts are packed and come back; what earlier formats packed is read; what is no such thing is told."""

from __future__ import annotations

import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndctl.model.answers import Command, CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.places import Node
from ndctl.record.columns import encoded, pack, unpack
from ndctl.record.store import Store


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_any_text_comes_back(text: str) -> None:
    assert unpack(pack(encoded(text))) == text


def test_threads_pack_side_by_side() -> None:
    texts = [f"{number} " * 20_000 for number in range(64)]
    with ThreadPoolExecutor(8) as pool:
        assert [unpack(blob) for blob in pool.map(pack, map(encoded, texts))] == texts


def test_what_zlib_packed_is_read() -> None:
    assert unpack(zlib.compress(b"of an earlier format")) == "of an earlier format"
    with pytest.raises(ValueError):
        unpack(zlib.compress(b"cut" * 1000)[:20])


@pytest.mark.parametrize(
    "blob",
    [b"", b"text", pack(b"cut" * 1000)[:12], b"\x28\xb5\x2f\xfd" + b"\xff" * 20],
    ids=["empty", "text", "cut", "announces everything"],
)
def test_what_is_not_packed_is_a_value_error(blob: bytes) -> None:
    with pytest.raises(ValueError):
        unpack(blob)


def test_a_record_of_format_2_is_read_and_becomes_one_of_today(tmp_path: Path) -> None:
    path, node = tmp_path / "record.sqlite", Node("rack01-n01", "rack01")
    with closing(Store(path)) as store:
        run = store.begin_new("r1", "2026-12-01T00:00:00Z", "quick", ["a"])
        answer = NodeAnswer(node, Outcome(OutcomeKind.OK), {"who": CommandResult("who", 0, "n01 here")})
        store.answers.keep_asking(run, "a", [Command("who", "hostname")], answer)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE texts SET body = ?", (zlib.compress(b"n01 here"),))
        db.execute("PRAGMA user_version = 2")
        db.commit()
    for writable in (False, True):
        with closing(Store(path, create=writable)) as store:
            kept = store.answers.latest(run, "a", node.name, "who")
            assert kept is not None and kept.stdout == "n01 here"
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (3,)
