"""Evidence before action: all that nodes say, and what ARM says of them, saved before anything is changed.

The nodes are asked as at quick level, so the evidence is a recorded run like any other and can be judged again; ARM's
part lies beside it. Then it is written as a folder to hand on (`record.bundle`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ndctl.checks import commands
from ndctl.model.events import EventSink
from ndctl.model.places import Node
from ndctl.model.status import Level
from ndctl.parse import key_values
from ndctl.record.bundle import write_bundle
from ndctl.record.store import Store
from ndctl.workflow.repair_lease import Stopped
from ndctl.workflow.repair_state import Identity
from ndctl.workflow.select import Selection
from ndctl.workflow.validate import Request, validate_inventories

if TYPE_CHECKING:
    from ndctl.azure.clients import AzureClients
    from ndctl.azure.repair import MachineView
    from ndctl.azure.run_command import RunOutput
    from ndctl.inventory.loader import Loaded
    from ndctl.workflow.unreachable import Diagnosis

# What a report to Azure and a post-mortem cannot do without.
_NEEDED = {
    commands.PHYSICAL_HOST.id: "PhysicalHostName",
    commands.NVIDIA_SMI_XML.id: "nvidia-smi -q -x (serials)",
    commands.KERNEL_LOG.id: "kernel log",
    commands.IMEX_DOMAIN.id: "IMEX",
    commands.IB_COUNTERS_AFTER.id: "InfiniBand counters",
}
_BY_RUN_COMMAND = """echo "physical-host=$(tr '\\000' '\\n' < "$NDCTL_SYSROOT"/var/lib/hyperv/.kvp_pool_3 2>/dev/null \
| grep -A1 '^PhysicalHostName' | grep -v '^PhysicalHostName' | grep -v '^$' | head -n 1)"
echo "boot_id=$(cat "$NDCTL_SYSROOT"/proc/sys/kernel/random/boot_id 2>/dev/null)"
timeout -k 2 20 nvidia-smi --query-gpu=index,serial,uuid,pci.bus_id --format=csv,noheader
timeout -k 2 10 nvidia-imex-ctl -q
(journalctl -k -b -o short-iso --no-pager -q || dmesg --time-format iso) 2>/dev/null | grep -E 'Xid|NVRM|mlx5' \
| tail -n 12 | cut -c1-200
"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """run: id in the record; folder: the bundle; before: node -> who it is; gaps: node -> what could not be taken."""

    run: str
    folder: Path
    before: Mapping[str, Identity] = field(default_factory=dict)
    gaps: Mapping[str, str] = field(default_factory=dict)


def save_evidence(
    loaded: Loaded,
    nodes: Sequence[Node],
    diagnoses: Mapping[str, Diagnosis],
    clients: AzureClients | None,
    folder: Path,
    record: Path | None,
    on_event: EventSink,
) -> Evidence:
    """Ask, keep, write. `folder`: where the bundle's own folder is made. Raises NdctlError when it cannot be kept."""
    run = validate_inventories(
        Request(
            paths=(loaded.path,),
            selection=Selection(nodes=",".join(node.name for node in nodes)),
            level=Level.QUICK,
            record=record,
        ),
        on_event=on_event,
    )
    if run.interrupted:
        raise Stopped  # whoever stops the evidence does not want the action behind it
    cluster = loaded.inventory.cluster
    told = {one.name: one for rack in run.racks for one in rack.nodes}
    before, gaps = {}, {}
    with Store(record) as store:
        for node in nodes:
            texts = dict(diagnoses[node.name].texts) if node.name in diagnoses else {}
            lacking = _lacking(store, run.id, node.name, loaded)
            works = node.name in diagnoses and not diagnoses[node.name].dead
            texts |= _from_arm(clients, node, with_run_command=bool(lacking) and works)
            for name, text in sorted(texts.items()):
                store.answers.keep_text(run.id, cluster, node.name, name, text)
            boot = store.raw_one(run.id, node.name, commands.IDENTITY.id)
            by_arm = key_values.parse(texts.get("run-command-evidence", ""))
            seen = told.get(node.name)
            before[node.name] = Identity(
                node.instance_id,
                node.vm_id,
                (seen.physical_host if seen else "") or by_arm.get("physical-host", ""),
                key_values.parse(boot.stdout).get("boot_id", "") if boot else by_arm.get("boot_id", ""),
            )
            if lacking:
                gaps[node.name] = _gap(lacking, sorted(texts))
        place = folder / run.id
        write_bundle(store, run.id, place)
    return Evidence(run.id, place, before, gaps)


def _lacking(store: Store, run: str, node: str, loaded: Loaded) -> list[str]:
    """What of the needed evidence the node did not give, in words."""
    missing = []
    for command, words in _NEEDED.items():
        if command == commands.IMEX_DOMAIN.id and not loaded.profile.nvlink.imex.value:
            continue
        result = store.raw_one(run, node, command)
        if result is None or result.timed_out or not result.stdout.strip():
            missing.append(words)
    return missing


def _gap(lacking: Sequence[str], arm: Sequence[str]) -> str:
    instead = f"; saved from ARM: {', '.join(arm)}" if arm else "; ARM gave nothing, either"
    return f"not taken: {', '.join(lacking)}{instead}"


def _from_arm(clients: AzureClients | None, node: Node, *, with_run_command: bool) -> dict[str, str]:
    """Instance view and console of every node; what Run Command can still tell only where SSH told too little."""
    if clients is None or not node.instance_id:
        return {}
    from azure.core.exceptions import AzureError

    from ndctl.azure.console import console_log
    from ndctl.azure.repair import machine_view
    from ndctl.azure.run_command import run_command
    from ndctl.azure.whatif import split_id
    from ndctl.model.errors import NdctlError

    scale_set = split_id(node.resource_id)[1].partition("/")[0]
    asked: dict[str, Callable[[], str]] = {
        "arm-instance-view": lambda: _shown(machine_view(clients, scale_set, node.instance_id)),
        "arm-console": lambda: console_log(clients, scale_set, node.instance_id),
    }
    if with_run_command:
        script = _BY_RUN_COMMAND
        asked["run-command-evidence"] = lambda: _both(run_command(clients, scale_set, node.instance_id, script, 60))
    texts = {}
    for name, ask in asked.items():
        try:
            text = ask()
        except (AzureError, NdctlError):
            continue  # what is missing is told as a gap
        if text.strip():
            texts[name] = text
    return texts


def _shown(view: MachineView | None) -> str:
    from ndctl.model.jsonable import dumps

    return dumps(view.raw) if view is not None else ""


def _both(output: RunOutput) -> str:
    return f"{output.stdout}\n{output.stderr}".strip()
