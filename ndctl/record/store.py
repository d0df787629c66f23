"""The run record: one SQLite file that keeps every validation, its findings and the raw text it was judged from.

Tables: `runs` (the whole Run as JSON, so that an old record is shown exactly as it was), `findings` and
`measurements` (columns to search and compare by), `raw` (zlib-compressed text per node and command).
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndctl.model.answers import CommandResult, NodeAnswer
from ndctl.model.codec import run_from_json, run_to_json
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.findings import Run
from ndctl.model.jsonable import dumps

SCHEMA_VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, started TEXT, finished TEXT, level TEXT, clusters TEXT, exit_code INTEGER, run BLOB);
CREATE TABLE IF NOT EXISTS findings (
    run TEXT REFERENCES runs(id) ON DELETE CASCADE, rack TEXT, node TEXT, check_id TEXT, subject TEXT,
    status TEXT, value, unit TEXT);
CREATE INDEX IF NOT EXISTS findings_by_check ON findings(check_id, node);
CREATE TABLE IF NOT EXISTS measurements (
    run TEXT REFERENCES runs(id) ON DELETE CASCADE, cluster TEXT, rack TEXT, node TEXT, metric TEXT, subject TEXT,
    value REAL, unit TEXT);
CREATE INDEX IF NOT EXISTS measurements_by_metric ON measurements(metric, cluster, rack, node);
CREATE TABLE IF NOT EXISTS raw (
    run TEXT REFERENCES runs(id) ON DELETE CASCADE, node TEXT, command TEXT, exit_code INTEGER, seconds REAL,
    timed_out INTEGER, truncated INTEGER, stdout BLOB, stderr BLOB, PRIMARY KEY (run, node, command));
"""
_RUN_ID = re.compile(r"^[0-9A-Za-z._-]{1,80}$")


@dataclass(frozen=True, slots=True)
class RunLine:
    """One line of `ndctl runs`."""

    id: str
    started: str
    finished: str
    level: str
    clusters: str
    exit_code: int


def default_path() -> Path:
    """`$NDCTL_STATE_DIR/runs.sqlite`, else the XDG state directory's ndctl folder."""
    state = os.environ.get("NDCTL_STATE_DIR")
    base = Path(state) if state else Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "ndctl"
    return base / "runs.sqlite"


