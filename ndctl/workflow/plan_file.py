"""A plan as JSON (`ndctl.plan/1`), written for `deploy --plan`, and held against what is true when it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndctl.azure.whatif import Change, PropertyChange
from ndctl.model.errors import ExitCode, NdctlError, Where
from ndctl.model.jsonable import dumps
from ndctl.workflow.plan import PLAN_SCHEMA, Act, Plan, Step
from ndctl.workflow.plan_meaning import effects, meaning, worst_effect
from ndctl.workflow.state_dir import replace_file

_SHARED = 0o644  # a plan holds no secret, and is meant to be read by whoever deploys it
_WHAT_MOVED = {
    "inventory": "the inventory",
    "templates": "the rendered templates or their parameters",
    "live": "what is live in Azure",
}


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """What of a written plan binds a deployment."""

    path: Path
    cluster: str
    digest: str
    digests: Mapping[str, str]


def plan_dict(plan: Plan) -> dict[str, Any]:
    """The published form."""
    return {
        "schema": PLAN_SCHEMA,
        "cluster": plan.cluster,
        "inventory": plan.inventory,
        "subscription": plan.subscription,
        "resource_group": {"name": plan.resource_group, "exists": plan.group_exists, "foreign_resources": plan.foreign},
        "region": plan.region,
        "zone": plan.zone,
        "digest": plan.digest,
        "digests": dict(plan.digests),
        "counts": {act.value: plan.count(act) for act in Act},
        "foundation": _step_dict(plan.foundation),
        "racks": [_step_dict(step) for step in plan.racks],
        "not_provable_before_deploy": list(plan.not_provable),
        "preflight": list(plan.preflight),
        "exit_code": int(plan.exit_code),
    }


def write_plan(plan: Plan, path: Path) -> None:
    """An earlier plan of that name stays whole where this one cannot be written: NdctlError (exit 2)."""
    text = dumps(plan_dict(plan)) + "\n"
    try:
        if path.exists() and not path.is_file():  # a device or a pipe is written to, not replaced
            path.write_text(text, encoding="utf-8")
        else:
            replace_file(path.resolve(), text, mode=_SHARED)
    except OSError as error:
        raise NdctlError(
            "plan.not-written",
            f"cannot write {path}: {error.strerror or error}",
            hint="make room or give access there, or name another file: --out FILE",
            exit_code=ExitCode.USAGE,
        ) from error


def read_plan(path: Path) -> SavedPlan:
    """Raises NdctlError (exit 2) for what is no plan file."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["schema"] != PLAN_SCHEMA:
            raise KeyError(f"schema {told['schema']!r}")
        digests = {name: str(told["digests"][name]) for name in _WHAT_MOVED}
        return SavedPlan(path, str(told["cluster"]), str(told["digest"]), digests)
    except OSError as error:
        message = f"cannot read the plan {path}: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"this is not a plan that ndctl wrote ({type(error).__name__}: {error})"
    raise NdctlError(
        "plan.unreadable",
        message,
        hint="write one with: ndctl plan INVENTORY --out plan.json",
        where=Where(path),
        exit_code=ExitCode.USAGE,
    )


def hold_plan(saved: SavedPlan, now: Plan) -> None:
    """Raises NdctlError: exit 2 for another cluster's plan, exit 10 when anything it is bound to has moved."""
    again = f"ndctl plan {now.inventory} --out {saved.path}"
    if saved.cluster != now.cluster:
        raise NdctlError(
            "plan.other-cluster",
            f"{saved.path} is a plan for {saved.cluster}, and the inventory is {now.cluster}",
            hint=again,
            exit_code=ExitCode.USAGE,
        )
    moved = [words for name, words in _WHAT_MOVED.items() if saved.digests[name] != now.digests[name]]
    if not moved and saved.digest != now.digest:
        moved = ["what would be done"]
    if moved:
        raise NdctlError(
            "plan.stale",
            f"{saved.path} is stale: {' and '.join(moved)} changed since it was made; nothing was deployed",
            hint=f"look again and deploy the new plan: {again}",
            exit_code=ExitCode.LOCKED_OR_STALE,
        )


def _step_dict(step: Step) -> dict[str, Any]:
    return {
        "rack": step.rack,
        "name": step.name,
        "action": step.act.value,
        "expected_vms": step.expected_vms,
        "live_vms": step.live_vms,
        "effects": {effect.value: count for effect, count in sorted(effects(step.changes).items())},
        "changes": [_change_dict(change) for change in step.changes],
        "notes": list(step.notes),
        "fault": step.fault.as_dict() if step.fault else None,
    }


def _change_dict(change: Change) -> dict[str, Any]:
    return {
        "change": change.kind.value,
        "type": change.type,
        "name": change.name,
        "id": change.resource_id,
        "source": change.source,
        "note": change.note,
        "effect": effect.value if (effect := worst_effect([change])) else None,
        "properties": [_property_dict(change, one) for one in change.properties],
    }


def _property_dict(change: Change, one: PropertyChange) -> dict[str, Any]:
    told = meaning(change, one)
    return {
        "path": one.path,
        "change": one.kind,
        "before": one.before,
        "after": one.after,
        "effect": told.effect.value,
        "note": told.note,
        "source": told.source,
    }
