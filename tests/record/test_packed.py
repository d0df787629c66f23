"""Texts packed elsewhere are kept as if they had been packed here."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from ndctl.model.answers import Command, CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.places import Node
from ndctl.record.answers import histories
from ndctl.record.packed import Packer, Unpacker
from ndctl.record.store import Store

ODD = ("", "plain\n", "é \udcff lone", "nul\0byte", "x" * 40_000, "plain\n")
COMMANDS = [Command(f"c{at}", f"echo {at}") for at in range(len(ODD) + 1)]  # the last is never answered
RESULTS = {f"c{at}": CommandResult(f"c{at}", 0, text, ODD[-1 - at]) for at, text in enumerate(ODD)}
NODE = Node("rack01-n01", "rack01")


def travelled() -> tuple[dict[str, CommandResult], Unpacker, int]:
    packer = Packer()
    named = {name: packer.result(one) for name, one in RESULTS.items()}
    sent = pickle.dumps((named, packer.bodies))
    named, bodies = pickle.loads(sent)
    unpacker = Unpacker(bodies)
    return {name: unpacker.result(one) for name, one in named.items()}, unpacker, len(sent)


def test_every_text_comes_back_and_equal_ones_travel_once() -> None:
    results, _, size = travelled()
    assert results == RESULTS
    assert size < 2_000


def test_the_record_is_the_same_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, unpacker, _ = travelled()
    kept = []
    for name in ("here", "elsewhere"):
        with Store(tmp_path / f"{name}.db") as store:
            run_id = store.begin_new("run", "2026-12-02T00:00:00Z", "quick", ["lab"])
            for told in (results, {"c4": replace(results["c4"], seconds=2.0)}):
                answer = NodeAnswer(NODE, Outcome(OutcomeKind.OK), told)
                texts = unpacker.texts_of(told.values()) if name == "elsewhere" else None
                if texts is not None:
                    monkeypatch.setattr("ndctl.record.answers.encoded", lambda text: text.encode("ascii"))
                    monkeypatch.setattr("ndctl.record.answers.pack", lambda data: pytest.fail("packed here"))
                store.answers.keep_asking(run_id, "lab", COMMANDS, answer, texts)
            log = CommandResult("log", 0, ODD[4])
            texts = unpacker.texts_of([log]) if name == "elsewhere" else None
            store.answers.keep_text(run_id, "lab", NODE.name, "log", ODD[4], texts)
            with store._database.reading() as db:
                bodies = db.execute("SELECT digest, body FROM texts ORDER BY digest").fetchall()
            kept.append((bodies, list(histories(store.answers, run_id))))
    assert kept[0] == kept[1]
    assert len(kept[0][0]) == 4


def test_a_result_met_twice_stays_one() -> None:
    packer = Packer()
    one = RESULTS["c1"]
    assert packer.result(one) is packer.result(one) and packer.result(replace(one)) == packer.result(one)
