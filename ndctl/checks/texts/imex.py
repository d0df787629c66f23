"""What `nvidia-imex-ctl -N` means: domain UP, every node READY, everyone connected to everyone, both ways."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.imex import DAEMON_STATES, Imex, ImexNode, parse
from ndctl.profiles.schema import Profile

# Seen for minutes after boot; `validate` waits for them, a pasted text can't.
_SETTLING = {"INITIALIZING", "STARTING_AUTH_SERVER", "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY", "INIT_GPU"}
_NOT_CONFIGURED = re.compile(r"node configuration file|nodes_config", re.IGNORECASE)
_MISSING = re.compile(r"command not found|no such file|not found", re.IGNORECASE)


def judge(facts: Imex, profile: Profile | None) -> Sequence[Finding]:
    findings = [*_domain(facts), *_nodes(facts), *_mesh(facts), *_versions(facts)]
    if not facts.status and not facts.nodes:
        return _without_table(facts)
    if profile and profile.nvlink.imex.value and facts.nodes:
        findings.extend(_count(facts, profile))
    if not facts.complete and not any(f.status is Status.FAIL for f in findings):
        findings.append(_incomplete(facts))
    if not any(f.status in (Status.FAIL, Status.UNKNOWN, Status.WARN) for f in findings):
        findings.append(
            Finding(
                check="imex.domain",
                status=Status.PASS,
                subject="IMEX domain",
                value=len(facts.nodes),
                unit="nodes",
                message=f"domain {facts.status}: {len(facts.nodes)} nodes READY and connected, each with every other",
            )
        )
    return findings


def _name(node: ImexNode) -> str:
    host = node.hostname if node.hostname not in {"", "N/A"} else node.host
    return f"IMEX node {node.index}" + (f" ({host})" if host else "")


def _domain(facts: Imex) -> list[Finding]:
    if facts.status in {"", "UP"}:
        return []
    status = Status.FAIL if facts.status in {"DEGRADED", "DOWN"} else Status.UNKNOWN
    return [
        Finding(
            check="imex.domain-state",
            status=status,
            subject="IMEX domain",
            value=facts.status,
            expected="UP",
            message=f"domain state {facts.status}",
            cause="a node's nvidia-imex is not running, not reachable (TCP 50000), or has another nodes_config.cfg",
            action=Action.RESTART_IMEX if status is Status.FAIL else Action.INVESTIGATE,
        )
    ]


def _nodes(facts: Imex) -> list[Finding]:
    findings = []
    for node in facts.nodes:
        if node.status in {"", "READY"}:
            continue
        settling = node.status in _SETTLING
        unclear = node.status not in DAEMON_STATES
        findings.append(
            Finding(
                check="imex.node-state",
                status=Status.WARN if settling else Status.UNKNOWN if unclear else Status.FAIL,
                subject=_name(node),
                value=node.status,
                expected="READY",
                message=f"{node.status}"
                + (": settling after boot, or waiting for ever for a peer" if settling else ""),
                cause="" if settling else "nvidia-imex is not running there, or cannot be reached",
                action=Action.WATCH if settling else Action.RESTART_IMEX,
            )
        )
    return findings


def _mesh(facts: Imex) -> list[Finding]:
    """Rows are grouped by what is wrong, so that one absent node is one finding and not seventeen."""
    bad: dict[int, Counter[str]] = {}
    by_index = {node.index: node for node in facts.nodes}
    one_way = []
    for node in facts.nodes:
        for peer, state in node.connections.items():
            if state in {"CONNECTED", ""}:
                continue
            bad.setdefault(peer, Counter())[state] += 1
            back = by_index[peer].connections.get(node.index) if peer in by_index else None
            if back == "CONNECTED" and peer != node.index:
                one_way.append((node.index, peer, state))
    findings = []
    rows = sum(1 for node in facts.nodes if node.connections)
    for peer, states in sorted(bad.items()):
        state, _ = states.most_common(1)[0]
        target = by_index.get(peer)
        waits = state in {"AUTHENTICATING", "RECOVERING"}
        findings.append(
            Finding(
                check="imex.connection",
                status=Status.WARN if waits else Status.FAIL,
                subject=_name(target) if target else f"IMEX node {peer}",
                value=state,
                expected="CONNECTED",
                message=f"{state.lower().replace('_', ' ')} as seen from {sum(states.values())} of {rows} nodes",
                cause=_CAUSES.get(state, "the node is down or not reachable"),
                action=Action.WATCH if waits else Action.RESTART_IMEX,
            )
        )
    for source, peer, state in one_way[:10]:
        findings.append(
            Finding(
                check="imex.one-way",
                status=Status.FAIL,
                subject=f"IMEX nodes {source} and {peer}",
                value=state,
                expected="CONNECTED both ways",
                message=f"node {source} sees {peer} as {state.lower()}, while {peer} is connected to {source}",
                cause="firewall or routing in one direction, or an identity mismatch of public and private address",
                action=Action.INVESTIGATE,
            )
        )
    return findings


_CAUSES = {
    "NEVER_CONNECTED": "the node never joined: nvidia-imex not started there, wrong nodes_config.cfg, or blocked port",
    "DISCONNECTED": "the connection was lost",
    "INVALID": "the node could not be asked",
    "VERSION_MISMATCH": "another nvidia-imex version there: one image for the whole rack",
    "NODE_MAP_MISMATCH": "its nodes_config.cfg differs",
    "RECOVERING": "connection lost a moment ago",
    "AUTHENTICATING": "authentication under way",
}


def _versions(facts: Imex) -> list[Finding]:
    versions = Counter(node.version for node in facts.nodes if node.version not in {"", "N/A"})
    if len(versions) < 2:
        return []
    common, _ = versions.most_common(1)[0]
    odd = [node for node in facts.nodes if node.version not in {"", "N/A", common}]
    return [
        Finding(
            check="imex.version-skew",
            status=Status.WARN,
            subject=_name(node),
            value=node.version,
            expected=common,
            source="the other nodes of the domain",
            message=f"version {node.version}, most others {common}",
            cause="nodes of different images",
            action=Action.FIX_IMAGE,
        )
        for node in odd[:20]
    ]


def _count(facts: Imex, profile: Profile) -> list[Finding]:
    expected = profile.vms_per_rack.value
    if len(facts.nodes) == expected:
        return []
    return [
        Finding(
            check="imex.node-count",
            status=Status.WARN if facts.elided else Status.FAIL,
            subject="IMEX domain",
            value=len(facts.nodes),
            unit="nodes",
            expected=str(expected),
            source=profile.vms_per_rack.origin,
            message=f"{len(facts.nodes)} nodes in the domain, {expected} in a rack of {profile.name}",
            cause="nodes_config.cfg is not this rack's, or the rack is smaller by plan",
            action=Action.INVESTIGATE,
        )
    ]


def _incomplete(facts: Imex) -> Finding:
    said = f"domain {facts.status}, but " if facts.status else "no domain state, and "
    missing = "the table of connections is missing or cut"
    return Finding(
        check="imex.incomplete",
        status=Status.WARN if facts.status and (facts.nodes or facts.elided) else Status.UNKNOWN,
        subject="text",
        message=said + missing,
    )


def _without_table(facts: Imex) -> list[Finding]:
    if facts.local_status:
        ready = facts.local_status == "READY"
        settling = facts.local_status in _SETTLING
        return [
            Finding(
                check="imex.daemon-state",
                status=Status.WARN if ready or settling else Status.FAIL,
                subject="nvidia-imex of this node",
                value=facts.local_status,
                expected="READY",
                message=f"this node's daemon is {facts.local_status}; the text says nothing of its peers",
                action=Action.NONE if ready else Action.WATCH if settling else Action.RESTART_IMEX,
            )
        ]
    joined = "; ".join(facts.errors[:2])
    if _NOT_CONFIGURED.search(joined):
        reason = f"IMEX is not configured on this node, so there is no domain to judge: “{joined}”"
    elif _MISSING.search(joined):
        reason = f"nvidia-imex-ctl gave nothing: “{joined}”"
    elif facts.errors:
        return [
            Finding(
                check="imex.no-answer",
                status=Status.FAIL,
                subject="nvidia-imex of this node",
                message=f"the daemon does not answer: “{joined}”",
                cause="nvidia-imex is not running",
                action=Action.RESTART_IMEX,
            )
        ]
    else:
        reason = "no IMEX node, connection or domain state is in this text"
        if facts.problems:
            reason = facts.problems[0]
    return [Finding(check="imex.none", status=Status.UNKNOWN, subject="text", message=reason)]


def looks_like(text: str) -> float:
    """The domain state line, the node list, or the JSON's shape."""
    if re.search(r"Domain State: *\w+|Nodes From\s?\\\s?To", text) or re.search(r"^\s*Node #\d+ ", text, re.MULTILINE):
        return 0.95
    if '"connections"' in text and '"nodes"' in text and "READY" in text:
        return 0.95
    return 0.6 if text.strip().upper() in DAEMON_STATES else 0.0


JUDGE = TextJudge(
    tool="imex",
    title="nvidia-imex-ctl -N, text or JSON: the IMEX domain",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("nvidia-imex-ctl", "imex-ctl"),
)
