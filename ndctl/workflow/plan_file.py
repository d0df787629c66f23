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

_ANY_PLAN = "ndctl.plan/"  # of whatever version
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


def refuse_out(path: Path) -> None:
    """Raises NdctlError (exit 2) where a plan would take the place of something else, or can have none.

    An empty file and an earlier plan of any version may be replaced; a device or a pipe is written to.
    """
    try:
        if path.is_dir():
            raise _not_here(f"{path} is a directory")
        if not path.exists() and not path.resolve().parent.is_dir():
            raise _not_here(f"there is no directory {path.resolve().parent} to write {path.name} in")
        if not path.is_file() or path.stat().st_size == 0 or _holds_a_plan(path):
            return
    except OSError as error:
        raise _not_here(f"{path} cannot be read ({error.strerror or error}), so that it may be anything") from error
    raise _not_here(f"{path} exists and is not a plan that ndctl wrote; it was not touched")


def write_plan(plan: Plan, path: Path) -> None:
    """What is no plan is not replaced, and an earlier plan stays whole where this one cannot be written.

    A plan holds no secret: a new file has the mode that any program's would, one that is replaced keeps its own.
    Raises NdctlError (exit 2).
    """
    refuse_out(path)
    text = dumps(plan_dict(plan)) + "\n"
    try:
        if path.exists() and not path.is_file():  # a device or a pipe is written to, not replaced
            path.write_text(text, encoding="utf-8")
        else:
            replace_file(path.resolve(), text, private=False)
    except OSError as error:
        raise NdctlError(
            "plan.not-written",
            f"cannot write {path}: {error.strerror or error}",
            hint="make room or give access there, or name another file: --out FILE",
            exit_code=ExitCode.USAGE,
        ) from error


def read_plan(path: Path) -> SavedPlan:
    """Raises NdctlError (exit 2) for what is no plan file, and for a plan of another version of ndctl."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, f"cannot read the plan {path}: {error.strerror or error}") from error
    told = _json_object(text)
    if told is None:
        raise _unreadable(path, f"this is not a plan that ndctl wrote: {'no JSON object' if text else 'it is empty'}")
    schema = told.get("schema")
    if schema != PLAN_SCHEMA:
        if isinstance(schema, str) and schema.startswith(_ANY_PLAN):
            raise _unreadable(
                path, f"another version of ndctl wrote this plan ({schema}); this one reads {PLAN_SCHEMA}"
            )
        said = f"it says schema '{schema}'" if isinstance(schema, str) else "it names no schema"
        raise _unreadable(path, f"this is not a plan that ndctl wrote: {said}")
    digests = told.get("digests")
    named: dict[str, Any] = {"cluster": told.get("cluster"), "digest": told.get("digest")}
    named |= {f"digests.{name}": digests.get(name) if isinstance(digests, dict) else None for name in _WHAT_MOVED}
    lacking = [name for name, value in named.items() if not isinstance(value, str)]
    if lacking:
        raise _unreadable(path, f"this is not a plan that ndctl wrote, or was cut: it lacks {', '.join(lacking)}")
    return SavedPlan(path, named["cluster"], named["digest"], {name: named[f"digests.{name}"] for name in _WHAT_MOVED})


def _holds_a_plan(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.read(64).lstrip().startswith(b"{"):  # spares reading a whole disk image
            return False
    told = _json_object(path.read_bytes())
    return told is not None and str(told.get("schema")).startswith(_ANY_PLAN)


def _json_object(text: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):  # no UTF-8 is a ValueError too
        return None
    return told if isinstance(told, dict) else None


def _not_here(message: str) -> NdctlError:
    return NdctlError(
        "plan.other-file",
        message,
        hint="name another file: --out plan.json",
        exit_code=ExitCode.USAGE,
    )


def _unreadable(path: Path, message: str) -> NdctlError:
    return NdctlError(
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
