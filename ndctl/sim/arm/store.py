"""Store: tables of JSON objects in memory, with a journal on disk from which a restart takes them again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Store:
    """Tables by name, records by key. A record taken out is the caller's to change; only `put` makes it count.

    One thread only (the server's event loop). Each change is one line in the journal; loading writes it anew, short.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tables: dict[str, dict[str, Record]] = {}
        if path.exists():
            self._load()
        self._compact()
        self._journal = path.open("a", encoding="utf-8")

    def get(self, table: str, key: str) -> Record | None:
        found = self._tables.get(table, {}).get(key)
        return None if found is None else json.loads(json.dumps(found))

    def has(self, table: str, key: str) -> bool:
        return key in self._tables.get(table, {})

    def peek(self, table: str) -> dict[str, Record]:
        """The live table, to be read only: for scans, which copies would make slow."""
        return self._tables.setdefault(table, {})

    def put(self, table: str, key: str, record: Record) -> None:
        text = json.dumps({"t": table, "k": key, "v": record})
        self._tables.setdefault(table, {})[key] = json.loads(text)["v"]
        self._write(text)

    def drop(self, table: str, key: str) -> None:
        if self._tables.get(table, {}).pop(key, None) is not None:
            self._write(json.dumps({"t": table, "k": key}))

    def scan(self, table: str, prefix: str = "") -> Iterator[tuple[str, Record]]:
        """Records whose key starts with `prefix`, in the order of first appearance; read only."""
        for key, record in list(self._tables.get(table, {}).items()):
            if key.startswith(prefix):
                yield key, record

    def close(self) -> None:
        self._journal.close()

    def _write(self, text: str) -> None:
        self._journal.write(text + "\n")
        self._journal.flush()

    def _load(self) -> None:
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line of a process that was killed while it wrote
            if "v" in entry:
                self._tables.setdefault(entry["t"], {})[entry["k"]] = entry["v"]
            else:
                self._tables.get(entry["t"], {}).pop(entry["k"], None)

    def _compact(self) -> None:
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with temporary.open("w", encoding="utf-8") as file:
            for table, records in self._tables.items():
                for key, record in records.items():
                    file.write(json.dumps({"t": table, "k": key, "v": record}) + "\n")
        temporary.replace(self._path)
