"""Texts of results as the record holds them, packed where they were gathered: the process that keeps the record then
neither encodes nor compresses, and what is sent to it is a tenth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ndctl.model.answers import CommandResult
from ndctl.record.columns import digest, encoded, pack, unpack


class Packer:
    """Takes texts for names. bodies: name (a digest in hex) -> the compressed text; the empty text has the empty name.

    A result that is met twice stays one object.
    """

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self._names: dict[str, str] = {"": ""}
        self._results: dict[int, tuple[CommandResult, CommandResult]] = {}  # the first is held, so that its id stays

    def name(self, text: str) -> str:
        if text not in self._names:
            data = encoded(text)
            name = digest(data).hex()
            self._names[text] = name
            self.bodies[name] = pack(data)
        return self._names[text]

    def result(self, one: CommandResult) -> CommandResult:
        if id(one) not in self._results:
            named = replace(one, stdout=self.name(one.stdout), stderr=self.name(one.stderr))
            self._results[id(one)] = (one, named)
        return self._results[id(one)][1]


class Unpacker:
    """Gives texts for names again."""

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self._bodies = bodies
        self._texts = {"": ""} | {name: unpack(body) for name, body in bodies.items()}
        self._marks = {text: bytes.fromhex(name) for name, text in self._texts.items() if name}
        self._results: dict[int, tuple[CommandResult, CommandResult]] = {}

    def text(self, name: str) -> str:
        return self._texts[name]

    def result(self, one: CommandResult) -> CommandResult:
        if id(one) not in self._results:
            whole = replace(one, stdout=self._texts[one.stdout], stderr=self._texts[one.stderr])
            self._results[id(one)] = (one, whole)
        return self._results[id(one)][1]

    def texts_of(self, results: Iterable[CommandResult]) -> PackedTexts:
        """What these results said, for `Answers.keep_asking`."""
        marks = {self._marks[text] for one in results for text in (one.stdout, one.stderr) if text}
        return PackedTexts({mark: self._bodies[mark.hex()] for mark in marks}, self._marks)


class PackedTexts:
    """As `record.answers.Texts`, packed already. data: digest -> the compressed bytes."""

    def __init__(self, data: Mapping[bytes, bytes], marks: Mapping[str, bytes]) -> None:
        self.data = data
        self._marks = marks

    def mark(self, text: str) -> bytes | None:
        return self._marks[text] if text else None

    def body(self, mark: bytes) -> bytes:
        return self.data[mark]
