"""What a head's ssh meant: its exit code and its own words (-E, LogLevel VERBOSE) as the Outcome a direct visit gives.

Source of the words: OpenSSH 9.2's client, each row triggered against a real sshd by tests/ssh/test_relay_faults.py.
ssh ends with 255 for a fault of its own and with the remote command's code otherwise, which may be 255 too: its words
decide. It runs under `timeout`, whose 124 is the outer deadline, and under a limit of its output's size (SIGXFSZ).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ndctl.model.answers import OutcomeKind

SSH_FAILED = 255
OUTER_DEADLINE = 124
_KILLED = (129, 130, 137, 143)
TOO_MUCH = 153  # 128 + SIGXFSZ
_UNUSABLE = (125, 126, 127)


@dataclass(frozen=True, slots=True)
class SshFault:
    """logged_in: it befell a session that was established; before that another way to the node may fare better
    of_head: the head's ssh is to blame, nothing is known of the peer"""

    kind: OutcomeKind
    detail: str
    logged_in: bool = False
    of_head: bool = False


_KIND = OutcomeKind
# What ssh prints before it is let in, the Outcome, and the words for it; first match wins.
_BEFORE: tuple[tuple[str, OutcomeKind, str], ...] = (
    (r"REVOKED HOST KEY DETECTED", _KIND.HOST_KEY_CHANGED, "shows a host key that is marked @revoked"),
    (
        r"IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        _KIND.HOST_KEY_CHANGED,
        "shows {key}, not the known one",
    ),
    (r"No \S+ host key is known for|Host key verification failed", _KIND.HOST_KEY_UNKNOWN, "shows an unknown host key"),
    (r"Permission denied|Too many authentication failures", _KIND.AUTH_FAILED, "refused the login"),
    (r"connect to host .*: Connection refused", _KIND.REFUSED, "refused the connection"),
    (r"connect to host .*: (?:Connection|Operation) timed out", _KIND.UNREACHABLE, "did not answer"),
    (r"connect to host .*: (?P<why>[^\n]+)", _KIND.UNREACHABLE, "{why}"),
    (r"Could not resolve hostname .*: (?P<why>[^\n]+)", _KIND.UNREACHABLE, "{why}"),
    (r"during banner exchange|Connection to .* timed out", _KIND.UNREACHABLE, "does not finish the SSH handshake"),
    (r"No SSH version received|invalid format|banner line", _KIND.UNREACHABLE, "does not answer as an SSH server"),
    (r"Unable to negotiate .*?: (?P<why>[^\n]+)", _KIND.UNREACHABLE, "and the head share no algorithm: {why}"),
    (r"kex_exchange_identification|ssh_dispatch_run_fatal", _KIND.UNREACHABLE, "broke off before the login"),
    (r"Connection (?:closed|reset) by|Broken pipe|Disconnected", _KIND.UNREACHABLE, "broke off before the login"),
)
_KEY = re.compile(r"The fingerprint for the (\S+) key sent by the remote host is\s+(SHA256:[A-Za-z0-9+/]+)")


def logged_in(log: str) -> bool:
    """Whether ssh said that the peer let it in."""
    return re.search(r"^Authenticated to ", log, re.MULTILINE) is not None


def ssh_fault(code: int, log: str, stderr: str, target: str) -> SshFault | None:
    """What went wrong with one ssh; None when the remote command ended by itself and `code` is its own.

    log:    ssh's own words; stderr: what came on its stderr, of the peer's and, of a closed connection, its own
    target: the peer, as people know it
    """
    inside = logged_in(log)
    if code == OUTER_DEADLINE:
        return SshFault(OutcomeKind.TIMED_OUT, f"{target} took longer than everything it was asked may take", inside)
    if code == TOO_MUCH:
        return SshFault(OutcomeKind.CONNECTION_LOST, f"{target} sent more than all its answers can be", inside)
    if inside:
        lost = code == SSH_FAILED and _lost_after_login(log, stderr)
        if code in _KILLED and not _ended_by_itself(log):
            return SshFault(OutcomeKind.CONNECTION_LOST, "the head's ssh was killed", True, of_head=True)
        return SshFault(OutcomeKind.CONNECTION_LOST, f"the connection to {target} broke", True) if lost else None
    for pattern, kind, words in _BEFORE:
        if match := re.search(pattern, log):
            key = _KEY.search(log)
            told = words.format(
                why=match.groupdict().get("why", ""), key=" ".join(key.groups()) if key else "a host key"
            )
            return SshFault(kind, f"{target} {told}")
    said = f": {' '.join((log + stderr).split())[:200]}" if (log + stderr).strip() else ""
    what = "could not be run" if code in _UNUSABLE else f"ended with exit code {code} before a login"
    return SshFault(OutcomeKind.UNREACHABLE, f"the head's ssh {what}{said}", of_head=True)


def _ended_by_itself(log: str) -> bool:
    """ssh counts what it carried when it ends in good order; a killed one does not come to that."""
    return "Transferred: sent" in log


def _lost_after_login(log: str, stderr: str) -> bool:
    said = log + stderr[-500:]
    return (
        re.search(r"closed by remote host|Connection (?:closed|reset)|Broken pipe|not responding|timed out", said)
        is not None
    )
