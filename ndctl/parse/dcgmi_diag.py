"""`dcgmi diag` output, table or JSON (-j), of DCGM 2 to 4 -> facts.

Layout facts: `dcgmi/Diag.cpp` and `nvvs/include/NvvsJsonStrings.h` of NVIDIA/DCGM. In the table a message is cut
every 45 characters, in the middle of words, and goes on in cells without a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ndctl.parse.loose_json import objects
from ndctl.parse.tidy import tidy_lines

_WIDTH = 45  # characters of a message in one cell
_CELLS = re.compile(r"^\s*\|(.{1,80}?)\|(.{1,200})\|\s*$")
_SECTION = re.compile(r"[|+]-{3,8}\s+([A-Za-z][\w /]{1,30}?)\s+-{2,20}")
_RESULT = re.compile(r"(pass|fail|warn|skip|not run)\b(?:\s*-\s*(.{0,120}))?$", re.IGNORECASE)
_ENTITY = re.compile(
    r"(?:GPU|CPU|NvSwitch|Switch|Core|ConnectX)s?\s?\d{1,4}:\s*(Pass|Fail|Warn|Skip|Not Run)", re.IGNORECASE
)
_NOTE = re.compile(r"(warning|error|info)s?(?::\s*(\S{1,30}))?$", re.IGNORECASE)
_FAILURE = re.compile(
    r"(?:^|\s)Error: .{1,300}|[Uu]nable to (?:connect|establish|complete|start).{0,300}|command not found|not installed"
    r"|Host engine|hostengine"
)
_RANK = ("fail", "warn", "pass", "skip", "not-run")


@dataclass(frozen=True, slots=True)
class DiagMessage:
    """level: "warning", "error" or "info"; entity: "GPU0" or "" ; code: DCGM's error id where the form has it."""

    level: str
    text: str
    entity: str = ""
    code: int | None = None
    severity: int | None = None


@dataclass(frozen=True, slots=True)
class DiagTest:
    """status: pass · fail · warn · skip · not-run · "" where only messages were seen."""

    name: str
    category: str
    status: str
    messages: tuple[DiagMessage, ...] = ()
    entities: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DcgmiDiag:
    form: str
    dcgm_version: str | None
    driver_version: str | None
    tests: tuple[DiagTest, ...]
    complete: bool
    errors: tuple[str, ...]
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


@dataclass(slots=True)
class _Growing:
    name: str
    category: str
    status: str = ""
    messages: list[DiagMessage] = field(default_factory=list)
    entities: dict[str, str] = field(default_factory=dict)

    def done(self) -> DiagTest:
        return DiagTest(self.name, self.category, self.status, tuple(self.messages), dict(self.entities))


def parse(text: str, stderr: str = "") -> DcgmiDiag:
    """Facts of the output; `stderr` is read after it. Never raises."""
    whole = text if not stderr else f"{text}\n{stderr}"
    if "test_categories" in whole or "runtime_error" in whole:
        found = _of_json(whole)
        if found is not None:
            return found
    return _of_table(whole)


def _of_table(text: str) -> DcgmiDiag:
    tests: list[_Growing] = []
    metadata: dict[str, str] = {}
    errors: list[str] = []
    unknown: list[str] = []
    category = ""
    closed = False
    open_cell = False  # the last cell was a message that may go on
    for line in tidy_lines(text):
        stripped = line.strip()
        if section := _SECTION.search(line):
            category, closed, open_cell = section[1], False, False
        elif re.fullmatch(r"\+-{5,}\+-{5,}\+", stripped):
            closed, open_cell = True, False
        elif cells := _CELLS.match(line):
            name, value = cells[1].strip(), cells[2]
            closed = False
            if name and not _NOTE.match(name):
                open_cell = False
                _named(name, value.strip(), category, tests, metadata, unknown)
            elif note := _NOTE.match(name):
                _subject(tests, category).messages.append(DiagMessage(note[1].lower(), _chunk(value), note[2] or ""))
                open_cell = True
            elif entity := _ENTITY.match(value.strip()):
                if tests:
                    tests[-1].entities[value.split(":")[0].strip()] = _word(entity[1])
                open_cell = False
            elif open_cell and tests and tests[-1].messages:
                last = tests[-1].messages[-1]
                tests[-1].messages[-1] = DiagMessage(last.level, _continued(last.text, value), last.entity)
        elif _FAILURE.search(line) and stripped not in errors and len(errors) < 40:
            errors.append(stripped[:400])
    done = tuple(_tidied(test) for test in tests)
    return DcgmiDiag(
        form="table",
        dcgm_version=metadata.get("DCGM Version"),
        driver_version=metadata.get("Driver Version Detected"),
        tests=done,
        complete=closed and any(test.status for test in done),
        errors=tuple(errors),
        problems=() if closed or not done else ("the table is cut off",),
        unknown_fields=tuple(unknown),
    )


def _named(
    name: str, value: str, category: str, tests: list[_Growing], metadata: dict[str, str], unknown: list[str]
) -> None:
    result = _RESULT.match(value)
    if name in ("Diagnostic", "Result") or set(name) <= {"=", "-", " "}:
        return
    if result is None:
        if category in ("", "Metadata"):
            metadata[name] = value
        else:
            unknown.append(f"{category}/{name}: {value[:60]}")
        return
    # A test may be listed once for every entity; its worst result counts.
    test = _Growing(name, category, _word(result[1]))
    if result[2] and result[2].strip().lower() != "all":
        test.entities[result[2].strip()] = _word(result[1])
    tests.append(test)