class Store:
    """Raises NdctlError `record.*` (exit 1) when the file can't be used, exit 2 when a run is not in it."""

    def __init__(self, path: Path | None = None, *, create: bool = True) -> None:
        self.path = path or default_path()
        if not create and not self.path.exists():
            raise NdctlError(
                "record.none",
                f"no run is recorded yet in {self.path}",
                hint="ndctl validate keeps one; --record PATH names another file",
                exit_code=ExitCode.USAGE,
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Raw text can hold host names and addresses: the owner's only.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA foreign_keys = ON")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA_VERSION:
                raise NdctlError(
                    "record.newer", f"{self.path} was written by a newer ndctl (format {version})", hint="update ndctl"
                )
            self._db.executescript(_TABLES)
            self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        except (sqlite3.Error, OSError) as error:
            raise NdctlError(
                "record.unusable",
                f"the run record {self.path} cannot be used: {error}",
                hint="name another file with --record PATH",
            ) from error

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise NdctlError("record.unusable", f"writing {self.path} failed: {error}") from error
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def begin(self, run_id: str, started: str, level: str, clusters: Iterable[str]) -> None:
        """Reserve the run, so that raw text can be kept while it is gathered."""
        if not _RUN_ID.match(run_id):
            raise NdctlError("record.run-id", f"{run_id!r} is no run id")
        with self._writing() as db:
            db.execute(
                "INSERT INTO runs (id, started, level, clusters) VALUES (?, ?, ?, ?)",
                (run_id, started, level, ", ".join(clusters)),
            )

    def keep_answer(self, run_id: str, answer: NodeAnswer) -> None:
        """Keep one node's raw text; asked again for the same command, the later text stands."""
        rows = [_raw_row(run_id, answer.node.name, result) for result in answer.results.values()]
        with self._writing() as db:
            db.executemany("INSERT OR REPLACE INTO raw VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def keep_text(self, run_id: str, node: str, command: str, text: str) -> None:
        """Keep the text of something that is not a plain command, e.g. a job's log."""
        with self._writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO raw VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                _raw_row(run_id, node, CommandResult(command, 0, text)),
            )

    def finish(self, run: Run, measurements: Iterable[Mapping[str, Any]] = ()) -> None:
        """Keep the judged run. `measurements`: {cluster, rack, node, metric, subject, value, unit}."""
        blob = zlib.compress(dumps(run_to_json(run), indent=None).encode())
        with self._writing() as db:
            db.execute(
                "INSERT INTO runs (id, started, finished, level, clusters, exit_code, run) VALUES (?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT(id) DO UPDATE SET finished=excluded.finished, exit_code=excluded.exit_code,"
                " run=excluded.run",
                (
                    run.id,
                    run.started,
                    run.finished,
                    run.level,
                    ", ".join(str(i.get("cluster", "")) for i in run.inventories),
                    int(run.exit_code),
                    blob,
                ),
            )
            db.execute("DELETE FROM findings WHERE run = ?", (run.id,))
            db.executemany(
                "INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (run.id, rack.name, f.node, f.check, f.subject, f.status.value, f.value, f.unit)
                    for rack in run.racks
                    for f in rack.findings
                ],
            )
            db.execute("DELETE FROM measurements WHERE run = ?", (run.id,))
            db.executemany(
                "INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (run.id, *(m.get(key) for key in ("cluster", "rack", "node", "metric", "subject", "value", "unit")))
                    for m in measurements
                ],
            )

    def runs(self, limit: int = 50) -> list[RunLine]:
        """Newest first. A run that was killed has no `finished` and exit code -1."""
        rows = self._db.execute(
            "SELECT id, started, COALESCE(finished, ''), level, clusters, COALESCE(exit_code, -1) FROM runs"
            " ORDER BY started DESC, id DESC LIMIT ?",
            (limit,),
        )
        return [RunLine(*row) for row in rows]

    def load(self, run_id: str) -> Run:
        """The run with this id, `last` for the newest finished one. Raises NdctlError exit 2 when there is none."""
        if run_id == "last":
            row = self._db.execute(
                "SELECT run, id FROM runs WHERE run IS NOT NULL ORDER BY started DESC, id DESC LIMIT 1"
            ).fetchone()
        else:
            row = self._db.execute("SELECT run, id FROM runs WHERE id = ?", (run_id,)).fetchone()
        if row is None:
            raise NdctlError(
                "record.no-such-run",
                f"no run {run_id!r} in {self.path}",
                hint="ndctl runs lists them",
                exit_code=ExitCode.USAGE,
            )
        if row[0] is None:
            raise NdctlError(
                "record.unfinished-run",
                f"run {run_id!r} was cut off before it was judged; its raw text is kept",
                hint="ndctl validate again",
                exit_code=ExitCode.USAGE,
            )
        return run_from_json(json.loads(zlib.decompress(row[0])))

    def raw(self, run_id: str, node: str | None = None) -> Iterator[tuple[str, CommandResult]]:
        """(node name, result) of everything kept for a run, in a fixed order."""
        rows = self._db.execute(
            "SELECT node, command, exit_code, seconds, timed_out, truncated, stdout, stderr FROM raw"
            " WHERE run = ? AND (? IS NULL OR node = ?) ORDER BY node, command",
            (run_id, node, node),
        )
        for name, command, exit_code, seconds, timed_out, truncated, stdout, stderr in rows:
            yield (
                name,
                CommandResult(
                    command, exit_code, _text(stdout), _text(stderr), seconds, bool(timed_out), bool(truncated)
                ),
            )


def _raw_row(run_id: str, node: str, result: CommandResult) -> tuple[Any, ...]:
    return (
        run_id,
        node,
        result.id,
        result.exit_code,
        result.seconds,
        int(result.timed_out),
        int(result.truncated),
        zlib.compress(result.stdout.encode("utf-8", "surrogateescape"), 6),
        zlib.compress(result.stderr.encode("utf-8", "surrogateescape"), 6),
    )


def _text(blob: bytes) -> str:
    return zlib.decompress(blob).decode("utf-8", "surrogateescape")
