"""InfiniBand error counters: what they grew by during this run, since totals hold the noise of link training."""

from __future__ import annotations

from fnmatch import fnmatch
from functools import lru_cache

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence, unusable
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.sysfs_listing import Counter, counters
from ndctl.profiles.schema import Profile

_ID = "infiniband.counters"
# The classic counters stop at the end of their width; newer adapters count in 64 bits beyond these values.
# Source: InfiniBand specification, PortCounters.
_BITS = {
    "symbol_error": 16,
    "link_error_recovery": 8,
    "link_downed": 8,
    "port_rcv_errors": 16,
    "port_xmit_discards": 16,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
}


# Any of them moves when data passes; a port whose traffic is not counted has error counters that say nothing either.
_TRAFFIC = frozenset(
    f"{way}_{what}" for way in ("port_rcv", "port_xmit", "unicast_rcv", "unicast_xmit") for what in ("data", "packets")
)


def delta(before: int, after: int) -> int:
    """How much it grew; a value that went down was reset in between, so the new one is the growth."""
    return after - before if after >= before else after


def is_ours(device: str, profile: Profile) -> bool:
    fabric = profile.infiniband
    return _fits(device, fabric.device_pattern.value, tuple(fabric.ignore_devices.value))


@lru_cache(maxsize=256)
def _fits(device: str, wanted: str, ignored: tuple[str, ...]) -> bool:
    return fnmatch(device, wanted) and not any(fnmatch(device, pattern) for pattern in ignored)


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    for command in (commands.IB_COUNTERS_BEFORE, commands.IB_COUNTERS_AFTER):
        missing = unusable(_ID, answer, command)
        if missing:
            return [missing]
    before = counters(answer.results[commands.IB_COUNTERS_BEFORE.id].stdout)
    after = counters(answer.results[commands.IB_COUNTERS_AFTER.id].stdout)
    limits = profile.infiniband.counter_limits
    watched = {key for key in after if key.name in limits and is_ours(key.device, profile)}
    raw = evidence(answer, commands.IB_COUNTERS_AFTER)
    if not watched or not watched & set(before):
        return [
            Finding(
                check=_ID,
                status=Status.UNKNOWN,
                subject="counters",
                node=answer.node.name,
                message="no error counter of an InfiniBand port could be read twice: not observable here",
                evidence=raw,
            )
        ]
    findings = []
    for key in sorted(watched & set(before), key=lambda k: (k.device, k.port, k.name)):
        found = _judge_counter(key, before[key], after[key], profile, answer, raw)
        if found:
            findings.append(found)
    ports = {(key.device, key.port) for key in watched & set(before)}
    if len(ports) < profile.infiniband.ports.value:
        findings.append(_blind(len(ports), profile, answer, raw))
    hidden = sorted(set(profile.infiniband.counter_limits) - {key.name for key in watched})
    unseen = f"; not shown here: {', '.join(hidden)}" if hidden else ""
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject="counters",
            node=answer.node.name,
            message=f"no error counter of {len(ports)} ports grew beyond its limit{unseen}",
            evidence=raw,
        )
    ]


def _judge_counter(
    key: Counter, before: int, after: int, profile: Profile, answer: NodeAnswer, raw: str
) -> Finding | None:
    limit = profile.infiniband.counter_limits[key.name]
    grown = delta(before, after)
    if after == before and after in (2 ** _BITS.get(key.name, 32) - 1, 2**32 - 1):
        return Finding(
            check=f"{_ID}.pegged",
            status=Status.UNKNOWN,
            subject=key.device,
            node=answer.node.name,
            value=after,
            message=f"{key.name} is pegged at {after}: it counts no more, so growth can't be seen",
            action=Action.INVESTIGATE,
            evidence=raw,
        )
    if grown <= limit.value:
        return None
    return Finding(
        check=_ID,
        status=Status.WARN,
        subject=key.device,
        node=answer.node.name,
        value=grown,
        unit="events",
        expected=f"at most {limit.value} in one run",
        source=limit.origin,
        message=f"{key.name} +{grown} during this run",
        cause="a marginal link: cable, transceiver or switch port",
        action=Action.WATCH,
        evidence=raw,
        health_category="Resource.Hpc.Unhealthy.IBPerformance",
    )


def _blind(ports: int, profile: Profile, answer: NodeAnswer, raw: str) -> Finding:
    """Of a port whose counters could not be read twice nothing is known."""
    wanted = profile.infiniband.ports
    return Finding(
        check=f"{_ID}.not-observable",
        status=Status.UNKNOWN,
        subject="counters",
        node=answer.node.name,
        value=ports,
        unit="ports",
        expected=str(wanted.value),
        source=wanted.origin,
        message=f"only {ports} of {wanted.value} ports show error counters",
        cause="a port is missing, or its driver hides its counters",
        action=Action.INVESTIGATE,
        evidence=raw,
    )


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    """Ports that ib_write_bw sent data over, and whose traffic counters stood still meanwhile."""
    findings = []
    for node, answer in view.answers.items():
        devices = sorted(device for name, device in view.exercised if name == node.name)
        results = [answer.results.get(c.id) for c in (commands.IB_COUNTERS_BEFORE, commands.IB_COUNTERS_AFTER)]
        if not devices or None in results:
            continue
        before, after = (counters(result.stdout) for result in results if result is not None)
        for device in devices:
            traffic = [key for key in after if key.device == device and key.name in _TRAFFIC and key in before]
            if any(after[key] != before[key] for key in traffic) or not any(key.device == device for key in after):
                continue
            findings.append(_still(device, len(traffic), answer))
    return findings


def _still(device: str, traffic: int, answer: NodeAnswer) -> Finding:
    what = f"none of its {traffic} traffic counters moved" if traffic else "it shows no traffic counter"
    return Finding(
        check=f"{_ID}.not-observable",
        status=Status.UNKNOWN,
        subject=device,
        node=answer.node.name,
        expected="traffic counters that move",
        source="ib_write_bw of this run",
        message=f"{what} while ib_write_bw sent data over it: its error counters prove nothing",
        cause="the driver or the hypervisor does not fill this function's counters",
        action=Action.INVESTIGATE,
        evidence=evidence(answer, commands.IB_COUNTERS_AFTER),
    )


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="InfiniBand error counters do not grow",
    commands=(commands.IB_COUNTERS_BEFORE, commands.IB_COUNTERS_AFTER),
    judge_node=_judge_node,
    judge_rack=_judge_rack,
)
