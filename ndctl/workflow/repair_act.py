"""One node's repair, step by step; each step is written down before and after, so that it can be gone on with."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from ndctl.checks.commands import IDENTITY
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.events import Event, EventSink
from ndctl.model.places import Cluster, Node, Rack, split_node_name
from ndctl.parse import key_values
from ndctl.workflow.named_nodes import part_of
from ndctl.workflow.positions import Place
from ndctl.workflow.repair_resume import Came, what_came
from ndctl.workflow.repair_state import Entry, Identity, Phase, RepairAction, Repairs
from ndctl.workflow.transport import Transport

if TYPE_CHECKING:
    from ndctl.azure.clients import AzureClients
    from ndctl.inventory.loader import Loaded

# What holds the GPUs of an idle node is stopped for a reset and started again, whatever comes of it.
_RESET_GPU = Command(
    "repair-reset-gpu",
    'held=; for u in nvidia-dcgm nvidia-imex nvidia-persistenced; do systemctl is-active -q "$u" && held="$held $u"; '
    "done; back() { for u in $held; do systemctl start $u; done; }; trap back EXIT; "
    "for u in $held; do systemctl stop $u || exit 1; done; nvidia-smi --gpu-reset",
    timeout_s=300,
    cap_bytes=40_000,
    root=True,
)
_RESTART_IMEX = Command(
    "repair-restart-imex", "systemctl restart nvidia-imex", timeout_s=120, cap_bytes=10_000, root=True
)
# Answers first, so that its end is seen. Only where there is no Azure to do it.
_REBOOT = Command(
    "repair-reboot",
    "command -v systemctl >/dev/null || exit 127; (sleep 2; systemctl reboot) >/dev/null 2>&1 </dev/null &",
    timeout_s=30,
    cap_bytes=10_000,
    root=True,
)
_BY_SSH = {
    RepairAction.RESET_GPU: _RESET_GPU,
    RepairAction.RESTART_IMEX: _RESTART_IMEX,
    RepairAction.REBOOT: _REBOOT,
}
_BY_ARM = {RepairAction.REBOOT: "restart", RepairAction.REIMAGE: "reimage", RepairAction.REDEPLOY: "redeploy"}
# A GB300 tray takes minutes to come up, longer where its memory is trained. ndctl's own limit, 2026-12.
BACK_WITHIN_S = 2400.0
_ASK_EVERY_S = 15.0


class NodeRepair:
    """What is done to nodes of one cluster. Thread-safe but for nodes of one rack, which go one after another."""

    def __init__(
        self,
        loaded: Loaded,
        clients: AzureClients | None,
        repairs: Repairs,
        open_transport: Callable[[Loaded, Cluster, int], Transport],
        on_event: EventSink,
        *,
        stop: threading.Event,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        now: Callable[[], str],
        back_within_s: float = BACK_WITHIN_S,
    ) -> None:
        self._loaded, self._clients, self._repairs = loaded, clients, repairs
        self._open_transport, self._on_event = open_transport, on_event
        self._stop, self._clock, self._sleep, self._now = stop, clock, sleep, now
        self._back_within_s = back_within_s
        self._every_s = _ASK_EVERY_S / (clients.cloud.speed if clients is not None else 1.0)

    def act(self, node: Node, entry: Entry) -> Entry:
        """Do what the entry says, from where it stands. Raises AzureError or NdctlError; the entry then says how far it
        came."""
        if entry.phase in (Phase.ACTED, Phase.BACK):
            return entry
        if entry.action is RepairAction.REPLACE:
            return self._replace(node, entry)
        if entry.phase is Phase.ACTING and not entry.action.on_the_node:
            came = self._what_came(node, entry)
            if self._stop.is_set():
                return entry
            if came is not Came.NOT_DONE:
                told = "was done" if came is Came.DONE else "may have been done: it is waited for, and not sent again"
                self._tell(node, f"{entry.action.value} {told}")
                return self._repairs.put(entry.at(Phase.ACTED))
        if self._clients is None or entry.action.on_the_node:
            return self._on_the_node(node, entry)
        from ndctl.azure.repair import act

        sent = self._repairs.put(entry.at(Phase.ACTING, operation=""))
        self._tell(node, entry.action.value)

        def keep(url: str) -> None:
            nonlocal sent
            sent = self._repairs.put(sent.at(Phase.ACTING, operation=url))

        act(self._azure, _scale_set(node), node.instance_id, _BY_ARM[entry.action], on_operation=keep)
        return self._repairs.put(sent.at(Phase.ACTED))

    def _what_came(self, node: Node, entry: Entry) -> Came:
        cluster = Cluster(self._loaded.inventory.cluster, (_rack_of(node),))
        return what_came(
            entry,
            self._clients,
            _scale_set(node),
            lambda: _boot(self._ask(cluster, node)),
            stop=self._stop,
            until=self._clock() + self._back_within_s,
            clock=self._clock,
            pause=lambda: self._sleep(self._every_s),
        )

    def wait(self, node: Node, entry: Entry) -> Entry:
        """Learn the host key anew where the disk is new, and wait until the node answers, from another boot than
        before. What does not come back in time ends as NOT_BACK, so that something else can be tried."""
        if entry.action.on_the_node:
            return self._repairs.put(entry.at(Phase.BACK, after=entry.before))
        until = self._clock() + self._back_within_s
        cluster = part_of(Cluster(self._loaded.inventory.cluster, (_rack_of(node),)), [node])
        learned = not entry.action.takes_the_disk
        self._tell(node, "waiting for it to come back")
        while not self._stop.is_set():
            # A boot that went on when keys were read first gives the keys of the disk before.
            learned = learned or not self._learn(cluster)
            answer = self._ask(cluster, node) if learned else None
            boot = _boot(answer)
            if answer is not None and answer.outcome.ok and boot and boot != entry.before.boot_id:
                after = Identity(node.instance_id, node.vm_id, _host(answer) or node.physical_host, boot)
                return self._repairs.put(entry.at(Phase.BACK, after=after))
            if answer is not None and entry.action.takes_the_disk and "host-key" in answer.outcome.kind.value:
                learned = False
            if self._clock() >= until:
                return self._repairs.put(entry.at(Phase.NOT_BACK, ended=self._now(), error=self._silent_for()))
            self._sleep(self._every_s)
        return entry

    def _silent_for(self) -> str:
        return f"did not answer by SSH within {self._back_within_s / 60:.0f} min"

    def _learn(self, cluster: Cluster) -> bool:
        """Whether a key is lacking."""
        from ndctl.workflow.nodes import learn_host_keys

        return bool(learn_host_keys(self._loaded, cluster, relearn=True, clients=self._azure))

    def _ask(self, cluster: Cluster, node: Node) -> NodeAnswer:
        from ndctl.checks.commands import PHYSICAL_HOST

        with closing(self._open_transport(self._loaded, cluster, 4)) as transport:
            return transport.ask({node: [IDENTITY, PHYSICAL_HOST]})[node]

    def _on_the_node(self, node: Node, entry: Entry) -> Entry:
        command = _BY_SSH[entry.action]
        cluster = Cluster(self._loaded.inventory.cluster, (_rack_of(node),))
        self._repairs.put(entry.at(Phase.ACTING))
        self._tell(node, entry.action.value)
        with closing(self._open_transport(self._loaded, cluster, 4)) as transport:
            answer = transport.ask({node: [command]})[node]
        result = answer.results.get(command.id)
        if result is None or result.exit_code != 0:
            said = answer.outcome.detail or answer.outcome.kind.value
            if result is not None:
                text = " ".join((result.stdout + " " + result.stderr).split())
                said = "no end in time" if result.timed_out else f"exit code {result.exit_code}: {text[-400:]}"
            raise NdctlError(
                "repair.on-the-node",
                f"{node.name}: {entry.action.value} failed: {said}",
                hint="what uses its GPUs? ndctl validate "
                f"{shlex.quote(str(self._loaded.path))} --nodes {node.name} --level quick",
                exit_code=ExitCode.DEPLOY_FAILED,
            )
        return self._repairs.put(entry.at(Phase.ACTED))

    def _replace(self, node: Node, entry: Entry) -> Entry:
        """Delete the instance, ask the set for as many as before, and put who comes at the node's place.

        After a crash: what was written down says which instance was meant, and who stood beside it.
        """
        from ndctl.azure.repair import capacity_of, delete_instance, grow
        from ndctl.azure.scale_sets import list_instances

        scale_set = _scale_set(node) or self._scale_set_of(node.rack)
        old = entry.before.instance_id
        if entry.phase is not Phase.DELETED:
            there = list_instances(self._azure, scale_set)
            if not entry.capacity:
                wanted = capacity_of(self._azure, scale_set)
                if all(one.instance_id != old for one in there) and len(there) >= wanted:
                    wanted += 1  # who is missing was taken off the set's capacity with its instance
                others = tuple(one.instance_id for one in there if one.instance_id != old)
                entry = self._repairs.put(entry.at(Phase.ACTING, capacity=wanted, others=others))
            if any(one.instance_id == old and one.vm_id == entry.before.vm_id for one in there):
                self._tell(node, f"deleting instance {old}")
                delete_instance(self._azure, scale_set, old)
            entry = self._repairs.put(entry.at(Phase.DELETED))
        self._tell(node, f"growing {scale_set} to {entry.capacity} again")
        grow(self._azure, scale_set, entry.capacity)
        known = {*entry.others, *(one.after.instance_id for one in self._repairs.all() if one.node != node.name)}
        new = [one for one in list_instances(self._azure, scale_set) if one.instance_id not in known and one.deployed]
        if not new:
            raise NdctlError(
                "repair.no-replacement",
                f"{node.name}: the old VM is gone, and {scale_set} has no new one in its place",
                hint=f"run the same command again later: it goes on with growing {scale_set}",
                exit_code=ExitCode.DEPLOY_FAILED,
            )
        position = split_node_name(node.name)
        assert position is not None  # every node of a scale set has a name ndctl gave
        from ndctl.workflow.nodes import keep_place

        keep_place(self._loaded, node.rack, position[1], Place(new[0].instance_id, new[0].vm_id))
        after = Identity(new[0].instance_id, new[0].vm_id)
        return self._repairs.put(entry.at(Phase.ACTED, after=after))

    def _scale_set_of(self, rack: str) -> str:
        from ndctl.azure.scale_sets import list_scale_sets

        found = [one.name for one in list_scale_sets(self._azure, self._loaded.inventory.cluster) if one.rack == rack]
        if not found:
            raise NdctlError("repair.no-scale-set", f"{rack} has no scale set", exit_code=ExitCode.PREFLIGHT)
        return found[0]

    @property
    def _azure(self) -> AzureClients:
        assert self._clients is not None  # refuse_off_azure stands before
        return self._clients

    def _tell(self, node: Node, message: str) -> None:
        self._on_event(
            Event("repair", "running", self._loaded.inventory.cluster, node.rack, message=f"{node.name}: {message}")
        )


def _scale_set(node: Node) -> str:
    from ndctl.azure.whatif import split_id

    return split_id(node.resource_id)[1].partition("/")[0] if node.resource_id else ""


def _rack_of(node: Node) -> Rack:
    return Rack(node.rack, 0, 1, (node,))


def _boot(answer: NodeAnswer | None) -> str:
    result = answer.results.get(IDENTITY.id) if answer is not None else None
    return key_values.parse(result.stdout).get("boot_id", "") if result is not None else ""


def _host(answer: NodeAnswer) -> str:
    result = answer.results.get("physical-host")
    lines = result.stdout.strip().splitlines() if result is not None and result.exit_code == 0 else []
    return lines[-1].strip() if lines else ""
