"""Signed in, and as whom: from the token's claims, and because Resource Manager takes the token."""

from __future__ import annotations

import re
from collections.abc import Iterator

from azure.core.exceptions import AzureError

from ndctl.azure.faults import fault_from_exception
from ndctl.azure.preflight.base import Ask, Probe, next_after, reason
from ndctl.checks.azure_errors import FaultClass
from ndctl.model.errors import ExitCode
from ndctl.model.preflight import PreflightLine

_GUID = re.compile(r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    if ask.signed_out is not None:
        error = ask.signed_out
        yield probe.refused(error.message, error.hint or "sign in", exit_code=error.exit_code)
        return
    clients = ask.clients
    who = clients.identity()
    facts = {"cloud": clients.cloud.name, "authority": clients.cloud.authority, "endpoint": clients.cloud.endpoint}
    if who is not None:
        facts |= {
            "kind": who.kind,
            "object_id": who.object_id,
            "tenant": who.tenant,
            "application": who.application,
            "name": who.name,
        }
    as_whom = f"as {who.label}" if who else "as somebody whom the token does not name"
    details = [f"object id {who.object_id}"] if who and who.object_id else []
    details += [f"tenant {who.tenant}"] if who and who.tenant else []
    told = ", ".join([f"{as_whom}", *details])
    wanted = ask.loaded.inventory.tenant
    if who and wanted and _GUID.match(wanted) and who.tenant and who.tenant.casefold() != wanted.casefold():
        yield probe.refused(
            f"{told}; the inventory names tenant {wanted}",
            f"az login --tenant {wanted}",
            exit_code=ExitCode.PERMISSION,
            facts=facts,
        )
        return
    try:
        ask.group()
    except AzureError as error:
        fault = fault_from_exception(error)
        code = fault.innermost_code.casefold()
        if fault.fault_class is FaultClass.AUTH or "subscription" in code:
            yield probe.refused(f"{told}; {reason(fault)}", fault.next_step, exit_code=ExitCode.PERMISSION, facts=facts)
        elif fault.fault_class is FaultClass.PERMISSION:
            yield probe.proved(f"{told} (Azure knows the identity and refuses to show the resource group)", facts=facts)
        else:
            message = f"{told}; Resource Manager could not confirm it: {reason(fault)}"
            yield probe.unproved(message, next_after(fault, ask), facts=facts)
        return
    yield probe.proved(told, facts=facts)


PROBE = Probe("signed-in", "signed in", "the token's claims; a read of the resource group", _ask)
