"""What nodes answered in a run, every asking of it: kept while it is gathered, read for evidence and for a replay.

A node that is asked the same command again gives it another turn, counted from 1. One text is kept once per run,
compressed, whoever said it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ndctl.model.answers import Command, CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.record.columns import column, digest, encoded, pack, unpack
from ndctl.record.database import Database
from ndctl.record.packed import PackedTexts

_RESULT = "command, exit_code, seconds, timed_out, truncated, stdout, stderr"
_PUT = f"INSERT INTO raw VALUES ({', '.join('?' * 14)})"
_TURNS = "SELECT command, MAX(turn) FROM raw WHERE run = ? AND cluster = ? AND node = ? GROUP BY command"
_ASKED_AT_ONCE = 500  # SQLite takes 999 values in a statement, wherever it was built
_KINDS = {kind.value: kind for kind in OutcomeKind}


def question(command: Command) -> bytes:
    """By what a question is known again in a replay; the text itself is not kept."""
    return _question(command.shell)


@lru_cache(maxsize=512)
def _question(shell: str) -> bytes:
    """All nodes are asked the same few dozen."""
    return digest(encoded(shell))


class Texts:
    """What some results said, each text encoded and its digest taken once. data: digest -> the bytes."""

    def __init__(self, results: Iterable[CommandResult]) -> None:
        self.data: dict[bytes, bytes] = {}
        self._marks: dict[str, bytes] = {}
        for result in results:
            for text in (result.stdout, result.stderr):
                if text and text not in self._marks:
                    data = encoded(text)
                    self._marks[text] = digest(data)
                    self.data[self._marks[text]] = data

    def mark(self, text: str) -> bytes | None:
        """The digest of one of these texts; None for the empty one."""
        return self._marks[text] if text else None

    def body(self, mark: bytes) -> bytes:
        """The compressed text of this digest."""
        return pack(self.data[mark])


@dataclass(frozen=True, slots=True)
class Kept:
    """One command of one asking. `asking` None: a text beside the askings; `answered` False: no answer came."""

    command: str
    turn: int
    asking: int | None
    question: bytes | None
    answered: bool
    result: CommandResult


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """Everything one node was asked in a run. askings: number -> the connection's outcome; kept: in order of turns."""

    cluster: str
    node: str
    askings: dict[int, Outcome] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()


