"""What several checks of the host share: the files of one answer, read once, and what to say where they are silent."""

from __future__ import annotations

from collections.abc import Mapping

from ndctl.checks import host_commands
from ndctl.checks.base import RackView
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.read_once import once
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Status
from ndctl.parse import host_files
from ndctl.parse.host_files import HostFiles

THE_RACK = "the rack's other nodes"


@once
def _parsed(text: str, stderr: str) -> HostFiles:
    """Five checks read one answer, and a rack is judged more than once in a run."""
    return host_files.parse(text, stderr)


def files_of(answer: NodeAnswer) -> HostFiles:
    """The host's files of an answer that `unusable` finds nothing wrong with."""
    result = answer.results[host_commands.HOST_FILES.id]
    return _parsed(result.stdout, result.stderr)


def gathered(check: str, view: RackView, *wanted: str) -> tuple[dict[str, tuple[NodeAnswer, HostFiles]], list[Finding]]:
    """(node name -> its answer and files, findings about those that did not tell).

    wanted: paths of which at least one must have been read, else the node is unknown to this check.
    Nodes without any result are left out: `host.reachable` says so.
    """
    told: dict[str, tuple[NodeAnswer, HostFiles]] = {}
    findings: list[Finding] = []
    for node, answer in view.answers.items():
        if not answer.results:
            continue
        missing = unusable(check, answer, host_commands.HOST_FILES)
        if missing:
            findings.append(missing)
            continue
        files = files_of(answer)
        if not files.complete:
            why = "the listing broke off before its end"
            findings.append(silent(check, answer, host_commands.HOST_FILES, "files", why))
            continue
        if wanted and not any(files.files.get(path) for path in wanted):
            findings.append(silent(check, answer, host_commands.HOST_FILES, wanted[0], why_not(files, wanted)))
            continue
        told[node.name] = (answer, files)
    return told, findings


def why_not(files: HostFiles, wanted: tuple[str, ...]) -> str:
    for path in wanted:
        if path in files.refused:
            return f"/{path}: {files.refused[path]}"
        if path in files.absent:
            return f"/{path} is not there"
    return f"/{wanted[0]} is empty or was not reached" if wanted else "nothing was read"


def silent(check: str, answer: NodeAnswer, command: Command, subject: str, why: str) -> Finding:
    """Asked, and no usable answer: unknown, never a pass."""
    return Finding(
        check=check,
        status=Status.UNKNOWN,
        subject=subject,
        node=answer.node.name,
        message=f"could not be read: {why}",
        evidence=evidence(answer, command),
    )


def few(names: list[str], most: int = 4) -> str:
    """ "a, b, c and 3 more" """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shown(values: Mapping[str, str], most: int = 4) -> str:
    return few([f"{name} {value}" for name, value in values.items()], most)
