"""Names and tags: what stands in the resource group under a name that the templates use, and is not the cluster's."""

from __future__ import annotations

from collections.abc import Iterator

from ndctl.azure.preflight.base import Ask, Probe, count
from ndctl.azure.whatif import from_template
from ndctl.model.preflight import PreflightLine
from ndctl.render import names

_SHOWN = 3


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    clients, group = ask.clients, ask.group()
    if not group.exists:
        yield probe.proved(f"resource group {clients.resource_group} does not exist yet, so nothing is in the way")
        return
    group_id = names.resource_group_id(clients.subscription, clients.resource_group)
    wanted = {
        one.resource_id.casefold(): one.name
        for part in ask.rendered().deployments
        for one in from_template(part, group_id)
    }
    clashes = [one for one in group.foreign if one.id.casefold() in wanted]
    facts = {"ours": len(group.ours), "foreign": len(group.foreign), "clashes": [one.id for one in clashes]}
    if clashes:
        told = [f"{one.type.rpartition('/')[2]}/{one.name} ({_whose(one.tags)})" for one in clashes[:_SHOWN]]
        more = f" and {len(clashes) - _SHOWN} more" if len(clashes) > _SHOWN else ""
        yield probe.refused(
            f"{', '.join(told)}{more}: deploy would change what is not this cluster's",
            "rename the cluster, or use another resource group",
            facts=facts,
        )
        return
    there = f"{count(len(group.ours), 'resource')} of this cluster, {len(group.foreign)} of others, no name in the way"
    yield probe.proved(there, facts=facts)


def _whose(tags: object) -> str:
    told = {str(key).casefold(): str(value) for key, value in dict(tags or {}).items()}  # type: ignore[call-overload]
    other = told.get(names.TAG_CLUSTER)
    if not other:
        return "without the cluster's tags"
    lacks = "" if told.get(names.TAG_MANAGED_BY) == names.MANAGED_BY else f", without {names.TAG_MANAGED_BY}"
    return f"tagged {names.TAG_CLUSTER}: {other}{lacks}"


PROBE = Probe("names", "names and tags", "the resources of the resource group", _ask)
