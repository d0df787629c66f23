"""The IMEX domain of a rack, seen from all of its nodes at once: one finding for the node or pair that is wrong,
not one from everybody who sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ndctl.checks import commands
from ndctl.checks.addresses import addressed, left_out, own_addresses
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.imex_mesh import READY, Mesh, culprits, mesh_of
from ndctl.checks.majority import camps, majority
from ndctl.checks.read_once import imex_of
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.imex import Imex
from ndctl.profiles.schema import Profile

_ID = "nvlink.imex"
_SOURCE = "nvidia-imex-ctl -N"
# States of a daemon that is starting or waits for peers; normal for minutes after a boot.
SETTLING = {"INITIALIZING", "STARTING_AUTH_SERVER", "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY", "INIT_GPU"}
_CATEGORY = "Resource.Hpc.Unhealthy.NvLink"
_MOST_PAIRS = 10  # more broken pairs than this are told as one finding
_FIREWALL = "a firewall rule (TCP 50000), a stale address or another node list on one side"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    findings: list[Finding] = []
    seen: dict[Node, Imex] = {}
    for node, answer in view.answers.items():
        if not answer.results:
            continue
        missing = unusable(_ID, answer, commands.IMEX_DOMAIN)
        if missing:
            findings.append(missing)
            continue
        result = answer.results[commands.IMEX_DOMAIN.id]
        facts = imex_of(result.stdout, result.stderr)
        if not facts.nodes:
            findings.append(_no_table(answer, facts, result.stderr))
            continue
        seen[node] = facts
    if not seen:
        return findings
    by_address = own_addresses(view)
    mesh = mesh_of(seen, by_address)
    troubles = [
        *(_bad_state(host, mesh, view, by_address, profile) for host in mesh.hosts if mesh.states[host] != READY),
        *_broken(mesh, view, by_address),
    ]
    findings += troubles
    findings += _skewed_versions(mesh, view, by_address)
    findings += _wrong_list(mesh, view, by_address, profile)
    down = {facts.status for facts in seen.values()} - {"UP"}
    if down and not troubles and all(f.status is Status.WARN for f in findings):
        findings.append(_domain(view, sorted(down)))
    if not troubles and mesh.blind:
        findings.append(_unproven(view, mesh))
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject=view.name,
            value=len(mesh.hosts),
            unit="nodes",
            message=f"IMEX {len(mesh.hosts)}/{view.expected_nodes} READY, full mesh as seen from {len(seen)} nodes",
            source=_SOURCE,
        )
    ]


def _named(host: str, by_address: Mapping[str, Node]) -> str:
    node = by_address.get(host)
    return node.name if node else host


def _bad_state(host: str, mesh: Mesh, view: RackView, by_address: Mapping[str, Node], profile: Profile) -> Finding:
    state = mesh.states[host]
    node = by_address.get(host)
    status, cause = _whose_fault(node, view, profile)
    settling = state in SETTLING and status is not Status.WARN
    if settling:
        status, cause = Status.UNKNOWN, "still starting, or waiting for a peer that does not come"
    elif not state:
        status = Status.UNKNOWN
    return Finding(
        check=f"{_ID}.settling" if settling else f"{_ID}.not-ready",
        status=status,
        subject=f"IMEX of {_named(host, by_address)} ({host})" if node else f"IMEX host {host}",
        node=node.name if node else "",
        value=state,
        expected=READY,
        source=_SOURCE,
        message=f"IMEX is {state or 'in a state nobody tells'}",
        cause=cause,
        action=Action.RESTART_IMEX,
        health_category=_CATEGORY if status is Status.FAIL else "",
    )


def _whose_fault(node: Node | None, view: RackView, profile: Profile) -> tuple[Status, str]:
    """What a host that is not READY counts for, and why: only of a node that answered is it known to be a fault."""
    if node is not None:
        if view.answers[node].results:
            return Status.FAIL, "nvidia-imex is not running there, or TCP 50000 to it is closed"
        return Status.UNKNOWN, "the node did not answer either"
    silent = [one.name for one, answer in view.answers.items() if not answer.results]
    if silent or len(view.answers) < view.expected_nodes:
        who = ", ".join(silent[:3]) or "one that does not exist any more"
        return Status.UNKNOWN, f"it may be a node that gave no answer: {who}"
    if len(view.answers) < profile.vms_per_rack.value:
        return Status.WARN, "it is none of the nodes that were asked"
    return Status.FAIL, "none of the rack's nodes has this address: left from a VM that was replaced, or a wrong list"


def _broken(mesh: Mesh, view: RackView, by_address: Mapping[str, Node]) -> list[Finding]:
    """Connections between hosts that are both READY: the one that many miss, else the pairs."""
    pairs = mesh.pairs()
    if not pairs:
        return []
    accused = culprits(mesh)
    left = [pair for pair in pairs if not set(pair) & set(accused or ())]
    if accused is None or len(left) > _MOST_PAIRS:
        shown = ", ".join(" ↔ ".join(_named(host, by_address) for host in pair) for pair in pairs[:4])
        return [_disconnected("disconnected", view.name, "", f"{len(pairs)} pairs are not connected: {shown}", "")]
    findings = []
    for host in accused:
        missed = [pair for pair in pairs if host in pair]
        state = next(mesh.broken[p] for p in mesh.broken if host in p)
        node = by_address.get(host)
        message = (
            f"{_named(host, by_address)} is not connected with {len(missed)} of {len(mesh.ready) - 1} peers: {state}"
            f"{_way(host, missed, mesh)}"
        )
        subject = f"IMEX of {_named(host, by_address)} ({host})"
        findings.append(_disconnected("disconnected", subject, node.name if node else "", message, state))
    findings += [_pair(one, two, mesh, by_address) for one, two in left]
    return findings


def _way(host: str, missed: Sequence[tuple[str, str]], mesh: Mesh) -> str:
    """Which way it is that all of a host's broken connections lack, "" where it is both or differs."""
    out = sum(1 for pair in missed if any(way in mesh.broken and way[0] == host for way in (pair, pair[::-1])))
    back = sum(1 for pair in missed if any(way in mesh.broken and way[1] == host for way in (pair, pair[::-1])))
    if out and not back:
        return "; it does not reach them, and they reach it"
    return "; they do not reach it, and it reaches them" if back and not out else ""


