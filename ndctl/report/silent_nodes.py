"""What to do about nodes that gave no answer, by what came back instead of one: a login, a host key, a stop."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ndctl.checks.verdict import REACHABLE
from ndctl.model.answers import OutcomeKind
from ndctl.model.findings import Finding, NodeResult
from ndctl.report.fold import node_set

_NOBODY_ASKED = (OutcomeKind.INTERRUPTED.value, "not-asked")
_HOST_KEY = (OutcomeKind.HOST_KEY_CHANGED.value, OutcomeKind.HOST_KEY_UNKNOWN.value)


def do_about_silence(
    finding: Finding, nodes: Sequence[str], inventory: str, known: Mapping[str, NodeResult]
) -> str | None:
    """None where the finding is of no such node, or where only a closer look tells whether node or network is to blame.

    A node whose login or host key is the trouble was reached: neither draining it nor a look at the network helps.
    `inventory` and `known` as in `next_steps.do`.
    """
    first = known.get(nodes[0]) if nodes else None
    if finding.check != REACHABLE or first is None:
        return None
    again = f"ndctl validate {inventory} --nodes {shlex.quote(node_set(nodes))} --level quick"
    whose = "the jump host's" if first.detail.startswith("jump host: ") else "the node's"
    if first.outcome in _NOBODY_ASKED:
        return f"ask again: {again}"
    if first.outcome == OutcomeKind.AUTH_FAILED:
        places = f"user and key under ssh: in {inventory}, or {whose} authorized_keys"
        return f"mend the login: {places}; then: {again}"
    if first.outcome not in _HOST_KEY:
        return None
    if "@revoked" in first.detail:
        return f"give {whose} host new keys, by its console, and known_hosts their line; then: {again}"
    if first.instance_id:
        why = f"find out why {whose} host key is another (reimaged? replaced?)"
        return f"{why}, then learn it through Azure: {again} --relearn-host-keys"
    return f"compare the key with {whose} console and mend its line in known_hosts; then: {again}"
