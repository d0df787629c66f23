"""What the state of RDMA ports means; shared by the judges of every tool that lists ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

from ndctl.checks.texts.port_counters import counter_findings, pkey_findings
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.ports import Port, Ports
from ndctl.profiles.schema import Profile

_DOWN = "Resource.Hpc.Unhealthy.IBPortDown"
_SLOW = "Resource.Hpc.Unhealthy.IBPerformance"
_MISSING = "Resource.Hpc.Unhealthy.MissingIB"
# Mellanox parts that only speak Ethernet (ConnectX-4/5/6 Lx and Dx); a dark port of theirs is no InfiniBand fault.
_ETHERNET_ONLY = {"MT4117", "MT4125", "MT4127", "4117", "4125", "4127"}
# Azure's accelerated networking gives each VM an Ethernet function of this name.
_ALWAYS_IGNORED = ("mlx5_an*",)


def port_findings(facts: Ports, profile: Profile | None) -> Sequence[Finding]:
    """Down InfiniBand ports fail; Ethernet ports are told of, not judged; a text without any state is unknown."""
    if not facts.ports:
        return [_nothing(facts, profile)]
    findings: list[Finding] = []
    fabric = [port for port in facts.ports if not _ignored(port, profile) and port.link_layer != "Ethernet"]
    for port in facts.ports:
        findings.extend(_of_port(port, port in fabric, profile))
    active = [port for port in fabric if port.state == "Active"]
    findings.extend(_rates(active, profile))
    findings.extend(counter_findings(fabric, profile))
    findings.extend(pkey_findings([p for p in fabric if p.link_layer == "InfiniBand"], profile))
    if profile:
        findings.extend(_count(facts, fabric, profile))
    findings.extend(_unseen(facts))
    if not any(f.status in (Status.FAIL, Status.WARN, Status.UNKNOWN) for f in findings):
        findings.append(_content(facts, active, profile))
    return findings


def subject_of(port: Port) -> str:
    return f"{port.device or 'adapter ?'} port {port.port}"


def _ignored(port: Port, profile: Profile | None) -> bool:
    patterns = profile.infiniband.ignore_devices.value if profile else _ALWAYS_IGNORED
    return any(fnmatchcase(port.device, pattern) for pattern in patterns)


def _nothing(facts: Ports, profile: Profile | None) -> Finding:
    said = f": “{facts.errors[0]}”" if facts.errors else ""
    return Finding(
        check="infiniband.none",
        status=Status.UNKNOWN,
        subject="text",
        expected=f"{profile.infiniband.ports.value} ports" if profile else "",
        source=profile.infiniband.ports.origin if profile else "",
        message=f"no port is listed{said}",
    )


def _of_port(port: Port, in_fabric: bool, profile: Profile | None) -> list[Finding]:
    if port.state in {"Active", "ActiveDefer"} and port.phys_state in {"LinkUp", ""}:
        return []
    if not port.state and not port.phys_state:
        return []
    strange = [word for word in (port.state, port.phys_state) if word and word not in _KNOWN_STATES | _KNOWN_PHYS]
    if strange:
        message = f"a state that ndctl does not know: {', '.join(strange)}"
        return [_port_finding("infiniband.port-unread", Status.UNKNOWN, port, message, "")]
    up = port.phys_state == "LinkUp"
    if port.state in {"Initialize", "Armed"} and in_fabric:
        message = f"{port.state}, not Active: the link is up but no subnet manager has configured the port"
        cause = "subnet manager not reached, or not yet: re-read in a minute"
        return [_port_finding("infiniband.port-not-active", Status.FAIL, port, message, cause)]
    if port.state == "Active" and not up:
        message = f"Active, but physically {port.phys_state}: the link is being lost or retrained"
        return [_port_finding("infiniband.port-unstable", Status.FAIL, port, message, "cable or port", port.phys_state)]
    if not port.state:
        message = f"physically {port.phys_state}; its logical state is not in the text"
        status = Status.WARN if up or not in_fabric else Status.FAIL
        return [_port_finding("infiniband.port-down", status, port, message, "", port.phys_state)]
    shown = f"{port.state}" + (f", physically {port.phys_state}" if port.phys_state else "")
    stale = " (its rate and LID are left-overs of a dead port)" if port.rate_gbps or port.lid else ""
    if in_fabric and port.link_layer == "InfiniBand":
        cause = _WHY_DOWN.get(port.phys_state, "cable, switch port or peer")
        return [_port_finding("infiniband.port-down", Status.FAIL, port, f"{shown}{stale}", cause)]
    if in_fabric and not port.link_layer and not _only_ethernet(port) and port.netdev[:2] not in {"et", "en"}:
        return [
            _port_finding(
                "infiniband.port-down",
                Status.FAIL,
                port,
                f"{shown}{stale}; link layer not in the text",
                "cable or port",
            )
        ]
    why = "Ethernet" if port.link_layer == "Ethernet" else "an Ethernet interface or an Ethernet-only adapter"
    return [
        Finding(
            check="infiniband.ethernet-port-down",
            status=Status.WARN,
            subject=subject_of(port),
            value=port.state,
            message=f"{shown}; {why}, so not one of the InfiniBand rails",
            cause="unused or management port",
        )
    ]


def _only_ethernet(port: Port) -> bool:
    return port.device_type in _ETHERNET_ONLY


_KNOWN_STATES = {"Active", "ActiveDefer", "Down", "Initialize", "Armed"}
_KNOWN_PHYS = {"LinkUp", "Polling", "Disabled", "Sleep", "PortConfigurationTraining", "LinkErrorRecovery", "PhyTest"}
_WHY_DOWN = {
    "Polling": "no signal from the other end: cable, transceiver or switch port",
    "Disabled": "the port is switched off, here or at the switch",
    "Sleep": "the port is switched off",
    "PortConfigurationTraining": "the link trains and does not come up: signal integrity",
    "LinkErrorRecovery": "the link recovers from errors: signal integrity",
}


def _port_finding(check: str, status: Status, port: Port, message: str, cause: str, value: str = "") -> Finding:
    return Finding(
        check=check,
        status=status,
        subject=subject_of(port),
        value=value or port.state,
        expected="Active, LinkUp",
        message=message,
        cause=cause,
        action=Action.INVESTIGATE,
        health_category=_DOWN if status is Status.FAIL else "",
    )


def _rates(active: list[Port], profile: Profile | None) -> list[Finding]:
    rated = [port for port in active if port.rate_gbps is not None]
    if profile:
        limit = profile.infiniband.rate_gbps
        slow = [port for port in rated if port.rate_gbps is not None and port.rate_gbps < limit.value * 0.99]
        fast = [port for port in rated if port.rate_gbps is not None and port.rate_gbps > limit.value * 1.01]
        return [
            *(_slow(port, limit.value, limit.origin, Status.FAIL) for port in slow),
            *(_faster(port, limit.value, limit.origin) for port in fast),
        ]
    kinds = Counter(port.rate_gbps for port in rated)
    if len(kinds) > 1:
        best = max(rate for rate in kinds if rate is not None)
        slow = [port for port in rated if port.rate_gbps is not None and port.rate_gbps < best]
        return [_slow(port, best, "the fastest port of this text", Status.WARN) for port in slow]
    return [
        Finding(
            check="infiniband.port-width",
            status=Status.WARN,
            subject=subject_of(port),
            value=port.lanes,
            expected="4X",
            message=f"runs on {port.lanes} ({port.rate_gbps:g} Gb/s {port.generation})",
            cause="lanes lost, or a splitter cable by design",
            action=Action.INVESTIGATE,
        )
        for port in rated
        if port.lanes == "1X"
    ]


def _slow(port: Port, expected: float, source: str, status: Status) -> Finding:
    return Finding(
        check="infiniband.port-rate",
        status=status,
        subject=subject_of(port),
        value=port.rate_gbps,
        unit="Gb/s",
        expected=f"{expected:g} Gb/s",
        source=source,
        message=f"{port.rate_gbps:g} Gb/s, not {expected:g}",
        cause="link trained at lower speed or on fewer lanes; or another kind of adapter",
        action=Action.INVESTIGATE,
        health_category=_SLOW if status is Status.FAIL else "",
    )


def _faster(port: Port, expected: float, source: str) -> Finding:
    return Finding(
        check="infiniband.port-rate",
        status=Status.WARN,
        subject=subject_of(port),
        value=port.rate_gbps,
        unit="Gb/s",
        expected=f"{expected:g} Gb/s",
        source=source,
        message=f"{port.rate_gbps:g} Gb/s, faster than the {expected:g} expected: is it the right profile?",
        action=Action.FIX_INVENTORY,
    )


def _count(facts: Ports, fabric: list[Port], profile: Profile) -> list[Finding]:
    expected = profile.infiniband.ports.value
    seen = [port for port in fabric if port.link_layer == "InfiniBand"]
    unsure = [port for port in fabric if not port.link_layer]
    if len(seen) == expected or (not seen and len(unsure) >= expected):
        return []
    more = len(seen) > expected
    cut = bool(facts.problems) or bool(unsure)
    return [
        Finding(
            check="infiniband.port-count",
            status=Status.WARN if more else Status.UNKNOWN if cut else Status.FAIL,
            subject="InfiniBand ports",
            value=len(seen),
            unit="ports",
            expected=str(expected),
            source=profile.infiniband.ports.origin,
            message=f"{len(seen)} InfiniBand ports, {expected} expected"
            + (f" ({'; '.join(facts.problems[:1]) or 'link layer not given'})" if cut and not more else ""),
            cause="" if more else "adapter missing, its port is not InfiniBand, or only a part was pasted",
            action=Action.NONE if more or cut else Action.INVESTIGATE,
            health_category="" if more or cut else _MISSING,
        )
    ]


def _unseen(facts: Ports) -> list[Finding]:
    stateless = [port for port in facts.ports if not port.state and not port.phys_state]
    findings = []
    if len(stateless) == len(facts.ports):
        findings.append(
            Finding(
                check="infiniband.no-state",
                status=Status.UNKNOWN,
                subject=", ".join(subject_of(port) for port in stateless[:4]),
                message="no port's state is in the text",
            )
        )
    elif stateless or facts.problems:
        where = "; ".join(facts.problems[:2]) or ", ".join(subject_of(port) for port in stateless[:4])
        findings.append(
            Finding(
                check="infiniband.incomplete", status=Status.WARN, subject="text", message=f"not all is told: {where}"
            )
        )
    if facts.errors:
        findings.append(
            Finding(
                check="infiniband.tool-error",
                status=Status.WARN,
                subject="text",
                message=f"the tool says: “{facts.errors[0]}”",
            )
        )
    return findings


def _content(facts: Ports, active: list[Port], profile: Profile | None) -> Finding:
    rates = sorted({port.rate_gbps for port in active if port.rate_gbps is not None})
    speed = f" at {'/'.join(f'{rate:g}' for rate in rates)} Gb/s" if rates else ""
    others = len(facts.ports) - len(active)
    beside = f"; {others} Ethernet or ignored beside them" if others and active else ""
    if not active:
        text = f"{len(facts.ports)} Ethernet ports up; no InfiniBand port among them"
        return Finding(
            check="infiniband.ports",
            status=Status.FAIL if profile else Status.PASS,
            subject="ports",
            value=0,
            unit="InfiniBand ports",
            message=text,
        )
    kind = "InfiniBand ports" if any(port.link_layer == "InfiniBand" for port in active) else "ports"
    return Finding(
        check="infiniband.ports",
        status=Status.PASS,
        subject=f"{len(active)} ports",
        value=len(active),
        unit="ports active",
        expected=f"{profile.infiniband.ports.value} at {profile.infiniband.rate_gbps.value:g} Gb/s" if profile else "",
        source=profile.infiniband.rate_gbps.origin if profile else "",
        message=f"{len(active)} {kind} Active{speed}{beside}",
    )
