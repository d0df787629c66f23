"""The copies between all GPUs of a rack over NVLink: run, judged, and run once more around whoever is accused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ndctl.checks.texts.nvbandwidth import FAIL_SHARE, WARN_SHARE
from ndctl.jobs.active.base import Outcome, RackUnderTest
from ndctl.jobs.burn_in import hang, indices, missing, no_result, subject_of
from ndctl.jobs.gpu_figures import Key, Limits, Metric, accused, crowd_is_slow, judge
from ndctl.jobs.judge_nccl_end import ran_out_of_time
from ndctl.jobs.nccl import NcclLaunch, NcclRun, end_launch, run_nccl
from ndctl.jobs.nvbandwidth import FIND, PROGRAM, complaints
from ndctl.jobs.nvbandwidth_matrix import TEST, SlowPath, keys_of, matrix_of, misplaced, slow_paths, typical
from ndctl.model.answers import CommandResult
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status
from ndctl.parse.nvbandwidth import parse
from ndctl.profiles.schema import Profile

CHECK = "nvlink.nvbandwidth"
CATEGORY = "Resource.Hpc.Unhealthy.NvLink"
COMMAND = "nvbandwidth-matrix"
LEFTOVERS_CHECK = "job.leftovers"
_DEADLINE_S = 1500.0  # 5,112 pairs; the rack's lease lasts 1,800 s between two steps
_AGAIN_S = 600.0
_PARTNERS = 3  # good nodes that the accused are asked with again
_PATHS_TOLD = 12
_NOT_MULTINODE = ("testcase prefixes did not match any testcases", f"Testcase {TEST} not found")


@dataclass(slots=True)
class Measured:
    """One run. figures: GPU -> GB/s; paths: pairs slow by themselves; problem: why there is neither."""

    figures: dict[Key, float] = field(default_factory=dict)
    paths: list[SlowPath] = field(default_factory=list)
    problem: Finding | None = None


def metric(profile: Profile) -> Metric:
    return Metric(
        check=CHECK,
        name="nvlink.nvbandwidth",
        title="copies to and from other GPUs",
        unit="GB/s",
        limits=Limits.of_known(profile.nvlink.device_to_device_gb_per_s, WARN_SHARE, FAIL_SHARE),
        cause="this GPU's NVLinks: slow with all others, who are fast among themselves",
        action=Action.REPLACE_AND_REPORT,
        category=CATEGORY,
    )


def measure(rack: RackUnderTest) -> Outcome:
    outcome = Outcome()
    told = metric(rack.profile)
    nodes = _whole(rack, outcome)
    if len(nodes) < 2:
        return outcome.skip(CHECK, rack.rack, f"{len(nodes)} nodes have all their GPUs; 2 are needed")
    first = _run(rack, nodes, 1, outcome)
    if first.problem is not None:
        outcome.findings.append(first.problem)
        return outcome
    outcome.measurements += [
        {"node": name, "metric": told.name, "subject": f"GPU {index}", "value": round(value, 2), "unit": told.unit}
        for (name, index), value in sorted(first.figures.items())
    ]
    names = {key[0] for key in accused(told, first.figures)}
    names |= {key[0] for path in first.paths[:_PATHS_TOLD] for key in (path.one, path.other)}
    again, why = Measured(), ""
    if names or crowd_is_slow(told, first.figures):
        why = rack.may_go_on()
        if not why:
            again = _run(rack, _with_partners(nodes, names), 2, outcome)
            why = again.problem.message if again.problem is not None else ""
    findings = judge(
        told, rack.rack, first.figures, again.figures, why, partial(subject_of, rack), lambda key: _evidence(rack, 1)
    )
    findings += _of_paths(rack, first.paths, again, why)
    if any(f.check.startswith(f"{CHECK}.") for f in findings):
        findings = [f for f in findings if f.status is not Status.PASS]
    outcome.findings += findings
    return outcome


def _whole(rack: RackUnderTest, outcome: Outcome) -> tuple[Node, ...]:
    """The nodes with all their GPUs: one process a GPU is started on each. The others are left out, and said so."""
    count = rack.profile.gpu.count.value
    listed = {node: len(indices(rack, node)) for node in rack.nodes}
    for node, number in listed.items():
        if number != count:
            text = f"left out of the test: nvidia-smi lists {number} GPUs, not {count}"
            outcome.findings.append(
                Finding(check=f"{CHECK}.left-out", status=Status.SKIP, subject="all GPUs", node=node.name, message=text)
            )
    return tuple(node for node, number in listed.items() if number == count)


def _with_partners(nodes: Sequence[Node], names: set[str]) -> tuple[Node, ...]:
    """The accused and some others; good ones first, so that the launch's head is none of the accused."""
    suspects = [node for node in nodes if node.name in names]
    good = [node for node in nodes if node.name not in names]
    if not suspects or not good:
        return tuple(nodes)
    return (*good[: max(_PARTNERS, len(suspects) + 1)], *suspects)


def _evidence(rack: RackUnderTest, turn: int) -> str:
    return f"{rack.nodes[0].name}/{COMMAND}-{turn}"


