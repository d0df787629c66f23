"""What a repair would touch, and every reason why it must not: protection, blast radius, nodes in use."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ndctl.jobs.occupancy import ASKED_FIRST, Use, occupancy
from ndctl.model.answers import NodeAnswer
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import Cluster, Node, split_node_name
from ndctl.workflow.named_nodes import no_such_node
from ndctl.workflow.repair_state import Entry, Phase, RepairAction, Repairs

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.workflow.unreachable import Diagnosis


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """max_percent: of the cluster's planned nodes, at least one; force: also nodes in use."""

    path: Path
    nodes: tuple[str, ...]
    action: RepairAction
    force: bool = False
    max_per_rack: int = 1
    max_percent: float = 5.0
    record: Path | None = None


def parse_action(text: str) -> RepairAction:
    """Raises NdctlError (exit 2) for a word that is none."""
    try:
        return RepairAction(text)
    except ValueError:
        raise NdctlError(
            "repair.action",
            f"{text!r} is no repair",
            hint=f"--action takes: {', '.join(RepairAction)}",
            exit_code=ExitCode.USAGE,
        ) from None


@dataclass(frozen=True, slots=True)
class Target:
    """One node to repair. node: as it is now, with no instance where its VM is gone; going_on: an earlier repair of
    it that was cut off; use: who uses it, or why nobody can."""

    node: Node
    going_on: Entry | None = None
    use: str = ""

    @property
    def gone(self) -> bool:
        return not self.node.instance_id and not self.node.address


def find_targets(cluster: Cluster, request: RepairRequest, repairs: Repairs) -> list[Target]:
    """The nodes that are named. One whose VM is gone can still be replaced. Raises NdctlError (exit 2)."""
    there = {node.name: node for node in cluster.nodes}
    targets = []
    for name in dict.fromkeys(request.nodes):
        entry = repairs.get(name)
        going_on = entry if entry is not None and entry.under_way else None
        if going_on is not None and going_on.action is not request.action and going_on.phase.nothing_in_azure:
            going_on = None  # nothing is under way: what comes now takes its place
        if going_on is not None and going_on.action is not request.action:
            raise NdctlError(
                "repair.another",
                f"{name}: a {going_on.action.value} begun by {going_on.by} at {going_on.began} was cut off "
                f"({going_on.phase.value})",
                hint=f"end it first: ndctl repair {_quoted(request)} {name} --action {going_on.action.value}",
                exit_code=ExitCode.PREFLIGHT,
            )
        node = there.get(name) or _missing(cluster, name, request.action)
        if node is None:
            raise no_such_node(cluster, name)
        targets.append(Target(node, going_on))
    return targets


def _missing(cluster: Cluster, name: str, action: RepairAction) -> Node | None:
    """A planned place where no VM stands."""
    place = split_node_name(name)
    rack = next((one for one in cluster.racks if place and one.number == place[0]), None)
    if rack is None or place is None or action is not RepairAction.REPLACE or not rack.nodes:
        return None
    return Node(name, rack.name) if 1 <= place[1] <= rack.expected_nodes else None


def refuse_protected(loaded: Loaded, action: RepairAction) -> None:
    """`protect: true` keeps disks and VMs; what leaves them (reset, restart, reboot) is allowed."""
    if loaded.inventory.protect and action.takes_the_disk:
        raise NdctlError(
            "repair.protected",
            f"{loaded.inventory.cluster} is protected: 'protect: true' in its inventory; {action.value} takes a disk",
            hint="whoever is sure changes that line to 'protect: false' first; a reboot or a reset keeps the disk",
            where=loaded.where("protect"),
            exit_code=ExitCode.PREFLIGHT,
        )


def done_by_ssh(loaded: Loaded, action: RepairAction) -> bool:
    """A reboot is Azure's to do where there is Azure: a node that hangs takes no command."""
    return action.on_the_node or loaded.inventory.static is not None


def refuse_off_azure(loaded: Loaded, action: RepairAction) -> None:
    """Static racks: what can be done over SSH. Raises NdctlError (exit 2) for the rest."""
    if loaded.inventory.static is not None and not (action.on_the_node or action is RepairAction.REBOOT):
        raise NdctlError(
            "repair.static",
            f"{loaded.inventory.cluster} lists static racks, not on Azure: {action.value} takes a control plane that "
            "ndctl does not know",
            hint="reset-gpu, restart-imex and reboot can be done over SSH",
            exit_code=ExitCode.USAGE,
        )