def _pair(one: str, two: str, mesh: Mesh, by_address: Mapping[str, Node]) -> Finding:
    """Both ways, or the one way that is broken: from whom, to whom, and that the other way stands."""
    there, back = mesh.broken.get((one, two)), mesh.broken.get((two, one))
    names = (_named(one, by_address), _named(two, by_address))
    if there and back:
        text = f"{names[0]} and {names[1]} do not reach each other: {there}"
        text += f" from {names[0]}, {back} from {names[1]}" if there != back else ""
        return _disconnected("disconnected", f"{names[0]} ↔ {names[1]}", "", text, there)
    source, target = names if there else (names[1], names[0])
    state = there or back or ""
    told = by_address.get(two if there else one) not in mesh.blind
    other = f"while {target} reaches {source}" if told else f"and {target} does not tell of the other way"
    text = f"{source} does not reach {target} ({state}), {other}"
    return _disconnected("one-way", f"{source} → {target}", "", text, state)


def _disconnected(kind: str, subject: str, node: str, message: str, state: str) -> Finding:
    return Finding(
        check=f"{_ID}.{kind}",
        status=Status.FAIL,
        subject=subject,
        node=node,
        value=state or None,
        expected="CONNECTED both ways",
        source=_SOURCE,
        message=message,
        cause=_FIREWALL,
        action=Action.RESTART_IMEX,
        health_category=_CATEGORY if node else "",
    )


def _skewed_versions(mesh: Mesh, view: RackView, by_address: Mapping[str, Node]) -> list[Finding]:
    if len(set(mesh.versions.values())) < 2:
        return []
    usual = majority(mesh.versions.values())
    if usual is None:
        shown = camps({_named(host, by_address): version for host, version in mesh.versions.items()})
        return [_version(view.name, "", "", "one", f"IMEX versions are split, and none has the majority: {shown}")]
    return [
        _version(
            f"IMEX of {_named(host, by_address)} ({host})",
            by_address[host].name if host in by_address else "",
            version,
            usual,
            f"IMEX {version} beside {usual}",
        )
        for host, version in mesh.versions.items()
        if version != usual
    ]