def _subject(tests: list[_Growing], category: str) -> _Growing:
    """Whose message it is: the test above it, or the whole category where none is."""
    if not tests or (tests[-1].category != category and category):
        tests.append(_Growing(category or "diagnostic", category))
    return tests[-1]


def _chunk(cell: str) -> str:
    """A message's part in one cell: exactly as wide as the tool cut it, where the paste kept the width."""
    return cell[1 : 1 + _WIDTH] if len(cell) >= _WIDTH + 2 else cell.strip()


def _continued(message: str, cell: str) -> str:
    if len(cell) >= _WIDTH + 2:
        return message + _chunk(cell)
    return f"{message} {cell.strip()}"


def _tidied(test: _Growing) -> DiagTest:
    test.messages = [
        DiagMessage(m.level, " ".join(m.text.split()), m.entity, m.code, m.severity) for m in test.messages
    ]
    if not test.status and any(message.level == "error" for message in test.messages):
        test.status = "fail"
    return test.done()


def _word(status: str) -> str:
    return re.sub(r"\s+", "-", status.strip().lower())


def _of_json(text: str) -> DcgmiDiag | None:
    tests: list[DiagTest] = []
    complete, seen = True, False
    versions: dict[str, str] = {}
    errors: list[str] = []
    unknown: list[str] = []
    for found in objects(text):
        for diagnostic in _diagnostics(found.value):
            seen = True
            complete &= found.complete
            metadata = diagnostic.get("metadata") if isinstance(diagnostic.get("metadata"), dict) else diagnostic
            assert isinstance(metadata, dict)
            for key in ("version", "Driver Version Detected"):
                if isinstance(metadata.get(key), str):
                    versions[key] = metadata[key]
            for key in ("runtime_error", "Warning"):
                if isinstance(diagnostic.get(key), str) and diagnostic[key]:
                    errors.append(diagnostic[key])
            tests += _json_tests(diagnostic)
            unknown += [str(key) for key in diagnostic if key not in _KNOWN]
    if not seen:
        return None
    return DcgmiDiag(
        form="json",
        dcgm_version=versions.get("version"),
        driver_version=versions.get("Driver Version Detected"),
        tests=tuple(tests),
        complete=complete,
        errors=tuple(errors),
        problems=() if complete else ("the JSON is cut off",),
        unknown_fields=tuple(dict.fromkeys(unknown)),
    )


_KNOWN = {
    "test_categories", "metadata", "entity_groups", "version", "Driver Version Detected", "GPU Device IDs",
    "GPU Device Serials", "runtime_error", "Warning", "gpu_ids", "aux_data",
}  # fmt: skip


def _diagnostics(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Objects with results, wherever they are: under a title, in a list of iterations."""
    if depth > 6:
        return
    if isinstance(value, dict):
        if "test_categories" in value or "runtime_error" in value:
            yield value
            return
        for child in value.values():
            yield from _diagnostics(child, depth + 1)
    elif isinstance(value, list):
        for child in value:
            yield from _diagnostics(child, depth + 1)


def _json_tests(diagnostic: Mapping[str, Any]) -> Iterator[DiagTest]:
    for category in _objects(diagnostic.get("test_categories")):
        for test in _objects(category.get("tests")):
            messages: list[DiagMessage] = []
            entities: dict[str, str] = {}
            statuses = []
            summary = test.get("test_summary")
            results = [*_objects(test.get("results")), *([summary] if isinstance(summary, dict) else [])]
            for result in results:
                status = _word(str(result.get("status", "")))
                statuses.append(status)
                entity = _entity(result)
                if entity:
                    entities[entity] = status
                for message in _json_messages(result, entity):
                    if not any((m.level, m.text) == (message.level, message.text) for m in messages):
                        messages.append(message)
            worst = next((word for word in _RANK if word in statuses), statuses[0] if statuses else "")
            name = str(test.get("name", "unnamed"))
            yield DiagTest(name, str(category.get("category", "")), worst, tuple(messages), entities)


def _entity(result: Mapping[str, Any]) -> str:
    if "entity_id" in result:
        return f"{result.get('entity_group', 'GPU')}{result['entity_id']}"
    if result.get("gpu_id") is not None:
        return f"GPU{result['gpu_id']}"
    ids = result.get("gpu_ids")
    return f"GPU{ids}" if isinstance(ids, str) and ids else ""


def _json_messages(result: Mapping[str, Any], entity: str) -> Iterator[DiagMessage]:
    for key, level in (("warnings", "warning"), ("info", "info")):
        content = result.get(key)
        for item in content if isinstance(content, list) else [content]:
            if isinstance(item, str) and item:
                yield DiagMessage(level, item, entity)
            elif isinstance(item, dict):
                code, severity = item.get("error_id"), item.get("error_severity")
                yield DiagMessage(
                    level,
                    str(item.get("warning", "")),
                    entity,
                    code if isinstance(code, int) else None,
                    severity if isinstance(severity, int) else None,
                )


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
