"""World: one model of the racks, from which the control plane and every tool on every node answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.sim.faults import Fault, FaultBook
from ndctl.sim.world.shape import Shape, shape_for
from ndctl.sim.world.view import NodeView, applies_to, build_view
from ndctl.sim.world.vm import VM

if TYPE_CHECKING:
    from ndctl.sim.nodes.tree import NodeTrees

GB300_SIZE = "Standard_ND128isr_GB300_v6"


class World:
    """The racks of one embedded region. Thread-safe; kept in `directory`, so that a restart finds it again.

    Its answers depend on `seed`, the VMs added and the faults planted, and on nothing else but the clock.
    """

    def __init__(self, directory: Path, *, seed: str = "ndctl", clock: Callable[[], float] = time.time) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.clock = clock
        self.faults = FaultBook(self.directory / "faults.json", clock)
        self._lock = threading.RLock()
        self._file = self.directory / "world.jsonl"
        self._vms: dict[tuple[str, str], VM] = {}
        self._by_address: dict[str, VM] = {}
        self._views: dict[tuple[str, str], tuple[int, NodeView]] = {}
        self._version = 0
        self.seed = seed
        self._trees: NodeTrees | None = None
        self._load()

    @property
    def version(self) -> int:
        """Grows with every change of VMs or faults, also with faults another process planted."""
        self.faults.refresh()
        return self._version + self.faults.version

    def add_vm(
        self,
        cluster: str,
        rack: int | None,
        index: int,
        *,
        vmss: str,
        instance_id: str,
        address: str,
        admin_user: str,
        admin_key: str,
        tags: Mapping[str, str] | None = None,
        vm_size: str = GB300_SIZE,
        name: str = "",
        location: str = "swedencentral",
        zone: str = "1",
        host_salt: int = 0,
    ) -> VM:
        """A new VM. `rack` None or 0: a machine without GPUs, such as the jump host; give it a `name`.

        index: place in the rack from 1; admin_key: one OpenSSH public key line or several; host_salt: see `VM`.
        """
        with self._lock:
            taken = self._by_address.get(address)
            if taken is not None and taken.key != (vmss, instance_id):
                raise NdctlError(
                    "sim.address-taken", f"address {address} belongs to {taken.hostname}", exit_code=ExitCode.USAGE
                )
            vm = VM(
                seed=self.seed,
                cluster=cluster,
                rack=rack or 0,
                index=index,
                vmss=vmss,
                instance_id=str(instance_id),
                address=address,
                admin_user=admin_user,
                admin_key=admin_key,
                vm_size=vm_size,
                created=self.clock(),
                name=name,
                location=location,
                zone=zone,
                host_salt=host_salt,
                tags=dict(tags or {}),
            )
            self._put(vm)
            return vm

    def remove_vm(self, vmss: str, instance_id: str) -> None:
        """Remove it if it is there."""
        with self._lock:
            vm = self._vms.pop((vmss, str(instance_id)), None)
            if vm is not None:
                self._by_address.pop(vm.address, None)
                self._changed({"removed": vm.key})

    def vm(self, vmss: str, instance_id: str) -> VM:
        """KeyError if there is none."""
        with self._lock:
            return self._with_faults(self._vms[(vmss, str(instance_id))])

    def vm_at(self, address: str) -> VM | None:
        with self._lock:
            vm = self._by_address.get(address)
            return None if vm is None else self._with_faults(vm)

    def vms(self) -> list[VM]:
        with self._lock:
            return [self._with_faults(vm) for vm in self._vms.values()]

    def named(self, hostname: str, cluster: str | None = None) -> VM | None:
        return next((vm for vm in self.vms() if vm.hostname == hostname and cluster in (None, vm.cluster)), None)

    def update(self, vm: VM, **changes: Any) -> VM:
        """Change a VM's own record (tags, host_salt on redeploy, generation on reimage, boots on reboot)."""
        with self._lock:
            if "host_salt" in changes or "generation" in changes or "boots" in changes:
                changes.setdefault("boots", vm.boots + 1)
                changes.setdefault("born", vm.born or vm.created)
                changes.setdefault("created", self.clock())
            changed = replace(self._vms[vm.key], **changes)
            self._put(changed)
            return changed

    def shape(self, vm: VM) -> Shape:
        return shape_for(vm.vm_size)

    def rack_mates(self, vm: VM) -> Sequence[VM]:
        """The rack's VMs, in the order of the IMEX node list."""
        with self._lock:
            mates = [other for other in self._vms.values() if (other.cluster, other.rack) == (vm.cluster, vm.rack)]
        return sorted(mates, key=lambda other: (other.index, other.instance_id))

    def node(self, vm: VM) -> NodeView:
        """What the node's tools see now; kept until something changes. Not for machines without GPUs."""
        with self._lock:
            version = self.version
            kept = self._views.get(vm.key)
            if kept is not None and kept[0] == version:
                return kept[1]
            mates = self.rack_mates(vm)
            names = {(mate.cluster, mate.hostname) for mate in mates}
            faults = [
                fault
                for fault in self.faults.list()
                if "node" in fault.where and (fault.where.get("cluster", vm.cluster), fault["node"]) in names
            ]
            view = build_view(vm, self.shape(vm), mates, faults)
            self._views[vm.key] = (version, view)
            return view

    @property
    def trees(self) -> NodeTrees:
        """The nodes' folders on disk; made on first use."""
        from ndctl.sim.nodes.service import socket_path
        from ndctl.sim.nodes.tree import NodeTrees

        with self._lock:
            if self._trees is None:
                self._trees = NodeTrees(self, socket_path(self))
            return self._trees

    def shell(self, vm: VM, script: str, timeout_s: float = 90.0) -> tuple[int, str, str]:
        """Run an sh script as root on the node: (exit status, stdout, stderr), as Run Command does.

        Blocks: from the simulator's event loop, call it in a thread.
        """
        from ndctl.sim.nodes import shell

        return shell.run(self.trees, vm, script, timeout_s)

    def node_fault(self, vm: VM, *kinds: str) -> Fault | None:
        """The first planted fault of these kinds on this VM."""
        return next((fault for fault in self.faults.of(*kinds) if applies_to(fault, vm)), None)

    def _with_faults(self, vm: VM) -> VM:
        return replace(vm, rekeyed=vm.rekeyed + 1) if self.node_fault(vm, "ssh-hostkey-changed") else vm

    def _put(self, vm: VM) -> None:
        before = self._vms.get(vm.key)
        if before is not None:
            self._by_address.pop(before.address, None)
        self._vms[vm.key] = vm
        self._by_address[vm.address] = vm
        self._changed({"put": asdict(vm)})

    def _changed(self, entry: Mapping[str, Any]) -> None:
        """A change is one line appended, so that adding a thousand VMs writes each once."""
        self._version += 1
        with self._file.open("a") as journal:
            journal.write(json.dumps(entry) + "\n")

    def _load(self) -> None:
        if not self._file.exists():
            self._changed({"seed": self.seed})
            return
        for line in self._file.read_text().splitlines():
            entry = json.loads(line)
            if "seed" in entry:
                self.seed = entry["seed"]
            elif "put" in entry:
                vm = VM(**entry["put"])
                self._vms[vm.key] = vm
            else:
                self._vms.pop(tuple(entry["removed"]), None)
        self._by_address = {vm.address: vm for vm in self._vms.values()}
