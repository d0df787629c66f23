"""nvidia-smi: the table, -L, -q as text and XML, and what it says when asked for what it does not know."""

from __future__ import annotations

from collections.abc import Iterable
from time import localtime, strftime
from xml.sax.saxutils import escape

from ndctl.sim.tools import gpu_query, nvlink
from ndctl.sim.tools.answer import Answer
from ndctl.sim.tools.gpu_report import SECTIONS, gpu_entries
from ndctl.sim.tools.report_tree import Entry
from ndctl.sim.world.parts import Gpu
from ndctl.sim.world.view import CUDA_VERSION, DRIVER_VERSION, NodeView

_LABEL_WIDTH = 42
_RULE = "+-----------------------------------------------------------------------------------------+"


def answer(view: NodeView, arguments: list[str], now: float) -> Answer:
    """One call of nvidia-smi."""
    warnings = "".join(
        f"WARNING: infoROM is corrupted at gpu {gpu.pci[4:]}\n" for gpu in view.live_gpus if not gpu.inforom_ok
    )
    result = _answer(view, arguments, now)
    return Answer(result.out, result.err + warnings, result.code, result.keep and not warnings)


def _answer(view: NodeView, arguments: list[str], now: float) -> Answer:
    if not view.live_gpus:
        return Answer("No devices were found\n", code=6)
    if arguments[:1] == ["nvlink"]:
        return nvlink.answer(view, arguments[1:], now)
    if arguments[:1] == ["c2c"]:
        return nvlink.c2c(view)
    if "--gpu-reset" in arguments or "-r" in arguments:
        return _reset(view)
    if arguments[:1] == ["topo"]:
        return nvlink.topology(view, arguments[1:])
    try:
        options = _options(arguments)
    except ValueError as error:
        return Answer(f"{error}\nPlease run 'nvidia-smi -h' for help.\n\n", code=2)
    gpus = view.live_gpus
    if "i" in options:
        chosen = options["i"].split(",")
        gpus = [gpu for gpu in gpus if str(gpu.index) in chosen or gpu.uuid in chosen or gpu.pci in chosen]
        if not gpus:
            return Answer("No devices were found\n", code=6)
    query = next((name for name in ("query-gpu", "query-compute-apps", "query-remapped-rows") if name in options), None)
    if query:
        return gpu_query.answer(query, options[query], options.get("format", ""), gpus, view, now)
    if "L" in options:
        return Answer("".join(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})\n" for gpu in gpus))
    if "x" in options:
        return Answer(_xml(gpus, view, now), keep=not any(gpu.slowing for gpu in gpus))
    if "q" in options:
        return _text(gpus, view, options.get("d"), now)
    return Answer(_table(gpus, now))


def _reset(view: NodeView) -> Answer:
    """A GPU with a process on it is not reset, and then none is."""
    busy = [gpu for gpu in view.live_gpus if gpu.processes]
    if busy:
        told = "".join(f"GPU {gpu.pci}: In use by another client\n" for gpu in busy)
        said = (
            f"{len(busy)} device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA "
            "application, graphics application such as an X server, or a monitoring application such as another "
            "instance of nvidia-smi). Please first kill all processes using this device and all compute applications "
            "running in the system.\n"
        )
        return Answer(told + said, code=255, keep=False)
    told = "".join(f"GPU {gpu.pci} was successfully reset.\n" for gpu in view.live_gpus)
    return Answer(told + "All done.\n", keep=False)


_LONG = {"query": "q", "xml-format": "x", "list-gpus": "L", "id": "i", "display": "d"}
_WITH_VALUE = {"i", "d", "query-gpu", "query-compute-apps", "query-remapped-rows", "format"}


def _options(arguments: list[str]) -> dict[str, str]:
    """Options by name. ValueError with nvidia-smi's words for one it does not know."""
    options: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.lstrip("-").partition("=")
        name = _LONG.get(name, name)
        if not argument.startswith("-") or name not in {*_WITH_VALUE, "q", "x", "L"}:
            raise ValueError(
                f"Invalid combination of input arguments: {argument}"
                if argument[:1] != "-"
                else f"Option {argument} is not recognized."
            )
        if name in _WITH_VALUE and not equals:
            value = next(rest, "")
        options[name] = value
    return options


def _stamp(now: float) -> str:
    return strftime("%a %b %e %H:%M:%S %Y", localtime(now))


def _line(label: str, value: str, depth: int) -> str:
    indent = "    " * depth
    return f"{indent}{label:<{_LABEL_WIDTH - len(indent)}}: {value}\n"


def _lines(entries: Iterable[Entry], depth: int) -> str:
    text = ""
    for entry in entries:
        if entry.only == "xml":
            continue
        if entry.children:
            text += "    " * depth + entry.label + "\n" + _lines(entry.children, depth + 1)
        else:
            text += _line(entry.label, entry.value, depth)
    return text


def _processes_text(gpu: Gpu) -> str:
    if not gpu.processes:
        return _line("Processes", "None", 1)
    text = "    Processes\n"
    for process in gpu.processes:
        text += _line("GPU instance ID", "N/A", 2) + _line("Compute instance ID", "N/A", 2)
        text += _line("Process ID", str(process.pid), 2) + _line("Type", "C", 3)
        text += _line("Name", process.name, 3) + _line("Used GPU Memory", f"{process.used_mib} MiB", 3)
    return text


