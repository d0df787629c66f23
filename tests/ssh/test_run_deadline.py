"""A whole run has its own deadline: who has not answered by then is timed out, and what was answered is kept."""

from __future__ import annotations

from ndctl.model.answers import Command, OutcomeKind
from ndctl.ssh.engine import Engine
from tests.ssh import sshd as openssh


def test_a_run_ends_by_its_deadline(server: openssh.Sshd) -> None:
    """One node at a time: one answers, one is cut in mid-command, one is never asked."""
    quick, long = Command("quick", "echo here", order=-1), Command("long", "sleep 60", timeout_s=90)
    first, second, third = server.nodes
    with Engine(server.settings(fanout=1, run_deadline_s=6.0)) as engine:
        answers = {one.node: one for one in engine.collect({first: [quick], second: [quick, long], third: [quick]})}
        assert answers[first].outcome.ok
        assert answers[second].outcome.kind is OutcomeKind.TIMED_OUT
        assert answers[second].outcome.detail == "the time for the whole run was up; 1 of 2 commands answered"
        assert answers[second].results["quick"].stdout == "here\n"
        assert answers[third].outcome.kind is OutcomeKind.TIMED_OUT
        assert "before this node was asked" in answers[third].outcome.detail
        assert answers[second].outcome.seconds < 40
        assert engine.ask({third: [quick]})[third].outcome.ok, "cleaning up is not ended by it"
