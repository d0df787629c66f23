"""The file itself: whose it is, who may read it, several writers, a killed one, and every way it can be unusable."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.record import database
from ndctl.record.store import Store
from tests.model import builders

STARTED = "2026-12-02T03:20:11Z"


def begin(store: Store, run_id: str = "a") -> None:
    store.begin(run_id, STARTED, "quick", ["swc-a"])


def refused(path: Path, *, create: bool = True, patience_s: float = 30.0) -> NdctlError:
    with pytest.raises(NdctlError) as caught, Store(path, create=create, patience_s=patience_s):
        pass
    assert caught.value.hint
    assert str(path) in caught.value.message
    return caught.value


def modes(folder: Path) -> dict[str, int]:
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()}


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process with a store on argv[1]; it says what it has done on stdout."""
    prelude = "import sys, os, signal, resource\nfrom pathlib import Path\nfrom ndctl.record.store import Store\n"
    return subprocess.Popen(
        [sys.executable, "-c", prelude + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_only_its_owner_reads_it_and_what_lies_beside_it(path: Path) -> None:
    old = os.umask(0)
    try:
        with Store(path) as store:
            begin(store)
            assert modes(path.parent) == {"runs.sqlite": 0o600, "runs.sqlite-wal": 0o600, "runs.sqlite-shm": 0o600}
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        os.umask(old)
    assert modes(path.parent) == {"runs.sqlite": 0o600}


def test_a_record_its_owner_shares_stays_shared(path: Path) -> None:
    Store(path).close()
    path.chmod(0o640)
    with Store(path) as store:
        begin(store)
    assert modes(path.parent) == {"runs.sqlite": 0o640}


def test_nothing_recorded_yet(path: Path) -> None:
    assert refused(path, create=False).code == "record.none"
    assert not path.parent.exists()
    path.parent.mkdir()
    path.touch()  # as mktemp makes it
    assert refused(path, create=False).exit_code is ExitCode.USAGE
    with Store(path) as store:
        assert store.runs() == []


def test_odd_characters_in_the_path(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=memory#%41é" / "runs.sqlite"
    with Store(path) as store:
        begin(store)
    assert [one.name for one in path.parent.iterdir()] == ["runs.sqlite"]


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    "content", [b"# notes, not a record\n" * 50, b"\x00" * 5000, b"SQLite format 3\x00" + b"\xff" * 4096]
)
def test_what_is_no_database_is_left_alone(path: Path, content: bytes, create: bool) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    error = refused(path, create=create)
    assert (error.code, error.exit_code) == ("record.damaged", ExitCode.USAGE)
    assert path.read_bytes() == content


@pytest.mark.parametrize("create", [True, False])
def test_another_programs_database_is_left_alone(path: Path, create: bool) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE runs (theirs)")
    before = path.read_bytes()
    error = refused(path, create=create)
    assert (error.code, error.exit_code) == ("record.foreign", ExitCode.USAGE)
    assert path.read_bytes() == before


def test_a_record_of_a_newer_ndctl(path: Path) -> None:
    Store(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA user_version = 9")
    error = refused(path)
    assert (error.code, error.exit_code) == ("record.newer", ExitCode.USAGE)
    assert "update ndctl" in error.hint


def test_a_damaged_page_is_told_when_it_is_read(path: Path) -> None:
    with Store(path) as store:
        begin(store)
        store.keep_text("a", "n", "c", os.urandom(200_000).hex())
        store.finish(builders.run(id="a"))
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(NdctlError) as caught, Store(path, create=False) as store:
        store.runs()
    assert (caught.value.code, caught.value.exit_code) == ("record.damaged", ExitCode.USAGE)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/null")


@pytest.mark.parametrize("make", [make_folder, make_pipe, make_device])
def test_what_is_no_plain_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "odd"
    make(path)
    for create in (True, False):
        error = refused(path, create=create)
        assert (error.code, error.exit_code) == ("record.unusable", ExitCode.USAGE)
        assert "not a plain file" in error.message


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for create in (True, False):
        assert refused(tmp_path / "file" / "runs.sqlite", create=create).exit_code is ExitCode.USAGE


def test_a_folder_that_can_never_be_is_no_empty_record() -> None:
    path = Path("/proc/ndctl-none/runs.sqlite")
    error = refused(path)
    assert (error.code, error.exit_code) == ("record.unusable", ExitCode.USAGE)
    assert refused(path, create=False).code == "record.none"


def test_a_folder_that_may_not_be_written(as_user: Path) -> None:
    as_user.chmod(0o500)
    error = refused(as_user / "runs.sqlite")
    assert (error.code, error.exit_code) == ("record.unusable", ExitCode.USAGE)
    assert "Permission denied" in error.message


def test_a_file_that_may_not_be_read(as_user: Path) -> None:
    path = as_user / "runs.sqlite"
    Store(path).close()
    path.chmod(0)
    for create in (True, False):
        assert refused(path, create=create).code == "record.unusable"


def test_a_record_on_read_only_media_can_be_shown(as_user: Path) -> None:
    path = as_user / "runs.sqlite"
    kept = builders.run(id="a")
    with Store(path) as store:
        store.finish(kept)
    path.chmod(0o400)
    as_user.chmod(0o500)
    with Store(path, create=False) as store:
        assert store.load("last") == kept
    assert refused(path).code == "record.unusable"
    assert [one.name for one in as_user.iterdir()] == ["runs.sqlite"]


def test_opened_for_reading_nothing_is_written(path: Path) -> None:
    Store(path).close()
    with Store(path, create=False) as store, pytest.raises(NdctlError, match="readonly"):
        begin(store)


def test_a_full_disk(path: Path) -> None:
    """The file may not grow beyond 200 kB in the child, as on a full disk; what was kept before stays."""
    limited = child(
        "from ndctl.model.errors import NdctlError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "store = Store(Path(sys.argv[1]))\n"
        f"store.begin('a', '{STARTED}', 'quick', [])\n"
        "store.keep_text('a', 'n', 'small', 'kept')\n"
        "try:\n"
        "    store.keep_text('a', 'n', 'large', os.urandom(300_000).hex())\n"
        "except NdctlError as error:\n"
        "    print(error.code, int(error.exit_code))\n"
        "store.keep_text('a', 'n', 'later', 'kept too')\n"
        "store.close()\n",
        path,
    )
    out, err = limited.communicate(timeout=60)
    assert (out, err) == ("record.unusable 2\n", "")
    with Store(path, create=False) as store:
        assert [command for _, command in store.raw_names("a")] == ["later", "small"]


def test_a_full_disk_says_to_make_room(path: Path) -> None:
    with Store(path) as store:
        begin(store)
        with store._database.reading() as db:
            db.execute("PRAGMA max_page_count = 30")
        with pytest.raises(NdctlError, match="full") as caught:
            store.keep_text("a", "n", "large", os.urandom(300_000).hex())
        assert "free space" in caught.value.hint
        assert caught.value.exit_code is ExitCode.USAGE


def test_processes_that_begin_at_once_all_have_their_say(path: Path) -> None:
    """Each makes the file if it is the first, takes an id of its own in the same second, and keeps twenty texts."""
    writers = [
        child(
            "sys.stdin.read(1)\n"  # the starting signal
            "store = Store(Path(sys.argv[1]))\n"
            f"run = store.begin_new('r', '{STARTED}', 'quick', ['c'])\n"
            "for turn in range(20):\n"
            "    store.keep_text(run, 'n', f'c{turn}', 'x' * 5000)\n"
            "store.close()\n"
            "print(run)\n",
            path,
        )
        for _ in range(4)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("g")
        writer.stdin.flush()
    told = [writer.communicate(timeout=120) for writer in writers]
    assert [err for _, err in told] == [""] * 4
    assert sorted(out.strip() for out, _ in told) == ["r", "r.2", "r.3", "r.4"]
    with Store(path, create=False) as store:
        assert len(store.runs()) == 4
        assert [len(store.raw_names(line.id)) for line in store.runs()] == [20] * 4


def test_a_killed_writer_leaves_what_it_had_committed(path: Path) -> None:
    writer = child(
        "store = Store(Path(sys.argv[1]))\n"
        f"store.begin('a', '{STARTED}', 'quick', ['c'])\n"
        "store.keep_text('a', 'n', 'whole', 'text')\n"
        "with store._database.writing() as db:\n"
        "    db.execute(\"INSERT INTO runs (id) VALUES ('half')\")\n"
        '    db.execute("DELETE FROM raw")\n'
        "    print('in the middle', flush=True)\n"
        "    sys.stdin.read()\n",
        path,
    )
    assert writer.stdout is not None and writer.stdout.readline() == "in the middle\n"
    with Store(path, create=False) as store:  # reading goes on while another process writes
        assert [line.id for line in store.runs()] == ["a"]
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=30)
    assert path.with_name("runs.sqlite-wal").exists()
    with Store(path) as store:
        assert [(line.id, line.exit_code) for line in store.runs()] == [("a", None)]
        assert [command for _, command in store.raw_names("a")] == ["whole"]
        store.finish(builders.run(id="b"))
        assert store.load("last").id == "b"


def test_a_writer_that_never_ends_is_told_to_the_next(path: Path) -> None:
    Store(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with Store(path, create=False) as reader:
            assert reader.runs() == []
        with Store(path, patience_s=0.05) as store:
            with pytest.raises(NdctlError, match="another process") as caught:
                begin(store)
            assert (caught.value.code, caught.value.exit_code) == ("record.busy", ExitCode.LOCKED_OR_STALE)
            other.execute("ROLLBACK")
            begin(store)  # once it is gone, all is well


def test_where_hosts_share_the_file_there_is_no_write_ahead_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "on_network", lambda path: True)
    with Store(path) as store, Store(path) as second:
        begin(store)
        begin(second, "b")
        assert len(store.runs()) == 2
        assert sorted(one.name for one in path.parent.iterdir() if one.name.endswith(("-wal", "-shm"))) == []


def test_a_log_written_elsewhere_is_taken_in_before_the_place_is_shared(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(path) as store:
        begin(store)
    monkeypatch.setattr(database, "on_network", lambda path: True)
    with Store(path) as store:
        assert [line.id for line in store.runs()] == ["a"]
        begin(store, "b")
        assert not path.with_name("runs.sqlite-wal").exists()
