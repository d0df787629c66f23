"""What totals of InfiniBand counters and the partition keys in one listing mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.ports import Port
from ndctl.profiles.schema import Profile

# Totals since boot say little: link training alone moves some. Above these a person should read them twice.
_QUIET_TOTALS = {
    "symbol_error": 0,
    "link_error_recovery": 0,
    "link_downed": 1,
    "port_rcv_errors": 100,
    "port_xmit_discards": 1000,
    "local_link_integrity_errors": 0,
    "excessive_buffer_overrun_errors": 0,
}
_SOURCE = "Azure SKU performance baseline, 2026-04 (limits of a change, held here against totals)"
_PEGGED = {65535, 2**32 - 1, 2**64 - 1}
_PEGGED_SMALL = {"link_error_recovery": 255, "link_downed": 255, "local_link_integrity_errors": 15}
_DEFAULT_KEY = 0x7FFF
_FULL_MEMBER = 0x8000


def counter_findings(ports: Sequence[Port], profile: Profile | None) -> list[Finding]:
    """Totals only ever warn: without a second reading nobody knows when the errors came."""
    findings = []
    for port in ports:
        for name, quiet in _QUIET_TOTALS.items():
            count = port.counters.get(name)
            if count is None or count <= quiet:
                continue
            pegged = count in _PEGGED or count == _PEGGED_SMALL.get(name)
            message = f"{name} {count} since the counters were last cleared; read it twice to see if it grows"
            if pegged:
                message = f"{name} stands at its largest value {count}: no longer a count, clear it and read again"
            findings.append(
                Finding(
                    check="infiniband.counter-pegged" if pegged else "infiniband.counter-total",
                    status=Status.WARN,
                    subject=f"{port.device} port {port.port}",
                    value=count,
                    unit=name,
                    expected=f"at most {quiet}",
                    source=_SOURCE,
                    message=message,
                    cause="errors on the link some time since boot",
                    action=Action.WATCH,
                )
            )
    return findings


def pkey_findings(ports: Sequence[Port], profile: Profile | None) -> list[Finding]:
    """All rails of a node belong to the same partition; on Azure that is not the default one."""
    keyed = [port for port in ports if port.pkeys]
    if not keyed:
        return []
    sets = Counter(frozenset(key & 0x7FFF for key in port.pkeys) for port in keyed)
    usual, _ = sets.most_common(1)[0]
    findings = []
    for port in keyed:
        own = frozenset(key & 0x7FFF for key in port.pkeys)
        if own != usual and len(keyed) > 1:
            findings.append(
                Finding(
                    check="infiniband.pkey",
                    status=Status.FAIL if profile else Status.WARN,
                    subject=f"{port.device} port {port.port}",
                    value=" ".join(f"0x{key:04x}" for key in port.pkeys),
                    expected=" ".join(f"0x{key | _FULL_MEMBER:04x}" for key in sorted(usual)),
                    source="the other ports of this text",
                    message="partition keys differ from the other rails': traffic between them is dropped",
                    cause="this rail is in another partition",
                    action=Action.REPLACE_AND_REPORT if profile else Action.INVESTIGATE,
                )
            )
        elif profile and profile.azure and not _has_tenant_key(port):
            findings.append(
                Finding(
                    check="infiniband.pkey",
                    status=Status.WARN,
                    subject=f"{port.device} port {port.port}",
                    value=" ".join(f"0x{key:04x}" for key in port.pkeys),
                    expected="one full-member key besides the default",
                    source="Azure HPC documents on partition keys, 2026-12-02",
                    message="only the default partition key: on Azure each scale set has its own",
                    action=Action.INVESTIGATE,
                )
            )
    return findings


def _has_tenant_key(port: Port) -> bool:
    return any(key & _FULL_MEMBER and key & 0x7FFF != _DEFAULT_KEY for key in port.pkeys)