def refuse_too_many(
    cluster: Cluster, targets: Sequence[Target], request: RepairRequest, open_: Mapping[str, str]
) -> None:
    """Raises NdctlError (exit 4) when more nodes would be away at once than allowed, with those of other repairs."""
    names = {target.node.name for target in targets}
    away = names | set(open_)
    planned = sum(rack.expected_nodes for rack in cluster.racks)
    most = max(1, math.floor(planned * request.max_percent / 100))
    before = [f"{name} ({why})" for name, why in sorted(open_.items()) if name not in names]
    for rack in sorted({target.node.rack for target in targets}):
        here = sorted(name for name in away if name.startswith(f"{rack}-"))
        if len(here) > request.max_per_rack:
            counted = [one for one in before if one.startswith(f"{rack}-")]
            raise _too_many(f"{rack}: {len(here)} nodes would be away at once, {request.max_per_rack} allowed", counted)
    if len(away) > most:
        said = f"{len(away)} nodes would be away at once; {request.max_percent:g} % of {planned} allows {most}"
        raise _too_many(said, before)


def _too_many(said: str, before: Sequence[str]) -> NdctlError:
    counted = f"; counted: {', '.join(before[:4])}" if before else ""
    return NdctlError(
        "repair.blast-radius",
        said + counted,
        hint="repair fewer, or validate what was repaired (a node found well counts no more), or raise --max-per-rack "
        "or --max-percent",
        exit_code=ExitCode.PREFLIGHT,
    )


def refuse_in_use(
    targets: Sequence[Target],
    answers: Mapping[Node, NodeAnswer],
    diagnoses: Mapping[str, Diagnosis],
    request: RepairRequest,
) -> list[Target]:
    """The targets, each with who uses it. Raises NdctlError (exit 4) for one in use, or of which nobody can tell,
    without `force`. A VM that is dead runs nothing; a repair that goes on has been through this."""
    told, refused = [], []
    for target in targets:
        use, bar = _use(target, answers.get(target.node), diagnoses.get(target.node.name))
        told.append(Target(target.node, target.going_on, use))
        if bar and not request.force and target.going_on is None:
            refused.append(f"{target.node.name}: {use}")
    if refused:
        raise NdctlError(
            "repair.in-use",
            "; ".join(refused),
            hint="drain it first, or --force, which ends what runs there",
            exit_code=ExitCode.PREFLIGHT,
        )
    return told


def _use(target: Target, answer: NodeAnswer | None, diagnosis: Diagnosis | None) -> tuple[str, bool]:
    """(who uses it, whether that forbids the repair)."""
    if target.gone:
        return "its VM is gone", False
    if answer is not None and answer.outcome.ok:
        found = occupancy(answer)
        return found.said or "idle: no scheduler, no process on its GPUs", found.use is not Use.FREE
    if diagnosis is not None and diagnosis.dead:
        return diagnosis.said, False
    why = f" ({diagnosis.said})" if diagnosis is not None else ""
    return f"does not answer by SSH{why}, so nobody tells whether it is in use", True


QUESTIONS = ASKED_FIRST


def refuse_silent(
    loaded: Loaded, targets: Sequence[Target], answers: Mapping[Node, NodeAnswer], request: RepairRequest
) -> None:
    """What is done over SSH needs a node that answers; what was done already is only waited for."""
    silent = [one.node.name for one in targets if one.node not in answers or not answers[one.node].outcome.ok]
    done = {one.node.name for one in targets if one.going_on and one.going_on.phase in (Phase.ACTED, Phase.ACTING)}
    silent = [name for name in silent if request.action.on_the_node or name not in done]
    if silent and done_by_ssh(loaded, request.action):
        static = loaded.inventory.static is not None
        raise NdctlError(
            "repair.silent",
            f"{', '.join(silent)}: {request.action.value} is done over SSH, and SSH does not answer",
            hint="look at it by its own console" if static else f"ndctl diagnose {_quoted(request)} {' '.join(silent)}",
            exit_code=ExitCode.PREFLIGHT,
        )


def _quoted(request: RepairRequest) -> str:
    return shlex.quote(str(request.path))
