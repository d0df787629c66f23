"""What `iblinkinfo` means. Switch ports with nothing plugged in are no fault; rates may differ by kind of node."""

from __future__ import annotations

from collections.abc import Sequence

from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.iblinkinfo import FabricLink, IbLinkInfo, parse
from ndctl.profiles.schema import Profile

_AGGREGATION = "aggregation node"  # SHARP's own node inside a switch


def judge(facts: IbLinkInfo, profile: Profile | None) -> Sequence[Finding]:
    if not facts.links:
        said = f": “{facts.errors[0]}”" if facts.errors else ""
        return [
            Finding(
                check="fabric-links.none", status=Status.UNKNOWN, subject="text", message=f"no link in this text{said}"
            )
        ]
    findings = [finding for link in facts.links if (finding := _of_link(link, profile))]
    if facts.errors:
        message = f"the tool could not ask everything: “{facts.errors[0]}”"
        findings.append(Finding(check="fabric-links.errors", status=Status.WARN, subject="text", message=message))
    active = [link for link in facts.links if link.state == "Active"]
    if not active and not findings:
        message = f"none of {len(facts.links)} links is active"
        findings.append(
            Finding(check="fabric-links.none-active", status=Status.UNKNOWN, subject="text", message=message)
        )
    if not any(f.status in (Status.FAIL, Status.WARN, Status.UNKNOWN) for f in findings):
        idle = len(facts.links) - len(active)
        findings.append(
            Finding(
                check="fabric-links.links",
                status=Status.PASS,
                subject="links",
                value=len(active),
                unit="links active",
                message=f"{len(active)} links Active" + (f", {idle} ports without a cable or peer" if idle else ""),
            )
        )
    return findings


def _of_link(link: FabricLink, profile: Profile | None) -> Finding | None:
    subject = f"{link.node or 'node ?'} port {link.port}" + (f" to {link.peer}" if link.peer else "")
    if link.state == "Active" and "could be" in link.note.lower():
        return Finding(
            check="fabric-links.below-capability",
            status=Status.WARN,
            subject=subject,
            value=link.rate_gbps,
            unit="Gb/s",
            message=f"runs at {link.rate_gbps or 0:g} Gb/s: {link.note}",
            cause="cable, or one end set or built slower",
            action=Action.INVESTIGATE,
        )
    if link.state in {"Initialize", "Armed"}:
        message = f"{link.state}: the subnet manager has not configured it"
        return _fault(subject, link, Status.FAIL, message)
    if link.state == "Down" and (link.kind == "CA" or link.peer):
        return _fault(subject, link, Status.FAIL, f"Down, physically {link.phys_state}")
    slow = profile and link.kind == "CA" and _AGGREGATION not in link.node.lower() and link.rate_gbps is not None
    if slow and profile and (link.rate_gbps or 0) < profile.infiniband.rate_gbps.value * 0.99:
        wanted = profile.infiniband.rate_gbps
        message = f"{link.rate_gbps:g} Gb/s, not {wanted.value:g}"
        return Finding(
            check="fabric-links.rate",
            status=Status.FAIL,
            subject=subject,
            value=link.rate_gbps,
            unit="Gb/s",
            expected=f"{wanted.value:g} Gb/s",
            source=wanted.origin,
            message=message,
            action=Action.INVESTIGATE,
        )
    return None


def _fault(subject: str, link: FabricLink, status: Status, message: str) -> Finding:
    return Finding(
        check="fabric-links.down",
        status=status,
        subject=subject,
        value=link.state,
        expected="Active",
        message=message,
        cause="cable, port or peer",
        action=Action.INVESTIGATE,
    )


def looks_like(text: str) -> float:
    """Its arrows."""
    return 0.95 if "==(" in text and ")==>" in text else 0.0


JUDGE = TextJudge(
    tool="iblinkinfo",
    title="iblinkinfo: links of the InfiniBand subnet",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
)
