"""The files that tell of the machine around the GPUs: disks, CPUs, mounts, tasks, settings, versions."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ndctl.sim.world.host import Task
from ndctl.sim.world.view import NodeView


def host_files(view: NodeView) -> Iterator[tuple[str, str]]:
    """(path relative to the node's root, content)."""
    host, shape = view.host, view.shape
    for disk in host.disks:
        controller = f"sys/class/nvme/nvme{disk.index}"
        yield f"{controller}/model", f"{disk.model:<40}\n"
        yield f"{controller}/serial", f"{disk.serial:<20}\n"
        yield f"{controller}/firmware_rev", "NVMDV002\n"
        yield f"{controller}/state", "live\n"
        yield f"{controller}/transport", "pcie\n"
        yield f"sys/class/block/nvme{disk.index}n1/size", f"{disk.size // 512}\n"
    yield "sys/class/block/nvme0n1p1/size", "134215647\n"
    yield "sys/devices/system/cpu/online", host.online_cpus + "\n"
    yield "sys/devices/system/cpu/present", f"0-{shape.vcpus - 1}\n"
    yield "sys/devices/system/cpu/possible", f"0-{shape.vcpus - 1}\n"
    offline = _offline(host.online_cpus, shape.vcpus)
    yield "sys/devices/system/cpu/offline", offline + "\n"
    for name in ("online", "possible"):
        yield f"sys/devices/system/node/{name}", f"0-{shape.numa_nodes - 1}\n"
    yield "sys/devices/system/node/has_cpu", "0-1\n"
    yield (
        "proc/mounts",
        "sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0\nproc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n"
        + "".join(f"{one.device} {one.point} {one.kind} {one.options} 0 0\n" for one in host.mounts)
        + "/dev/loop0 /snap/core22/2139 squashfs ro,nodev,relatime,errors=continue,threads=single 0 0\n",
    )
    yield "proc/cmdline", host.command_line + "\n"
    for path, value in host.settings.items():
        yield path, value + "\n"
    yield (
        "proc/driver/nvidia/params",
        "".join(f"{name}: {value}\n" for name, value in host.nvidia_parameters.items()),
    )
    yield "opt/azurehpc/component_versions.txt", json.dumps(host.components, indent=2) + "\n"
    for task in host.tasks:
        yield f"proc/{task.pid}/stat", _stat(task)
        yield f"proc/{task.pid}/wchan", task.wchan
        yield (
            f"proc/{task.pid}/status",
            f"Name:\t{task.name}\nState:\t{task.state}\nPid:\t{task.pid}\nPPid:\t{task.parent}\n"
            f"voluntary_ctxt_switches:\t{task.switches}\nnonvoluntary_ctxt_switches:\t{task.switches // 40}\n",
        )


def _offline(online: str, cpus: int) -> str:
    last = int(online.partition("-")[2])
    return "" if last == cpus - 1 else f"{last + 1}-{cpus - 1}"


def _stat(task: Task) -> str:
    """The 52 fields of /proc/PID/stat; those that tell nothing here are 0."""
    fields = [str(task.pid), f"({task.name})", task.state, str(task.parent), str(task.pid), str(task.pid), "0", "-1"]
    fields += [str(task.flags), *"00000000", "20", "0", "1", "0", str(task.started)]
    return " ".join([*fields, *("0" for _ in range(52 - len(fields)))]) + "\n"
