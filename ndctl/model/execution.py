"""What one shell command gave on many nodes."""

from __future__ import annotations

from dataclasses import dataclass

from ndctl.model.errors import ExitCode, worst_exit

EXEC_SCHEMA = "ndctl.exec/1"


@dataclass(frozen=True, slots=True)
class Said:
    """One node's answer.

    outcome:   an OutcomeKind's word; "ok" once the command ended, however it ended; "timed-out" also when it was the
               command that did not end in time
    exit_code: the command's own; None when it did not end by itself or was never begun
    seconds:   the command's on the node; where it did not begin, what the attempt took
    truncated: stdout or stderr was longer than is kept
    host_names, addresses: what the node calls itself, when it was asked to
    """

    name: str
    rack: str
    address: str
    outcome: str
    detail: str = ""
    hint: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    truncated: bool = False
    host_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """It ended, and not with 0."""
        return self.exit_code is not None and self.exit_code != 0

    @property
    def answered(self) -> bool:
        return self.exit_code is not None


@dataclass(frozen=True, slots=True)
class Execution:
    """cap_bytes: what is kept of each stream of a node; interrupted: a person stopped it."""

    cluster: str
    inventory: str
    command: str
    root: bool
    timeout_s: float
    cap_bytes: int
    started: str  # RFC 3339, UTC
    said: tuple[Said, ...]
    interrupted: bool = False

    @property
    def exit_code(self) -> ExitCode:
        codes = [ExitCode.INTERRUPTED] if self.interrupted else []
        codes += [ExitCode.REJECTED for one in self.said if one.failed][:1]
        codes += [ExitCode.INCOMPLETE for one in self.said if not one.answered][:1]
        return worst_exit(codes)