def _run(rack: RackUnderTest, nodes: Sequence[Node], turn: int, outcome: Outcome) -> Measured:
    launch = NcclLaunch(
        test=PROGRAM,
        nodes=tuple(nodes),
        gpus_per_node=rack.profile.gpu.count.value,
        environment=rack.environment("rack"),
        host_keys={node.name: rack.host_keys(node) for node in nodes},
        tests_dir=rack.profile.nccl.tests_dir.value,
        token=f"{rack.token}-{rack.rack}-matrix{turn}",
        deadline_s=_DEADLINE_S if turn == 1 else _AGAIN_S,
        program=f'"$u" -p {TEST}',
        setup=FIND,
    )
    rack.say(PROGRAM, f"every GPU with every other, {len(nodes)} nodes", "running")
    with rack.stopping.ended_by(lambda: end_launch(rack.runner, launch)):
        run = run_nccl(rack.runner, launch)
    command = f"{COMMAND}-{turn}"
    if run.log is not None:
        # Under the rack's first node, whichever was the head: one place to look.
        outcome.texts.append((rack.nodes[0].name, command, run.log.stdout + run.log.stderr))
    if run.leftovers:
        outcome.findings.append(_left(rack, run, turn))
    return _read(rack, run, _evidence(rack, turn))


def _read(rack: RackUnderTest, run: NcclRun, evidence: str) -> Measured:
    """The matrix of a run as figures of its GPUs, or the finding that says why there is none."""
    launch, log = run.launch, run.log
    if log is None:
        return Measured(problem=no_result(CHECK, run.blamed, rack.rack, run.problem, evidence))
    text = log.stdout + log.stderr
    absent = _absent(log, text, rack.rack)
    if absent is not None:
        return Measured(problem=absent)
    if ran_out_of_time(launch, log):
        return Measured(problem=hang(CHECK, "", rack.rack, PROGRAM, launch.deadline_s, evidence))
    facts = parse(text)
    said = [one for one in complaints(facts, CHECK, "", evidence) if one.status in (Status.FAIL, Status.UNKNOWN)]
    if said:
        worst = next((one for one in said if one.status is Status.FAIL), said[0])
        return Measured(problem=replace(worst, subject=rack.rack, node=_named(worst.message, rack)))
    keys = keys_of(launch.nodes, launch.gpus_per_node)
    values, why = matrix_of(facts, len(keys))
    why = why or misplaced(facts, len(keys), launch.gpus_per_node)
    if log.exit_code != 0 and not why:
        why = f"mpirun ended with code {log.exit_code}"
    if values is None or why:
        last = next((line.strip() for line in reversed(text.splitlines()) if line.strip(" -")), "")
        message = f"{why}: {last[:160]}" if log.exit_code != 0 and last else why
        return Measured(problem=no_result(CHECK, "", rack.rack, message, evidence))
    figures = typical(values, keys)
    return Measured(figures, slow_paths(values, keys, figures))


def _absent(log: CommandResult, text: str, rack: str) -> Finding | None:
    """What is not installed: the program, mpirun, or the multi-node build of the program."""
    if log.exit_code == 127:
        program = "mpirun" if "mpirun: not found" in text else PROGRAM
    elif any(words in text for words in _NOT_MULTINODE):
        program = f"the multi-node build of {PROGRAM} (cmake -DMULTINODE=1)"
    else:
        return None
    return replace(missing(CHECK, "", program), check=CHECK, subject=rack)


def _named(message: str, rack: RackUnderTest) -> str:
    """The node that an error names as its host ("… on HOST, rank = 8 …"), where hosts are called like our nodes."""
    return next((node.name for node in rack.nodes if f" on {node.name}, rank" in message), "")


def _of_paths(rack: RackUnderTest, paths: Sequence[SlowPath], again: Measured, why: str) -> list[Finding]:
    """Pairs that are slow by themselves in both runs: a path, no GPU. Where they were not asked again, unknown."""
    repeated: Mapping[tuple[Key, Key], SlowPath] = {(path.one, path.other): path for path in again.paths}
    asked = bool(again.figures)
    standing = [path for path in paths if not asked or _same(path, repeated)]
    found = []
    for path in standing[:_PATHS_TOLD]:
        names = f"{path.one[0]} GPU {path.one[1]} ↔ {path.other[0]} GPU {path.other[1]}"
        second = _same(path, repeated)
        more = f", asked again {second.gb_per_s:.0f}" if second is not None else f"; not asked again: {why}"
        found.append(
            Finding(
                check=f"{CHECK}.path" if asked else f"{CHECK}.not-confirmed",
                status=Status.WARN if asked else Status.UNKNOWN,
                subject=names,
                value=round(path.gb_per_s, 1),
                unit="GB/s",
                expected=f"about {path.reached:.0f} GB/s, what the slower of the two reaches with others",
                source="the rack itself",
                message=f"{path.gb_per_s:.0f} GB/s{more}, while both are faster with others: the path, no GPU",
                cause="a link or switch plane between these two",
                action=Action.INVESTIGATE,
                evidence=_evidence(rack, 1),
            )
        )
    if len(standing) > _PATHS_TOLD:
        found.append(
            Finding(
                check=f"{CHECK}.paths",
                status=Status.WARN if asked else Status.UNKNOWN,
                subject=rack.rack,
                value=len(standing),
                unit="pairs",
                message=f"{len(standing)} pairs are slow by themselves; the worst {_PATHS_TOLD} are told one by one",
                cause="a switch plane, rather than single links",
                action=Action.INVESTIGATE,
                evidence=_evidence(rack, 1),
            )
        )
    return found


def _same(path: SlowPath, repeated: Mapping[tuple[Key, Key], SlowPath]) -> SlowPath | None:
    """The same pair in another run, whose nodes may stand in another order."""
    return repeated.get((path.one, path.other)) or repeated.get((path.other, path.one))


def _left(rack: RackUnderTest, run: NcclRun, turn: int) -> Finding:
    return Finding(
        check=LEFTOVERS_CHECK,
        status=Status.WARN,
        subject=rack.rack,
        message=f"after nvbandwidth there may be left on {'; '.join(run.leftovers)}",
        cause=f"the key there ends by itself within {run.launch.key_minutes} minutes",
        evidence=_evidence(rack, turn),
    )
