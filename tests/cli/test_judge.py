"""ndctl judge, as typed: exit codes, JSON, and files that are none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

CAPTURES = Path(__file__).parent.parent / "captures"
KEYS = ["schema", "tool", "profile", "status", "facts", "findings", "unknown_fields"]


def ndctl(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "400"}
    return subprocess.run(
        [sys.executable, "-m", "ndctl", "judge", *arguments],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        env=environment,
    )


def one(tool: str, number: str) -> str:
    (file,) = (CAPTURES / tool).glob(f"{number}-*")
    return str(file)


@pytest.mark.parametrize(
    ("number", "status", "code"), [("29", "pass", 0), ("44", "warn", 0), ("17", "fail", 7), ("41", "unknown", 8)]
)
def test_exit_code_and_json(number: str, status: str, code: int) -> None:
    done = ndctl("nccl-tests", one("nccl-tests", number), "-o", "json")
    answer = json.loads(done.stdout)
    assert list(answer) == KEYS
    assert (answer["schema"], answer["tool"], answer["profile"]) == ("ndctl.judge/1", "nccl-tests", None)
    assert (answer["status"], done.returncode) == (status, code)
    assert answer["findings"]
    assert "unknown_fields" not in answer["facts"]


def test_text_says_the_status_first_and_then_what_matters() -> None:
    done = ndctl("nccl-tests", one("nccl-tests", "44"), "--profile", "gb300")
    first = done.stdout.decode().splitlines()[0]
    assert first.startswith("fail ")
    assert "8 ranks on 2 nodes, peak 6.68 GB/s at 128 MiB" in first
    assert "far below the floor" in first
    assert done.returncode == 7


def test_stdin_and_detection() -> None:
    text = Path(one("ib-write-bw", "09")).read_bytes()
    answer = json.loads(ndctl("auto", "-", "-o", "json", stdin=text).stdout)
    assert (answer["tool"], answer["status"]) == ("ib-write-bw", "pass")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b" \n\t\n", "empty"),
        (bytes(range(256)) * 40, "binary"),
        (b"\x00" * 5000, "binary"),
        (os.urandom(20_000), "binary"),
        (b"\xff\xfe\xff" * 200, "no"),
        (b"the quick brown fox\n", "no"),
    ],
    ids=["empty", "blank", "all-bytes", "nul", "random", "undecodable", "prose"],
)
@pytest.mark.parametrize("tool", ["auto", "nccl-tests", "dcgmi-diag"])
def test_what_is_no_output_is_unknown_with_a_reason(data: bytes, words: str, tool: str) -> None:
    done = ndctl(tool, "-", "-o", "json", stdin=data)
    answer = json.loads(done.stdout)
    assert (answer["status"], done.returncode) == ("unknown", 8)
    assert words in answer["findings"][0]["message"]
    assert done.stderr == b""


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_what_powershell_redirects_is_read(encoding: str) -> None:
    text = Path(one("nccl-tests", "29")).read_text().encode(encoding)
    answer = json.loads(ndctl("auto", "-", "-o", "json", stdin=text).stdout)
    assert (answer["tool"], answer["status"], answer["facts"]["ranks"]) == ("nccl-tests", "pass", 8)


@pytest.mark.parametrize("kind", ["line", "passing"])
def test_50_megabytes_are_unknown_and_soon(tmp_path: Path, kind: str) -> None:
    piece = b"x" * 4096 if kind == "line" else Path(one("nccl-tests", "29")).read_bytes()
    file = tmp_path / "large.txt"
    file.write_bytes(piece * (50_000_000 // len(piece) + 1))
    began = time.monotonic()
    done = ndctl("nccl-tests", str(file), "-o", "json")
    answer = json.loads(done.stdout)
    assert (answer["status"], done.returncode) == ("unknown", 8)
    assert "MiB" in answer["findings"][0]["message"]
    assert time.monotonic() - began < 30


def test_missing_file_and_directory(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path):
        done = ndctl("nccl-tests", str(path))
        assert done.returncode == 2
        assert f"cannot read {path}".encode() in done.stderr
        assert done.stdout == b""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nccl-test", "-"), "did you mean 'nccl-tests'"),
        (("dcgmi_diagg", "-"), "did you mean 'dcgmi-diag'"),
        (("zzzz", "-"), "--list"),
        (("nccl-tests",), "TOOL and FILE are needed"),
        ((), "TOOL and FILE are needed"),
        (("nccl-tests", "-", "--profile", "gb30"), "gb300"),
        (("nccl-tests", "-", "-o", "yaml"), "yaml"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], words: str) -> None:
    done = ndctl(*arguments)
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_aliases_and_underscores() -> None:
    answer = json.loads(ndctl("ib_read_bw", one("ib-write-bw", "20"), "-o", "json").stdout)
    assert answer["tool"] == "ib-write-bw"


def test_list() -> None:
    listed = ndctl("--list").stdout.decode().splitlines()
    names = [line.split()[0] for line in listed]
    assert names == sorted(names)
    wanted = {"nccl-tests", "ib-write-bw", "ib-write-lat", "nvbandwidth", "dcgmi-diag", "dcgmi-health", "dcgmi-nvlink"}
    assert wanted <= set(names)
    assert all(len(line.split()) > 2 for line in listed)
