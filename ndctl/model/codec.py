"""A Run as JSON and back: the one form that the record, `-o json` and `ndctl report` share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ndctl.model.findings import RUN_SCHEMA, Finding, NodeResult, RackResult, Run
from ndctl.model.jsonable import jsonable
from ndctl.model.status import Action, Status, Verdict


def run_to_json(run: Run) -> dict[str, Any]:
    """`{"schema": "ndctl.run/1", "run": id, "started": …, "inventories": […], "racks": […], "exit_code": …}`."""
    body = jsonable(run)
    return {"schema": RUN_SCHEMA, "run": body.pop("id"), **body}


def run_from_json(data: Mapping[str, Any]) -> Run:
    """The inverse of `run_to_json`; keys that this version does not know are ignored, so newer records can be read."""
    return Run(
        id=data["run"],
        started=data["started"],
        finished=data["finished"],
        level=data["level"],
        inventories=tuple(data["inventories"]),
        racks=tuple(_rack(r) for r in data["racks"]),
        exit_code=data["exit_code"],
        interrupted=data.get("interrupted", False),
    )


def _rack(data: Mapping[str, Any]) -> RackResult:
    return RackResult(
        name=data["name"],
        cluster=data["cluster"],
        verdict=Verdict(data["verdict"]),
        nodes=tuple(
            NodeResult(**{**_known(NodeResult, node), "status": Status(node["status"])}) for node in data["nodes"]
        ),
        findings=tuple(_finding(f) for f in data["findings"]),
        usable_nodes=tuple(data["usable_nodes"]),
        expected_nodes=data.get("expected_nodes", 0),
        facts=data.get("facts", {}),
        seconds=data.get("seconds", 0.0),
    )


def _finding(data: Mapping[str, Any]) -> Finding:
    fields = _known(Finding, data)
    return Finding(
        **{
            **fields,
            "status": Status(data["status"]),
            "action": Action(data.get("action", "none")),
            "explains": tuple(data.get("explains", ())),
        }
    )


def _known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in kind.__dataclass_fields__ if name in data}  # type: ignore[attr-defined]
