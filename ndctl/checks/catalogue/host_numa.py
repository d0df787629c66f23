"""All CPUs are online, and the node has as many NUMA nodes as its size promises: on Grace-Blackwell the GPUs' memory
is NUMA nodes too, so their number says nothing about sockets."""

from __future__ import annotations

from ndctl.checks import host_commands as asked
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence
from ndctl.checks.host_facts import gathered, silent
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.host_files import HostFiles, number_set
from ndctl.profiles.schema import Profile

_ID = "host.numa"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    told, findings = gathered(_ID, view, asked.NUMA_ONLINE, asked.NUMA_POSSIBLE)
    # Where every node has another number the profile or the kernel differs, and no node is to blame.
    odd = {name: _odd(files, profile) for name, (_, files) in told.items()}
    everywhere = len(told) > 1 and len({*odd.values()}) == 1 and next(iter(odd.values())) is not None
    for name, (answer, files) in told.items():
        said = _cpus(answer, files)
        number = odd[name]
        if number is not None and not everywhere:
            said.append(_nodes(name, name, number, profile, evidence(answer, asked.HOST_FILES)))
        findings += said or [_fine(answer, files)]
    if everywhere:
        findings.append(_nodes("", view.name, next(iter(odd.values())) or 0, profile, ""))
    return findings


def _odd(files: HostFiles, profile: Profile) -> int | None:
    """How many NUMA nodes there are where the number is wrong. Either list may have the right one: nodes of GPU memory
    count as online by themselves on some kernels, on others only once the driver has given them memory."""
    wanted = profile.host.numa_nodes
    lists = [number_set(files.first(path)) for path in (asked.NUMA_ONLINE, asked.NUMA_POSSIBLE)]
    counts = [len(numbers) for numbers in lists if numbers]
    if wanted is None or not counts or wanted.value in counts:
        return None
    return counts[0]


def _nodes(node: str, subject: str, number: int, profile: Profile, raw: str) -> Finding:
    wanted = profile.host.numa_nodes
    return Finding(
        check=f"{_ID}.nodes",
        status=Status.WARN,
        subject="NUMA nodes" if node else subject,
        node=node,
        value=number,
        unit="NUMA nodes",
        expected=str(wanted.value) if wanted else "",
        source=wanted.origin if wanted else "",
        message=f"{number} NUMA nodes{'' if node else ' on every node'}",
        cause="a GPU whose memory the driver did not bring in, or another kernel or firmware",
        action=Action.REBOOT if node else Action.INVESTIGATE,
        evidence=raw,
    )


def _cpus(answer: NodeAnswer, files: HostFiles) -> list[Finding]:
    """Present and not online: `offline` also lists CPUs that the machine could have and has not."""
    present, online = number_set(files.first(asked.CPUS_PRESENT)), number_set(files.first(asked.CPUS_ONLINE))
    if not present or not online:
        return [silent(_ID, answer, asked.HOST_FILES, "CPUs", "which CPUs are present and which are online")]
    off = sorted(present - online)
    if not off:
        return []
    return [
        Finding(
            check=f"{_ID}.cpus-offline",
            status=Status.FAIL,
            subject="CPUs",
            node=answer.node.name,
            value=len(off),
            unit="CPUs",
            expected="none offline",
            source="/sys/devices/system/cpu",
            message=f"{len(off)} of {len(present)} CPUs are offline: {_range(off)}",
            cause="taken offline by hand or by the kernel after errors",
            action=Action.REBOOT,
            evidence=evidence(answer, asked.HOST_FILES),
            health_category="Resource.Hpc.Unhealthy.CPUPerformance",
        )
    ]


def _range(numbers: list[int]) -> str:
    whole = numbers[-1] - numbers[0] + 1 == len(numbers) > 1
    return f"{numbers[0]}-{numbers[-1]}" if whole else ", ".join(map(str, numbers[:8]))


def _fine(answer: NodeAnswer, files: HostFiles) -> Finding:
    online = number_set(files.first(asked.CPUS_ONLINE)) or frozenset()
    nodes = number_set(files.first(asked.NUMA_ONLINE)) or number_set(files.first(asked.NUMA_POSSIBLE)) or frozenset()
    return Finding(
        check=_ID,
        status=Status.PASS,
        subject="NUMA nodes",
        node=answer.node.name,
        value=len(nodes),
        unit="NUMA nodes",
        message=f"{len(online)} CPUs online, {len(nodes)} NUMA nodes",
        evidence=evidence(answer, asked.HOST_FILES),
    )


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="all CPUs are online, and the number of NUMA nodes is the promised one",
    commands=(asked.HOST_FILES,),
    judge_rack=_judge_rack,
)
