"""What is asked of a node and what comes back. Failure to reach a node is a value, never an exception."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ndctl.model.places import Node


class OutcomeKind(StrEnum):
    OK = "ok"
    REFUSED = "refused"  # TCP refused: the host answers, sshd does not
    UNREACHABLE = "unreachable"  # no route, SYN never answered, no banner, connection lost before login
    AUTH_FAILED = "auth-failed"
    HOST_KEY_UNKNOWN = "host-key-unknown"
    HOST_KEY_CHANGED = "host-key-changed"
    CONNECTION_LOST = "connection-lost"  # after login, in mid-command
    TIMED_OUT = "timed-out"  # a deadline of ours passed
    INTERRUPTED = "interrupted"


# A wedged driver hangs every call; asking it five times in full would cost minutes and tell nothing new.
HUNG_TOOL_S = 3.0


@dataclass(frozen=True, slots=True)
class Command:
    """One thing a node is asked.

    id:         unique in a run, e.g. "nvidia-smi-q"; checks find their answer by it
    shell:      POSIX sh text. Absolute paths of the node's own file system are written as
                "$NDCTL_SYSROOT/sys/class/..." (the variable is empty on a real node).
    timeout_s:  deadline on the node (`timeout -k 2`)
    cap_bytes:  stdout beyond this is cut and marked
    root:       needs root (run through `sudo -n` when the login user is not root)
    order:      commands run in ascending order; counters are read at -10 and again at +10
    tool:       what hangs together: once a command of a tool timed out on a node, its others get HUNG_TOOL_S there
    """

    id: str
    shell: str
    timeout_s: float = 20.0
    cap_bytes: int = 4_000_000
    root: bool = False
    order: int = 0
    tool: str = ""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """exit_code is None when the command never ended by itself (timed out or connection lost)."""

    id: str
    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    truncated: bool = False

    @property
    def missing_tool(self) -> bool:
        return self.exit_code == 127


@dataclass(frozen=True, slots=True)
class Outcome:
    """What asking one node gave: the connection's fate, and the whole stream of a single command."""

    kind: OutcomeKind
    detail: str = ""  # human words: which deadline, both fingerprints, errno text
    hint: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    truncated: bool = False

    @property
    def ok(self) -> bool:
        return self.kind is OutcomeKind.OK


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """Everything one node said to one combined script. `results` may be partial when `outcome` is not ok."""

    node: Node
    outcome: Outcome
    results: Mapping[str, CommandResult] = field(default_factory=dict)
