"""The rendered templates against ARM's limits. No Azure is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ndctl.azure.preflight.base import Ask, Probe
from ndctl.model.errors import NdctlError
from ndctl.model.preflight import PreflightLine
from ndctl.render.limits import PARAMETERS, RESOURCE_BYTES, RESOURCES, TEMPLATE_BYTES

_MIB = 1024 * 1024


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    try:
        deployments = ask.rendered().deployments
    except NdctlError as error:
        yield probe.refused(error.message.splitlines()[0], error.hint or f"ndctl render {ask.inventory}")
        return
    resources = [(len(one.template["resources"]), one.name) for one in deployments]
    size = [(len(json.dumps(one.template).encode()), one.name) for one in deployments]
    largest = [
        (len(json.dumps(resource).encode()), str(resource["name"]))
        for one in deployments
        for resource in one.template["resources"]
    ]
    parameters = [(len(one.template.get("parameters", {})), one.name) for one in deployments]
    found = (
        ("resources", max(resources), RESOURCES),
        ("bytes of template", max(size), TEMPLATE_BYTES),
        ("bytes of one resource", max(largest), RESOURCE_BYTES),
        ("parameters", max(parameters), PARAMETERS),
    )
    facts = {what.replace(" ", "_"): value for what, (value, _), _ in found}
    over = [
        f"{name} has {value:,} {what}, ARM takes {limit:,}" for what, (value, name), limit in found if value > limit
    ]
    if over:
        yield probe.refused("; ".join(over), f"ndctl render {ask.inventory}   shows the templates", facts=facts)
        return
    most, bytes_, one, given = (value for _, (value, _), _ in found)
    yield probe.proved(
        f"{len(deployments)} templates, at most {most} of {RESOURCES} resources, {bytes_ / _MIB:.2f} of "
        f"{TEMPLATE_BYTES // _MIB} MB, {one / _MIB:.2f} of {RESOURCE_BYTES // _MIB} MB in one resource, {given} of "
        f"{PARAMETERS} parameters",
        facts=facts,
    )


PROBE = Probe("templates", "template sizes", "the rendered templates", _ask)
