"""DCGM's diagnostic at level 3 finds nothing on any node: all nodes side by side, with a deadline, for it is known to
hang on sick ones (DCGM issues 136, 247, 313)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ndctl.checks.texts.dcgmi_diag import JUDGE
from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.burn_in import ENDED, ask_side_by_side, folded, hang, no_result, subject_of, why_no_answer
from ndctl.model.answers import Command, CommandResult
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.dcgmi_diag import DcgmiDiag, DiagMessage, DiagTest, parse

CHECK = "gpu.diag"
CATEGORY = "Resource.Hpc.Unhealthy.HpcGpuDcgmDiagFailure"
_COMMAND = "dcgmi-diag-r3"
_PROGRAM = "dcgmi"
# Level 3 takes some 15 to 25 minutes; the lease on the rack, which is renewed before and after, lasts 30.
_DEADLINE_S = 1620
_GPU = re.compile(r"^GPU\s?(\d{1,3})$", re.IGNORECASE)


def _run(rack: RackUnderTest) -> Outcome:
    outcome = Outcome()
    token = f"{rack.token}-{rack.rack}-diag"
    shell = f"export NDCTL_JOB={token}:; timeout -k 10 {_DEADLINE_S} dcgmi diag -r 3 -j"
    command = Command(_COMMAND, shell, timeout_s=_DEADLINE_S + 30, cap_bytes=1_000_000)
    rack.say("dcgmi diag", f"level 3 on {len(rack.nodes)} nodes", "running")
    answers = ask_side_by_side(rack, {node: [command] for node in rack.nodes}, token)
    findings: list[Finding] = []
    passed = []
    for node in rack.nodes:
        result = answers[node].results.get(_COMMAND)
        problem = why_no_answer(CHECK, _PROGRAM, answers[node], command)
        if result is not None and (result.stdout or result.stderr):
            outcome.texts.append((node.name, _COMMAND, result.stdout + result.stderr))
        if problem is not None or result is None:
            findings += [problem] if problem is not None else []
            continue
        told = list(_of_node(rack, node.name, result))
        findings += [finding for finding in told if finding.status is not Status.PASS]
        if all(finding.status in (Status.PASS, Status.SKIP) for finding in told):
            passed.append(node.name)
    outcome.findings += _and_the_rest(folded(findings, rack), rack, len(passed))
    return outcome


def _and_the_rest(findings: list[Finding], rack: RackUnderTest, passed: int) -> list[Finding]:
    """How many nodes passed, where nothing stands against the rack."""
    if findings and any(finding.status is not Status.SKIP for finding in findings):
        return findings
    if not passed:
        return findings or [no_result(CHECK, "", rack.rack, "no node gave an answer", "")]
    # What a diagnostic leaves out by itself (no such part on this hardware) is no gap of the rack's.
    left_out = sorted({finding.subject for finding in findings})
    more = f"; left out by DCGM: {', '.join(left_out[:6])}" if left_out else ""
    text = f"dcgmi diag -r 3 passed on {passed} of {len(rack.nodes)} nodes{more}"
    done = Finding(check=CHECK, status=Status.PASS, subject=rack.rack, message=text)
    return [done] if passed == len(rack.nodes) else [done, *findings]


def _of_node(rack: RackUnderTest, node: str, result: CommandResult) -> Iterator[Finding]:
    evidence = f"{node}/{_COMMAND}"
    if result.exit_code in ENDED:
        yield hang(CHECK, node, "all GPUs", "dcgmi diag", _DEADLINE_S, evidence)
        return
    facts = parse(result.stdout, result.stderr)
    for finding in JUDGE.judge(facts, rack.profile):
        word = finding.check.rpartition(".")[2]
        own = replace(
            finding,
            check=CHECK if finding.status is Status.PASS else f"{CHECK}.{word}",
            node=node,
            evidence=evidence,
            health_category=CATEGORY if finding.status is Status.FAIL and _is_hardware(finding) else "",
        )
        yield from _of_each_gpu(rack, own, facts)


def _is_hardware(finding: Finding) -> bool:
    return finding.action not in (Action.FIX_IMAGE, Action.RESTART_IMEX)


def _of_each_gpu(rack: RackUnderTest, finding: Finding, facts: DcgmiDiag) -> Iterator[Finding]:
    """A test that failed on some GPUs is a finding of each of them."""
    test = next((one for one in facts.tests if f"{one.name}: {one.status}" in finding.message), None)
    bad = _bad_gpus(test) if test is not None and finding.status in (Status.FAIL, Status.WARN) else {}
    if test is None or not bad:
        yield replace(finding, subject="all GPUs" if finding.subject == "diagnostic" else finding.subject)
        return
    for index, said in sorted(bad.items()):
        yield replace(
            finding,
            subject=subject_of(rack, (finding.node, index)),
            message=f"{test.name}: {test.status}{': ' + said[:300] if said else ''}",
            expected=f"dcgmi diag's {test.name} passes",
            source="DCGM's own limits for this GPU",
            cause=finding.cause or "what the test loads or looks at on this GPU",
            action=finding.action if finding.action is not Action.NONE else Action.INVESTIGATE,
        )


def _bad_gpus(test: DiagTest) -> Mapping[int, str]:
    """GPU -> what is said of it."""
    found = {}
    for name, word in test.entities.items():
        match = _GPU.match(name)
        if match and word == test.status:
            found[int(match[1])] = _said_of(int(match[1]), test.messages)
    return found


def _said_of(index: int, messages: tuple[DiagMessage, ...]) -> str:
    name = re.compile(rf"\bGPU ?{index}\b", re.IGNORECASE)
    own = [m.text for m in messages if m.level != "info" and (name.match(m.entity) or name.search(m.text))]
    return next(iter(own), "") or next((m.text for m in messages if m.level != "info"), "")


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.GPU,
    level=Level.ACCEPTANCE,
    title="DCGM's diagnostic of level 3 passes on every node",
    cost_s=1200,
    run=_run,
    texts=(_COMMAND,),
    smallest=1,
)
