"""SSH host keys of an instance, learned over ARM's authenticated channel, so that none is ever taken on trust.

First by Run Command, which reads the public host keys as root inside the VM. Where that gives none (no VM agent), from
the serial console in boot diagnostics, where cloud-init prints the keys between two marker lines at first boot.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass

from azure.core.exceptions import AzureError

from ndctl.azure.clients import AzureClients
from ndctl.azure.console import console_log
from ndctl.azure.faults import fault_from_exception
from ndctl.azure.run_command import run_command
from ndctl.model.errors import NdctlError

HOST_KEYS_SCRIPT = "cat /etc/ssh/ssh_host_*_key.pub"
_KEY = re.compile(
    r"^\s*(?:ci-info: )?(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) ([A-Za-z0-9+/]{40,}={0,2})(?:\s|$)", re.M
)
_CONSOLE_KEYS = re.compile(r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LearnedKeys:
    """`keys` as ("ssh-ed25519", base64) pairs, strongest type first; `source` says where from. Empty: `problem`."""

    keys: tuple[tuple[str, str], ...]
    source: str = ""
    problem: str = ""


def learn_host_keys(clients: AzureClients, scale_set: str, instance_id: str) -> LearnedKeys:
    """Ask one instance. Never raises for a failure of the VM or of Azure: the failure is in `problem`."""
    problems = []
    ways: tuple[tuple[str, Callable[[], str]], ...] = (
        ("run command", lambda: _run_command(clients, scale_set, instance_id)),
        ("boot diagnostics", lambda: _last_console_block(console_log(clients, scale_set, instance_id))),
    )
    for source, text_of in ways:
        try:
            keys = public_keys(text_of())
        except AzureError as error:
            fault = fault_from_exception(error)
            problems.append(f"{source}: {fault.innermost_code or fault.code}: {fault.innermost_message}"[:300])
            continue
        except NdctlError as error:
            problems.append(f"{source}: {error.message}")
            continue
        if keys:
            return LearnedKeys(keys, source)
        problems.append(f"{source}: no host key in the answer")
    return LearnedKeys((), problem="; ".join(problems))


def public_keys(text: str) -> tuple[tuple[str, str], ...]:
    """The host keys in a text, each type once, ed25519 first. A key that is not of the type it names is left out."""
    order = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
    found: dict[str, str] = {}
    for match in _KEY.finditer(text):
        kind, key = match[1], match[2]
        try:
            blob = base64.b64decode(key, validate=True)
        except binascii.Error:
            continue
        if blob[4 : 4 + int.from_bytes(blob[:4], "big")] == kind.encode():
            found[kind] = key
    return tuple((kind, found[kind]) for kind in order if kind in found)


def _run_command(clients: AzureClients, scale_set: str, instance_id: str) -> str:
    return run_command(clients, scale_set, instance_id, HOST_KEYS_SCRIPT).stdout


def _last_console_block(console: str) -> str:
    blocks = _CONSOLE_KEYS.findall(console)
    return str(blocks[-1]) if blocks else ""
