"""Rates and widths of a rack's rails: held against the profile, and against each other first.

A whole rack at another rate is one fact about the rack (another size, another fabric, a wrong profile), told once; a
rail that differs from the others is that rail's fault.
"""

from __future__ import annotations

from collections import Counter

from ndctl.checks import commands
from ndctl.checks.base import RackView
from ndctl.checks.catalogue.infiniband_counters import is_ours
from ndctl.checks.majority import majority
from ndctl.checks.read_once import ports_of
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.ports import Port
from ndctl.profiles.schema import Known, Profile

_TOLERANCE = 0.01
_LANES = "4X"  # of every InfiniBand adapter since QDR
_CATEGORY = "Resource.Hpc.Unhealthy.IBPerformance"


def rate_findings(view: RackView, profile: Profile, check: str) -> list[Finding]:
    """Findings of `check` about active InfiniBand ports whose rate is told; empty where all is as it should be."""
    rails: list[tuple[str, Port, float]] = []
    for node, answer in view.answers.items():
        result = answer.results.get(commands.IB_SYSFS.id)
        for port in ports_of(result.stdout).ports if result is not None else ():
            fabric = port.link_layer == "InfiniBand" or (not port.link_layer and is_ours(port.device, profile))
            if fabric and port.state == "Active" and port.rate_gbps is not None:
                rails.append((node.name, port, port.rate_gbps))
    wanted = profile.infiniband.rate_gbps
    usual = majority(rate for _, _, rate in rails)
    nodes = {node for node, _, _ in rails}
    off = usual is not None and len(nodes) > 1 and not _as_wanted(usual, wanted.value)
    findings = [_of_rack(view, check, rails, usual, wanted)] if off and usual is not None else []
    for name, port, rate in rails:
        if _as_wanted(rate, wanted.value) or (off and rate == usual):
            continue
        findings.append(_of_rail(check, name, port, rate, wanted))
    return findings


def _as_wanted(rate: float, wanted: float) -> bool:
    return abs(rate - wanted) <= wanted * _TOLERANCE


def _of_rail(check: str, node: str, port: Port, rate: float, wanted: Known[float]) -> Finding:
    slow = rate < wanted.value
    narrow = slow and port.lanes not in ("", _LANES)
    if narrow:
        kind, cause = "port-width", "lanes lost: cable, transceiver or connector"
        message = f"{port.lanes} instead of {_LANES}, so {rate:g} Gb/s, not {wanted.value:g}"
    elif slow:
        kind, cause = "port-rate", "the link trained at a lower speed: cable, transceiver or switch port"
        message = f"{rate:g} Gb/s, not {wanted.value:g}"
    else:
        kind, cause = "port-rate", "another kind of adapter, or the wrong profile"
        message = f"{rate:g} Gb/s, faster than the {wanted.value:g} expected"
    return Finding(
        check=f"{check}.{kind}",
        status=Status.FAIL if slow else Status.WARN,
        subject=f"{port.device} port {port.port}",
        node=node,
        value=rate,
        unit="Gb/s",
        expected=f"{wanted.value:g} Gb/s on {_LANES}",
        source=wanted.origin,
        message=message,
        cause=cause,
        action=Action.INVESTIGATE if slow else Action.FIX_INVENTORY,
        evidence=f"{node}/{commands.IB_SYSFS.id}",
        health_category=_CATEGORY if slow else "",
    )


def _of_rack(
    view: RackView, check: str, rails: list[tuple[str, Port, float]], usual: float, wanted: Known[float]
) -> Finding:
    same = [port for _, port, rate in rails if rate == usual]
    kinds = Counter(f"{port.lanes} {port.generation}".strip() for port in same)
    kind = f" ({kinds.most_common(1)[0][0]})" if any(kinds) else ""
    return Finding(
        check=f"{check}.rack-rate",
        status=Status.FAIL if usual < wanted.value else Status.WARN,
        subject=view.name,
        value=usual,
        unit="Gb/s",
        expected=f"{wanted.value:g} Gb/s",
        source=wanted.origin,
        message=f"{len(same)} of {len(rails)} rails of the rack run at {usual:g} Gb/s{kind}, not {wanted.value:g}",
        cause="another size or generation, or the wrong profile: cables fail one by one, not all alike",
        action=Action.FIX_INVENTORY,
    )
