"""One writer per cluster, and the second is told who the first is."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.workflow.locks import cluster_lock

SINCE = datetime(2026, 12, 2, 3, 20, tzinfo=UTC)


def test_second_is_refused_and_told_the_holder(tmp_path: Path) -> None:
    with (
        cluster_lock(tmp_path, "swc-a", "deploy", now=lambda: SINCE),
        pytest.raises(NdctlError) as caught,
        cluster_lock(tmp_path, "swc-a", "destroy"),
    ):
        pass
    error = caught.value
    assert error.exit_code is ExitCode.LOCKED_OR_STALE
    assert "deploy by" in error.message and f"process {os.getpid()}" in error.message
    assert "since 2026-12-02T03:20:00+00:00" in error.message


def test_free_again_afterwards_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), cluster_lock(tmp_path, "c", "deploy"):
        raise ZeroDivisionError
    with cluster_lock(tmp_path, "c", "destroy"):
        assert json.loads((tmp_path / "lock").read_text())["doing"] == "destroy"
    assert (tmp_path / "lock").read_text() == ""


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from ndctl.workflow.locks import cluster_lock\n"
        f"with cluster_lock(Path({str(tmp_path)!r}), 'c', 'deploy'):\n    print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(NdctlError, match=f"process {holder.pid}"), cluster_lock(tmp_path, "c", "deploy"):
        pass
    holder.kill()
    holder.communicate(timeout=30)
    with cluster_lock(tmp_path, "c", "deploy"):
        pass


def test_an_unreadable_lock_still_refuses(tmp_path: Path) -> None:
    with cluster_lock(tmp_path, "c", "deploy"):
        (tmp_path / "lock").write_text("{half")
        with pytest.raises(NdctlError, match="another ndctl"), cluster_lock(tmp_path, "c", "deploy"):
            pass


def test_a_lock_file_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with (
        pytest.raises(NdctlError, match=r"cannot keep .*/lock: Is a directory") as caught,
        cluster_lock(tmp_path, "c", "deploy"),
    ):
        pass
    assert caught.value.exit_code is ExitCode.USAGE
