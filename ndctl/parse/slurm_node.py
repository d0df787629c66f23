"""`scontrol show node NAME -o`, with squeue's jobs of the node below it: what Slurm does with a node.

States as Slurm's own sources name them (src/common/slurm_protocol_defs.c: base states, flags joined by "+"), and the
one-letter suffixes of sinfo's man page, which older releases print here as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FIELD = re.compile(r"(?<!\S)(NodeName|NodeHostName|State|CPUAlloc|AllocTRES|Reason)=(\S*)")
_JOB = re.compile(r"^JobId=(\S+) UserId=(\S*) State=(\S*) JobName=(.*)$")
_SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
# sinfo's words, and the names of flags in older releases, for what scontrol joins from base and flags.
_OTHER_NAMES = {
    "ALLOC": ("ALLOCATED",),
    "MIX": ("MIXED",),
    "COMP": ("IDLE", "COMPLETING"),
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "MAINT": ("IDLE", "MAINTENANCE"),
    "RESV": ("RESERVED",),
    "PLND": ("PLANNED",),
    "REBOOT": ("REBOOT_REQUESTED",),
    "POWER": ("POWERED_DOWN",),
}
_NOT_CONFIGURED = (
    "could not establish a configuration source",
    "cannot stat file",
    "unable to open configuration file",
)


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node. `state` as printed; `flags`: base state and flags in capitals, suffixes spelt out."""

    name: str
    state: str
    flags: frozenset[str]
    cpus_allocated: int | None = None
    tres_allocated: str = ""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    id: str
    user: str
    state: str
    name: str


@dataclass(frozen=True, slots=True)
class SlurmFacts:
    """not_found: Slurm answers, and knows no such node; not_configured: the tool finds no cluster to ask.
    problems: lines that are neither node nor job, such as errors."""

    nodes: tuple[SlurmNode, ...] = ()
    jobs: tuple[SlurmJob, ...] = ()
    not_found: bool = False
    not_configured: bool = False
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> SlurmFacts:
    nodes: list[SlurmNode] = []
    jobs: list[SlurmJob] = []
    problems: list[str] = []
    for line in [*text.splitlines(), *stderr.splitlines()]:
        line = line.strip()
        if job := _JOB.match(line):
            jobs.append(SlurmJob(*(part[:80] for part in job.groups())))
        elif line.startswith("NodeName="):
            nodes.append(_node(line))
        elif line:
            problems.append(line[:200])
    told = "\n".join(problems).lower()
    return SlurmFacts(
        nodes=tuple(nodes),
        jobs=tuple(jobs),
        not_found=not nodes and re.search(r"\bnode \S+ not found|invalid node name", told) is not None,
        not_configured=not nodes and any(words in told for words in _NOT_CONFIGURED),
        problems=tuple(problems),
    )


def _node(line: str) -> SlurmNode:
    """Reason is free text and comes last; of each field the first counts."""
    found: dict[str, str] = {}
    for key, value in _FIELD.findall(line):
        if key == "Reason":
            break
        found.setdefault(key, value)
    cpus = found.get("CPUAlloc", "")
    return SlurmNode(
        name=found.get("NodeName", ""),
        state=found.get("State", ""),
        flags=flags_of(found.get("State", "")),
        cpus_allocated=int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 10 else None,
        tres_allocated=found.get("AllocTRES", "").removeprefix("(null)"),
    )


def flags_of(state: str) -> frozenset[str]:
    """ "DOWN*+DRAIN" -> {DOWN, NOT_RESPONDING, DRAIN}."""
    flags: set[str] = set()
    for part in state.upper().split("+"):
        while part and part[-1] in _SUFFIXES:
            flags.add(_SUFFIXES[part[-1]])
            part = part[:-1]
        if part:
            flags.update(_OTHER_NAMES.get(part, (part,)))
    return frozenset(flags)
