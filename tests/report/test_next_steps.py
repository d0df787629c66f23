"""What to type next: it can be typed as it stands."""

from __future__ import annotations

import importlib
import re
import shlex
from typing import Any

import pytest
import typer

from ndctl.checks.explain import words
from ndctl.checks.pages import pages
from ndctl.cli.main import VERBS
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status, Verdict
from ndctl.profiles import load
from ndctl.report.next_steps import next_commands, to_explain
from ndctl.report.table import run_lines
from ndctl.workflow.repair_refusals import parse_action
from ndctl.workflow.repair_state import RepairAction
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


def parsed(command: str) -> str:
    """The verb of a command that the program's own parser takes. What is no argument of it is refused, as are options
    that do not exist and values that an option does not take."""
    words_of_it = shlex.split(command.partition("   (")[0])
    assert words_of_it[0] == "ndctl", command
    app = typer.Typer()
    app.callback()(lambda: None)
    for verb in VERBS:
        importlib.import_module(f"ndctl.cli.{verb.replace('-', '_')}").register(app)
    group: Any = typer.main.get_command(app)
    arguments = [word for word in words_of_it[1:] if word != "-v"]
    verb, *rest = arguments
    group.commands[verb].make_context(verb, rest).close()
    if "--action" in rest:
        parse_action(rest[rest.index("--action") + 1])
    for place in rest[rest.index("--finding") + 1 :][:1] if "--finding" in rest else ():
        assert place.count(".") >= 1
    return verb


SILENT = builders.node(7, 1, status=Status.UNKNOWN, outcome="refused")
NAMED = {"vm_id": "5e1f", "physical_host": "AMS07"}


def told(*findings: Finding, path: str = "my racks/it's [1].yaml", azure: bool = True) -> str:
    nodes = tuple(
        builders.node(7, n, **(NAMED if azure else {"instance_id": ""})) if n > 1 else SILENT for n in range(1, 19)
    )
    run = builders.run(
        rack(verdict=Verdict.REJECTED, nodes=nodes, findings=findings),
        inventories=({**builders.INVENTORY, "path": path},),
    )
    return "\n".join(line.text for line in run_lines(run))


@pytest.mark.parametrize("azure", [True, False])
@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("node", ["rack07-n11", ""])
def test_every_command_of_an_answer_can_be_pasted(action: Action, azure: bool, node: str) -> None:
    one = finding(
        action=action, node=node, check="nvlink.links.link-down", health_category="Resource.Hpc.Unhealthy.NvLink"
    )
    text = told(one, azure=azure)
    commands = re.findall(r"ndctl .*?(?=;|   |$)", text, re.MULTILINE)
    verbs = {parsed(command) for command in commands}
    assert verbs
    if node and azure:
        assert ("repair" in verbs) == (action.value.removesuffix("-and-report") in {*RepairAction})
        assert {"report-node", "diagnose"} <= verbs
    if not azure:
        assert "report-node" not in verbs
        assert ("repair" in verbs) == bool(node and action in (Action.RESET_GPU, Action.RESTART_IMEX, Action.REBOOT))


ADDRESS_OF = "10.40.1.12 shows ssh-ed25519 SHA256:x"


@pytest.mark.parametrize(
    ("outcome", "detail", "azure", "wanted"),
    [
        ("auth-failed", "10.40.1.12 refused azureuser with k", True, "mend the login: user and key under ssh: in "),
        ("auth-failed", "jump host: door refused azureuser", True, "or the jump host's authorized_keys"),
        ("host-key-changed", f"{ADDRESS_OF}; known is y", True, "--relearn-host-keys"),
        ("host-key-unknown", f"{ADDRESS_OF}, which no known_hosts file has", True, "--relearn-host-keys"),
        ("host-key-changed", f"{ADDRESS_OF}; known is y", False, "mend its line in known_hosts"),
        ("host-key-changed", f"{ADDRESS_OF}, which known_hosts marks @revoked", True, "new keys, by its console"),
        ("interrupted", "stopped before it answered", True, "ask again: ndctl validate"),
    ],
)
def test_a_node_that_was_reached_is_not_told_to_look_at_the_network(
    outcome: str, detail: str, azure: bool, wanted: str
) -> None:
    more = {} if azure else {"instance_id": ""}
    nodes = tuple(builders.node(7, n, status=Status.UNKNOWN, outcome=outcome, detail=detail, **more) for n in (1, 2))
    found = tuple(
        finding(
            Status.UNKNOWN,
            check="host.reachable",
            subject="SSH",
            node=node.name,
            message=f"{outcome}: {detail}",
            action=Action.INVESTIGATE,
        )
        for node in nodes
    )
    run = builders.run(rack(verdict=Verdict.INCOMPLETE, nodes=nodes, findings=found))
    lines = [line.text for line in run_lines(run)]
    (did,) = [line.strip() for line in lines if line.strip().startswith("do ")]
    assert wanted in did and "drain" not in did and "network" not in did and "--nodes 'rack07-n[01-02]'" in did
    assert parsed(re.findall(r"ndctl .*", did)[0]) == "validate"


def test_silence_of_another_kind_is_looked_into() -> None:
    one = finding(Status.UNKNOWN, check="host.reachable", node="rack07-n01", action=Action.INVESTIGATE)
    assert "drain, ask again: ndctl validate" in told(one)


def test_a_category_is_one_that_azure_takes_whatever_an_old_record_says() -> None:
    text = told(finding(health_category="Resource.Hpc.Unhealthy.MissingGPU"))
    assert "Resource.Hpc.Unhealthy.HpcMissingGpu" in text and "MissingGPU" not in text


def test_commands_of_pages_are_parsed_too() -> None:
    for page in pages().values():
        for text in (*page.do, *page.details.values()):
            for command in re.findall(r"ndctl (?:repair|report-node|diagnose)[^`;,)]*", text):
                assert parsed(command.partition(" puts ")[0]) in VERBS, page.check


def test_a_next_command_is_one_a_shell_takes() -> None:
    for command in next_commands(builders.run(rack(verdict=Verdict.REJECTED, findings=(finding(),)))):
        words_of_it = shlex.split(command.partition("   (")[0])
        assert words_of_it[0] == "ndctl" and words_of_it[1] in {*VERBS, *WORDS_THAT_ARE_NO_VERBS}
