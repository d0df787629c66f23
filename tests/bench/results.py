"""RESULTS.md: what the parts printed, with the machine, the versions and the date; no host name and no path."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import ndctl

RESULTS = Path(__file__).with_name("RESULTS.md")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the benchmark that has run; said: its stdout, Markdown and BAR lines."""

    name: str
    said: str
    status: int


def write(parts: list[Part], path: Path = RESULTS) -> Path:
    lines = ["# Results of `make bench`", "", *(f"- {line}" for line in surroundings()), ""]
    for part in parts:
        lines += [f"## {part.name}", "", *part_lines(part), ""]
    path.write_text("\n".join(lines).rstrip("\n") + "\n")
    return path


def part_lines(part: Part) -> list[str]:
    """Tables stay Markdown, everything else (a part may print columns for a terminal) is shown as it is."""
    lines = part.said.rstrip("\n").splitlines()
    bars = [line for line in lines if line.startswith("BAR ")]
    rest = [line for line in lines if not line.startswith("BAR ")]
    if not any(line.startswith("|") for line in rest):
        rest = ["```", *rest, "```"] if rest else []
    failed = [] if part.status in (0, 1) and bars else [f"The part failed: exit status {part.status}."]
    return [*rest, "", "```", *bars, "```", *failed] if bars else [*rest, *failed]


def surroundings() -> list[str]:
    """What a reader must know to compare the figures with others."""
    return [
        f"date: {datetime.now(UTC):%Y-%m-%d}",
        f"machine: {_processor()}, {len(os.sched_getaffinity(0))} cores, {_memory_gib():.0f} GiB memory",
        f"system: {_system()}, Linux {platform.release().split('-')[0]}, {_openssh()}",
        f"Python {platform.python_version()} ({platform.python_implementation()}), ndctl {ndctl.__version__}",
        f"load of the machine when it began: {os.getloadavg()[2]:.1f} (15 minutes)",
    ]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", sys.platform)
    except OSError:
        return sys.platform


def _openssh() -> str:
    done = subprocess.run(["ssh", "-V"], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
    return (done.stderr or done.stdout).split(",")[0].strip()
