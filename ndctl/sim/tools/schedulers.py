"""scontrol, squeue and kubectl of a node on which a scheduler is planted.

scontrol's line has the fields of a real one (22.05, tests/captures/slurm-node). kubectl knows the few questions that
ndctl asks; its `-o go-template` answers are what those templates give with a real kubectl.
"""

from __future__ import annotations

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world.view import KERNEL_RELEASE, NodeView

_JOB = {"%i": "4711", "%u": "train", "%T": "RUNNING", "%j": "pretrain"}
_UNREACHABLE = "slurm_load_node error: Unable to contact slurm controller (connect failure)\n"


def scontrol(view: NodeView, arguments: list[str]) -> Answer:
    if view.schedulers.slurm_away:
        return Answer(err=_UNREACHABLE, code=1)
    name = next((word for word in arguments[2:] if not word.startswith("-")), "")
    if arguments[:2] == ["show", "aliases"]:
        return Answer(f"{view.vm.hostname}\n" if name == view.vm.hostname else "")
    if arguments[:2] != ["show", "node"]:
        return Answer(err="invalid keyword\n", code=1)
    if name != view.vm.hostname:
        return Answer(f"Node {name} not found\n", code=1)
    return Answer(_node_line(view) + "\n")


def _node_line(view: NodeView) -> str:
    shape, seen = view.shape, view.schedulers
    memory = shape.memory_kb // 1024
    busy = seen.slurm_state.partition("+")[0].rstrip("*~#!%$@^-") in ("ALLOCATED", "MIXED")
    cpus = shape.vcpus if busy else 0
    gpus = len(view.gpus)
    line = (
        f"NodeName={view.vm.hostname} Arch={'aarch64' if shape.arm else 'x86_64'} CoresPerSocket={shape.vcpus // 2}  "
        f"CPUAlloc={cpus} CPUEfctv={shape.vcpus} CPUTot={shape.vcpus} CPULoad={seen.load:.2f} "
        f"AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:{gpus} NodeAddr={view.vm.address} "
        f"NodeHostName={view.vm.hostname} Version=22.05.8 OS=Linux {KERNEL_RELEASE} #5-Ubuntu SMP PREEMPT_DYNAMIC  "
        f"RealMemory={memory} AllocMem={memory if busy else 0} FreeMem={memory - 9000} Sockets=2 Boards=1 "
        f"State={seen.slurm_state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu  "
        "BootTime=2026-12-02T07:31:45 SlurmdStartTime=2026-12-02T07:33:02 LastBusyTime=2026-12-02T07:33:02 "
        f"CfgTRES=cpu={shape.vcpus},mem={memory}M,billing={shape.vcpus},gres/gpu={gpus} "
        f"AllocTRES={f'cpu={cpus},mem={memory}M,gres/gpu={gpus}' if busy else ''} "
        "CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s"
    )
    return f"{line} Reason={seen.slurm_reason} [root@2026-12-02T08:00:00]" if seen.slurm_reason else line


def squeue(view: NodeView, arguments: list[str]) -> Answer:
    """The one job of an allocated node, in the format asked for with `-o`."""
    form = arguments[arguments.index("-o") + 1] if "-o" in arguments[:-1] else "%i %j %u %T"
    for key, value in _JOB.items():
        form = form.replace(key, value)
    return Answer(form + "\n" if view.schedulers.slurm_state.startswith(("ALLOCATED", "MIXED")) else "")


def kubectl(view: NodeView, arguments: list[str]) -> Answer:
    words = [word for word in arguments if not word.startswith("--request-timeout")]
    seen, name = view.schedulers, view.vm.hostname
    if words[:2] == ["get", "pods"]:
        plugin = "pod kube-system/nvidia-device-plugin-daemonset-x7k2p Running\n"
        return Answer(plugin + (f"pod {seen.pod} Running nvidia.com/gpu={len(view.gpus)}\n" if seen.pod else ""))
    if words[:2] == ["get", "node"] and words[2:3] != [name]:
        return Answer(err=f'Error from server (NotFound): nodes "{"".join(words[2:3])}" not found\n', code=1)
    if words[:2] == ["get", "node"] and "name" in words[3:]:
        return Answer(f"node/{name}\n")
    if words[:2] == ["get", "node"]:
        return Answer("cordoned\ntaint NoSchedule node.kubernetes.io/unschedulable\n" if seen.cordoned else "open\n")
    return Answer(err="error: unknown command\n", code=1)
