"""Rail i is the same place on every node: the order of the InfiniBand devices on the bus, and the NUMA nodes of devices
and GPUs, are equal across the rack. Where two rails changed places, jobs that pair equal rails cross the fabric."""

from __future__ import annotations

from collections.abc import Mapping

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.catalogue.infiniband_counters import is_ours
from ndctl.checks.from_text import unusable
from ndctl.checks.majority import camps, majority
from ndctl.checks.read_once import fabric_of
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.fabric_map import FabricMap
from ndctl.profiles.schema import Profile

_ID = "infiniband.rails"
_SOURCE = "the rack's other nodes"
Places = Mapping[str, str]  # part -> where it sits, in words that are compared


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    findings: list[Finding] = []
    seen: dict[str, Places] = {}
    for node, answer in view.answers.items():
        if not answer.results:
            continue
        missing = unusable(_ID, answer, commands.FABRIC_MAP)
        if missing:
            findings.append(missing)
            continue
        fabric = fabric_of(answer.results[commands.FABRIC_MAP.id].stdout)
        places = places_of(fabric, profile)
        if not fabric.complete or not places:
            findings.append(_unread(node.name, fabric))
            continue
        seen[node.name] = places
    parts = sorted({part for places in seen.values() for part in places})
    for part in parts:
        findings += _of_part(view, part, {node: places[part] for node, places in seen.items() if part in places})
    if not seen:
        return findings
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject=view.name,
            value=len(parts),
            unit="parts",
            message=f"{_told(seen)} are in the same places on {len(seen)} nodes",
        )
    ]


def places_of(fabric: FabricMap, profile: Profile) -> Places:
    """Each InfiniBand device and GPU with its place: the order on the bus, and the NUMA node where the kernel tells.

    PCI addresses themselves are not compared: a hypervisor makes them up for each VM; their order is the hardware's.
    """
    ports = [port for port in fabric.ports if is_ours(port.device, profile)]
    order = sorted(port.pci for port in ports if port.pci)
    places = {}
    for port in ports:
        place = [f"{order.index(port.pci) + 1}. on the bus"] if port.pci and len(order) == len(ports) else []
        place += [f"NUMA node {port.numa}"] if port.numa is not None else []
        if place:
            places[port.device] = ", ".join(place)
    for index, gpu in enumerate(sorted(fabric.gpus, key=lambda one: one.pci)):
        if gpu.numa is not None and len(fabric.gpus) == profile.gpu.count.value:
            places[f"GPU {index}"] = f"NUMA node {gpu.numa}"
    return places


def _of_part(view: RackView, part: str, where: Mapping[str, str]) -> list[Finding]:
    usual = majority(where.values(), len(where))
    if usual is None:
        return [
            Finding(
                check=f"{_ID}.split",
                status=Status.WARN,
                subject=f"{view.name} {part}",
                value=len(set(where.values())),
                unit="places",
                expected="one",
                source=_SOURCE,
                message=f"{part} is in several places, and none has the majority: {camps(where)}",
                cause="nodes of several kinds, or devices named in the order they happened to come up",
                action=Action.INVESTIGATE,
            )
        ]
    return [
        Finding(
            check=f"{_ID}.differs",
            status=Status.WARN,
            subject=part,
            node=node,
            value=place,
            expected=f"{usual}, as on {sum(1 for one in where.values() if one == usual)} of {len(where)} nodes",
            source=_SOURCE,
            message=f"is {place}; on the rack's other nodes {usual}",
            cause="devices were named in another order after a reset or hot plug, or the VM was put together otherwise",
            action=Action.REBOOT,
            evidence=f"{node}/{commands.FABRIC_MAP.id}",
        )
        for node, place in where.items()
        if place != usual
    ]


def _told(seen: Mapping[str, Places]) -> str:
    parts = {part for places in seen.values() for part in places}
    gpus = sum(1 for part in parts if part.startswith("GPU "))
    return f"{len(parts) - gpus} rails and {gpus} GPUs" if gpus else f"{len(parts)} rails"


def _unread(node: str, fabric: FabricMap) -> Finding:
    cut = not fabric.complete
    return Finding(
        check=_ID,
        status=Status.UNKNOWN if cut else Status.SKIP,
        subject="rails",
        node=node,
        message="the listing broke off" if cut else "the kernel tells neither bus address nor NUMA node of any rail",
        action=Action.INVESTIGATE if cut else Action.NONE,
        evidence=f"{node}/{commands.FABRIC_MAP.id}",
    )


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="rails and GPUs are in the same places on all nodes",
    commands=(commands.FABRIC_MAP,),
    judge_rack=_judge_rack,
    required=False,
)
