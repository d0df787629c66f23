"""The IMEX domain of a rack, seen from all of its nodes at once: one finding for the node or pair that is wrong,
not one from everybody who sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ndctl.checks import commands
from ndctl.checks.addresses import known_by, own_addresses
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import common, evidence, unusable
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.imex import Imex, ImexNode, parse
from ndctl.profiles.schema import Profile

_ID = "nvlink.imex"
_SOURCE = "nvidia-imex-ctl -N"
# States of a daemon that is starting or waits for peers; normal for minutes after a boot.
SETTLING = {"INITIALIZING", "STARTING_AUTH_SERVER", "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY", "INIT_GPU"}
_CATEGORY = "Resource.Hpc.Unhealthy.NvLink"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    findings: list[Finding] = []
    seen: dict[Node, Imex] = {}
    for node, answer in view.answers.items():
        if not answer.outcome.ok and not answer.results:
            continue
        missing = unusable(_ID, answer, commands.IMEX_DOMAIN)
        if missing:
            findings.append(missing)
            continue
        result = answer.results[commands.IMEX_DOMAIN.id]
        facts = parse(result.stdout, result.stderr)
        if not facts.nodes:
            findings.append(_no_table(answer, facts, result.stderr))
            continue
        seen[node] = facts
    if not seen:
        return findings
    hosts = _hosts(seen)
    by_address = own_addresses(view)
    states = _states(seen)
    findings += _bad_states(states, hosts, by_address, len(seen))
    ready = {index for index, state in states.items() if state == "READY"}
    findings += _broken_pairs(seen, ready, hosts, by_address)
    findings += _skewed_versions(seen, hosts, by_address)
    findings += _count(seen, view, by_address)
    if not findings:
        down = {facts.status for facts in seen.values()} - {"UP"}
        if down:
            findings.append(_domain(view, sorted(down)))
    clean = not any(f.status in (Status.FAIL, Status.UNKNOWN, Status.WARN) for f in findings)
    if clean:
        number = len(next(iter(seen.values())).nodes)
        findings.append(
            Finding(
                check=_ID,
                status=Status.PASS,
                subject=view.name,
                value=number,
                unit="nodes",
                message=f"IMEX {number}/{view.expected_nodes} READY, full mesh as seen from {len(seen)} nodes",
                source=_SOURCE,
            )
        )
    return findings


def _hosts(seen: Mapping[Node, Imex]) -> dict[int, str]:
    """IMEX index -> address, as most nodes list it."""
    votes: dict[int, list[str]] = {}
    for facts in seen.values():
        for one in facts.nodes:
            votes.setdefault(one.index, []).append(one.host)
    return {index: common(hosts) for index, hosts in sorted(votes.items())}


def _states(seen: Mapping[Node, Imex]) -> dict[int, str]:
    """IMEX index -> its own word where it was asked, else what most others see."""
    votes: dict[int, list[str]] = {}
    for facts in seen.values():
        for one in facts.nodes:
            votes.setdefault(one.index, []).append(one.status)
    return {index: common(states) for index, states in sorted(votes.items())}


def _name(index: int, hosts: Mapping[int, str], by_address: Mapping[str, Node]) -> tuple[str, str]:
    """(node name or "", subject) of an IMEX index."""
    node = by_address.get(hosts.get(index, ""))
    return (node.name if node else "", f"IMEX {index} ({hosts.get(index, '?')})")


def _bad_states(
    states: Mapping[int, str], hosts: Mapping[int, str], by_address: Mapping[str, Node], witnesses: int
) -> list[Finding]:
    findings = []
    for index, state in states.items():
        if state == "READY":
            continue
        node, subject = _name(index, hosts, by_address)
        settling = state in SETTLING
        findings.append(
            Finding(
                check=f"{_ID}.settling" if settling else f"{_ID}.not-ready",
                status=Status.UNKNOWN if settling or not state else Status.FAIL,
                subject=subject,
                node=node,
                value=state,
                expected="READY",
                source=_SOURCE,
                message=f"IMEX is {state or 'in a state nobody tells'}, as {witnesses} nodes see it",
                cause="nvidia-imex is not running there, or TCP 50000 to it is closed"
                if not settling
                else "still starting, or waiting for a peer that does not come",
                action=Action.RESTART_IMEX,
                health_category="" if settling else _CATEGORY,
            )
        )
    return findings


def _broken_pairs(
    seen: Mapping[Node, Imex], ready: set[int], hosts: Mapping[int, str], by_address: Mapping[str, Node]
) -> list[Finding]:
    """Connections that are not CONNECTED between nodes that are both READY; one way or both."""
    broken: dict[tuple[int, int], str] = {}
    for node, facts in seen.items():
        own = next((one for one in facts.nodes if by_address.get(one.host) == node), None)
        # A node's own row is first-hand; rows of others are its copy of what they say.
        rows: tuple[ImexNode, ...] = (own,) if own and own.connections else facts.nodes
        for row in rows:
            for peer, state in row.connections.items():
                if peer != row.index and state != "CONNECTED" and {row.index, peer} <= ready:
                    broken[(row.index, peer)] = state
    findings = []
    for pair in sorted({(min(p), max(p)) for p in broken}):
        there, back = broken.get(pair), broken.get((pair[1], pair[0]))
        state = there or back or ""
        one_way = there is None or back is None
        _, left = _name(pair[0], hosts, by_address)
        _, right = _name(pair[1], hosts, by_address)
        names = [by_address[hosts[i]].name if hosts[i] in by_address else hosts[i] for i in pair]
        findings.append(
            Finding(
                check=f"{_ID}.one-way" if one_way else f"{_ID}.disconnected",
                status=Status.FAIL,
                subject=f"{names[0]} ↔ {names[1]}",
                value=state,
                expected="CONNECTED both ways",
                source=_SOURCE,
                message=f"{left} and {right} are not connected{' in one direction' if one_way else ''}: {state}",
                cause="a firewall rule, a stale address or another node list on one side",
                action=Action.RESTART_IMEX,
            )
        )
    return findings


def _skewed_versions(
    seen: Mapping[Node, Imex], hosts: Mapping[int, str], by_address: Mapping[str, Node]
) -> list[Finding]:
    versions: dict[int, str] = {}
    for facts in seen.values():
        for one in facts.nodes:
            if one.version and one.version != "N/A":
                versions[one.index] = one.version
    counts = Counter(versions.values())
    if len(counts) < 2:
        return []
    usual = common(list(versions.values()))
    findings = []
    for index, version in versions.items():
        if version != usual:
            node, subject = _name(index, hosts, by_address)
            findings.append(
                Finding(
                    check=f"{_ID}.version",
                    status=Status.WARN,
                    subject=subject,
                    node=node,
                    value=version,
                    expected=usual,
                    source="the rack's other nodes",
                    message=f"IMEX {version} beside {usual}",
                    cause="made from another image, or updated by itself",
                    action=Action.REIMAGE,
                )
            )
    return findings


def _count(seen: Mapping[Node, Imex], view: RackView, by_address: Mapping[str, Node]) -> list[Finding]:
    """Nodes of the rack that the domain does not list, and hosts it lists that are not the rack's."""
    listed = {one.host for facts in seen.values() for one in facts.nodes}
    known = known_by(listed, by_address)
    if not known:
        # Names or addresses of another network: who is who cannot be told, so nobody can be called absent.
        return []
    findings = [
        Finding(
            check=f"{_ID}.not-listed",
            status=Status.FAIL,
            subject="IMEX node list",
            node=node.name,
            expected=f"{len(view.answers)} nodes listed",
            source=_SOURCE,
            message=f"{node.name} ({node.address}) is in no node's IMEX list",
            cause="nodes_config.cfg was written before this node was there",
            action=Action.RESTART_IMEX,
        )
        for node in view.answers
        if node not in known
    ]
    strangers = sorted(listed - set(by_address))
    # A selection of nodes, or nodes that are gone, leave hosts in the list that nobody here can judge.
    if strangers and len(view.answers) >= view.expected_nodes and len(listed) > view.expected_nodes:
        findings.append(
            Finding(
                check=f"{_ID}.stranger",
                status=Status.WARN,
                subject="IMEX node list",
                value=len(listed),
                expected=f"{view.expected_nodes} nodes",
                source=_SOURCE,
                message=f"lists hosts that are not of {view.name}: {', '.join(strangers[:4])}",
                cause="left from a VM that was replaced, or two racks share a list",
                action=Action.RESTART_IMEX,
            )
        )
    return findings


