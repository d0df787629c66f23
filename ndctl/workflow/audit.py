"""Who changed a cluster, when, and what came of it: one line in a file that only grows, and a tag on its group.

`with audited(...) as line: line.ended(...)` is for every verb that changes something: deploy, destroy, scale, repair.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from azure.core.exceptions import AzureError

from ndctl.azure.clients import AzureClients
from ndctl.azure.faults import fault_from_exception
from ndctl.azure.group_tags import LONGEST_VALUE, merge_tags
from ndctl.model.errors import NdctlError
from ndctl.workflow.locks import this_holder
from ndctl.workflow.state_dir import keeping

AUDIT_SCHEMA = "ndctl.audit/1"
_FILE = "audit.jsonl"


def audit_tag(cluster: str) -> str:
    return f"ndctl-last-change-{cluster}".casefold()


def audit_lines(folder: Path) -> list[dict[str, Any]]:
    """What was done to the cluster of this state folder, oldest first; a line that was cut short is left out."""
    try:
        lines = (folder / _FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def new_run(verb: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> str:
    """deploy-2026-12-02T03-20-12-8f3a: the name under which a change is found again."""
    return f"{verb}-{now().astimezone(UTC):%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}"


class AuditLine:
    """`ended` is called once. problem: why the group could not be tagged, unwritten: why the line of the end is not in
    the state folder; "" otherwise. By then the change is made, and its answer is worth more than its line."""

    def __init__(
        self, folder: Path, clients: AzureClients, *, verb: str, run: str, cluster: str, now: Callable[[], datetime]
    ) -> None:
        self.run = run
        self.problem = ""
        self.unwritten = ""
        self._folder, self._clients, self._now = folder, clients, now
        who = clients.who()
        self._who = {"holder": this_holder(), "identity": who}
        self._head = {"schema": AUDIT_SCHEMA, "run": run, "verb": verb, "cluster": cluster}
        self._cluster, self._verb = cluster, verb
        self.told = False

    def begun(self) -> None:
        """Raises NdctlError (exit 2) where no line can be kept: a change that leaves no trace is not begun."""
        with keeping(self._folder / _FILE):
            self._write({"event": "begun"})

    def ended(self, result: str, exit_code: int, *, digest: str = "", tag: bool = True, **more: Any) -> None:
        """result: a few words, "63 racks as planned, 1 partial"; digest: of what was to be done; tag: False where
        there is no resource group to tell it, and Azure is left alone."""
        self.told = True
        self._write_end({"result": result, "exit_code": int(exit_code), "digest": digest, **more})
        if not tag:
            return
        who = self._who["identity"] or self._who["holder"]
        at = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = f"{at} {self._verb} by {who}: {result}, exit {int(exit_code)}"
        tail = f", digest {digest[:12]}, {self.run}" if digest else f", {self.run}"
        try:
            merge_tags(self._clients, {audit_tag(self._cluster): text[: LONGEST_VALUE - len(tail)] + tail})
        except AzureError as error:
            self.problem = fault_from_exception(error).summary
        except NdctlError as error:
            self.problem = error.message

    def cut_short(self, result: str, exit_code: int) -> None:
        """It ended by an error or Ctrl-C, without an answer of its own."""
        if not self.told:
            self._write_end({"result": result, "exit_code": exit_code, "digest": ""})

    def _write_end(self, entry: Mapping[str, Any]) -> None:
        try:
            self._write({"event": "ended", **entry})
        except OSError as error:
            self.unwritten = error.strerror or str(error)

    def _write(self, entry: Mapping[str, Any]) -> None:
        """One line, in one write, at the end of the file: lines of two processes never mix."""
        at = self._now().astimezone(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({**self._head, "time": at, "who": self._who, **entry}, ensure_ascii=False) + "\n"
        handle = os.open(self._folder / _FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


@contextmanager
def audited(
    folder: Path,
    clients: AzureClients,
    *,
    verb: str,
    cluster: str,
    run: str = "",
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Iterator[AuditLine]:
    """`folder`: the cluster's state folder. What ends without `ended` (an error, Ctrl-C) is written down as such."""
    line = AuditLine(folder, clients, verb=verb, run=run or new_run(verb, now), cluster=cluster, now=now)
    line.begun()
    try:
        yield line
    except KeyboardInterrupt:
        line.cut_short("interrupted", 130)
        raise
    except NdctlError as error:
        line.cut_short(error.code, int(error.exit_code))
        raise
