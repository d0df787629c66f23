"""Check: commands + parse + judge, the unit the catalogue is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Group, Level
from ndctl.profiles.schema import Profile


@dataclass(frozen=True, slots=True)
class RackView:
    """What rack-wide judges see: the answers of every node that was asked, and the nodes that should be there.

    exercised: (node, InfiniBand device) that a test of ours sent data over between the two readings of counters
    """

    name: str
    expected_nodes: int
    answers: Mapping[Node, NodeAnswer]
    exercised: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Check:
    """One passive check.

    id:         prefix of its findings' ids, e.g. "nvlink.links"
    commands:   what each node is asked; checks may share a Command (same id), it runs once
    judge_node: one reachable node's answer -> findings about it
    judge_rack: all answers of a rack -> findings that need comparison (one clique, equal pkeys, outliers)
    required:   a skip or unknown of it makes the rack incomplete
    needs_fabric: only asked where the profile has what it checks (None: always)
    """

    id: str
    group: Group
    level: Level
    title: str
    commands: Sequence[Command]
    judge_node: Callable[[NodeAnswer, Profile], Sequence[Finding]] | None = None
    judge_rack: Callable[[RackView, Profile], Sequence[Finding]] | None = None
    required: bool = True
    applies: Callable[[Profile], bool] = field(default=lambda profile: True)
