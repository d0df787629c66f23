"""YAML that remembers where each key and value stands, so that an error can point into the user's own file.

Plain scalars stay text ("64", "true") and null becomes None: the schema decides what is a number, so an unquoted
`zone: 1`, `NCCL_IB_SL: 1` or `until: 2026-12-31` means what its author wrote. Anchors and aliases work; tags do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ndctl.model.errors import ExitCode, NdctlError, Where

KeyPath = tuple[str | int, ...]

_LARGEST_FILE = 1_000_000  # bytes
_MOST_VALUES = 50_000  # after aliases are followed
_DEEPEST = 40
_ESCAPE = re.compile(r"\\U(?!000[0-9A-Fa-f]|0010)[0-9A-Fa-f]{8}")  # beyond the last character, U+10FFFF
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_STR_TAG = "tag:yaml.org,2002:str"
_TAGS = {
    yaml.ScalarNode: _STR_TAG,
    yaml.SequenceNode: "tag:yaml.org,2002:seq",
    yaml.MappingNode: "tag:yaml.org,2002:map",
}


class _PlainLoader(yaml.SafeLoader):
    """A loader to which every plain scalar is text."""


_PlainLoader.yaml_implicit_resolvers = {}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands, and the key that names it (None in a list)."""

    value: Where
    key: Where | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file. `data` is made of dict, list, str and None; `errors` are duplicate keys, bad keys and tags."""

    file: Path
    data: Any
    places: dict[KeyPath, Place]
    errors: list[NdctlError] = field(default_factory=list)

    def where_key(self, path: KeyPath) -> Where:
        """The key at `path`, or the value where a list holds it; the nearest parent that exists if neither does."""
        place = self.places.get(self.nearest(path))
        return (place.key or place.value) if place else Where(self.file)

    def where_value(self, path: KeyPath) -> Where:
        """The value at `path`, or the nearest parent that exists."""
        place = self.places.get(self.nearest(path))
        return place.value if place else Where(self.file)

    def nearest(self, path: KeyPath) -> KeyPath:
        """The longest beginning of `path` that the file has."""
        while path and path not in self.places:
            path = path[:-1]
        return path


def read(file: Path, kind: str) -> Document:
    """Parse one file; `kind` names it in messages and error codes ("inventory").

    Raises NdctlError (exit 2) for what makes the file unreadable as a whole: missing, a folder, not UTF-8, not YAML,
    empty, no mapping at the top. Smaller errors are collected in `Document.errors`.
    """
    return parse(_text(file, kind), file, kind)


def parse(text: str, file: Path, kind: str) -> Document:
    """As `read`, for text already at hand; `file` is only named."""

    def wrong(code: str, message: str, where: Where, hint: str = "") -> NdctlError:
        return NdctlError(f"{kind}.{code}", message, hint=hint, where=where, exit_code=ExitCode.USAGE)

    try:
        root = yaml.compose(text, Loader=_PlainLoader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, file, kind) from error
    except yaml.reader.ReaderError as error:
        where = _at(text, error.position, file)
        raise wrong("not-text", "a control character, which YAML does not allow", where) from error
    except RecursionError as error:
        raise wrong("too-deep", "nested too deeply to be read", Where(file)) from error
    except (ValueError, OverflowError) as error:  # PyYAML trips over "\UFFFFFFFF"
        beyond = _ESCAPE.search(text)
        where = _at(text, beyond.start(), file) if beyond else Where(file)
        raise wrong("yaml", "not valid YAML: an escape or number that means nothing", where) from error
    if root is None or (isinstance(root, yaml.ScalarNode) and root.value in _NULLS and root.style is None):
        raise wrong("empty", f"the {kind} is empty", Where(file, 1, 1))
    if not isinstance(root, yaml.MappingNode):
        shape = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        raise wrong("not-a-mapping", f"{shape} where 'key: value' lines are needed", _span(root, file))
    walk = _Walk(file, kind)
    data = walk.value(root, ())
    return Document(file, data, walk.places, walk.errors)


class _Walk:
    """Turns nodes into plain values and notes their places; aliases are followed, within limits."""

    def __init__(self, file: Path, kind: str) -> None:
        self.file = file
        self.kind = kind
        self.places: dict[KeyPath, Place] = {}
        self.errors: list[NdctlError] = []
        self._seen = 0
        self._open: set[int] = set()

    def _wrong(self, code: str, message: str, node: yaml.Node, hint: str = "") -> NdctlError:
        where = _span(node, self.file)
        return NdctlError(f"{self.kind}.{code}", message, hint=hint, where=where, exit_code=ExitCode.USAGE)

    def value(self, node: yaml.Node, path: KeyPath, key: Where | None = None) -> Any:
        self._seen += 1
        if self._seen > _MOST_VALUES:
            raise self._wrong("too-large", f"more than {_MOST_VALUES:,} values once its aliases are followed", node)
        if len(path) > _DEEPEST:
            raise self._wrong("too-deep", f"nested more than {_DEEPEST} levels deep", node)
        self.places[path] = Place(_span(node, self.file), key)
        if node.tag != _TAGS[type(node)]:
            shown = node.tag.replace("tag:yaml.org,2002:", "!!")
            self.errors.append(self._wrong("tag", f"a tag ({shown}) says nothing here", node, "remove it"))
        if isinstance(node, yaml.ScalarNode):
            return None if node.style is None and node.value in _NULLS and node.tag == _STR_TAG else node.value
        if id(node) in self._open:
            raise self._wrong("alias-loop", "an alias that contains itself", node)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            return [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first_line: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.errors.append(self._wrong("key", "a key must be a word, not a list or mapping", key_node))
                continue
            key = key_node.value
            line = key_node.start_mark.line + 1
            if key in result:
                message = f"'{key}' is given twice, first on line {first_line[key]}"
                self.errors.append(self._wrong("duplicate-key", message, key_node, "keep one of them"))
                continue
            first_line[key] = line
            result[key] = self.value(value_node, (*path, key), _span(key_node, self.file))
        return result


def _span(node: yaml.Node, file: Path) -> Where:
    """Start of the node, and how much of its first line it covers; a block counts as its first word."""
    start, end = node.start_mark, node.end_mark
    width = end.column - start.column if end.line == start.line else 1
    return Where(file, start.line + 1, start.column + 1, max(1, width))


def _at(text: str, position: int, file: Path) -> Where:
    before = text[:position]
    return Where(file, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def _syntax_error(error: yaml.MarkedYAMLError, file: Path, kind: str) -> NdctlError:
    mark, begin = error.problem_mark or error.context_mark, error.context_mark
    problem, context = (error.problem or error.context or "not YAML").strip(), error.context or ""
    hint = ""
    if "\\t" in problem:
        problem, hint = "a tab", "indent with blanks"
    elif "mapping values are not allowed" in problem:
        problem, hint = "a second ': ' on the line, or a key that is indented too far", 'quote a value that holds ": "'
    elif "could not find expected ':'" in problem:
        problem = "a key without ': ' after it"
    elif "single document" in context:
        problem, hint = "a second document ('---')", "one file holds one " + kind
    elif "undefined alias" in problem:
        hint = "define it with & first, or quote a value that begins with *"
    elif begin and mark and begin.line != mark.line and ("a flow" in context or "quoted scalar" in context):
        # What was left open is where the reader must look, not where the parser gave up.
        problem, mark = "a quote" if "quoted" in context else "a bracket", begin
        problem += " that is never closed"
    elif begin and context != problem:
        problem = f"{problem} ({context} that begins on line {begin.line + 1})"
    where = Where(file, mark.line + 1, mark.column + 1) if mark else Where(file)
    return NdctlError(f"{kind}.yaml", f"not valid YAML: {problem}", hint=hint, where=where, exit_code=ExitCode.USAGE)


def _text(file: Path, kind: str) -> str:
    def wrong(code: str, message: str, hint: str = "", where: Where | None = None) -> NdctlError:
        return NdctlError(f"{kind}.{code}", message, hint=hint, where=where or Where(file), exit_code=ExitCode.USAGE)

    try:
        with file.open("rb") as stream:
            raw = stream.read(_LARGEST_FILE + 1)
    except FileNotFoundError as error:
        raise wrong("not-found", "no such file") from error
    except IsADirectoryError as error:
        raise wrong("is-a-folder", "a folder, where a file is needed") from error
    except (OSError, ValueError) as error:
        raise wrong("unreadable", f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(raw) > _LARGEST_FILE:
        raise wrong("too-large", f"larger than {_LARGEST_FILE:,} bytes, so it is no {kind}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = raw.rfind(b"\n", 0, error.start) + 1
        column = len(raw[start : error.start].decode("utf-8", errors="replace")) + 1
        where = Where(file, raw.count(b"\n", 0, error.start) + 1, column)
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8 text"
        raise wrong("not-utf8", message, "save the file as UTF-8", where) from error


def leaves(data: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value that is no mapping, with its path; a list of mappings is entered, any other list is one value."""
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from leaves(value, (*path, key))
    elif isinstance(data, (list, tuple)) and any(isinstance(item, dict) for item in data):
        for index, item in enumerate(data):
            yield from leaves(item, (*path, index))
    else:
        yield path, data


def dotted(path: KeyPath) -> str:
    """("network", "create") as "network.create"."""
    return ".".join(str(part) for part in path)


def undotted(text: str, document: Document) -> KeyPath:
    """The path that a dotted text means in this file: a key that itself holds dots (a tag) is found too."""
    path: KeyPath = ()
    parts = text.split(".")
    while parts:
        for size in range(len(parts), 0, -1):
            step = ".".join(parts[:size])
            found = (*path, int(step)) if step.isdigit() and (*path, int(step)) in document.places else (*path, step)
            if found in document.places:
                path, parts = found, parts[size:]
                break
        else:
            return (*path, *parts)
    return path
