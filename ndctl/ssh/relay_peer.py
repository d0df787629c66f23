"""One node of a pass, and what came of it: the head's frames about a peer become the Outcome a direct visit gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from ndctl.model.answers import Command, Outcome, OutcomeKind
from ndctl.model.places import Node
from ndctl.ssh.deadlines import RUN_DEADLINE, Watch
from ndctl.ssh.known_hosts import HostKey
from ndctl.ssh.relay_faults import TOO_MUCH, logged_in, ssh_fault
from ndctl.ssh.relay_frames import Frame
from ndctl.ssh.relay_keys import ADMITTED
from ndctl.ssh.script import new_nonce
from ndctl.ssh.stream import StreamReader
from ndctl.ssh.target import Target
from ndctl.ssh.visit import INTERRUPTED, interrupted, outcome_of_script

HEAD = 0
# A watch that expired for these was cut for the run's sake, not the peer's.
STOPPED = (INTERRUPTED, RUN_DEADLINE)


@dataclass(slots=True)
class Peer:
    """One node of the pass; number 0 is the head itself.

    keys: its host keys, the only ones the head accepts
    """

    number: int
    node: Node
    target: Target
    commands: tuple[Command, ...]
    keys: tuple[HostKey, ...]
    watch: Watch
    reader: StreamReader = field(init=False)
    began: float | None = None
    last: float = 0.0
    concluded: bool = False

    def __post_init__(self) -> None:
        self.reader = StreamReader(self.commands, new_nonce())

    @property
    def admitted(self) -> bool:
        """Whether it said that it admits the ephemeral key."""
        return f"{self.reader.nonce} {ADMITTED}" in self.reader.noise


def outcome_of_peer(peer: Peer, frame: Frame) -> tuple[Outcome, str]:
    """The outcome when its ssh has ended, and why another way should be tried: "" when it is final."""
    reader, watch = peer.reader, peer.watch
    if not reader.begun:
        reader.feed(frame.stderr.encode())  # what start-up files and a refusing shell say is heard on both streams
    reader.end_of_stream()
    if reader.done:
        return outcome_of_script(reader, None, watch, peer.node), ""
    if watch.expired in STOPPED:
        return stopped(reader, watch.expired), ""
    if peer.number == HEAD:
        return outcome_of_script(reader, frame.code, watch, peer.node), ""
    if watch.expired:
        if reader.begun or logged_in(frame.log):
            return outcome_of_script(reader, None, watch, peer.node), ""
        return Outcome(OutcomeKind.UNREACHABLE, f"{peer.target} let nobody in in time"), "it let the head in too late"
    fault = ssh_fault(frame.code, frame.log, frame.stderr, str(peer.target))
    if fault is None:
        return outcome_of_script(reader, frame.code, watch, peer.node), ""
    if fault.of_head or not fault.logged_in:
        return Outcome(fault.kind, fault.detail), fault.detail
    if fault.kind is OutcomeKind.CONNECTION_LOST and frame.code != TOO_MUCH:
        return outcome_of_script(reader, None, watch, peer.node), ""
    return Outcome(fault.kind, fault.detail), ""


def stopped(reader: StreamReader, why: str) -> Outcome:
    """Of a peer that was cut for the run's sake, not its own."""
    if why == INTERRUPTED:
        return interrupted(reader)
    answered = f"{len(reader.results)} of {len(reader.commands)} commands answered"
    return Outcome(OutcomeKind.TIMED_OUT, f"{RUN_DEADLINE} was up; {answered}")
