"""A rack's report comes back from another process as it was."""

from __future__ import annotations

import pickle
import random

from ndctl.jobs.active import base
from ndctl.model.answers import Command, CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.places import Node
from ndctl.workflow.active import ActiveResult
from ndctl.workflow.remote_rack import RackReport
from ndctl.workflow.sent_rack import packed, unpacked

COMMAND = Command("nvidia-smi-q", "nvidia-smi -q -x")


def report(nodes: int = 4) -> RackReport:
    dice = random.Random(1)
    made = RackReport(seconds=3.5, noted={"clock": {"rack01": [1.0, 2.0]}})
    for at in range(1, nodes + 1):
        node = Node(f"rack01-n{at:02d}", "rack01", address=f"10.0.1.{at}")
        text = "".join(f"GPU {dice.randrange(72)} is well\n" for _ in range(2000))
        result = CommandResult(COMMAND.id, 0, text, "a warning\n")
        answer = NodeAnswer(node, Outcome(OutcomeKind.OK, seconds=1.0), {COMMAND.id: result})
        made.answers[node] = answer
        made.askings.append(((COMMAND,), answer))
    outcome = base.Outcome(texts=[("rack01-n01", "nccl", "# out of place\n" * 500)])
    made.active = ActiveResult(required=("nccl.all-reduce",), ran=True)
    made.active.add(outcome)
    made.texts += outcome.texts
    return made


def test_nothing_is_lost_on_the_way() -> None:
    assert unpacked(pickle.loads(pickle.dumps(packed(report())))).report == report()


def test_it_is_small_and_texts_of_an_answer_are_one_with_those_of_the_asking() -> None:
    sent = pickle.dumps(packed(report()))
    assert len(sent) < len(pickle.dumps(report())) / 4
    back = unpacked(pickle.loads(sent)).report
    for _, answer in back.askings:
        assert back.answers[answer.node].results[COMMAND.id] is answer.results[COMMAND.id]
