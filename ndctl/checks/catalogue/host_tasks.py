"""No task hangs in the kernel, and the dead are buried: what waits for a driver or a disk for ever cannot be killed."""

from __future__ import annotations

from collections import Counter

from ndctl.checks import host_commands as asked
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.host_facts import few, silent
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse import proc_tasks
from ndctl.parse.proc_tasks import Task, TaskFacts
from ndctl.profiles.schema import Profile

_ID = "host.tasks"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    told: dict[str, tuple[NodeAnswer, TaskFacts]] = {}
    findings: list[Finding] = []
    for node, answer in view.answers.items():
        if not answer.results:
            continue
        missing = unusable(_ID, answer, asked.HOST_TASKS)
        result = answer.results.get(asked.HOST_TASKS.id)
        if missing or result is None:
            findings += [missing] if missing else []
            continue
        facts = proc_tasks.parse(result.stdout, result.stderr)
        if facts.count is None or not facts.looks:
            findings.append(silent(_ID, answer, asked.HOST_TASKS, "tasks", "/proc lists none"))
        elif not facts.sees_all:
            findings.append(silent(_ID, answer, asked.HOST_TASKS, "tasks", "/proc hides those of others (hidepid)"))
        elif len(facts.looks) == 1 and any(task.state == "D" for task in facts.looks[0].tasks):
            why = "tasks were in state D, and the second look is missing"
            findings.append(silent(_ID, answer, asked.HOST_TASKS, "tasks", why))
        else:
            told[node.name] = (answer, facts)
    usual = _by_design(told)
    for answer, facts in told.values():
        said = [_stuck(answer, facts, task) for task in facts.stuck if (task.name, task.kernel_thread) not in usual]
        said += _zombies(answer, facts, profile)
        findings += said or [_fine(answer, facts, sum(1 for t in facts.stuck if (t.name, t.kernel_thread) in usual))]
    return findings


def _by_design(told: dict[str, tuple[NodeAnswer, TaskFacts]]) -> set[tuple[str, bool]]:
    """Kernel threads that wait in state D on most nodes: some drivers' do so for ever, and mean no harm."""
    seen = Counter(
        name for _, facts in told.values() for name in {task.name for task in facts.stuck if task.kernel_thread}
    )
    return {(name, True) for name, nodes in seen.items() if len(told) > 2 and 2 * nodes > len(told)}


def _stuck(answer: NodeAnswer, facts: TaskFacts, task: Task) -> Finding:
    where = f" in {task.waits_in}" if task.waits_in else ""
    kind = "kernel thread" if task.kernel_thread else "process"
    return Finding(
        check=f"{_ID}.stuck",
        status=Status.WARN,
        subject=f"{task.name} ({task.pid})",
        node=answer.node.name,
        # The looks are that far apart by the node's own clock of uptime, where that one runs.
        value=round(facts.between_s, 1) or float(asked.SECOND_LOOK_S),
        unit="s at least",
        expected=f"under {asked.SECOND_LOOK_S} s",
        source="/proc/PID/stat: state D at two looks, and never scheduled in between",
        message=f"{kind} {task.name} ({task.pid}) hangs in the kernel{where}, not killable",
        cause="a driver, a disk or a network file system that does not answer",
        action=Action.REBOOT if task.kernel_thread else Action.INVESTIGATE,
        evidence=evidence(answer, asked.HOST_TASKS),
    )


def _zombies(answer: NodeAnswer, facts: TaskFacts, profile: Profile) -> list[Finding]:
    most = profile.host.zombies
    if most is None or len(facts.zombies) <= most.value:
        return []
    parents = Counter(task.parent for task in facts.zombies)
    parent, children = parents.most_common(1)[0]
    names = [f"{name} ×{number}" for name, number in Counter(task.name for task in facts.zombies).most_common()]
    return [
        Finding(
            check=f"{_ID}.zombies",
            status=Status.WARN,
            subject="zombies",
            node=answer.node.name,
            value=len(facts.zombies),
            unit="processes",
            expected=f"at most {most.value}",
            source=most.origin,
            message=f"{len(facts.zombies)} dead processes nobody waits for ({few(names, 2)}), "
            f"{children} of them children of {parent}",
            cause=f"process {parent} does not collect its children, often a container without an init",
            action=Action.WATCH,
            evidence=evidence(answer, asked.HOST_TASKS),
        )
    ]


def _fine(answer: NodeAnswer, facts: TaskFacts, meant: int) -> Finding:
    also = f"; {meant} kernel threads wait in state D as on most nodes" if meant else ""
    return Finding(
        check=_ID,
        status=Status.PASS,
        subject="tasks",
        node=answer.node.name,
        value=facts.count,
        unit="processes",
        message=f"{facts.count} processes, none hangs, {len(facts.zombies)} zombies{also}",
        evidence=evidence(answer, asked.HOST_TASKS),
    )


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="no task hangs in the kernel (state D), and zombies are few",
    commands=(asked.HOST_TASKS,),
    judge_rack=_judge_rack,
)
