"""Finding, Judgement and Run: what was found, in the one form that table, JSON, JUnit and record share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ndctl.model.status import Action, Status, Verdict

RUN_SCHEMA = "ndctl.run/1"
JUDGE_SCHEMA = "ndctl.judge/1"

Value = float | int | str | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing a check says.

    check:    id, e.g. "nvlink.link-down"
    subject:  the part a technician can touch: "GPU 2 (0018:01:00.0) link 8", "mlx5_ib1", "rack07"
    node:     node name, "" for a rack or pair finding
    value:    measured, in `unit`
    expected: what it was held against, as text; `source` says who says so and when
    message:  one line for a person
    cause:    likely cause, only on warn/fail/unknown
    evidence: where the raw text is: "<node>/<command id>" inside the run, or a file name
    health_category: Azure `Resource.Hpc.*` category where one fits
    caused_by: "<check>@<node or rack>" of the root cause that explains this finding, "" if it stands alone
    explains: what this root cause explains, as texts
    """

    check: str
    status: Status
    subject: str
    message: str
    node: str = ""
    value: Value = None
    unit: str = ""
    expected: str = ""
    source: str = ""
    cause: str = ""
    action: Action = Action.NONE
    evidence: str = ""
    health_category: str = ""
    caused_by: str = ""
    explains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer of `ndctl judge`: facts of one text, and what they mean."""

    tool: str
    profile: str | None
    status: Status
    facts: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    unknown_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeResult:
    """`status` is pass only if the node was asked, answered and is clean; usable nodes are pass or warn."""

    name: str
    status: Status
    address: str = ""
    outcome: str = "ok"
    detail: str = ""
    instance_id: str = ""
    vm_id: str = ""
    physical_host: str = ""


@dataclass(frozen=True, slots=True)
class RackResult:
    name: str
    cluster: str
    verdict: Verdict
    nodes: tuple[NodeResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    usable_nodes: tuple[str, ...] = ()
    expected_nodes: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)  # counts for the summary line
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    id: str
    started: str  # RFC 3339, UTC
    finished: str
    level: str
    inventories: tuple[Mapping[str, Any], ...]  # {path, cluster, digest, profile}
    racks: tuple[RackResult, ...]
    exit_code: int
    interrupted: bool = False
