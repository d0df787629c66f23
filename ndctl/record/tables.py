"""The tables of a run record, and how a record of an earlier format becomes one of today's.

Format 2 keeps every answer of every asking, so that a run can be judged again from its record alone. Texts lie apart,
once per run however often a node or a job says the same; `raw` names them by digest. Format 3 differs only in how they
are compressed, so that an ndctl of before says that it is too old, and not that the record is damaged.
"""

from __future__ import annotations

import json
import sqlite3

from ndctl.record.columns import unpacked

FORMAT = 3

_RUN = "run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE"
_RAW = (
    # What was answered to one command of one asking. answered 0: asked, and no answer came. asking NULL: a text that
    # something else than a node's answer gave. question: digest of what was asked, so that it is known again.
    f"""CREATE TABLE raw (
        {_RUN}, cluster TEXT NOT NULL, node TEXT NOT NULL, command TEXT NOT NULL, turn INTEGER NOT NULL,
        asking INTEGER, question BLOB, answered INTEGER, exit_code INTEGER, seconds REAL, timed_out INTEGER,
        truncated INTEGER, stdout BLOB, stderr BLOB, PRIMARY KEY (run, cluster, node, command, turn))""",
)
_SINCE_2 = (
    # What a run needs to be made again, as JSON: the row of cluster '' is the run's own.
    f"CREATE TABLE plans ({_RUN}, cluster TEXT NOT NULL, body BLOB, PRIMARY KEY (run, cluster))",
    f"CREATE TABLE racks ({_RUN}, cluster TEXT NOT NULL, rack TEXT NOT NULL, verdict TEXT)",
    "CREATE INDEX racks_by_run ON racks(run)",
    "CREATE INDEX racks_by_name ON racks(cluster, rack, verdict)",
    f"CREATE TABLE texts ({_RUN}, digest BLOB NOT NULL, body BLOB, PRIMARY KEY (run, digest))",
    # The fate of the connection in which a node was asked; `number` counts a node's askings.
    f"""CREATE TABLE askings ({_RUN}, cluster TEXT NOT NULL, node TEXT NOT NULL, number INTEGER NOT NULL,
        kind TEXT, detail TEXT, hint TEXT, PRIMARY KEY (run, cluster, node, number))""",
)
TABLES = (
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY, started TEXT, finished TEXT, level TEXT, clusters TEXT, verdicts TEXT,
        exit_code INTEGER, run BLOB)""",
    f"CREATE TABLE findings ({_RUN}, rack TEXT, node TEXT, check_id TEXT, subject TEXT, status TEXT, value, unit TEXT)",
    "CREATE INDEX findings_by_run ON findings(run)",
    "CREATE INDEX findings_by_check ON findings(check_id, node)",
    f"""CREATE TABLE measurements (
        {_RUN}, cluster TEXT, rack TEXT, node TEXT, metric TEXT, subject TEXT, value REAL, unit TEXT)""",
    "CREATE INDEX measurements_by_run ON measurements(run)",
    "CREATE INDEX measurements_by_metric ON measurements(metric, cluster, rack, node)",
    *_RAW,
    *_SINCE_2,
)
# Format 1 kept one text per node and command, the latest, and nothing of how it was asked.
_OLD_RAW = "run, '' AS cluster, node, command, 1 AS turn, NULL AS asking, NULL AS question, 1 AS answered, exit_code, "
_OLD_RAW += "seconds, timed_out, truncated"


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring a record of an earlier format up to today's, inside the caller's transaction."""
    if version < 2:
        db.execute("ALTER TABLE raw RENAME TO raw_1")
        for statement in (*_RAW, *_SINCE_2):
            db.execute(statement)
        # Texts stay compressed as they are; that they differ is all that their digests must say.
        db.execute(
            "INSERT INTO texts SELECT run, CAST('o' || rowid AS BLOB), stdout FROM raw_1 UNION ALL"
            " SELECT run, CAST('e' || rowid AS BLOB), stderr FROM raw_1"
        )
        db.execute(
            f"INSERT INTO raw SELECT {_OLD_RAW}, CAST('o' || rowid AS BLOB), CAST('e' || rowid AS BLOB) FROM raw_1"
        )
        db.execute("DROP TABLE raw_1")
        for run, blob in db.execute("SELECT id, run FROM runs WHERE run IS NOT NULL").fetchall():
            db.executemany("INSERT INTO racks VALUES (?, ?, ?, ?)", [(run, *one) for one in _verdicts(blob)])
    db.execute(f"PRAGMA user_version = {FORMAT}")


def look_through_old(db: sqlite3.Connection, version: int) -> None:
    """Let a record of an earlier format, opened for reading only, be read by today's names."""
    if version < 2:
        db.execute(
            f"CREATE TEMP VIEW raw AS SELECT {_OLD_RAW}, CAST('o' || rowid AS BLOB) AS stdout,"
            " CAST('e' || rowid AS BLOB) AS stderr FROM main.raw"
        )
        db.execute(
            "CREATE TEMP VIEW texts AS SELECT run, CAST('o' || rowid AS BLOB) AS digest, stdout AS body FROM main.raw"
            " UNION ALL SELECT run, CAST('e' || rowid AS BLOB), stderr FROM main.raw"
        )
        for table, columns in (
            ("plans", "'' AS run, '' AS cluster, NULL AS body"),
            ("racks", "'' AS run, '' AS cluster, '' AS rack, '' AS verdict"),
            ("askings", "'' AS run, '' AS cluster, '' AS node, 0 AS number, '' AS kind, '' AS detail, '' AS hint"),
        ):
            db.execute(f"CREATE TEMP VIEW {table} AS SELECT {columns} WHERE 0")


def _verdicts(blob: bytes) -> list[tuple[str, str, str]]:
    """(cluster, rack, verdict) of a kept run; none of one that cannot be read, which is told when it is asked for."""
    try:
        racks = json.loads(unpacked(blob))["racks"]
        return [(str(one["cluster"]), str(one["name"]), str(one["verdict"])) for one in racks]
    except (ValueError, TypeError, KeyError):
        return []
