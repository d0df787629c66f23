"""What a pasted error of Azure means: its innermost cause, whether trying again helps, and the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ndctl.checks.azure_errors import FaultClass, vocabulary
from ndctl.checks.azure_roots import Root, roots
from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.azure_error import parse as read
from ndctl.profiles.schema import Profile

_ACTIONS = {
    FaultClass.CAPACITY: Action.WATCH,
    FaultClass.THROTTLE: Action.WATCH,
    FaultClass.CONFLICT: Action.WATCH,
    FaultClass.PLATFORM: Action.WATCH,
    FaultClass.IMAGE: Action.FIX_IMAGE,
    FaultClass.TEMPLATE: Action.FIX_INVENTORY,
    FaultClass.NETWORK: Action.FIX_INVENTORY,
}
_MOST_SHOWN = 20
_MESSAGE_SHOWN = 400
_NONE: dict[str, Any] = {
    "code": None,
    "innermost_code": None,
    "class": None,
    "retryable": None,
    "message": None,
    "meaning": None,
    "next_step": None,
    "targets": [],
    "errors": [],
}


def parse(text: str) -> dict[str, Any]:
    """The facts of the first cause, and every cause under `errors`; all None where the text tells no error.

    code:           the outermost code as told, "" where there is none
    innermost_code: the cause's own code, "" where it is told by its words only
    class:          auth | permission | quota | capacity | policy | image | network | template | throttle | conflict |
                    platform | unknown
    retryable:      the same request may succeed later, unchanged
    known_as:       the entry of azure_errors.yaml
    """
    found = roots(read(text, vocabulary()))
    if not found:
        return dict(_NONE)
    errors = [_facts(root) for root in found]
    targets = dict.fromkeys(target for root in found for target in root.targets)
    return {**errors[0], "targets": list(targets), "errors": errors}


def _facts(root: Root) -> dict[str, Any]:
    return {
        "code": root.outer,
        "innermost_code": root.told.code,
        "class": root.known.fault_class.value,
        "retryable": root.known.retryable,
        "message": root.message,
        "meaning": root.known.meaning,
        "next_step": root.known.next,
        "known_as": root.known.id,
        "source": root.known.source,
        "targets": list(root.targets),
        "http_status": root.told.status,
        "times": root.times,
    }


def judge(facts: Mapping[str, Any], profile: Profile | None) -> Sequence[Finding]:
    """One failure a cause. What Azure refuses does not depend on the hardware's profile."""
    errors = facts["errors"]
    if not errors:
        message = "no error of Azure is told in this text"
        return [Finding(check="azure.none", status=Status.UNKNOWN, subject="text", message=message)]
    return [_finding(one) for one in errors[:_MOST_SHOWN]]


def _finding(error: Mapping[str, Any]) -> Finding:
    fault_class = FaultClass(error["class"])
    code = error["innermost_code"] or error["code"]
    if fault_class is FaultClass.UNKNOWN:
        again = "cause not told" if error["known_as"] != "unknown" else "not known to ndctl"
    else:
        again = f"{fault_class.value}, {'may be tried again' if error['retryable'] else 'trying again will not help'}"
    targets = error["targets"][:3]
    said = error["message"] or error["meaning"]
    wrapped = f"; inside {error['code']}" if error["code"] and error["code"] != code else ""
    times = f"; told {error['times']} times" if error["times"] > 1 else ""
    shown = said if len(said) <= _MESSAGE_SHOWN else said[:_MESSAGE_SHOWN].rstrip() + "…"
    return Finding(
        check=f"azure.{fault_class.value}",
        status=Status.FAIL,
        subject=(code or "error") + (f" ({', '.join(targets)})" if targets else ""),
        message=f"{again}{wrapped}{times}: {shown}",
        cause=f"{error['meaning']} Next: {error['next_step']}",
        source=error["source"],
        action=_ACTIONS.get(fault_class, Action.INVESTIGATE),
    )


def looks_like(text: str) -> float:
    """Whether an error that the table knows is told; its reader already leaves out what other programs say too."""
    known = [root for root in roots(read(text, vocabulary())) if root.known.id != "unknown"]
    return 0.8 if known else 0.0


JUDGE = TextJudge(
    tool="azure-error",
    title="an error of Azure as az, Terraform, PowerShell, an SDK or a controller's log printed it",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("azure", "arm-error", "az-error"),
)
