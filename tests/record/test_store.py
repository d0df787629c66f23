"""What is kept comes back: runs, findings, measurements, raw text; and the runs that are not there are told."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ndctl.model.answers import CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.findings import Run
from ndctl.model.places import Node
from ndctl.model.status import Status, Verdict
from ndctl.record.store import RunLine, Store
from tests.model import builders
from tests.model.builders import finding, rack

STARTED = "2026-12-02T03:20:11Z"


def answer(node: str, *results: CommandResult) -> NodeAnswer:
    return NodeAnswer(Node(node, "rack07"), Outcome(OutcomeKind.OK), {one.id: one for one in results})


def begin(store: Store, run_id: str = "a", started: str = STARTED) -> str:
    store.begin(run_id, started, "quick", ["swc-a"])
    return run_id


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def test_a_run_comes_back_as_it_was(store: Store) -> None:
    kept = builders.run(rack(verdict=Verdict.REJECTED, findings=(finding(value=17),)), exit_code=7)
    store.finish(kept)
    assert store.load(kept.id) == kept == store.load("last")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=builders.valid_runs)
def test_any_run_comes_back(store: Store, kept: Run) -> None:
    store.finish(kept)
    assert store.load(kept.id) == kept


def test_lines_are_newest_first_and_say_how_it_ended(store: Store) -> None:
    begin(store, "cut", "2026-12-02T05:00:00Z")
    store.finish(
        builders.run(rack(1), rack(2), rack(3, verdict=Verdict.REJECTED), exit_code=7, id="bad", started=STARTED)
    )
    store.finish(builders.run(rack(), id="later", started="2026-12-02T04:00:00Z"))
    assert store.runs() == [
        RunLine("cut", "2026-12-02T05:00:00Z", None, "quick", ("swc-a",), None, {}),
        RunLine("later", "2026-12-02T04:00:00Z", "2026-12-02T03:25:02Z", "standard", ("swc-a",), 0, {"accepted": 1}),
        RunLine("bad", STARTED, "2026-12-02T03:25:02Z", "standard", ("swc-a",), 7, {"accepted": 2, "rejected": 1}),
    ]
    assert [line.id for line in store.runs(limit=1)] == ["cut"]


def test_last_is_the_newest_that_was_judged(store: Store) -> None:
    store.finish(builders.run(id="judged"))
    begin(store, "unjudged", "2027-01-01T00:00:00Z")
    assert store.load("last").id == "judged"
    with pytest.raises(NdctlError, match="unjudged is not judged") as caught:
        store.load("unjudged")
    assert caught.value.exit_code is ExitCode.USAGE


def test_the_last_run_of_a_cluster_is_the_newest_judged_one_in_which_it_was_meant(store: Store, path: Path) -> None:
    def kept(run_id: str, hour: int, *clusters: str) -> None:
        inventories = tuple({**builders.INVENTORY, "cluster": cluster} for cluster in clusters)
        store.finish(builders.run(id=run_id, started=f"2026-12-02T0{hour}:00:00Z", inventories=inventories))

    kept("old", 1, "swc-a")
    kept("both", 2, "swc-a", "swc-b")
    kept("other", 3, "swc-b", "swc-a2")
    begin(store, "unjudged", "2026-12-02T09:00:00Z")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "INSERT INTO runs (id, started, clusters, run) VALUES ('odd', '2026-12-02T10:00:00Z', 'swc-a', x'00')"
        )
    found = {cluster: store.last_run(cluster) for cluster in ("swc-a", "swc-b", "swc", "", "'; DROP TABLE runs")}
    assert {cluster: run.id for cluster, run in found.items() if run} == {"swc-a": "both", "swc-b": "other"}


@pytest.mark.parametrize("wanted", ["last", "absent", "", "\ud800", "'; DROP TABLE runs"])
def test_a_run_that_is_not_there(store: Store, wanted: str) -> None:
    with pytest.raises(NdctlError, match=r"^no (finished )?run") as caught:
        store.load(wanted)
    assert (caught.value.code, caught.value.exit_code) == ("record.no-such-run", ExitCode.USAGE)


def test_an_id_is_taken_once(store: Store) -> None:
    begin(store)
    with pytest.raises(NdctlError, match="holds a run a already") as caught:
        begin(store)
    assert caught.value.exit_code is ExitCode.LOCKED_OR_STALE
    assert [store.begin_new("a", STARTED, "quick", []) for _ in range(2)] == ["a.2", "a.3"]
    assert store.begin_new("b", STARTED, "quick", []) == "b"


@pytest.mark.parametrize("run_id", ["", "a b", "a/b", "-x", "../x", "a\n", "last", "x" * 81])
def test_what_is_no_id(store: Store, run_id: str) -> None:
    with pytest.raises(NdctlError, match="is no run id") as caught:
        begin(store, run_id)
    assert caught.value.exit_code is ExitCode.USAGE
    assert store.runs() == []


def test_findings_and_measurements_are_columns_to_search(store: Store, path: Path) -> None:
    kept = builders.run(rack(findings=(finding(value=17, unit="links"), finding(Status.WARN, value="text"))))
    measured = {"cluster": "swc-a", "rack": "rack07", "node": "", "metric": "busbw", "subject": "x", "value": 9.5}
    for _ in range(2):  # judged again, the later judgement stands alone
        store.finish(kept, [measured, {"metric": "only"}])
    assert rows(path, "SELECT rack, node, check_id, status, value, unit FROM findings") == [
        ("rack07", "rack07-n11", "nvlink.links", "fail", 17, "links"),
        ("rack07", "rack07-n11", "nvlink.links", "warn", "text", ""),
    ]
    assert rows(path, "SELECT run, metric, value, unit FROM measurements") == [
        (kept.id, "busbw", 9.5, None),
        (kept.id, "only", None, None),
    ]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**400, True, None, "\ud800", float("nan")])
def test_values_no_column_holds_do_not_lose_the_run(store: Store, value: Any) -> None:
    kept = builders.run(rack(findings=(finding(value=value, message="\udc80"),)))
    store.finish(kept, [{"metric": "m\ud800", "value": value}])
    expected = None if value != value else "\\ud800" if isinstance(value, str) else value
    assert store.load(kept.id).racks[0].findings[0].value == expected


def raw_of(store: Store, run_id: str, node: str | None = None) -> Iterable[tuple[str, str]]:
    return [(name, result.id) for name, result in store.raw(run_id, node)]


def test_raw_text_comes_back_as_it_was(store: Store) -> None:
    begin(store)
    results = [
        CommandResult("smi", 0, "out\n", "err\n", 1.25),
        CommandResult("hung", None, "half", "", 20.0, timed_out=True),
        CommandResult("long", 137, "x", "", 0.5, truncated=True),
    ]
    store.keep_answer("a", answer("rack07-n02", *results))
    store.keep_answer("a", answer("rack07-n01", results[0]))
    store.keep_text("a", "rack07-n01", "nccl", "# busbw")
    assert raw_of(store, "a") == [
        ("rack07-n01", "nccl"),
        ("rack07-n01", "smi"),
        ("rack07-n02", "hung"),
        ("rack07-n02", "long"),
        ("rack07-n02", "smi"),
    ]
    assert [store.raw_one("a", "rack07-n02", one.id) for one in results] == results
    assert raw_of(store, "a", "rack07-n01") == [("rack07-n01", "nccl"), ("rack07-n01", "smi")]
    assert raw_of(store, "b") == [] and store.raw_one("a", "rack07-n01", "hung") is None


def test_asked_again_the_later_text_stands(store: Store) -> None:
    begin(store)
    for text in ("first", "second"):
        store.keep_answer("a", answer("n", CommandResult("smi", 0, text)))
    assert [result.stdout for _, result in store.raw("a")] == ["second"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters()) | builders.texts)
def test_any_text_comes_back(store: Store, text: str) -> None:
    run_id = store.begin_new("t", STARTED, "quick", [text])
    store.keep_text(run_id, "n", "c", text)
    kept = store.raw_one(run_id, "n", "c")
    assert kept is not None and kept.stdout == text


def test_fifty_megabytes(store: Store, path: Path) -> None:
    begin(store)
    text = "0123456789abcdef" * (50 * 1024 * 1024 // 16)
    store.keep_text("a", "n", "big", text)
    kept = store.raw_one("a", "n", "big")
    assert kept is not None and kept.stdout == text
    assert path.stat().st_size < 5_000_000


def test_threads_of_one_process_take_turns(store: Store) -> None:
    """The fan-out hands answers over from several threads, while rack tests keep their logs."""
    begin(store)
    failures: list[BaseException] = []
    together = threading.Barrier(8)

    def keep(number: int) -> None:
        together.wait(timeout=30)
        try:
            for turn in range(20):
                store.keep_answer("a", answer(f"n{number}", CommandResult(f"c{turn}", 0, f"{number} {turn}")))
                assert store.raw_one("a", f"n{number}", f"c{turn}") is not None
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    assert len(store.raw_names("a")) == 160


def test_text_of_a_run_that_was_never_begun_is_our_own_fault(store: Store) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        store.keep_text("never", "n", "c", "text")
    begin(store)  # and the store is still of use
    store.keep_text("a", "n", "c", "text")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET run = x'00'",
        "UPDATE runs SET run = 'text'",
        "UPDATE runs SET run = x'789c030000000001'",  # zlib of nothing
    ],
)
def test_a_damaged_run_is_told_and_leaves_the_others(store: Store, path: Path, damage: str) -> None:
    store.finish(builders.run(id="bad"))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(damage)
    store.finish(builders.run(id="good"))
    with pytest.raises(NdctlError, match=r"run bad in .* cannot be read") as caught:
        store.load("bad")
    assert (caught.value.code, caught.value.exit_code) == ("record.damaged", ExitCode.USAGE)
    assert store.load("good").id == "good"


def test_damaged_raw_text_and_lists_are_told(store: Store, path: Path) -> None:
    begin(store)
    store.keep_text("a", "n", "c", "text")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE raw SET stdout = x'ff'")
        db.execute("UPDATE runs SET clusters = 'swc-a'")
    for read in (lambda: store.raw_one("a", "n", "c"), store.runs):
        with pytest.raises(NdctlError, match="cannot be read") as caught:
            read()
        assert caught.value.exit_code is ExitCode.USAGE
