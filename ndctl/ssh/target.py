"""Where one connection goes, and why it did not get there."""

from __future__ import annotations

from dataclasses import dataclass

from ndctl.model.answers import OutcomeKind
from ndctl.ssh.keys import Identities
from ndctl.ssh.known_hosts import KnownHosts, host_name


class Fault(Exception):
    """Why a node could not be asked, on its way to becoming an Outcome.

    passing: it may be gone in a moment (refused, reset): another attempt makes sense
    at_jump: a jump host is to blame, not the node: another chain may do
    """

    def __init__(
        self, kind: OutcomeKind, detail: str, *, hint: str = "", passing: bool = False, at_jump: bool = False
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.hint = hint
        self.passing = passing
        self.at_jump = at_jump

    def blamed_on_jump(self) -> Fault:
        """The same fault as a node behind the jump host tells it."""
        detail = self.detail if self.at_jump else f"jump host: {self.detail}"
        return Fault(self.kind, detail, hint=self.hint, passing=self.passing, at_jump=True)


@dataclass(frozen=True, slots=True)
class Target:
    """Where and as whom one connection goes, everything resolved. `known_as` is its name in known_hosts.

    unfollowed: the line of the user's ssh_config with a ProxyCommand, by which ssh would go another way
    """

    host: str
    port: int
    user: str
    known_as: str
    identities: Identities
    known_hosts: KnownHosts
    connect_s: float
    banner_s: float
    auth_s: float
    channel_s: float
    learn_hint: str = ""
    unfollowed: str = ""

    def __str__(self) -> str:
        return host_name(self.host, self.port)

    @property
    def other_way(self) -> str:
        """A hint for one who cannot get there."""
        if not self.unfollowed:
            return ""
        return f"ssh goes there by the ProxyCommand of {self.unfollowed}, which ndctl does not run: write ProxyJump"
