"""nvidia-smi nvlink, c2c and topo: the links of a node's GPUs.

Line forms: `nvlink --status` of H100 and GB200 nodes; `nvlink -e` with the counters of NVLink 5; `c2c --status` of
GH200 nodes (`C2C Link N: 44.712 GB/s`), with the five links a GPU of a GB300 tray has. No public capture shows one
that is down; it is printed as `nvlink --status` prints a link that is.
"""

from __future__ import annotations

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world.parts import Gpu, Link
from ndctl.sim.world.view import NodeView

_C2C_LINKS = 5


def answer(view: NodeView, arguments: list[str], now: float) -> Answer:
    """`nvidia-smi nvlink …`."""
    names = {argument.split("=")[0] for argument in arguments if argument.startswith("-")}
    gpus = view.live_gpus
    if "-i" in arguments:
        wanted = arguments[arguments.index("-i") + 1 :][:1]
        gpus = [gpu for gpu in gpus if [str(gpu.index)] == wanted or [gpu.uuid] == wanted]
    if names & {"-s", "--status"}:
        return Answer("".join(_status(gpu, view.shape.link_gb_per_s) for gpu in gpus))
    if names & {"-e", "--errorcounters"}:
        steady = not any(link.recovers_per_second for gpu in gpus for link in gpu.links)
        return Answer("".join(_errors(gpu, now) for gpu in gpus), keep=steady)
    return Answer(
        "nvlink: no option given, or one that is not known.\nPlease run 'nvidia-smi nvlink -h' for help.\n", code=2
    )


def _head(gpu: Gpu) -> str:
    return f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})\n"


def _speed(gb_per_s: float) -> str:
    return f"{gb_per_s:.3f}".rstrip("0").rstrip(".")


def _status(gpu: Gpu, gb_per_s: float) -> str:
    if gpu.links and not any(link.active for link in gpu.links):
        return _head(gpu) + "NVML: Unable to retrieve NVLink information as all links are inActive\n"
    lines = (
        f"\t Link {link.index}: {_speed(gb_per_s) + ' GB/s' if link.active else '<inactive>'}\n" for link in gpu.links
    )
    return _head(gpu) + "".join(lines)


def _errors(gpu: Gpu, now: float) -> str:
    return _head(gpu) + "".join(_link_errors(link, link.recoveries_at(now)) for link in gpu.links if link.active)


def _link_errors(link: Link, recoveries: int) -> str:
    """The counters of one NVLink 5 link; 15e-255 is what a bit error rate of nothing prints as."""
    quiet = "15e-255"
    values: list[tuple[str, object]] = [
        ("Tx packets", 104_211 + link.index * 17),
        ("Tx bytes", 8_336_880 + link.index * 1360),
        ("Rx packets", 104_209 + link.index * 17),
        ("Rx bytes", 8_336_720 + link.index * 1360),
        ("Malformed packet Errors", 0),
        ("Buffer overrun Errors", 0),
        ("Rx Errors", 0),
        ("Rx remote Errors", 0),
        ("Rx General Errors", 0),
        ("Local link integrity Errors", 0),
        ("Tx discards", 0),
        ("Link recovery successful events", recoveries),
        ("Link recovery failed events", 0),
        ("Total link recovery events", recoveries),
        ("Effective Errors", 0),
        ("Effective BER", quiet),
        ("Symbol Errors", link.symbol_errors),
        ("Symbol BER", quiet),
        *((f"FEC Errors - {bin}", 0) for bin in range(16)),
    ]
    return "".join(f"\t Link {link.index}: {name}: {value}\n" for name, value in values)


def c2c(view: NodeView) -> Answer:
    """`nvidia-smi c2c --status`: the links between a Grace CPU and its GPU."""
    if not view.shape.arm:
        return Answer("No Devices support C2C.\n", code=3)
    text = ""
    for gpu in view.live_gpus:
        text += _head(gpu) + "".join(
            f"\t C2C Link {link}: {'<inactive>' if link in gpu.c2c_down else '44.712 GB/s'}\n"
            for link in range(_C2C_LINKS)
        )
    return Answer(text)


def topology(view: NodeView, arguments: list[str]) -> Answer:
    """`nvidia-smi topo -m`."""
    if "-m" not in arguments and "--matrix" not in arguments:
        return Answer(
            "topo: no option given, or one that is not known.\nPlease run 'nvidia-smi topo -h' for help.\n", code=2
        )
    gpus = view.live_gpus
    nics = view.ports
    columns = [f"GPU{gpu.index}" for gpu in gpus] + [f"NIC{index}" for index in range(len(nics))]
    text = "\t" + "\t".join(columns) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    cores = view.shape.vcpus // 2
    for row, gpu in enumerate(gpus):
        half = gpu.index * 2 // max(len(view.gpus), 1)
        cells = [" X " if row == column else f"NV{len(gpu.links)}" for column in range(len(gpus))]
        cells += ["NODE" if nic.infiniband and nic.numa_node == half else "SYS" for nic in nics]
        text += "\t".join([f"GPU{gpu.index}", *cells, f"{half * cores}-{half * cores + cores - 1}", str(half)])
        text += f"\t\t{2 + gpu.index * 8 if view.shape.arm else 'N/A'}\n"
    for row, nic in enumerate(nics):
        cells = ["NODE" if nic.infiniband and nic.numa_node == g.index * 2 // len(view.gpus) else "SYS" for g in gpus]
        cells += [" X " if row == column else "SYS" for column in range(len(nics))]
        text += "\t".join([f"NIC{row}", *cells]) + "\t\t\t\t\n"
    text += "\nLegend:\n\n  X    = Self\n"
    text += "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
    text += (
        "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node\n"
    )
    text += "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n"
    text += "  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)\n"
    text += "  PIX  = Connection traversing at most a single PCIe bridge\n"
    text += "  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n"
    return Answer(text + "".join(f"  NIC{row}: {nic.device}\n" for row, nic in enumerate(nics)))
