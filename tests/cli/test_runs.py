"""ndctl runs, report and schema, as they are typed."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ndctl.cli.main import run
from ndctl.model.answers import CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.findings import Run
from ndctl.model.places import Node
from ndctl.model.status import Verdict
from ndctl.record.store import Store
from ndctl.report import schemas
from tests.model import builders
from tests.model.builders import finding, rack

KEPT = builders.run(
    rack(1),
    rack(7, verdict=Verdict.REJECTED, findings=(finding(evidence="rack07-n11/nvlink-status", value=17),)),
    exit_code=7,
)
RAW = CommandResult("nvlink-status", 0, "GPU 0: é \x1b[31m\n", "a warning\n", 1.25)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory's record: one judged run with raw text, and one that was cut off later."""
    monkeypatch.setenv("NDCTL_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with Store() as store:
        store.begin(KEPT.id, KEPT.started, "standard", ["swc-a"])
        answers = {one.id: one for one in (RAW, CommandResult("hung", None, "", "", 20.0, timed_out=True))}
        store.keep_answer(KEPT.id, NodeAnswer(Node("rack07-n11", "rack07"), Outcome(OutcomeKind.OK), answers))
        store.finish(KEPT)
        store.begin("cut-off", "2026-12-03T00:00:00Z", "quick", ["swc-a", "swc-b"])
        store.keep_text("cut-off", "rack01-n01", "smi", "what there was")
    return tmp_path / "runs.sqlite"


def ndctl(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        run(list(arguments))
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_runs_are_listed_newest_first(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ndctl(capsys, "runs")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "run                  started               level     exit  clusters      racks",
        "cut-off              2026-12-03T00:00:00Z  quick     open  swc-a, swc-b",
        "2026-12-02T03-20-11  2026-12-02T03:20:11Z  standard  7     swc-a         1 accepted, 1 rejected",
    ]
    assert len(ndctl(capsys, "runs", "--limit", "1")[1].splitlines()) == 2


def test_runs_as_json_are_what_the_schema_says(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(ndctl(capsys, "runs", "-o", "json")[1])
    Draft202012Validator(schemas.load("runs")).validate(answer)
    assert answer["record"] == str(record)
    assert [(one["id"], one["exit_code"]) for one in answer["runs"]] == [("cut-off", None), (KEPT.id, 7)]


def test_a_record_with_no_run_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.sqlite"
    Store(path).close()
    assert ndctl(capsys, "runs", "--record", str(path)) == (0, "no run is recorded yet\n", "")
    assert json.loads(ndctl(capsys, "runs", "-o", "json", "--record", str(path))[1])["runs"] == []


@pytest.mark.parametrize("verb", ["runs", "report"])
def test_no_record_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    path = tmp_path / "absent.sqlite"
    code, out, err = ndctl(capsys, verb, "--record", str(path))
    assert (code, out) == (2, "")
    assert "no run is recorded yet" in err and "hint: ndctl validate keeps one" in err
    assert not path.exists()


@pytest.mark.parametrize("arguments", [(), ("last",), (KEPT.id,)])
def test_report_shows_it_again(record: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, out, err = ndctl(capsys, "report", *arguments)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "2 racks: 1 accepted · 1 rejected (rack07)"
    assert "\x1b" not in out


def test_report_as_json_is_the_run_itself(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ndctl.model.codec import run_from_json

    answer = json.loads(ndctl(capsys, "report", "-o", "json")[1])
    Draft202012Validator(schemas.load("run")).validate(answer)
    read: Run = run_from_json(answer)
    assert read == KEPT


def test_report_as_junit(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ET.fromstring(ndctl(capsys, "report", "-o", "junit")[1])
    assert [suite.get("name") for suite in root] == ["swc-a.rack01", "swc-a.rack07"]
    assert root.get("failures") == "2"


def test_raw_text_is_what_the_check_saw(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ndctl(capsys, "report", "last", "--raw", "rack07-n11/nvlink-status")
    assert (code, out) == (0, RAW.stdout + RAW.stderr)
    assert err == "rack07-n11/nvlink-status: exit 0 after 1.2 s\n"
    assert ndctl(capsys, "report", "--raw", "rack07-n11/hung") == (0, "", "rack07-n11/hung: timed out after 20.0 s\n")
    assert ndctl(capsys, "report", "--raw", "rack07-n11")[1] == "rack07-n11/hung\nrack07-n11/nvlink-status\n"


def test_raw_text_of_a_run_that_was_cut_off(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ndctl(capsys, "report", "cut-off", "--raw", "rack01-n01/smi")[1] == "what there was\n"
    code, _, err = ndctl(capsys, "report", "cut-off")
    assert code == 2
    assert "cut-off is not judged" in err and "ndctl report cut-off --raw NODE" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("absent",), "no run 'absent'"),
        (("last", "--raw", "rack07-n11/absent"), "it keeps rack07-n11/hung, rack07-n11/nvlink-status"),
        (("last", "--raw", "rack99-n01"), "it keeps rack07-n11"),
        (("last", "--raw", "rack99-n01/smi"), "it keeps rack07-n11"),
        (("last", "--raw", ""), "keeps no text ''"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    record: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    code, out, err = ndctl(capsys, "report", *arguments)
    assert (code, out) == (2, "")
    assert told in err and "hint: " in err


@pytest.mark.parametrize("arguments", [("runs", "-o", "yaml"), ("report", "-o", "html"), ("runs", "--limit", "0")])
def test_what_can_not_be_printed_is_a_usage_error(
    record: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert ndctl(capsys, *arguments)[:2] == (2, "")


@pytest.mark.parametrize("content", [b"notes\n" * 99, b""])
def test_another_file_named_by_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    for verb in ("runs", "report"):
        code, out, err = ndctl(capsys, verb, "--record", str(path))
        assert (code, out) == (2, "") and "hint: " in err
    assert path.read_bytes() == content


def test_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    listed = ndctl(capsys, "schema")[1].splitlines()
    assert [line.split() for line in listed] == [[name, f"ndctl.{name}/1"] for name in schemas.names()]
    for name in ("run", "ndctl.run/1"):
        code, out, _ = ndctl(capsys, "schema", name)
        assert (code, json.loads(out)) == (0, schemas.load("run"))
    code, out, err = ndctl(capsys, "schema", "plans")
    assert (code, out) == (2, "") and f"hint: there are: {', '.join(schemas.names())}" in err


@pytest.mark.parametrize("arguments", [["runs"], ["report"], ["report", "--raw", "rack07-n11/nvlink-status"]])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_of_the_output_will_do(record: Path, arguments: list[str], encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ndctl", *arguments],
        env={"NDCTL_STATE_DIR": str(record.parent), "PYTHONIOENCODING": encoding, "PATH": ""},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr.decode(encoding)
    assert done.stdout.decode(encoding)


def test_a_reader_that_goes_away_is_no_fault(record: Path) -> None:
    with Store(record) as store:
        store.keep_text("cut-off", "n", "big", "x\n" * 500_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "ndctl", "report", "cut-off", "--raw", "n/big"],
        env={"NDCTL_STATE_DIR": str(record.parent), "PATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.read(2) == b"x\n"
    process.stdout.close()
    assert process.stderr.read() == b"n/big: exit 0 after 0.0 s\n"
    assert process.wait(timeout=60) == 0
    process.stderr.close()
