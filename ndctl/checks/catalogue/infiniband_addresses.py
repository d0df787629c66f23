"""Every active InfiniBand port has its addresses: a GID, a LID that no other port of the rail has, a subnet manager;
and all ports of one rail are in one subnet. Without them the port is Active and nobody can reach it."""

from __future__ import annotations

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.catalogue.infiniband_counters import is_ours
from ndctl.checks.from_text import unusable
from ndctl.checks.majority import camps, majority
from ndctl.checks.read_once import ports_of
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.ports import Port
from ndctl.profiles.schema import Profile

_ID = "infiniband.addresses"
_SOURCE = "InfiniBand specification: addresses of a port"
_LAST_UNICAST = 0xBFFF
_NO_ADDRESS = "the subnet manager has not configured the port"
Rail = tuple[Node, Port]


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    findings: list[Finding] = []
    rails: list[Rail] = []
    for node, answer in view.answers.items():
        if not answer.results:
            continue
        missing = unusable(_ID, answer, commands.IB_SYSFS)
        if missing:
            findings.append(missing)
            continue
        listed = [
            port
            for port in ports_of(answer.results[commands.IB_SYSFS.id].stdout).ports
            if is_ours(port.device, profile) and port.link_layer != "Ethernet"
        ]
        # A port that is down has no addresses, or those it had; `infiniband.ports` tells of it.
        rails += [(node, port) for port in listed if port.state == "Active"]
        if not listed:
            findings.append(_none(node.name, node.name))
    for node, port in rails:
        findings += _of_port(node, port)
    findings += _twice(rails)
    findings += _subnets(view, rails)
    told = [rail for rail in rails if rail[1].lid is not None]
    if not rails and not findings:
        return [_none(view.name, "")]
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject=view.name,
            value=len(told),
            unit="ports",
            message=f"GID, LID and subnet manager on {len(told)} active ports; no address twice on a rail",
            source=_SOURCE,
        )
    ]


def _none(subject: str, node: str) -> Finding:
    text = "no InfiniBand port is listed" if node else "no InfiniBand port is Active, so none has addresses to compare"
    return Finding(
        check=_ID, status=Status.UNKNOWN, subject=subject, node=node, message=text, action=Action.INVESTIGATE
    )


def _of_port(node: Node, port: Port) -> list[Finding]:
    found = []
    if port.lid is None or port.sm_lid is None:
        text = "its LID or its subnet manager's could not be read"
        found.append(_finding("unread", Status.UNKNOWN, node, port, None, text, ""))
    if port.lid is not None and not 0 < port.lid <= _LAST_UNICAST:
        text = f"Active with LID 0x{port.lid:x}, which is no address: nobody can send to it"
        found.append(_finding("no-lid", Status.FAIL, node, port, port.lid, text, _NO_ADDRESS))
    if port.sm_lid == 0:
        text = "Active, and knows no subnet manager (SM LID 0): routes and partitions are not kept up"
        found.append(_finding("no-subnet-manager", Status.FAIL, node, port, 0, text, _NO_ADDRESS))
    if port.gid and not _interface(port.gid).strip("0"):
        cause = "the adapter was given no GUID"
        found.append(_finding("no-gid", Status.FAIL, node, port, port.gid, "its GID is all zero", cause))
    return found


def _twice(rails: list[Rail]) -> list[Finding]:
    """Rails may be subnets of their own, so LIDs are compared within one; GIDs are unique everywhere."""
    holders: dict[tuple[str, str, str], list[Rail]] = {}
    for node, port in rails:
        if port.lid is not None and 0 < port.lid <= _LAST_UNICAST:
            holders.setdefault(("LID", f"0x{port.lid:x}", port.device), []).append((node, port))
        if port.gid and _interface(port.gid).strip("0"):
            holders.setdefault(("GID", port.gid, ""), []).append((node, port))
    findings = []
    for (what, address, _), those in holders.items():
        if len(those) < 2:
            continue
        names = ", ".join(f"{node.name} {port.device}" for node, port in those[:4])
        findings.append(
            Finding(
                check=f"{_ID}.twice",
                status=Status.FAIL,
                subject=f"{what} {address}",
                value=len(those),
                unit="ports",
                expected="one",
                source=_SOURCE,
                message=f"{what} {address} is held by {len(those)} ports: {names}",
                cause="two subnets with a manager each, or one GUID given to two VMs",
                action=Action.INVESTIGATE,
            )
        )
    return findings


def _subnets(view: RackView, rails: list[Rail]) -> list[Finding]:
    by_rail: dict[str, list[Rail]] = {}
    for node, port in rails:
        if port.gid:
            by_rail.setdefault(port.device, []).append((node, port))
    findings = []
    for device, those in sorted(by_rail.items()):
        prefixes = {node.name: _prefix(port.gid) for node, port in those}
        usual = majority(prefixes.values(), len(those))
        if usual is None:
            text = f"{device} is in several subnets, and none has the majority: {camps(prefixes)}"
            findings.append(
                Finding(
                    check=f"{_ID}.subnets",
                    status=Status.FAIL,
                    subject=f"{view.name} {device}",
                    expected="one subnet",
                    source=_SOURCE,
                    message=text,
                    cause="the nodes are on several fabrics",
                    action=Action.INVESTIGATE,
                )
            )
            continue
        for node, port in those:
            if _prefix(port.gid) != usual:
                text = f"is in subnet {_prefix(port.gid)}, the rail's others in {usual}: no route without a router"
                cause = "its cable leads to another fabric, or another subnet manager reached it"
                findings.append(_finding("subnet", Status.FAIL, node, port, _prefix(port.gid), text, cause))
    return findings


def _words(gid: str) -> list[str]:
    return [word.zfill(4) for word in gid.split(":")]


def _prefix(gid: str) -> str:
    return ":".join(_words(gid)[:4])


def _interface(gid: str) -> str:
    return "".join(_words(gid)[4:])


def _finding(
    kind: str, status: Status, node: Node, port: Port, value: str | int | None, message: str, cause: str
) -> Finding:
    return Finding(
        check=f"{_ID}.{kind}",
        status=status,
        subject=port.device,
        node=node.name,
        value=value,
        expected="GID, LID and subnet manager set; one subnet for a rail",
        source=_SOURCE,
        message=message,
        cause=cause,
        action=Action.REBOOT if status is Status.FAIL else Action.INVESTIGATE,
        evidence=f"{node.name}/{commands.IB_SYSFS.id}",
        health_category="Resource.Hpc.Unhealthy.IBPortDown" if status is Status.FAIL else "",
    )


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="active InfiniBand ports have their addresses, each its own",
    commands=(commands.IB_SYSFS,),
    judge_rack=_judge_rack,
)
