"""Who is blamed when answers do not come in time: a driver only where it alone is slow."""

from __future__ import annotations

from ndctl.checks.slow_answers import explain_slow_answers
from ndctl.checks.verdict import REACHABLE, reachability
from ndctl.model.answers import CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status
from ndctl.workflow.client_load import client_trouble

DRIVER = "the tool hangs: often a wedged driver or a process in D state"
OVERLOADED = "the machine ndctl runs on is overloaded itself (load 40.0 on 2 CPUs)"


def rack(slow: int, hung: int = 0, away: int = 0) -> dict[Node, NodeAnswer]:
    """18 nodes: some on which all is slow, then some whose nvidia-smi alone hangs, then some that fell silent."""
    answers = {}
    for number in range(1, 19):
        node = Node(f"rack01-n{number:02d}", "rack01")
        all_slow, one_hangs = number <= slow, slow < number <= slow + hung
        silent = slow + hung < number <= slow + hung + away
        results = [
            CommandResult("identity", None if all_slow else 0, timed_out=all_slow),
            CommandResult("nvidia-smi-xml", None, timed_out=all_slow or one_hangs),
        ]
        outcome = Outcome(OutcomeKind.TIMED_OUT, "silent", "look at its console") if silent else Outcome(OutcomeKind.OK)
        answers[node] = NodeAnswer(node, outcome, {} if silent else {result.id: result for result in results})
    return answers


def driver_findings(answers: dict[Node, NodeAnswer]) -> list[Finding]:
    return [
        Finding(
            check="gpu.driver", status=Status.UNKNOWN, subject="nvidia-smi-xml", node=node.name, cause=DRIVER,
            message="no answer within 30 s", action=Action.INVESTIGATE, evidence=f"{node.name}/nvidia-smi-xml",
        )
        for node, answer in answers.items()
        if (result := answer.results.get("nvidia-smi-xml")) and result.timed_out
    ]  # fmt: skip


def test_one_driver_that_hangs_is_the_driver() -> None:
    answers = rack(slow=0, hung=1)
    assert explain_slow_answers(driver_findings(answers), answers) == driver_findings(answers)


def test_many_drivers_that_hang_while_all_else_answers_are_the_drivers() -> None:
    answers = rack(slow=0, hung=9)
    assert {f.cause for f in explain_slow_answers(driver_findings(answers), answers)} == {DRIVER}


def test_one_node_on_which_all_is_slow_is_the_node() -> None:
    answers = rack(slow=1)
    [finding] = explain_slow_answers(driver_findings(answers), answers)
    assert finding.cause.startswith("the whole node is slow or frozen") and finding.action is Action.INVESTIGATE


def test_many_nodes_on_which_all_is_slow_have_it_in_common() -> None:
    answers = rack(slow=4, hung=1)
    told = {f.node: f for f in explain_slow_answers(driver_findings(answers), answers)}
    for number in range(1, 5):
        finding = told[f"rack01-n{number:02d}"]
        assert finding.cause.startswith("4 of 18 nodes did not answer in time") and "driver" not in finding.cause
        assert finding.action is Action.WATCH and finding.status is Status.UNKNOWN
    assert told["rack01-n05"].cause == DRIVER


def test_nodes_that_fall_silent_together_have_it_in_common() -> None:
    answers = rack(slow=0, away=5)
    told = [f for f in explain_slow_answers(reachability(answers), answers) if f.status is Status.UNKNOWN]
    assert len(told) == 5 and all(f.cause.startswith("5 of 18 nodes") for f in told)
    alone = rack(slow=0, away=1)
    [one] = [f for f in explain_slow_answers(reachability(alone), alone) if f.status is Status.UNKNOWN]
    assert one.check == REACHABLE and one.cause == "look at its console"


def test_an_overloaded_client_is_named() -> None:
    answers = rack(slow=1, hung=1)
    told = {f.node: f for f in explain_slow_answers(driver_findings(answers), answers, OVERLOADED)}
    assert told["rack01-n01"].cause == OVERLOADED
    assert told["rack01-n02"].cause == f"{DRIVER}; or {OVERLOADED}"
    healthy = rack(slow=0)
    assert explain_slow_answers(reachability(healthy), healthy, OVERLOADED) == reachability(healthy)


def test_what_failed_or_has_another_reason_is_left_as_it_is() -> None:
    answers = rack(slow=6)
    failed = Finding(check="gpu.count", status=Status.FAIL, subject="GPU 1", node="rack01-n01", message="gone")
    unparsed = Finding(
        check="gpu.health", status=Status.UNKNOWN, subject="x", node="rack01-n09", message="?", cause="strange",
        evidence="rack01-n09/identity",
    )  # fmt: skip
    assert explain_slow_answers([failed, unparsed], answers, OVERLOADED) == [failed, unparsed]


def test_when_a_client_is_overloaded() -> None:
    def unknown() -> tuple[float, float, float]:
        raise OSError

    assert client_trouble(lambda: (3.9, 0, 0), lambda: 2) == ""
    assert client_trouble(lambda: (40.0, 0, 0), lambda: 2) == OVERLOADED
    assert client_trouble(lambda: (1.9, 0, 0), lambda: None) == ""
    assert client_trouble(unknown, lambda: 2) == ""
