"""What to type next: it can be typed as it stands."""

from __future__ import annotations

import re
import shlex

import pytest

from ndctl.checks.explain import words
from ndctl.checks.pages import pages
from ndctl.cli.main import VERBS
from ndctl.model.findings import Finding
from ndctl.model.status import Status, Verdict
from ndctl.profiles import load
from ndctl.report.next_steps import next_commands, to_explain
from tests.model import builders
from tests.model.builders import finding, rack

VERB = re.compile(r"\bndctl ([a-z][a-z-]*)")
WORDS_THAT_ARE_NO_VERBS = {"report"}  # added by `runs`, beside its own name


def explained(*findings: Finding, verdict: Verdict = Verdict.REJECTED) -> str:
    return to_explain(builders.run(rack(verdict=verdict, findings=findings)))


def test_the_root_that_explains_most_is_read_of_first() -> None:
    assert (
        explained(
            finding(Status.WARN, check="infiniband.counters"),
            finding(check="gpu.xid.149", explains=("XID 145 on 63 GPUs",)),
            finding(check="nvlink.links.link-down"),
            finding(check="nccl.all-reduce.slow", caused_by="gpu.xid.149@rack07-n11", explains=("a", "b")),
        )
        == "gpu.xid.149"
    )


@pytest.mark.parametrize("check", ["host.reachable", "no.page-of-its-own"])
def test_nothing_is_named_that_says_nothing_more(check: str) -> None:
    assert explained(finding(Status.UNKNOWN, check=check)) == ""


def test_an_accepted_rack_needs_no_next_step() -> None:
    assert next_commands(builders.run(rack(findings=(finding(Status.PASS),)))) == []


def test_what_is_named_can_be_explained() -> None:
    """Of every check and every finding on a page: `next:` names a word that `ndctl explain` knows."""
    from ndctl.checks.explain import explain

    for page in pages().values():
        for word in (page.check, *(f"{page.check}.{suffix}" for suffix in page.details)):
            named = explained(finding(check=word))
            assert named == ("" if word == "host.reachable" else word)
            if named:
                assert explain(named, load("gb300")).word == word
    assert (
        "gpu.xid.149" not in words() and explain(explained(finding(check="gpu.xid.149")), load("gb300")).kind == "xid"
    )


def test_pages_and_next_steps_name_only_verbs_that_exist() -> None:
    told = [(page.check, text) for page in pages().values() for text in (page.means, page.measured, *page.do)]
    told += [
        ("next_steps", " ".join(next_commands(builders.run(rack(verdict=Verdict.REJECTED, findings=(finding(),))))))
    ]
    wrong = [
        (check, verb)
        for check, text in told
        for verb in VERB.findall(text)
        if verb not in VERBS and verb not in WORDS_THAT_ARE_NO_VERBS
    ]
    assert wrong == []


def test_a_next_command_is_one_a_shell_takes() -> None:
    for command in next_commands(builders.run(rack(verdict=Verdict.REJECTED, findings=(finding(),)))):
        words_of_it = shlex.split(command.partition("   (")[0])
        assert words_of_it[0] == "ndctl" and words_of_it[1] in {*VERBS, *WORDS_THAT_ARE_NO_VERBS}