class Answers:
    """The part of a record that holds them; `Store.answers`. Safe for several threads."""

    def __init__(self, database: Database, path: Path) -> None:
        self._database = database
        self._path = path

    def keep_asking(
        self,
        run_id: str,
        cluster: str,
        commands: Sequence[Command],
        answer: NodeAnswer,
        texts: Texts | PackedTexts | None = None,
    ) -> None:
        """Keep one asking of one node, with what did not answer. texts: those of the answer, where they are at hand."""
        asked = {command.id: question(command) for command in commands}
        results = {**dict.fromkeys(asked), **answer.results}
        node, outcome = answer.node.name, answer.outcome
        own = texts or Texts(answer.results.values())
        packed = self._packed(run_id, own)
        with self._database.writing() as db:
            _put_texts(db, run_id, packed)
            [number] = db.execute(
                "SELECT COALESCE(MAX(number), 0) + 1 FROM askings WHERE run = ? AND cluster = ? AND node = ?",
                (run_id, column(cluster), column(node)),
            ).fetchone()
            fate = (number, outcome.kind.value, column(outcome.detail), column(outcome.hint))
            db.execute(
                "INSERT INTO askings VALUES (?, ?, ?, ?, ?, ?, ?)", (run_id, column(cluster), column(node), *fate)
            )
            # Nothing was asked: the empty command stands for it.
            rows = [(command, asked.get(command), one) for command, one in (results or {"": None}).items()]
            _put(db, (run_id, column(cluster), column(node)), number, rows, own)

    def forget(self, run_id: str, cluster: str, node: str, after: int) -> bool:
        """Forget what a node was asked after its first `after` askings, and texts kept beside them; whether there was
        any such asking."""
        place = (run_id, column(cluster), column(node), after)
        with self._database.writing() as db:
            where = "run = ? AND cluster = ? AND node = ?"
            db.execute(f"DELETE FROM raw WHERE {where} AND (asking IS NULL OR asking > ?)", place)
            return db.execute(f"DELETE FROM askings WHERE {where} AND number > ?", place).rowcount > 0

    def keep_text(
        self, run_id: str, cluster: str, node: str, command: str, text: str, texts: PackedTexts | None = None
    ) -> None:
        """Keep the text of something that is not a plain command, e.g. a job's log. texts: as of `keep_asking`."""
        result = CommandResult(command, 0, text)
        own = texts or Texts([result])
        packed = self._packed(run_id, own)
        with self._database.writing() as db:
            _put_texts(db, run_id, packed)
            _put(db, (run_id, column(cluster), column(node)), None, [(command, None, result)], own)

    def names(self, run_id: str, node: str | None = None) -> list[tuple[str, str, str]]:
        """(cluster, node name, command id) of everything that was answered in a run, in a fixed order."""
        with self._database.reading() as db:
            return db.execute(
                "SELECT DISTINCT cluster, node, command FROM raw WHERE run = ? AND answered = 1"
                " AND (? IS NULL OR node = ?) ORDER BY cluster, node, command",
                (run_id, column(node), column(node)),
            ).fetchall()

    def latest(self, run_id: str, cluster: str | None, node: str, command: str) -> CommandResult | None:
        """What one command on one node gave at last, None if nothing is kept of it. cluster None: any."""
        with self._database.reading() as db:
            row = db.execute(
                f"SELECT {_RESULT} FROM raw WHERE run = ? AND node = ? AND command = ? AND answered = 1"
                " AND (? IS NULL OR cluster = ?) ORDER BY cluster, turn DESC LIMIT 1",
                (run_id, column(node), column(command), column(cluster), column(cluster)),
            ).fetchone()
            return None if row is None else self._result(db, run_id, node, row)

    def nodes(self, run_id: str) -> list[tuple[str, str]]:
        """(cluster, node name) of every node of which anything is kept, in a fixed order."""
        with self._database.reading() as db:
            return db.execute(
                "SELECT DISTINCT cluster, node FROM raw WHERE run = ? ORDER BY cluster, node", (run_id,)
            ).fetchall()

    def of_node(self, run_id: str, cluster: str, node: str, texts: bool = True) -> NodeHistory:
        """Everything one node was asked, with all texts of it; texts False leaves those out."""
        with self._database.reading() as db:
            askings = {
                number: Outcome(_KINDS.get(kind, OutcomeKind.CONNECTION_LOST), detail, hint)
                for number, kind, detail, hint in db.execute(
                    "SELECT number, kind, detail, hint FROM askings WHERE run = ? AND cluster = ? AND node = ?",
                    (run_id, cluster, node),
                )
            }
            kept = tuple(
                Kept(row[0], turn, asking, asked, bool(answered), self._result(db, run_id, node, row, texts))
                for turn, asking, asked, answered, *row in db.execute(
                    f"SELECT turn, asking, question, answered, {_RESULT} FROM raw"
                    " WHERE run = ? AND cluster = ? AND node = ? ORDER BY turn, command",
                    (run_id, cluster, node),
                ).fetchall()
            )
        return NodeHistory(cluster, node, askings, kept)

    def one(self, run_id: str, cluster: str, node: str, command: str, turn: int) -> CommandResult | None:
        """What one command on one node gave at that turn."""
        with self._database.reading() as db:
            row = db.execute(
                f"SELECT {_RESULT} FROM raw WHERE run = ? AND cluster = ? AND node = ? AND command = ? AND turn = ?",
                (run_id, cluster, node, command, turn),
            ).fetchone()
            return None if row is None else self._result(db, run_id, node, row)

    def _packed(self, run_id: str, texts: Texts | PackedTexts) -> dict[bytes, bytes]:
        """Digest -> compressed text, of those the run has not yet. Compressing takes the time: nobody waits for it."""
        marks = list(texts.data)
        known: set[bytes] = set()
        with self._database.reading() as db:
            for at in range(0, len(marks), _ASKED_AT_ONCE):
                some = marks[at : at + _ASKED_AT_ONCE]
                places = ", ".join("?" * len(some))
                wanted = f"SELECT digest FROM texts WHERE run = ? AND digest IN ({places})"
                known.update(mark for (mark,) in db.execute(wanted, (run_id, *some)))
        return {mark: texts.body(mark) for mark in marks if mark not in known}

    def _result(
        self, db: sqlite3.Connection, run_id: str, node: str, row: Sequence[Any], texts: bool = True
    ) -> CommandResult:
        command, exit_code, seconds, timed_out, truncated, *named = row
        try:
            stdout, stderr = (_text(db, run_id, one) if texts else "" for one in named)
            return CommandResult(command, exit_code, stdout, stderr, seconds or 0.0, bool(timed_out), bool(truncated))
        except (ValueError, TypeError) as error:
            raise damaged(self._path, f"{node}/{command} of run {run_id}", error) from error


def damaged(path: Path, what: str, error: Exception) -> NdctlError:
    return NdctlError(
        "record.damaged",
        f"{what} in {path} cannot be read: {error}",
        hint="was it written by another version of ndctl? other runs of the record are not touched by this",
        exit_code=ExitCode.USAGE,
    )


def _put_texts(db: sqlite3.Connection, run_id: str, packed: dict[bytes, bytes]) -> None:
    db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", [(run_id, *one) for one in packed.items()])


def _put(
    db: sqlite3.Connection,
    place: tuple[str, Any, Any],
    asking: int | None,
    rows: Iterable[tuple[str, bytes | None, CommandResult | None]],
    texts: Texts | PackedTexts,
) -> None:
    """place: run, cluster and node; rows: command, what was asked, what came of it."""
    turns = dict(db.execute(_TURNS, place).fetchall())
    made = []
    for command, asked, result in rows:
        said: tuple[Any, ...] = (0, None, None, None, None, None, None)
        if result is not None:
            end = (column(result.exit_code), result.seconds, int(result.timed_out), int(result.truncated))
            said = (1, *end, texts.mark(result.stdout), texts.mark(result.stderr))
        name = column(command)
        turns[name] = turns.get(name, 0) + 1
        made.append((*place, name, turns[name], asking, asked, *said))
    db.executemany(_PUT, made)


def _text(db: sqlite3.Connection, run_id: str, mark: bytes | None) -> str:
    if mark is None:
        return ""
    row = db.execute("SELECT body FROM texts WHERE run = ? AND digest = ?", (run_id, mark)).fetchone()
    if row is None:
        raise ValueError("its text is gone")
    return unpack(row[0])


def histories(answers: Answers, run_id: str) -> Iterator[NodeHistory]:
    """Every node's, one at a time in memory."""
    for cluster, node in answers.nodes(run_id):
        yield answers.of_node(run_id, cluster, node)
