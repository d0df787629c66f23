"""An answer of a job that a stop ended on its node tells of the stop and not of the node."""

from __future__ import annotations

from ndctl.jobs.active.base import INTERRUPTED, Outcome, Stopping, Watched
from ndctl.jobs.gemm import load_command
from ndctl.model import answers
from ndctl.model.answers import Command, CommandResult, NodeAnswer, OutcomeKind
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Status
from ndctl.workflow.recording import cut_short

NODE = Node("rack01-n01", "rack01", "127.88.1.1")
JOB, PLAIN = load_command("gpu-load-1", [0], "run-1"), Command("kernel-log", "dmesg")


def answer(*ids: str) -> NodeAnswer:
    return NodeAnswer(NODE, answers.Outcome(OutcomeKind.OK), {id: CommandResult(id, 0, "text") for id in ids})


def test_a_job_s_answer_is_not_believed_whatever_its_exit_code() -> None:
    cut = cut_short([JOB, PLAIN], answer("gpu-load-1", "kernel-log"))
    assert cut.outcome.kind is OutcomeKind.INTERRUPTED
    assert list(cut.results) == ["kernel-log"]


def test_an_answer_without_a_job_stays() -> None:
    whole = answer("kernel-log")
    assert cut_short([PLAIN], whole) is whole


class Runner:
    user = "nobody"

    def __init__(self, told: NodeAnswer) -> None:
        self.told = told

    def ask(self, requests: object) -> dict[Node, NodeAnswer]:
        return {NODE: self.told}


def findings() -> Outcome:
    statuses = (Status.FAIL, Status.UNKNOWN, Status.PASS)
    return Outcome(
        [Finding(check="gpu.gemm", status=status, subject="GPU 0", message=status.value) for status in statuses]
    )


def test_what_the_stop_left_unknown_is_said_to_be_that() -> None:
    all_racks = Stopping()
    rack, other = Stopping(all_racks), Stopping(all_racks)
    watched = Watched(Runner(cut_short([JOB], answer("gpu-load-1"))), rack)
    watched.ask({})
    told = [(one.status, one.message) for one in watched.told(findings(), "gpu.gemm", "rack01").findings]
    assert told == [(Status.FAIL, "fail"), (Status.PASS, "pass"), (Status.SKIP, INTERRUPTED)]
    assert rack.stopped and not other.stopped and not all_racks.stopped


def test_whole_answers_change_nothing_and_a_stop_reaches_every_rack() -> None:
    all_racks = Stopping()
    rack = Stopping(all_racks)
    watched = Watched(Runner(answer("gpu-load-1")), rack)
    watched.ask({})
    assert watched.told(findings(), "gpu.gemm", "rack01") == findings() and not rack.stopped
    ended: list[str] = []
    with rack.ended_by(lambda: ended.append("ended")):
        all_racks.stop()
    assert ended == ["ended"] and rack.stopped