def _version(subject: str, node: str, value: str, expected: str, message: str) -> Finding:
    return Finding(
        check=f"{_ID}.version",
        status=Status.WARN,
        subject=subject,
        node=node,
        value=value or None,
        expected=expected,
        source="the rack's other nodes",
        message=message,
        cause="made from another image, or updated by itself",
        action=Action.REIMAGE,
    )


def _wrong_list(mesh: Mesh, view: RackView, by_address: Mapping[str, Node], profile: Profile) -> list[Finding]:
    """Nodes of the rack that the domain does not list, and hosts it lists that are not the rack's."""
    absent = left_out(mesh.hosts, view, by_address)
    findings = [
        _list(
            "not-listed",
            Status.FAIL,
            node.name,
            f"{node.name} ({node.address}) is in no node's IMEX list",
            "nodes_config.cfg was written before this node was there",
            len(mesh.hosts),
            f"{addressed(view)} nodes listed",
        )
        for node in absent
    ]
    if not absent and len(mesh.hosts) < addressed(view):
        text = f"the IMEX domain has {len(mesh.hosts)} hosts, and {addressed(view)} nodes were asked"
        cause = "nodes_config.cfg was written before all nodes were there"
        wanted = f"{addressed(view)} nodes listed"
        findings.append(_list("not-listed", Status.FAIL, "", text, cause, len(mesh.hosts), wanted))
    # A selection of nodes leaves hosts in the list that nobody asked about; more than a rack holds are strangers.
    most = max(view.expected_nodes, profile.vms_per_rack.value)
    strangers = [host for host in mesh.hosts if host not in by_address]
    if strangers and len(mesh.hosts) > most:
        text = f"lists {len(mesh.hosts)} hosts; not of {view.name}: {', '.join(strangers[:4])}"
        cause = "left from a VM that was replaced, or two racks share a list"
        findings.append(_list("stranger", Status.WARN, "", text, cause, len(mesh.hosts), f"{most} nodes"))
    return findings


def _list(kind: str, status: Status, node: str, message: str, cause: str, value: int, expected: str) -> Finding:
    return Finding(
        check=f"{_ID}.{kind}",
        status=status,
        subject="IMEX node list",
        node=node,
        value=value,
        expected=expected,
        source=_SOURCE,
        message=message,
        cause=cause,
        action=Action.RESTART_IMEX,
    )


def _domain(view: RackView, states: list[str]) -> Finding:
    return Finding(
        check=f"{_ID}.domain",
        status=Status.FAIL if set(states) & {"DOWN", "DEGRADED"} else Status.UNKNOWN,
        subject=view.name,
        value=", ".join(states),
        expected="UP",
        source=_SOURCE,
        message=f"the IMEX domain is {' and '.join(filter(None, states)) or 'in no state it tells'}, "
        "and no node or pair explains it",
        cause="a host or connection that no table shows",
        action=Action.INVESTIGATE,
    )


def _unproven(view: RackView, mesh: Mesh) -> Finding:
    names = sorted(node.name for node in mesh.blind)
    return Finding(
        check=f"{_ID}.unproven",
        status=Status.UNKNOWN,
        subject=view.name,
        value=len(names),
        unit="nodes",
        expected="every connection of every node",
        source=_SOURCE,
        message=f"{len(names)} nodes ({', '.join(names[:3])}) do not show all connections: no proof of a full mesh",
        action=Action.INVESTIGATE,
    )


def _no_table(answer: NodeAnswer, facts: Imex, stderr: str) -> Finding:
    said = next(iter(facts.errors), "") or next(iter(stderr.strip().splitlines()), "")
    settling = facts.local_status in SETTLING
    return Finding(
        check=f"{_ID}.settling" if settling else f"{_ID}.no-answer",
        status=Status.UNKNOWN,
        subject="nvidia-imex",
        node=answer.node.name,
        value=facts.local_status or None,
        expected="a domain table",
        source=_SOURCE,
        message=said or facts.local_status or "nvidia-imex-ctl printed no domain",
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