def _text(gpus: list[Gpu], view: NodeView, sections: str | None, now: float) -> Answer:
    wanted: set[str] | None = None
    if sections:
        wanted = set()
        for section in sections.split(","):
            blocks = SECTIONS.get(section.strip().upper())
            if blocks is None:
                return Answer(f'Invalid display type "{section}".\n', code=2)
            wanted.update(blocks)
    text = "\n==============NVSMI LOG==============\n\n"
    text += _line("Timestamp", _stamp(now), 0)
    text += _line("Driver Version", DRIVER_VERSION, 0)
    text += _line("CUDA Version", CUDA_VERSION, 0) + "\n"
    text += _line("Attached GPUs", str(len(view.live_gpus)), 0)
    for gpu in gpus:
        entries = [e for e in gpu_entries(gpu, view, now) if wanted is None or e.label in wanted]
        text += f"GPU {gpu.pci}\n" + _lines(entries, 1)
        if wanted is None or "Processes" in wanted:
            text += _processes_text(gpu)
        if wanted is None:
            text += "    Capabilities\n" + _line("EGM", "disabled", 2)
        text += "\n"
    return Answer(text)


def _tags(entries: Iterable[Entry], depth: int) -> str:
    tabs = "\t" * depth
    text = ""
    for entry in entries:
        if entry.only == "text":
            continue
        if entry.tag == "mig_devices":  # the one text that has lines of its own
            text += f"{tabs}<mig_devices>\n{tabs}\t{entry.value}\n{tabs}</mig_devices>\n"
        elif entry.children:
            text += f"{tabs}<{entry.tag}>\n{_tags(entry.children, depth + 1)}{tabs}</{entry.tag}>\n"
        else:
            # In XML the driver leaves the 0x prefix of PCI numbers out.
            value = entry.value.removeprefix("0x") if entry.tag.startswith("pci_") else entry.value
            text += f"{tabs}<{entry.tag}>{escape(value)}</{entry.tag}>\n"
    return text


def _xml(gpus: list[Gpu], view: NodeView, now: float) -> str:
    text = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
    text += f"\t<timestamp>{_stamp(now)}</timestamp>\n\t<driver_version>{DRIVER_VERSION}</driver_version>\n"
    text += f"\t<cuda_version>{CUDA_VERSION}</cuda_version>\n\t<attached_gpus>{len(view.live_gpus)}</attached_gpus>\n"
    for gpu in gpus:
        text += f'\t<gpu id="{gpu.pci}">\n{_tags(gpu_entries(gpu, view, now), 2)}\t\t<processes>\n'
        for process in gpu.processes:
            text += (
                "\t\t\t<process_info>\n\t\t\t\t<gpu_instance_id>N/A</gpu_instance_id>\n"
                "\t\t\t\t<compute_instance_id>N/A</compute_instance_id>\n"
                f"\t\t\t\t<pid>{process.pid}</pid>\n\t\t\t\t<type>C</type>\n"
                f"\t\t\t\t<process_name>{escape(process.name)}</process_name>\n"
                f"\t\t\t\t<used_memory>{process.used_mib} MiB</used_memory>\n\t\t\t</process_info>\n"
            )
        text += "\t\t</processes>\n\t\t<accounted_processes>\n\t\t</accounted_processes>\n"
        text += "\t\t<capabilities>\n\t\t\t<egm>disabled</egm>\n\t\t</capabilities>\n\t</gpu>\n\n"
    return text + "</nvidia_smi_log>\n"


def _table(gpus: list[Gpu], now: float) -> str:
    split = "+-----------------------------------------+------------------------+----------------------+\n"
    text = f"{_stamp(now)}\n{_RULE}\n"
    text += f"| NVIDIA-SMI {DRIVER_VERSION:<23}Driver Version: {DRIVER_VERSION:<15}CUDA Version: {CUDA_VERSION:<9}|\n"
    text += "|" + split[1:]
    text += "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    text += "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
    text += "|                                         |                        |               MIG M. |\n"
    text += "|=========================================+========================+======================|\n"
    for gpu in gpus:
        used = 1 + sum(process.used_mib for process in gpu.processes)
        power = f"{gpu.power_w:.0f}W / {gpu.power_limit_w:4.0f}W"
        memory = f"{used}MiB / {gpu.memory_mib}MiB"
        busy = "97%" if gpu.processes else "0%"
        text += f"| {gpu.index:3d}  {gpu.name:<31}{'On':>3} |   {gpu.pci} Off | {gpu.ecc_volatile_dram:>20} |\n"
        text += f"| N/A {gpu.temperature:4d}C    P0 {power:>23} | {memory:>22} | {busy:>7}      Default |\n"
        text += f"|                                         |                        | {'Disabled':>20} |\n{split}"
    text += f"\n{_RULE}\n| Processes:{'':78}|\n"
    text += "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
    text += (
        f"|        ID   ID                                                               Usage      |\n|{'=' * 89}|\n"
    )
    lines = [(gpu, process) for gpu in gpus for process in gpu.processes]
    for gpu, process in lines:
        text += f"| {gpu.index:4d}   N/A  N/A {process.pid:16d}      C   {process.name:<32.32} "
        text += f"{process.used_mib:>10d}MiB |\n"
    if not lines:
        text += f"|  {'No running processes found':<87}|\n"
    return text + _RULE + "\n"
