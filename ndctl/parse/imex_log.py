"""The log of nvidia-imex, and what Kubernetes' driver for it logs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ndctl.parse.tidy import tidy_lines

_LINE = re.compile(
    r"\[(?P<time>[A-Z][a-z]{2} +\d{1,2} \d{4} [\d:]{8})\]\s*\[(?P<level>[A-Z]{3,10})\]\s*"
    r"(?:\[tid \d+\]\s*)?(?P<text>.*)$"
)
_KLOG = re.compile(r"^\s*(?P<level>[IWEF])(?P<time>\d{4} [\d:.]{8,16})\s+(?:\d+ )?\S+\] ?(?P<text>.*)$")
_PLAIN_ERROR = re.compile(r"^\s*(?:Error|ERROR|fatal|FATAL)\b ?:? ?(.*)$")
_VERSION = re.compile(r"IMEX version ([\d.]{3,20})")
_KLOG_LEVELS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL"}
_GOOD = re.compile(
    r"\bREADY\b|all peers connected|GPU event successfully subscribed|successfully connected|Connection established",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"^\s*(\d{1,3}(?:\.\d{1,3}){3})\s*$")
_MOST = 500


@dataclass(frozen=True, slots=True)
class ImexLogLine:
    level: str
    time: str
    text: str


@dataclass(frozen=True, slots=True)
class ImexLog:
    """errors: lines at level ERROR and worse; ready: a line that says the daemon or a connection is up."""

    version: str = ""
    lines: int = 0
    errors: tuple[ImexLogLine, ...] = ()
    warnings: tuple[ImexLogLine, ...] = ()
    ready: bool = False
    nodes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> ImexLog:
    """Never raises."""
    errors: list[ImexLogLine] = []
    warnings: list[ImexLogLine] = []
    nodes: list[str] = []
    version = ""
    count = 0
    ready = False
    for line in tidy_lines(f"{text}\n{stderr}"):
        record, klog = _LINE.search(line), _KLOG.match(line)
        plain, address = _PLAIN_ERROR.match(line), _ADDRESS.match(line)
        if record or klog:
            match = record or klog
            assert match is not None
            level = _KLOG_LEVELS.get(match["level"], match["level"])
            entry = ImexLogLine(level, match["time"], match["text"].strip()[:400])
            count += 1
            if level in {"ERROR", "FATAL", "CRITICAL"} and len(errors) < _MOST:
                errors.append(entry)
            elif level.startswith("WARN") and len(warnings) < _MOST:
                warnings.append(entry)
            ready = ready or bool(_GOOD.search(match["text"]))
        elif plain and len(errors) < _MOST:
            count += 1
            errors.append(ImexLogLine("ERROR", "", line.strip()[:400]))
        elif address and len(nodes) < _MOST:
            nodes.append(address[1])
        found = _VERSION.search(line)
        version = found[1] if found else version
    return ImexLog(version, count, tuple(errors), tuple(warnings), ready, tuple(nodes))


def numbers(version: str) -> tuple[int, ...]:
    """`570.158.01` and `570.158.1` are the same version: compare these."""
    return tuple(int(part) for part in version.split(".") if part.isdigit() and len(part) < 10)
