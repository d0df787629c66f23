"""What can be done to one machine: restart, reimage, redeploy, power, Run Command, and its serial console."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ndctl.sim.arm import ids, instances
from ndctl.sim.arm.errors import ArmError, bad_request
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.region import Body, Region
from ndctl.sim.arm.store import Record
from ndctl.sim.arm.work import Again, timestamp
from ndctl.sim.healing import heal
from ndctl.sim.world import VM

POWER = {"restart": "running", "start": "running", "powerOff": "stopped", "deallocate": "deallocated"}
ACTIONS = {one.lower(): one for one in (*POWER, "reimage", "reimageAll", "redeploy", "runCommand")}
# On a whole scale set; manualupgrade applies its model, which every machine here has already.
MANY = {**ACTIONS, "delete": "delete", "manualupgrade": "manualUpgrade"}
_OUTPUT_LIMIT = 4096  # Run Command returns the last 4 KB of each stream


class MachineActions:
    """Handlers of the operations "machine" and "run-command". Scripts run in threads, everything else in the loop."""

    def __init__(self, region: Region, secret: bytes) -> None:
        self._region = region
        self._secret = secret
        self._scripts = ThreadPoolExecutor(max_workers=16, thread_name_prefix="run-command")
        self._running: dict[str, Future[tuple[int, str, str]]] = {}
        region.work.handle("machine", self._act)
        region.work.handle("run-command", self._run_command)
        region.work.handle("instance-delete", lambda operation: self._delete(_target(operation)))
        region.work.handle("machines", self._act_on_many)

    def close(self) -> None:
        self._scripts.shutdown(wait=False, cancel_futures=True)

    def begin(self, machine: ResourceId, action: str, body: Body) -> Record:
        """Begin an action; ArmError when the machine is not there or not able."""
        one = self._one(machine)
        if one["state"] != "Succeeded" and action != "reimage":
            raise ArmError(409, "OperationNotAllowed", f"The VM '{machine.name}' is in provisioning state Failed.")
        under_way = self._region.work.under_way(str(machine))
        if under_way is not None and under_way["kind"] == "run-command" and action != "runCommand":
            # What takes the machine away ends the script that runs in it.
            self._region.work.cancel(under_way["id"], {"code": "OperationPreempted", "message": "VM restarted."})
        elif under_way is not None:
            raise ArmError(
                409, "Conflict", f"Another operation is in progress on '{machine.name}'. Please wait until it is done."
            )
        if action == "runCommand":
            command = str(body.get("commandId", ""))
            if command.lower() != "runshellscript":
                raise bad_request(
                    f"The run command document '{command}' was not found; this region knows RunShellScript."
                )
            if one["power"] != "running" or self._dead(machine) == "stopped":
                raise ArmError(409, "OperationNotAllowed", "Cannot modify extensions in the VM when it is not running.")
            script = body.get("script")
            text = "\n".join(script) if isinstance(script, list) else "uname -a"
            names = {str(p["name"]): str(p.get("value", "")) for p in body.get("parameters") or []}
            return self._region.work.begin("run-command", str(machine), steps=0, script=text, parameters=names)
        return self._region.work.begin("machine", str(machine), steps=1, action=action)

    def _dead(self, machine: ResourceId) -> str:
        vm = self._vm(machine)
        return self._region.planted.dead(vm.hostname, vm.cluster)

    def begin_delete(self, machine: ResourceId) -> Record:
        self._one(machine)
        return self._region.work.begin("instance-delete", str(machine), steps=1)

    def begin_many(self, scale_set: ResourceId, action: str, body: Body) -> Record:
        """An action on the instances a body names, or on all of them ("*" or none named)."""
        named = [str(one) for one in body.get("instanceIds") or ["*"]]
        known = [one["instance_id"] for _, one in instances.of(self._region, scale_set)]
        chosen = known if "*" in named else named
        for instance_id in chosen:
            instances.find(self._region, scale_set, instance_id)
        return self._region.work.begin("machines", str(scale_set), steps=1, action=action, instances=chosen)

    def console(self, machine: ResourceId) -> str:
        """The serial console's log, with the host keys as cloud-init prints them at the end of a first boot."""
        vm = self._vm(machine)
        lines = [f"[    0.000000] Booting Linux: {vm.hostname}", "[  OK  ] Reached target cloud-init.target."]
        lines += ["-----BEGIN SSH HOST KEY FINGERPRINTS-----"]
        lines += [_fingerprint(line) for line in vm.host_public_keys]
        lines += ["-----END SSH HOST KEY FINGERPRINTS-----", "-----BEGIN SSH HOST KEY KEYS-----"]
        lines += list(vm.host_public_keys)
        lines += ["-----END SSH HOST KEY KEYS-----"]
        lines += ["Cloud-init v. 25.1.4 finished. Datasource DataSourceAzure [seed=/dev/sr0].", ""]
        return "\r\n".join([*lines, f"{vm.hostname} login: "])

    def sign(self, path: str, expires: str) -> str:
        """The signature of a console URL, which stands in for a shared access signature."""
        return hmac.new(self._secret, f"{path}\n{expires}".encode(), hashlib.sha256).hexdigest()

    def _one(self, machine: ResourceId) -> Record:
        if len(machine.types) == 1:
            record = self._region.need(machine)
            state = record["body"]["properties"]["provisioningState"]
            return {"state": "Failed" if state == "Failed" else "Succeeded", "power": record.get("power", "running")}
        parent = machine.parent
        assert parent is not None
        return instances.find(self._region, parent, machine.names[-1])

    def _vm(self, machine: ResourceId) -> VM:
        key = (machine.key, "0")
        if machine.parent is not None:
            key = (machine.parent.key, machine.names[-1])
        try:
            return self._region.world.vm(*key)
        except KeyError:
            raise ArmError(409, "OperationNotAllowed", f"The VM '{machine.name}' is not allocated.") from None

    def _act(self, operation: Record) -> None:
        self._apply(_target(operation), operation["action"])

    def _act_on_many(self, operation: Record) -> None:
        scale_set = _target(operation)
        for instance_id in operation["instances"]:
            machine = scale_set.child("virtualMachines", instance_id)
            if operation["action"] == "delete":
                self._delete(machine)
            elif operation["action"] in ACTIONS.values():
                self._apply(machine, operation["action"])

    def _apply(self, machine: ResourceId, action: str) -> None:
        vm = self._vm(machine)
        heal(self._region.world, vm, "reboot" if action == "restart" else "reimage" if "reimage" in action else action)
        changes: dict[str, Callable[[], Any]] = {
            "restart": lambda: self._region.world.update(vm, boots=vm.boots + 1),
            "reimage": lambda: self._region.world.update(vm, generation=vm.generation + 1),
            "reimageAll": lambda: self._region.world.update(vm, generation=vm.generation + 1),
            "redeploy": lambda: self._region.world.update(vm, host_salt=vm.host_salt + 1),
        }
        if action in changes:
            changes[action]()
        self._set_power(machine, POWER.get(action, "running"))

    def _set_power(self, machine: ResourceId, power: str) -> None:
        if machine.parent is None:
            record = self._region.need(machine)
            record["power"] = power
            self._region.save(machine, record)
            return
        one = instances.find(self._region, machine.parent, machine.names[-1])
        one["power"] = power
        instances.save(self._region, one)

    def _delete(self, machine: ResourceId) -> None:
        scale_set = machine.parent
        assert scale_set is not None
        instances.leave_host(self._region, scale_set, machine.names[-1])
        instances.remove(self._region, f"{scale_set.key}#{machine.names[-1]}")
        record = self._region.find(scale_set)
        if record is not None:
            record["body"]["sku"]["capacity"] = sum(1 for _ in instances.of(self._region, scale_set))
            self._region.save(scale_set, record)

    def _run_command(self, operation: Record) -> Body:
        """Asked at every pulse; the script runs in a thread of its own."""
        vm = self._vm(_target(operation))
        if self._dead(_target(operation)) == "hung":
            raise Again  # its agent never takes the script
        future = self._running.get(operation["id"])
        if future is None:
            exports = "".join(
                f"export {k}={_quoted(v)}\n" for k, v in operation["parameters"].items() if k.isidentifier()
            )
            script = exports + operation["script"]
            self._running[operation["id"]] = self._scripts.submit(self._region.world.shell, vm, script)
            raise Again
        if not future.done():
            raise Again
        del self._running[operation["id"]]
        _, out, err = future.result()
        message = f"Enable succeeded: \n[stdout]\n{out[-_OUTPUT_LIMIT:]}\n[stderr]\n{err[-_OUTPUT_LIMIT:]}"
        status = {
            "code": "ProvisioningState/succeeded",
            "level": "Info",
            "displayStatus": "Provisioning succeeded",
            "message": message,
            "time": timestamp(),
        }
        return {"value": [status]}


def _target(operation: Record) -> ResourceId:
    machine = ids.parse_id(operation["target"])
    if machine is None:
        raise ArmError(404, "NotFound", f"{operation['target']} was not found.")
    return machine


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fingerprint(line: str) -> str:
    import base64

    kind, blob, *comment = line.split()
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(blob)).digest()).decode().rstrip("=")
    return f"256 SHA256:{digest} {' '.join(comment)} ({kind.removeprefix('ssh-').upper()})"
