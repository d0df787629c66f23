"""One SQLite file, opened, checked to be ours, and used by several threads and processes without harm.

Every trouble with the file becomes an NdctlError that says what to do; none is an internal error.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.record.place import on_network
from ndctl.record.tables import FORMAT, TABLES, look_through_old, migrate

APPLICATION_ID = 0x6E646374  # "ndct": marks the file as ours, so that another program's is never written to

# Used after it was closed, or text of a run that was never begun: no trouble with the file.
_OUR_FAULTS = (sqlite3.ProgrammingError, sqlite3.IntegrityError)
_OTHER_FILE = "name another file with --record PATH"


class Database:
    """Raises NdctlError `record.*`: exit 2 when the file can't be used, 10 when another process holds it too long.

    writable:   False opens what is there for reading only, also in a folder that can't be written
    patience_s: how long to wait for another writer
    """

    def __init__(self, path: Path, *, writable: bool, patience_s: float = 30.0) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            if writable:
                _make_private(path)
            _refuse_odd(path)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not writable:
                raise nothing_recorded(path) from error
            raise self._unusable(error.strerror or str(error)) from error
        try:
            self._db = _connect_to_write(path, patience_s) if writable else _connect_to_read(path, patience_s)
        except sqlite3.Error as error:
            raise self.trouble(error) from error
        try:
            self._prepare(writable)
        except BaseException as error:
            self._db.close()
            if isinstance(error, sqlite3.Error):
                raise self.trouble(error) from error
            raise

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is kept or nothing. Threads and processes take turns."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error) and not isinstance(error, _OUR_FAULTS):
                    raise self.trouble(error) from error
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Rows must be fetched inside the block."""
        with self._lock:
            try:
                yield self._db
            except _OUR_FAULTS:
                raise
            except sqlite3.Error as error:
                raise self.trouble(error) from error

    def trouble(self, error: sqlite3.Error) -> NdctlError:
        """What SQLite says, as something a person can act on."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # the low byte is the kind
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return NdctlError(
                "record.busy",
                f"another process keeps writing to the run record {self.path}",
                hint=f"wait until it is done (fuser {self.path} shows it), or {_OTHER_FILE}",
                exit_code=ExitCode.LOCKED_OR_STALE,
            )
        if code == sqlite3.SQLITE_FULL:
            return self._unusable(f"{error}", f"free space in {self.path.parent}, or {_OTHER_FILE}")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return NdctlError(
                "record.damaged",
                f"{self.path} is no run record, or a damaged one: {error}",
                hint=f"keep it aside and {_OTHER_FILE}",
                exit_code=ExitCode.USAGE,
            )
        return self._unusable(str(error))

    def _unusable(self, why: str, hint: str = _OTHER_FILE) -> NdctlError:
        return NdctlError(
            "record.unusable",
            f"the run record {self.path} cannot be used: {why}",
            hint=hint,
            exit_code=ExitCode.USAGE,
        )

    def _prepare(self, writable: bool) -> None:
        self._db.execute("PRAGMA foreign_keys = ON")
        if not self._is_ours():
            if not writable:
                raise nothing_recorded(self.path)
            with self.writing() as db:
                if not self._is_ours():  # another process may have been faster
                    for statement in TABLES:
                        db.execute(statement)
                    db.execute(f"PRAGMA user_version = {FORMAT}")
                    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        if writable:
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._choose_journal()
            if self._version() < FORMAT:
                with self.writing() as db:
                    if self._version() < FORMAT:  # another process may have been faster
                        migrate(db, self._version())
        else:
            look_through_old(self._db, self._version())
            self._db.execute("PRAGMA query_only = ON")

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _is_ours(self) -> bool:
        """False for an empty file. Raises NdctlError for another program's, and for one of a newer ndctl."""
        # One statement, one view of the file: another process may be making it at this moment.
        application, tables = self._db.execute(
            "SELECT (SELECT application_id FROM pragma_application_id), (SELECT COUNT(*) FROM sqlite_master)"
        ).fetchone()
        if application != APPLICATION_ID:
            if application == 0 and tables == 0:
                return False
            raise NdctlError(
                "record.foreign",
                f"{self.path} is another program's SQLite file, not a run record",
                hint=_OTHER_FILE,
                exit_code=ExitCode.USAGE,
            )
        version = self._version()
        if version > FORMAT:
            raise NdctlError(
                "record.newer",
                f"{self.path} was written by a newer ndctl (format {version}, this one knows {FORMAT})",
                hint=f"update ndctl, or {_OTHER_FILE}",
                exit_code=ExitCode.USAGE,
            )
        return True

    def _choose_journal(self) -> None:
        """A write-ahead log lets others read while a run is written; where hosts share the file it would harm it."""
        wanted = "truncate" if on_network(self.path) else "wal"
        if self._db.execute("PRAGMA journal_mode").fetchone()[0] == wanted:
            return
        try:
            self._db.execute(f"PRAGMA journal_mode = {wanted}")
        except sqlite3.OperationalError as error:
            # Only a file nobody else has open can change its journal: what it has now is right too, if slower.
            if (error.sqlite_errorcode & 0xFF) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise


def nothing_recorded(path: Path) -> NdctlError:
    return NdctlError(
        "record.none",
        f"no run is recorded yet in {path}",
        hint="ndctl validate keeps one; --record PATH names another file",
        exit_code=ExitCode.USAGE,
    )


def _make_private(path: Path) -> None:
    """Raw text holds host names and addresses: a new file, and what SQLite puts beside it, is its owner's only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return


def _refuse_odd(path: Path) -> None:
    """A device or pipe would be taken for an empty record, and lose everything in silence."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(None, "it is not a plain file")


def _connect(path: Path, query: str, patience_s: float) -> sqlite3.Connection:
    # isolation_level None: transactions are begun and ended here, not by guesses of the sqlite3 module.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{query}",
        uri=True,
        timeout=patience_s,
        isolation_level=None,
        check_same_thread=False,
    )


def _connect_to_write(path: Path, patience_s: float) -> sqlite3.Connection:
    return _connect(path, "mode=rw", patience_s)


def _connect_to_read(path: Path, patience_s: float) -> sqlite3.Connection:
    """A record on read-only media has no place for SQLite's shared memory; nobody can write it, so none is needed."""
    access = {"effective_ids": os.access in os.supports_effective_ids}
    if os.access(path, os.W_OK, **access) and os.access(path.parent, os.W_OK, **access):
        return _connect(path, "mode=rw", patience_s)
    connection = _connect(path, "mode=ro", patience_s)
    try:
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise  # a run is being written, or was cut off: without its log the file may be half a truth
        return _connect(path, "mode=ro&immutable=1", patience_s)
    return connection
