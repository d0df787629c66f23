"""Which path a NCCL run's data took, and whether it is the one that was asked for: a figure counts only with proof."""

from __future__ import annotations

from ndctl.jobs.judge_nccl_end import unknown
from ndctl.jobs.nccl import NcclRun
from ndctl.jobs.nccl_asked import MNNVL, NET_IB, OFF, USES_NVLS, Asked
from ndctl.jobs.nccl_hints import nodes_by_host
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nccl_tests import NcclTests

_SOURCE = "the NCCL log of this run"
_CAUSES = {
    MNNVL: "IMEX is not ready or its channel is missing on a node",
    NET_IB: "InfiniBand was not used: devices not found, or another network chosen",
}
# With Data Direct (ConnectX-8) NCCL lists a port under a name of its own; it is the same rail.
_DATA_DIRECT = "_dma"


def transport_findings(run: NcclRun, facts: NcclTests, asked: Asked, subject: str, evidence: str) -> list[Finding]:
    """What is wrong with the path; none when the log proves it."""
    launch, check = run.launch, asked.check
    if len(launch.nodes) < 2:
        return []
    # Channels are connected when an algorithm first needs them: with NVLS alone none may be printed, while every rank
    # says that the whole communicator is one NVLink domain.
    if facts.transport is None and asked.wanted == MNNVL and facts.mnnvl:
        return _nvls(run, facts, asked, subject, evidence)
    if facts.transport is None:
        return [unknown(check, "transport", subject, "the log does not show which transport was used", evidence)]
    if asked.wanted in facts.transport:
        if asked.wanted == MNNVL:
            return _nvls(run, facts, asked, subject, evidence)
        return [*_gdr(facts, asked, subject, evidence), *_rails(run, facts, asked, subject, evidence)]
    if asked.wanted == NET_IB and "NVL" in facts.transport:
        cause, action = "the launch left MNNVL on: NVLink was measured, not InfiniBand", Action.FIX_INVENTORY
    elif asked.wanted == MNNVL and launch.environment.get("NCCL_MNNVL_ENABLE") == OFF:
        cause, action = "NCCL_MNNVL_ENABLE=0 is set in this launch", Action.FIX_INVENTORY
    else:
        cause = _CAUSES[asked.wanted]
        action = Action.RESTART_IMEX if asked.wanted == MNNVL else Action.INVESTIGATE
    return [
        Finding(
            check=f"{check}.transport",
            status=Status.FAIL,
            subject=subject,
            value=facts.transport,
            expected=asked.wanted,
            source=_SOURCE,
            message=f"the log says {facts.transport}, not {asked.wanted}: NCCL fell back",
            cause=cause,
            action=action,
            evidence=evidence,
        )
    ]


def _nvls(run: NcclRun, facts: NcclTests, asked: Asked, subject: str, evidence: str) -> list[Finding]:
    off = run.launch.environment.get("NCCL_NVLS_ENABLE") == OFF
    if facts.nvls is not False or off or asked.test not in USES_NVLS:
        return []
    hosts = facts.without_nvls
    nodes = {node.name for host in hosts for node in nodes_by_host(run).get(host, ())}
    some = len(nodes) * 2 <= len(run.launch.nodes)  # most or all: no node's own trouble
    return [
        Finding(
            check=f"{asked.check}.nvls",
            status=Status.WARN,
            subject=subject,
            node=next(iter(nodes)) if len(nodes) == 1 and some else "",
            value="not available",
            expected="available",
            source=_SOURCE,
            message="NVLink SHARP (NVLS) multicast is not available"
            + (f" on {', '.join(sorted(nodes)[:6])}" if nodes and some else ""),
            cause="IMEX or the fabric's multicast teams",
            action=Action.INVESTIGATE,
            evidence=evidence,
        )
    ]


def _gdr(facts: NcclTests, asked: Asked, subject: str, evidence: str) -> list[Finding]:
    """From the network straight into GPU memory; through host memory it is a path of another speed."""
    if facts.gdr:
        return []
    if facts.gdr is None:
        return [unknown(asked.check, "gdr", subject, "the log does not show whether GPUDirect RDMA was used", evidence)]
    return [
        Finding(
            check=f"{asked.check}.gdr",
            status=Status.FAIL,
            subject=subject,
            value="off",
            expected="GPUDirect RDMA",
            source=_SOURCE,
            message="GPUDirect RDMA was not used: data went through host memory",
            cause="neither nvidia-peermem nor DMA-BUF works, or NCCL_NET_GDR_LEVEL forbids it",
            action=Action.FIX_IMAGE,
            evidence=evidence,
        )
    ]


def _rails(run: NcclRun, facts: NcclTests, asked: Asked, subject: str, evidence: str) -> list[Finding]:
    """Every rail that was asked for carries data, on every node, and no other does."""
    if not asked.rails:
        return []
    if not facts.ib_devices:
        return [unknown(asked.check, "rails", subject, "the log does not show which rails NCCL found", evidence)]
    wanted = set(asked.rails)
    nodes = nodes_by_host(run)
    findings = []
    for host, devices in facts.ib_devices_of.items():
        missing = sorted(wanted - {_rail(device) for device in devices})
        if missing:
            named = nodes.get(host, frozenset())
            findings.append(
                _rail_finding(
                    asked,
                    subject,
                    f"NCCL finds no {', '.join(missing)} on {host}",
                    f"{len(missing)} missing",
                    "the port is down, or hidden from NCCL (NCCL_IB_HCA)",
                    evidence,
                    next(iter(named)).name if len(named) == 1 else "",
                )
            )
    used = {_rail(device) for device in facts.rail_devices}
    if not used and len(facts.rails) < len(wanted):
        return [unknown(asked.check, "rails", subject, "the log does not show which rails carry data", evidence)]
    idle, strange = sorted(wanted - used), sorted(used - wanted)
    if used and idle and not findings:
        message = f"{', '.join(idle)} carr{'ies' if len(idle) == 1 else 'y'} no data"
        cause = "NCCL found no use for the rail: its topology, or a slower port than the others"
        findings.append(_rail_finding(asked, subject, message, f"{len(idle)} idle", cause, evidence))
    if strange:
        message = f"data went over {', '.join(strange)} too, which was not asked for"
        cause = "NCCL_IB_HCA is set elsewhere (/etc/nccl.conf), or an Ethernet device is taken for a rail"
        findings.append(_rail_finding(asked, subject, message, ", ".join(strange), cause, evidence))
    return findings


def _rail(device: str) -> str:
    return device.removesuffix(_DATA_DIRECT)


def _rail_finding(
    asked: Asked, subject: str, message: str, value: str, cause: str, evidence: str, node: str = ""
) -> Finding:
    return Finding(
        check=f"{asked.check}.rails",
        status=Status.FAIL,
        subject=subject,
        node=node,
        value=value,
        expected=f"{', '.join(asked.rails)} and no others",
        source=_SOURCE,
        message=message,
        cause=cause,
        action=Action.INVESTIGATE,
        evidence=evidence,
    )
