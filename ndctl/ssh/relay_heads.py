"""A rack asked through its heads, one after the other: who is its head, by which key, and what becomes of the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ndctl.model.answers import Command, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.places import Node
from ndctl.ssh.deadlines import DeadlineKeeper
from ndctl.ssh.relay_order import Terms
from ndctl.ssh.relay_pass import Ended, Pass
from ndctl.ssh.relay_peer import Peer
from ndctl.ssh.relay_rack import FEWEST, KEY_MINUTES, Candidate, Rack, RunKey, candidates
from ndctl.ssh.relay_run import Run, Wanted
from ndctl.ssh.routes import Routes
from ndctl.ssh.settings import SshSettings

_HEADS = 2  # a rack's first head and the one that takes its place


class Heads:
    """ask_directly(run, wanted): whom no head can ask; remark(rack, text): what could not be relayed, and why.

    single: as of `relay.RelayEngine`
    """

    def __init__(
        self,
        settings: SshSettings,
        routes: Routes,
        keeper: DeadlineKeeper,
        clock: Callable[[], float],
        *,
        single: bool,
        ask_directly: Callable[[Run, Wanted], None],
        remark: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._routes = routes
        self._keeper = keeper
        self._clock = clock
        self._single = single
        self._ask_directly = ask_directly
        self._remark = remark
        self._at_once = threading.BoundedSemaphore(settings.fanout)

    def relay(self, run: Run, name: str, rack: Rack, left: Wanted) -> None:
        """Ask through up to two heads; whoever is answered, or asked another way already, is taken out of `left`."""
        with rack.turn, self._at_once:
            self._relay(run, name, rack, left)

    def forget(self, key: RunKey, wanted: Wanted, told: Callable[[NodeAnswer, str], None]) -> bool:
        """Ask a key's head and peers what is wanted, by that key, which the head then removes; whether that came to
        its end. See `relay_cleanup.remove_keys`."""
        able = candidates(self._routes, wanted)
        if not key.admitted or not able or able[0].node != key.head:
            return False
        with self._at_once:
            one = self._pass_of(None, able[0], able[1:], wanted, self._terms(key, False, last=True), told)
            one.run(able[0].dial, self._keeper.watch())
        return one.ended.done

    def _relay(self, run: Run, name: str, rack: Rack, left: Wanted) -> None:
        tried = 0
        while tried < _HEADS and not rack.refused and not run.ended:
            able = candidates(self._routes, left)
            if len(able) < FEWEST:
                return
            head = next((one for one in able if one.node == rack.head), able[0])
            key, admit = (
                (None, False) if self._single else rack.key_for(head.node, {one.node for one in able} - {head.node})
            )
            ended = self._one_pass(run, rack, head, [one for one in able if one is not head], left, key, admit)
            if ended.done or run.ended:
                rack.head = head.node
                return
            if ended.no_key:
                rack.not_accepted()
                continue
            tried += 1
            rack.head = None
            self._pass_on(run, name, rack, head, ended, left, last=tried == _HEADS)

    def _pass_on(
        self, run: Run, name: str, rack: Rack, head: Candidate, ended: Ended, left: Wanted, *, last: bool
    ) -> None:
        """What becomes of a rack whose head did not serve, and of the head itself."""
        who = head.node.name
        if ended.refused:
            rack.refused = ended.refused
            self._remark(name, f"{who} cannot be its head: {ended.refused}; its nodes are asked directly")
            return
        then = "its nodes are asked directly" if last else "another node takes its place"
        what = ended.fault.detail if ended.fault is not None else f"it was lost on the way: {ended.lost}"
        self._remark(name, f"{who} is no head: {what}; {then}")
        if head.node not in left:
            return
        wanted = {head.node: left.pop(head.node)}
        if ended.fault is not None and not ended.fault.passing:
            fault = ended.fault
            run.answers.put(NodeAnswer(head.node, Outcome(fault.kind, fault.detail, fault.hint)))
        else:
            self._aside(run, wanted)

    def _aside(self, run: Run, wanted: Wanted) -> None:
        """Ask directly while the pass goes on."""
        threading.Thread(target=self._ask_directly, args=(run, wanted), name="ndctl-aside", daemon=True).start()

    def _one_pass(
        self,
        run: Run,
        rack: Rack,
        head: Candidate,
        others: list[Candidate],
        left: Wanted,
        key: RunKey | None,
        admit: bool,
    ) -> Ended:
        shut_out = 0

        def told(answer: NodeAnswer, why: str) -> None:
            nonlocal shut_out
            commands = left.pop(answer.node)
            if not why or run.ended:
                run.answers.put(answer)
                return
            if answer.outcome.kind is OutcomeKind.AUTH_FAILED:
                shut_out += 1
                if key is not None and not admit:
                    rack.not_accepted()
            self._remark(head.node.rack, f"{answer.node.name} is asked directly; through {head.node.name}: {why}")
            self._aside(run, {answer.node: commands})

        one = self._pass_of(run, head, others, left, self._terms(key, admit), told)
        began = self._clock()
        try:
            with run.under_way(one):
                began = self._clock()
                one.run(head.dial, self._keeper.watch(run))
        finally:
            ended = one.ended
            if key is not None and admit and ended.fault is None and not ended.refused:
                asked = {peer.node for peer in one.peers if peer.began is not None}
                rack.offered(key, since=began, asked=asked, admitted=ended.admitted)
            if shut_out == len(others) and (key is None or admit):
                # An ssh older than 8.9 does not say whom it logs in to, and the agent then signs nothing.
                rack.refused = "none of its nodes lets it in"
        return ended

    def _terms(self, key: RunKey | None, admit: bool, *, last: bool = False) -> Terms:
        settings = self._settings
        token = key.token if key is not None else ""
        return Terms(settings.command_grace_s, settings.node_deadline_s, token, admit, last, KEY_MINUTES)

    def _pass_of(
        self,
        group: object,
        head: Candidate,
        others: list[Candidate],
        wanted: Mapping[Node, tuple[Command, ...]],
        terms: Terms,
        told: Callable[[NodeAnswer, str], None],
    ) -> Pass:
        peers = [
            Peer(number, one.node, one.target, wanted[one.node], one.keys, self._keeper.watch(group))
            for number, one in enumerate([head, *others])
        ]
        return Pass(peers[0], peers[1:], terms, told, self._clock)
