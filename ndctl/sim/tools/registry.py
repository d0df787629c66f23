"""Which tool answers how. Tools not named here are the machine's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ndctl.sim.tools import dcgm, host, imex, infiniband, logs, nvidia_smi, schedulers, ssh_server
from ndctl.sim.tools.answer import Answer, not_found
from ndctl.sim.world.view import NodeView

Tool = Callable[[NodeView, list[str], float], Answer]


def _timeless(tool: Callable[[NodeView, list[str]], Answer]) -> Tool:
    return lambda view, arguments, now: tool(view, arguments)


TOOLS: Mapping[str, Tool] = {
    "nvidia-smi": nvidia_smi.answer,
    "nvidia-imex-ctl": imex.answer,
    "journalctl": _timeless(logs.journalctl),
    "dmesg": _timeless(logs.dmesg),
    "systemctl": _timeless(logs.systemctl),
    "ibstat": _timeless(infiniband.ibstat),
    "ibstatus": _timeless(infiniband.ibstatus),
    "ibv_devinfo": _timeless(infiniband.ibv_devinfo),
    "ibdev2netdev": _timeless(infiniband.ibdev2netdev),
    "nproc": _timeless(host.nproc),
    "uname": _timeless(host.uname),
    "hostname": _timeless(host.hostname),
    "lspci": _timeless(host.lspci),
    "lscpu": _timeless(host.lscpu),
    "numactl": _timeless(host.numactl),
    "nvme": _timeless(host.nvme),
    "chronyc": _timeless(host.chronyc),
    "timedatectl": _timeless(host.timedatectl),
    "df": _timeless(host.df),
    "curl": _timeless(host.imds),
    "dcgmi": _timeless(dcgm.answer),
    "sshd": _timeless(ssh_server.sshd),
    "ss": _timeless(ssh_server.ss),
    "ssh-keyscan": _timeless(ssh_server.ssh_keyscan),
    "getent": _timeless(ssh_server.getent),
}

# Not on every node: installed where the model says so.
OPTIONAL_TOOLS: Mapping[str, Tool] = {
    "scontrol": _timeless(schedulers.scontrol),
    "squeue": _timeless(schedulers.squeue),
    "kubectl": _timeless(schedulers.kubectl),
}


def answer(tool: str, view: NodeView, arguments: list[str], now: float) -> Answer:
    """What one command prints. On a machine without GPUs the GPU and InfiniBand tools are not installed."""
    if tool in OPTIONAL_TOOLS and tool in view.schedulers.tools:
        return OPTIONAL_TOOLS[tool](view, arguments, now)
    if tool not in TOOLS or (tool in ("nvidia-imex-ctl",) and not view.shape.imex):
        return not_found(tool)
    return TOOLS[tool](view, arguments, now)
