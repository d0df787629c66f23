"""What earlier runs of a record measured and found: the past that a rack is held against, and what checks are worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ndctl.model.status import Status, Verdict
from ndctl.record.columns import column
from ndctl.record.database import Database

NEWEST = 20  # earlier measurements of one thing
_LOOKED_AT = 200  # runs of one rack; older ones tell of other drivers and other parts
_GOOD = (Verdict.ACCEPTED.value, Verdict.DEGRADED.value)
_WORTH = 30  # runs from which a check's worth is taken


@dataclass(frozen=True, slots=True)
class Measured:
    """What is measured: of a node ("" for the whole rack), by metric and subject."""

    node: str
    metric: str
    subject: str


@dataclass(frozen=True, slots=True)
class LastVerdict:
    """A rack's newest verdict: in which run, begun when (RFC 3339), at which level."""

    run: str
    started: str
    level: str
    verdict: str


class Past:
    """`Store.past`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_rack(self, cluster: str, rack: str, before: str, newest: int = NEWEST) -> dict[Measured, tuple[float, ...]]:
        """Earlier values of everything measured in a rack, oldest first, at most `newest` of each.

        Only of runs that began before `before` (RFC 3339, UTC) and in which the rack was accepted or degraded: what a
        broken rack did is no measure for a sound one.
        """
        with self._database.reading() as db:
            runs = db.execute(
                "SELECT runs.id FROM racks JOIN runs ON runs.id = racks.run WHERE racks.cluster = ? AND racks.rack = ?"
                " AND racks.verdict IN (?, ?) AND runs.started < ? ORDER BY runs.started DESC, runs.id DESC LIMIT ?",
                (column(cluster), column(rack), *_GOOD, before, _LOOKED_AT),
            ).fetchall()
            found: dict[Measured, list[float]] = {}
            for (run,) in runs:
                for node, metric, subject, value in db.execute(
                    "SELECT node, metric, subject, value FROM measurements WHERE run = ? AND cluster = ? AND rack = ?",
                    (run, column(cluster), column(rack)),
                ):
                    if isinstance(value, (int, float)):
                        values = found.setdefault(Measured(node or "", metric or "", subject or ""), [])
                        if len(values) < newest:
                            values.append(float(value))
        return {one: tuple(reversed(values)) for one, values in found.items()}

    def last_verdicts(self, cluster: str) -> dict[str, LastVerdict]:
        """Rack -> its verdict in the newest finished run that judged it."""
        with self._database.reading() as db:
            # SQLite gives the other columns of the row that holds the maximum (sqlite.org/lang_select.html, 2.5).
            rows = db.execute(
                "SELECT racks.rack, runs.id, runs.level, racks.verdict, MAX(runs.started) FROM racks"
                " JOIN runs ON runs.id = racks.run WHERE racks.cluster = ? AND runs.run IS NOT NULL"
                " GROUP BY racks.rack",
                (column(cluster),),
            ).fetchall()
        return {
            rack: LastVerdict(run, started or "", level or "", verdict or "")
            for rack, run, level, verdict, started in rows
        }

    def found_per_check(self) -> Mapping[str, tuple[int, int]]:
        """Check id -> (in how many of the newest runs it was asked, in how many of these it found something).

        Found is a warning or a failure; asked is anything but a skip. A finding "a.b.c" counts for "a.b.c", "a.b" and
        "a", so that a check is found under its id whatever its findings are called.
        """
        with self._database.reading() as db:
            rows = db.execute(
                "SELECT run, check_id, MAX(status IN (?, ?)) FROM findings WHERE status != ? AND run IN"
                " (SELECT id FROM runs WHERE run IS NOT NULL ORDER BY started DESC, id DESC LIMIT ?)"
                " GROUP BY run, check_id",
                (Status.WARN.value, Status.FAIL.value, Status.SKIP.value, _WORTH),
            ).fetchall()
        asked: dict[str, set[str]] = {}
        found: dict[str, set[str]] = {}
        for run, check, bad in rows:
            parts = str(check).split(".")
            for length in range(1, len(parts) + 1):
                name = ".".join(parts[:length])
                asked.setdefault(name, set()).add(run)
                if bad:
                    found.setdefault(name, set()).add(run)
        return {name: (len(runs), len(found.get(name, ()))) for name, runs in sorted(asked.items())}
