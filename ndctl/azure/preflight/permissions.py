"""What each verb needs against what the identity's roles allow, scope by scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from azure.core.exceptions import AzureError

from ndctl.azure.faults import fault_from_exception
from ndctl.azure.granted import Grant, grants_at, missing
from ndctl.azure.preflight.base import Ask, Once, Probe, next_after, reason
from ndctl.azure.roles import Need, needs_of
from ndctl.model.errors import ExitCode
from ndctl.model.preflight import PreflightLine
from ndctl.render import names

_SHOWN = 4
_SOURCE = "Microsoft.Authorization/permissions; deny assignments, conditions and policies show only when it is done"


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    grants = {scope: Once(_asker(ask, at)) for scope, at in _scopes(ask, _group_exists(ask)).items()}
    for verb in ask.verbs:
        yield _verb(ask, probe, verb, grants)


def _verb(ask: Ask, probe: Probe, verb: str, grants: dict[str, Once[tuple[Grant, ...]]]) -> PreflightLine:
    line, title = f"permissions.{verb}", f"permissions of {verb}"
    needs = needs_of(verb, ask.asked)
    lacking: list[Need] = []
    try:
        for scope in dict.fromkeys(need.scope for need in needs):
            lacking += missing((need for need in needs if need.scope == scope), grants[scope]())
    except AzureError as error:
        fault = fault_from_exception(error)
        message = f"what the identity may do was not told: {reason(fault, 100)}"
        return probe.unproved(message, next_after(fault, ask), id=line, title=title)
    facts = {"needed": len(needs), "missing": [need.action for need in lacking]}
    if not lacking:
        return probe.proved(f"the roles hold all {len(needs)} actions", id=line, title=title, facts=facts)
    told = ", ".join(need.action for need in lacking[:_SHOWN])
    more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
    return probe.refused(
        f"{len(lacking)} of {len(needs)} actions {'is' if len(lacking) == 1 else 'are'} missing: {told}{more}",
        f"have a role with what is missing assigned: ndctl roles {ask.inventory} --for {verb} -o json",
        id=line,
        title=title,
        exit_code=ExitCode.PERMISSION,
        facts=facts,
    )


def _group_exists(ask: Ask) -> bool:
    """Whoever may not read the group may still ask what it may do there."""
    try:
        return ask.group().exists
    except AzureError:
        return True


def _scopes(ask: Ask, group_exists: bool) -> dict[str, str]:
    """Where to ask. A group that does not exist yet will inherit the subscription's roles."""
    clients = ask.clients
    subscription = f"/subscriptions/{clients.subscription}"
    group = names.resource_group_id(clients.subscription, clients.resource_group) if group_exists else subscription
    network = ask.loaded.inventory.network
    given = network.subnet if network else None
    return {
        "subscription": subscription,
        "group": group,
        "network": given.partition("/providers/")[0] if given else group,
    }


def _asker(ask: Ask, scope: str) -> Callable[[], tuple[Grant, ...]]:
    return lambda: grants_at(ask.clients, scope)


PROBE = Probe("permissions", "permissions", _SOURCE, _ask)
