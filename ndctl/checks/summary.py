"""The counts of a rack in one line: how many of what should be there was seen working."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndctl.checks import commands
from ndctl.checks.base import RackView
from ndctl.checks.catalogue.infiniband_counters import is_ours
from ndctl.checks.gpus import gpus_of
from ndctl.checks.read_once import links_of, ports_of
from ndctl.model.findings import Finding
from ndctl.model.status import Status
from ndctl.profiles.schema import Profile


def rack_facts(view: RackView, findings: Sequence[Finding], profile: Profile) -> dict[str, Any]:
    """{"gpus": {seen, expected}, "nvlinks": …, "imex": …, "ib_ports": …, "measured": [...], "summary": text}.

    What was not asked is left out, so that no count looks like a failure.
    """
    nodes = view.expected_nodes
    facts: dict[str, Any] = {}
    parts: list[str] = []

    def count(key: str, label: str, seen: int, expected: int, more: str = "") -> None:
        facts[key] = {"seen": seen, "expected": expected}
        parts.append(f"{label} {seen:,}/{expected:,}{more}")

    asked = {command for answer in view.answers.values() for command in answer.results}
    gpus = nodes * profile.gpu.count.value
    if commands.NVIDIA_SMI_XML.id in asked:
        seen = sum(len(g.gpus) for answer in view.answers.values() if (g := gpus_of(answer)))
        count("gpus", "GPU", seen, gpus)
    if commands.NVLINK_STATUS.id in asked:
        links = sum(
            1
            for answer in view.answers.values()
            if (result := answer.results.get(commands.NVLINK_STATUS.id))
            for gpu in links_of(result.stdout).gpus
            for link in gpu.links
            if link.state == "active"
        )
        count("nvlinks", "NVLink", links, gpus * profile.nvlink.links_per_gpu.value, " links")
    imex = next((f for f in findings if f.check == "nvlink.imex" and f.status is Status.PASS), None)
    if imex is not None and isinstance(imex.value, int):
        count("imex", "IMEX", imex.value, max(nodes, imex.value), " full mesh")
    if commands.IB_SYSFS.id in asked:
        fabric = profile.infiniband
        ports = sum(
            1
            for answer in view.answers.values()
            if (result := answer.results.get(commands.IB_SYSFS.id))
            for port in ports_of(result.stdout).ports
            if is_ours(port.device, profile) and port.state == "Active" and port.rate_gbps == fabric.rate_gbps.value
        )
        count("ib_ports", "InfiniBand", ports, nodes * fabric.ports.value, f" ports at {fabric.rate_gbps.value:g} Gb/s")
    measured = [
        f.message for f in findings if f.status is Status.PASS and f.check.startswith(("nccl.", "infiniband.w"))
    ]
    if measured:
        facts["measured"] = measured
        parts += measured
    facts["summary"] = " · ".join(parts)
    return facts
