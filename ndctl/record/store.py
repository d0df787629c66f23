"""The run record: one SQLite file that keeps every validation, its findings and the raw text it was judged from.

The whole Run is kept as JSON, so that an old record is shown exactly as it was; findings and measurements are columns
to search and compare by (`record.past`); what nodes answered is `record.answers`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ndctl.model.answers import Command, CommandResult, NodeAnswer
from ndctl.model.codec import run_from_json, run_to_json
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.findings import Run
from ndctl.model.jsonable import dumps, plain_text
from ndctl.model.status import Verdict
from ndctl.record.answers import Answers, damaged
from ndctl.record.columns import column, encoded, pack, unpack
from ndctl.record.database import Database
from ndctl.record.past import Past
from ndctl.record.place import default_path

LAST = "last"
_LINES = "SELECT id, started, finished, level, clusters, exit_code, COALESCE(verdicts, '{}') FROM runs"
_RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,79}")


@dataclass(frozen=True, slots=True)
class RunLine:
    """One line of `ndctl runs`. A run that is being made, or was killed, has no `finished` and no `exit_code`."""

    id: str
    started: str
    finished: str | None
    level: str
    clusters: tuple[str, ...]
    exit_code: int | None
    verdicts: Mapping[str, int]  # how many racks have each verdict


class Store:
    """Safe for several threads of one process, and for several processes at once.

    create False opens a record for reading, wherever it is. Raises NdctlError `record.*`: exit 2 when the file or
    the run can't be used, 10 when another process keeps the file locked.
    """

    def __init__(self, path: Path | None = None, *, create: bool = True, patience_s: float = 30.0) -> None:
        self.path = path or default_path()
        self._database = Database(self.path, writable=create, patience_s=patience_s)
        self.answers = Answers(self._database, self.path)
        self.past = Past(self._database)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self, run_id: str, started: str, level: str, clusters: Iterable[str]) -> None:
        """Note that the run has begun, so that raw text can be kept while it is gathered."""
        if self._begin([run_id], started, level, clusters) is None:
            raise NdctlError(
                "record.run-exists",
                f"{self.path} holds a run {run_id} already",
                hint="run it again: every run has an id of its own",
                exit_code=ExitCode.LOCKED_OR_STALE,
            )

    def begin_new(self, wanted_id: str, started: str, level: str, clusters: Iterable[str]) -> str:
        """`begin` with an id that nobody has: the wanted one, else with .2, .3, … behind it. Returns the id."""
        ids = [wanted_id, *(f"{wanted_id}.{number}" for number in range(2, 1000))]
        taken = self._begin(ids, started, level, clusters)
        if taken is None:
            raise NdctlError("record.run-exists", f"{self.path} holds 999 runs {wanted_id}", exit_code=ExitCode.USAGE)
        return taken

    def _begin(self, ids: Iterable[str], started: str, level: str, clusters: Iterable[str]) -> str | None:
        """Take the first id that is free, in one transaction; None when all are taken."""
        with self._database.writing() as db:
            for run_id in ids:
                if not _RUN_ID.fullmatch(run_id) or run_id == LAST:
                    raise NdctlError("record.run-id", f"{run_id!r} is no run id", exit_code=ExitCode.USAGE)
                if db.execute("SELECT 1 FROM runs WHERE id = ?", (run_id,)).fetchone() is None:
                    db.execute(
                        "INSERT INTO runs (id, started, level, clusters) VALUES (?, ?, ?, ?)",
                        (run_id, column(started), column(level), dumps(list(clusters), indent=None)),
                    )
                    return run_id
        return None

    def keep_answer(self, run_id: str, answer: NodeAnswer) -> None:
        """Keep one node's raw text; asked again for the same command, it gets another turn."""
        asked = [Command(one, "") for one in answer.results]
        self.answers.keep_asking(run_id, "", asked, answer)

    def keep_text(self, run_id: str, node: str, command: str, text: str) -> None:
        """Keep the text of something that is not a plain command, e.g. a job's log."""
        self.answers.keep_text(run_id, "", node, command, text)

    def keep_plan(self, run_id: str, cluster: str, body: Mapping[str, Any]) -> None:
        """Keep what the run needs to be made again; of cluster "" the run's own part. The later one stands."""
        blob = pack(encoded(dumps(body, indent=None)))
        with self._database.writing() as db:
            db.execute("INSERT OR REPLACE INTO plans VALUES (?, ?, ?)", (run_id, column(cluster), blob))

    def drop_plan(self, run_id: str, cluster: str) -> None:
        """Forget one part of a plan."""
        with self._database.writing() as db:
            db.execute("DELETE FROM plans WHERE run = ? AND cluster = ?", (run_id, column(cluster)))

    def plans(self, run_id: str) -> dict[str, dict[str, Any]]:
        """Cluster -> its part of the plan; empty for a run of a format that kept none."""
        with self._database.reading() as db:
            rows = db.execute("SELECT cluster, body FROM plans WHERE run = ?", (run_id,)).fetchall()
        try:
            return {cluster: json.loads(unpack(body)) for cluster, body in rows}
        except (ValueError, TypeError) as error:
            raise damaged(self.path, f"the plan of run {run_id}", error) from error

    def finish(self, run: Run, measurements: Iterable[Mapping[str, Any]] = ()) -> None:
        """Keep the judged run. `measurements`: {cluster, rack, node, metric, subject, value, unit}."""
        blob = pack(encoded(plain_text(run_to_json(run), indent=None)))
        clusters = [str(one.get("cluster", "")) for one in run.inventories]
        verdicts = {word.value: sum(rack.verdict is word for rack in run.racks) for word in Verdict}
        findings = [
            tuple(map(column, (run.id, rack.name, f.node, f.check, f.subject, f.status.value, f.value, f.unit)))
            for rack in run.racks
            for f in rack.findings
        ]
        racks = [tuple(map(column, (run.id, rack.cluster, rack.name, rack.verdict.value))) for rack in run.racks]
        keys = ("cluster", "rack", "node", "metric", "subject", "value", "unit")
        measured = [tuple(map(column, (run.id, *(one.get(key) for key in keys)))) for one in measurements]
        with self._database.writing() as db:
            db.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET"
                " finished=excluded.finished, clusters=excluded.clusters, verdicts=excluded.verdicts,"
                " exit_code=excluded.exit_code, run=excluded.run",
                (
                    run.id,
                    column(run.started),
                    column(run.finished),
                    column(run.level),
                    dumps(clusters, indent=None),
                    dumps({word: count for word, count in verdicts.items() if count}, indent=None),
                    int(run.exit_code),
                    blob,
                ),
            )
            db.execute("DELETE FROM findings WHERE run = ?", (run.id,))
            db.executemany("INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?)", findings)
            db.execute("DELETE FROM racks WHERE run = ?", (run.id,))
            db.executemany("INSERT INTO racks VALUES (?, ?, ?, ?)", racks)
            db.execute("DELETE FROM measurements WHERE run = ?", (run.id,))
            db.executemany("INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?, ?)", measured)

    def runs(self, limit: int = 50) -> list[RunLine]:
        """Newest first."""
        with self._database.reading() as db:
            rows = db.execute(f"{_LINES} ORDER BY started DESC, id DESC LIMIT ?", (limit,)).fetchall()
        return [self._line(row) for row in rows]

    def _line(self, row: tuple[Any, ...]) -> RunLine:
        run_id, started, finished, level, clusters, code, verdicts = row
        try:
            return RunLine(run_id, started, finished, level, tuple(json.loads(clusters)), code, json.loads(verdicts))
        except (ValueError, TypeError) as error:
            raise damaged(self.path, "the list of runs", error) from error

    def load(self, run_id: str) -> Run:
        """The run with this id, or `last` for the newest finished one. Raises NdctlError exit 2 when there is none."""
        kept_id = self.resolve(run_id)
        with self._database.reading() as db:
            blob = db.execute("SELECT run FROM runs WHERE id = ?", (kept_id,)).fetchone()[0]
        if blob is None:
            raise NdctlError(
                "record.unfinished-run",
                f"run {kept_id} is not judged: it is still being made, or was cut off",
                hint=f"its raw text is kept: ndctl report {kept_id} --raw NODE",
                exit_code=ExitCode.USAGE,
            )
        try:
            return run_from_json(json.loads(unpack(blob)))
        except (ValueError, TypeError) as error:
            raise damaged(self.path, f"run {kept_id}", error) from error

    def last_run(self, cluster: str) -> Run | None:
        """The newest finished run in which this cluster was meant, whole or in part; None when there is none."""
        with self._database.reading() as db:
            found = db.execute(
                "SELECT id FROM runs WHERE run IS NOT NULL AND EXISTS (SELECT 1 FROM"
                " json_each(CASE WHEN json_valid(clusters) THEN clusters ELSE '[]' END) WHERE value = ?)"
                " ORDER BY started DESC, id DESC LIMIT 1",
                (column(cluster),),
            ).fetchone()
        return self.load(str(found[0])) if found is not None else None

    def line(self, run_id: str) -> RunLine:
        """The run's line of `runs`. Raises NdctlError exit 2 when there is none."""
        kept_id = self.resolve(run_id)
        with self._database.reading() as db:
            row = db.execute(f"{_LINES} WHERE id = ?", (kept_id,)).fetchone()
        return self._line(row)

    def resolve(self, run_id: str) -> str:
        """The id of a run that is here; `last` is the newest finished one. Raises NdctlError exit 2."""
        with self._database.reading() as db:
            if run_id == LAST:
                found = db.execute(
                    "SELECT id FROM runs WHERE run IS NOT NULL ORDER BY started DESC, id DESC LIMIT 1"
                ).fetchone()
            else:
                found = db.execute("SELECT id FROM runs WHERE id = ?", (column(run_id),)).fetchone()
        if found is not None:
            return str(found[0])
        raise NdctlError(
            "record.no-such-run",
            f"no finished run in {self.path}" if run_id == LAST else f"no run {run_id!r} in {self.path}",
            hint="ndctl runs lists them",
            exit_code=ExitCode.USAGE,
        )

    def raw(self, run_id: str, node: str | None = None) -> Iterator[tuple[str, CommandResult]]:
        """(node name, its latest result) of everything kept for a run, in a fixed order; one at a time in memory."""
        for cluster, name, command in self.answers.names(run_id, node):
            result = self.answers.latest(run_id, cluster, name, command)
            if result is not None:
                yield name, result

    def raw_names(self, run_id: str, node: str | None = None) -> list[tuple[str, str]]:
        """(node name, command id) of everything kept for a run, in a fixed order."""
        return [(name, command) for _, name, command in self.answers.names(run_id, node)]

    def raw_one(self, run_id: str, node: str, command: str) -> CommandResult | None:
        """What one command on one node gave at last, None if nothing is kept of it."""
        return self.answers.latest(run_id, None, node, command)

    def found_per_check(self) -> Mapping[str, tuple[int, int]]:
        """Check id -> (runs that asked it, runs in which it warned or failed); see `Past.found_per_check`."""
        return self.past.found_per_check()
