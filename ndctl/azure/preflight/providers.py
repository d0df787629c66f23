"""Resource providers: whether the subscription is registered with those that the templates use."""

from __future__ import annotations

from collections.abc import Iterator

from ndctl.azure.preflight.base import Ask, Probe
from ndctl.azure.whatif import from_template
from ndctl.model.preflight import PreflightLine

_REPORTS = "Microsoft.Impact"


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    wanted = {one.type.partition("/")[0] for part in ask.rendered().deployments for one in from_template(part, "")}
    if "report-node" in ask.verbs:
        wanted.add(_REPORTS)
    states = {name: _state(ask, name) for name in sorted(wanted)}
    bad = {name: state for name, state in states.items() if state.casefold() != "registered"}
    if not bad:
        yield probe.proved(", ".join(states), facts={"states": states})
        return
    told = ", ".join(f"{name} is {state or 'in an unknown state'}" for name, state in bad.items())
    first = next(iter(bad))
    if all(state.casefold() == "registering" for state in bad.values()):
        yield probe.unproved(
            told, f"az provider show --namespace {first}, until it is Registered", facts={"states": states}
        )
        return
    yield probe.refused(told, f"az provider register --wait --namespace {first}", facts={"states": states})


def _state(ask: Ask, namespace: str) -> str:
    return ask.clients.resources.providers.get(namespace).registration_state or ""


PROBE = Probe("providers", "resource providers", "Microsoft.Resources providers of the subscription", _ask)
