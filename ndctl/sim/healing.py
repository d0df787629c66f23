"""Which action heals which planted fault. What is not named here is in the hardware, and goes with the host.

Actions: reset-gpu, restart-imex (on the node), reboot, reimage, redeploy (the VM on another host), replace (another
VM).
"""

from __future__ import annotations

from collections.abc import Mapping

from ndctl.sim.world.vm import VM
from ndctl.sim.world.world import World

_ANOTHER_HOST = frozenset({"redeploy", "replace"})
_BOOT = frozenset({"reboot", "reimage", *_ANOTHER_HOST})
_NEW_DISK = frozenset({"reimage", "replace"})
_NEVER: frozenset[str] = frozenset()
_HEALS: Mapping[str, frozenset[str]] = {
    "imex-peer-missing": _BOOT | {"restart-imex"},
    "imex-one-way": _BOOT | {"restart-imex"},
    "imex-list-drift": _NEW_DISK,
    "imex-version": _NEW_DISK,
    "fabric-manager-active": _NEW_DISK,
    "ecc-uncorrectable": _BOOT | {"reset-gpu"},
    "row-remap-pending": _BOOT | {"reset-gpu"},
    "power-limit-differs": _BOOT | {"reset-gpu"},
    "hung-nvidia-smi": _BOOT,
    "hung-dcgmi": _BOOT,
    "gpu-busy": _BOOT,
    "d-state": _BOOT,
    "oom-killed": _BOOT,
    "failed-unit": _BOOT,
    "clock-skew": _BOOT,
    "cpu-busy": _BOOT,
    "ro-mount": _BOOT,
    "disk-full": _NEW_DISK,
    "component-drift": _NEW_DISK,
    "setting-drift": _NEW_DISK,
    "node-down": _BOOT,
    "vm-dead": _BOOT,
    "sshd-broken": _NEW_DISK,
    "ssh-hostkey-changed": _NEW_DISK,
    "network-cut": _NEVER,
    "wrong-subgroup": _NEVER,
    "slurm-allocated": _NEVER,
    "slurm-drained": _NEVER,
    "slurm-away": _NEVER,
    "k8s-busy": _NEVER,
    "k8s-cordoned": _NEVER,
}


def heal(world: World, vm: VM, action: str) -> None:
    """Heal what `action` heals of the faults planted on this VM."""
    for fault in world.faults.list():
        here = fault.where.get("node") == vm.hostname and fault.where.get("cluster", vm.cluster) == vm.cluster
        if here and action in _HEALS.get(fault.kind, _ANOTHER_HOST):
            world.faults.clear(id=fault.id)
