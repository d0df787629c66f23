"""What totals of subnet counters mean: they warn, since nobody knows when the errors came."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.ib_counters import IbCounters
from ndctl.profiles.schema import Profile

_ERROR_NAMES = re.compile(
    r"^(?:SymbolError|LinkErrorRecovery|LinkRecover|LinkDowned|PortRcvErrors|RcvErrors|PortRcvRemotePhysical|RcvRemotePhys"
    r"|PortRcvSwitchRelay|LocalLinkIntegrity|LinkIntegrity|ExcessiveBufferOverrun|ExcBufOverrun|VL15Dropped"
    r"|PortXmitDiscards|XmtDiscards|QP1Drop)",
    re.IGNORECASE,
)
_BENIGN = re.compile(r"PortRcvSwitchRelay|VL15Dropped", re.IGNORECASE)  # multicast and startup noise
_PEGGED = {255, 65535, 2**32 - 1, 2**64 - 1}
_LIMITS = {"portxmitdiscards": 1000, "xmtdiscards": 1000, "portrcverrors": 100, "rcverrors": 100, "linkdowned": 1}


def counters_findings(facts: IbCounters, profile: Profile | None) -> Sequence[Finding]:
    findings = []
    read = 0
    for port in facts.ports:
        for name, count in port.counters.items():
            read += 1
            if not _ERROR_NAMES.match(name) or _BENIGN.search(name):
                continue
            stem = name.lower().removesuffix("counter")
            if count <= _LIMITS.get(stem, 0):
                continue
            pegged = count in _PEGGED
            findings.append(
                Finding(
                    check="infiniband.counter-pegged" if pegged else "infiniband.counter-total",
                    status=Status.WARN,
                    subject=port.where,
                    value=count,
                    unit=name,
                    expected=f"at most {_LIMITS.get(stem, 0)}",
                    source="Azure SKU performance baseline, 2026-04 (limits of a change, held here against totals)",
                    message=f"{name} {count} since last cleared; read it twice to see if it grows"
                    if not pegged
                    else f"{name} stands at its largest value {count}: clear it and read again",
                    action=Action.WATCH,
                )
            )
    if facts.errors:
        findings.append(
            Finding(
                check="infiniband.query-failed",
                status=Status.WARN if read or facts.checked else Status.UNKNOWN,
                subject="text",
                message=f"a query failed, so the answer is not complete: “{facts.errors[0]}”",
                cause="port not reachable by the subnet's management packets, or no permission",
            )
        )
    if not read and not facts.checked and not findings:
        return [
            Finding(check="infiniband.none", status=Status.UNKNOWN, subject="text", message="no counter in this text")
        ]
    if not findings:
        seen = (
            f"{read} counters of {len(facts.ports)} ports" if read else f"{facts.checked.get('ports', 0)} ports checked"
        )
        findings.append(
            Finding(
                check="infiniband.counters", status=Status.PASS, subject="ports", message=f"{seen}, no error among them"
            )
        )
    return findings