def _domain(view: RackView, states: list[str]) -> Finding:
    return Finding(
        check=f"{_ID}.domain",
        status=Status.FAIL if set(states) & {"DOWN", "DEGRADED"} else Status.UNKNOWN,
        subject=view.name,
        value=", ".join(states),
        expected="UP",
        source=_SOURCE,
        message=f"the IMEX domain is {' and '.join(states) or 'in no state it tells'}, and no node or pair explains it",
        action=Action.INVESTIGATE,
    )


def _no_table(answer: NodeAnswer, facts: Imex, stderr: str) -> Finding:
    said = next(iter(facts.errors), "") or stderr.strip().splitlines()[:1]
    text = said if isinstance(said, str) else (said[0] if said else "")
    settling = facts.local_status in SETTLING
    return Finding(
        check=f"{_ID}.no-answer",
        status=Status.UNKNOWN,
        subject="nvidia-imex",
        node=answer.node.name,
        value=facts.local_status or None,
        expected="a domain table",
        source=_SOURCE,
        message=text or facts.local_status or "nvidia-imex-ctl printed no domain",
        cause="still starting" if settling else "nvidia-imex is not running, or not configured",
        action=Action.NONE if settling else Action.RESTART_IMEX,
        evidence=evidence(answer, commands.IMEX_DOMAIN),
    )


CHECK = Check(
    id=_ID,
    group=Group.NVLINK,
    level=Level.QUICK,
    title="IMEX: every node READY, everyone connected to everyone, one version",
    commands=(commands.IMEX_DOMAIN,),
    judge_rack=_judge_rack,
    applies=lambda profile: profile.nvlink.imex.value,
)
