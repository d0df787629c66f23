"""Tasks that cannot be killed (state D) and those nobody buried (state Z), from /proc, looked at once or twice.

The text holds `tasks N` (how many there are), `init seen` where process 1 could be read, and looks: a line
`at UPTIME`, then lines of /proc/PID/stat of the tasks in D or Z, then `PID/status:…_ctxt_switches: N` and
`PID/wchan:NAME` of those in D.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_STAT = re.compile(r"^(?P<pid>\d{1,10}) \((?P<name>.{0,64})\) (?P<state>[A-Za-z]) (?P<parent>\d{1,10}) (?P<rest>.*)$")
_SWITCHES = re.compile(r"^(?P<pid>\d{1,10})/status:(?:non)?voluntary_ctxt_switches:\s*(?P<count>\d{1,19})$")
_WCHAN = re.compile(r"^(?P<pid>\d{1,10})/wchan:(?P<place>[\w.]{1,80})$")
_AT = re.compile(r"^at (?P<uptime>\d{1,12}\.\d{1,6})$")
_COUNT = re.compile(r"^tasks (?P<count>\d{1,9})$")
_KERNEL_THREAD = 0x200000


@dataclass(frozen=True, slots=True)
class Task:
    """switches: how often it was taken off a CPU, None if not told; started: clock ticks after boot."""

    pid: int
    name: str
    state: str
    parent: int
    kernel_thread: bool
    started: int | None = None
    switches: int | None = None
    waits_in: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    uptime_s: float
    tasks: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """count: tasks there are; None where it is not told. sees_all: process 1 could be read, so nobody's are hidden."""

    count: int | None = None
    sees_all: bool = False
    looks: tuple[Look, ...] = ()
    unknown_fields: tuple[str, ...] = ()

    @property
    def between_s(self) -> float:
        """Seconds from the first look to the last."""
        return self.looks[-1].uptime_s - self.looks[0].uptime_s if self.looks else 0.0

    @property
    def stuck(self) -> tuple[Task, ...]:
        """In D at every look of several, and never on a CPU in between."""
        if len(self.looks) < 2:
            return ()
        earlier = {(task.pid, task.started): task for task in self.looks[0].tasks if task.state == "D"}
        return tuple(
            task
            for task in self.looks[-1].tasks
            if task.state == "D"
            and (before := earlier.get((task.pid, task.started))) is not None
            and before.switches is not None
            and before.switches == task.switches
        )

    @property
    def zombies(self) -> tuple[Task, ...]:
        return tuple(task for task in self.looks[-1].tasks if task.state == "Z") if self.looks else ()


def parse(text: str, stderr: str = "") -> TaskFacts:
    """Never raises."""
    count: int | None = None
    sees_all = False
    looks: list[tuple[float, dict[int, Task]]] = []
    strange: list[str] = []
    for line in text.replace("\r", "").split("\n"):
        bare = line.strip()
        if match := _COUNT.match(bare):
            count = int(match["count"])
        elif bare == "init seen":
            sees_all = True
        elif match := _AT.match(bare):
            looks.append((float(match["uptime"]), {}))
        elif looks and (match := _STAT.match(bare)):
            looks[-1][1][int(match["pid"])] = _task(match)
        elif looks and (match := _SWITCHES.match(bare)):
            tasks, pid = looks[-1][1], int(match["pid"])
            if pid in tasks:
                tasks[pid] = replace(tasks[pid], switches=(tasks[pid].switches or 0) + int(match["count"]))
        elif looks and (match := _WCHAN.match(bare)):
            tasks, pid = looks[-1][1], int(match["pid"])
            if pid in tasks and match["place"] != "0":
                tasks[pid] = replace(tasks[pid], waits_in=match["place"])
        elif bare and len(strange) < 5:
            strange.append(bare[:120])
    return TaskFacts(count, sees_all, tuple(Look(at, tuple(tasks.values())) for at, tasks in looks), tuple(strange))


def _task(match: re.Match[str]) -> Task:
    """Fields of stat after the state: parent is the 1st, flags the 6th, the start time the 19th."""
    rest = match["rest"].split()
    flags = rest[4] if len(rest) > 4 else ""
    started = rest[17] if len(rest) > 17 else ""
    return Task(
        pid=int(match["pid"]),
        name=match["name"],
        state=match["state"],
        parent=int(match["parent"]),
        kernel_thread=int(match["parent"]) == 2 or (flags.isdigit() and bool(int(flags) & _KERNEL_THREAD)),
        started=int(started) if started.isdigit() else None,
    )
