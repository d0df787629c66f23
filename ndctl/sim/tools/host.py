"""The host's own tools, answering for the node instead of the machine that stands in for it."""

from __future__ import annotations

import json

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import seeds
from ndctl.sim.world.view import KERNEL_RELEASE, NodeView


def _arch(view: NodeView) -> str:
    return "aarch64" if view.shape.arm else "x86_64"


def nproc(view: NodeView, arguments: list[str]) -> Answer:
    return Answer(f"{view.shape.vcpus}\n")


def uname(view: NodeView, arguments: list[str]) -> Answer:
    version = "#5-Ubuntu SMP PREEMPT_DYNAMIC"
    parts = {
        "s": "Linux",
        "n": view.vm.hostname,
        "r": KERNEL_RELEASE,
        "v": version,
        "m": _arch(view),
        "o": "GNU/Linux",
    }
    letters = "".join(a[1:] for a in arguments if a.startswith("-") and not a.startswith("--")) or "s"
    if "a" in letters or "--all" in arguments:
        letters = "snrvmo"
    return Answer(" ".join(value for letter, value in parts.items() if letter in letters) + "\n")


def hostname(view: NodeView, arguments: list[str]) -> Answer:
    if "-I" in arguments:
        return Answer(f"{view.vm.address} \n")
    return Answer(f"{view.vm.hostname}\n")


def lspci(view: NodeView, arguments: list[str]) -> Answer:
    """GPUs stay on the bus when the driver has lost them. `-n` prints numbers only."""
    text = ""
    vendor = arguments[arguments.index("-d") + 1].partition(":")[0] if "-d" in arguments[:-1] else ""
    for argument in arguments:
        if argument.startswith("-d") and len(argument) > 2:
            vendor = argument[2:].partition(":")[0]
    numeric = any(argument in ("-n", "-nn") for argument in arguments)
    if vendor in ("", "10de"):
        for gpu in view.gpus:
            where = gpu.pci[4:].lower()
            device = view.shape.pci_device_id
            text += (
                f"{where} 0302: 10de:{device} (rev a1)\n"
                if numeric
                else f"{where} 3D controller: NVIDIA Corporation Device {device} (rev a1)\n"
            )
    if vendor in ("", "15b3"):
        for port in view.ports:
            device = f"{int(port.hca_type[2:]):04x}"
            text += (
                f"{port.pci} 0207: 15b3:{device}\n"
                if numeric
                else f"{port.pci} Infiniband controller: Mellanox Technologies Device {device}\n"
            )
    return Answer(text)


def lscpu(view: NodeView, arguments: list[str]) -> Answer:
    shape = view.shape
    sockets = 2
    fields = [
        ("Architecture:", _arch(view)),
        ("CPU op-mode(s):", "64-bit"),
        ("Byte Order:", "Little Endian"),
        ("CPU(s):", str(shape.vcpus)),
        ("On-line CPU(s) list:", f"0-{shape.vcpus - 1}"),
        ("Vendor ID:", "ARM" if shape.arm else "GenuineIntel"),
        ("Model name:", "Neoverse-V2" if shape.arm else "Intel(R) Xeon(R) Platinum 8480C"),
        ("Thread(s) per core:", "1"),
        ("Core(s) per socket:", str(shape.vcpus // sockets)),
        ("Socket(s):", str(sockets)),
        ("NUMA node(s):", str(shape.numa_nodes)),
    ]
    half = shape.vcpus // sockets
    for numa in range(shape.numa_nodes):
        cpus = f"{numa * half}-{numa * half + half - 1}" if numa < sockets else ""
        fields.append((f"NUMA node{numa} CPU(s):", cpus))
    if "-J" in arguments or "--json" in arguments:
        return Answer(json.dumps({"lscpu": [{"field": k, "data": v or None} for k, v in fields]}, indent=3) + "\n")
    return Answer("".join(f"{key:<32} {value}".rstrip() + "\n" for key, value in fields))


def numactl(view: NodeView, arguments: list[str]) -> Answer:
    shape = view.shape
    half = shape.vcpus // 2
    text = f"available: {shape.numa_nodes} nodes (0-{shape.numa_nodes - 1})\n"
    for numa in range(shape.numa_nodes):
        cpus = " ".join(str(cpu) for cpu in range(numa * half, numa * half + half)) if numa < 2 else ""
        size = shape.memory_kb // 2048 if numa < 2 else 0
        text += f"node {numa} cpus:{' ' + cpus if cpus else ''}\nnode {numa} size: {size} MB\n"
    return Answer(text)


def nvme(view: NodeView, arguments: list[str]) -> Answer:
    """`nvme list`: the data disks by model, and on Grace-Blackwell the small accelerator disk besides."""
    disks = [(view.shape.data_disk_model + " v2", 3_840_755_982_336)] * view.shape.data_disks
    disks = [("MSFT NVMe Accelerator v1.0", 68_719_476_736), *disks]
    devices = [
        {
            "NameSpace": 1,
            "DevicePath": f"/dev/nvme{index}n1",
            "Firmware": "NVMDV002",
            "Index": index,
            "ModelNumber": model,
            "ProductName": "Non-Volatile memory controller: Microsoft Corporation Device 0x00b9",
            "SerialNumber": seeds.digest("nvme", *view.vm.hardware, index).hex()[:12].upper(),
            "UsedBytes": size,
            "MaximumLBA": size // 512,
            "PhysicalSize": size,
            "SectorSize": 512,
        }
        for index, (model, size) in enumerate(disks)
    ]
    if arguments[:1] == ["list"] and (
        "json" in arguments or "--output-format=json" in arguments or "-ojson" in arguments
    ):
        return Answer(json.dumps({"Devices": devices}, indent=2) + "\n")
    if arguments[:1] == ["list"]:
        text = "Node                  SN                   Model                                    Namespace\n"
        text += f"{'-' * 21} {'-' * 20} {'-' * 40} {'-' * 9}\n"
        for device in devices:
            text += f"{device['DevicePath']:<21} {device['SerialNumber']:<20} {device['ModelNumber']:<40} 1\n"
        return Answer(text)
    return Answer(err="nvme: unknown command\n", code=22)


def chronyc(view: NodeView, arguments: list[str]) -> Answer:
    if "tracking" not in arguments:
        return Answer("501 Not authorised\n", code=1)
    offset = seeds.number(900, "chrony", *view.vm.hardware) / 1e8
    return Answer(
        "Reference ID    : 50484330 (PHC0)\nStratum         : 1\n"
        "Ref time (UTC)  : Wed Dec 02 08:00:00 2026\n"
        f"System time     : {offset:.9f} seconds slow of NTP time\n"
        f"Last offset     : -{offset / 2:.9f} seconds\nRMS offset      : 0.000003112 seconds\n"
        "Frequency       : 12.447 ppm slow\nResidual freq   : -0.000 ppm\nSkew            : 0.041 ppm\n"
        "Root delay      : 0.000000001 seconds\nRoot dispersion : 0.000012094 seconds\n"
        "Update interval : 8.0 seconds\nLeap status     : Normal\n"
    )


def imds(view: NodeView, arguments: list[str]) -> Answer:
    """curl to the instance metadata service; nothing else is reachable from a node."""
    url = next((a for a in arguments if "://" in a or a.startswith("169.254.")), "")
    if "169.254.169.254" not in url:
        return Answer(err="curl: (7) Failed to connect: Network is unreachable\n", code=7)
    if not any("metadata:" in a.lower() for a in arguments):
        return Answer('{ "error": "Bad request. Required metadata header not specified" }')
    vm = view.vm
    compute = {
        "azEnvironment": "AzurePublicCloud",
        "location": vm.location,
        "name": f"{vm.vmss}_{vm.instance_id}",
        "osType": "Linux",
        "platformFaultDomain": "0",
        "platformUpdateDomain": "0",
        "provider": "Microsoft.Compute",
        "tags": ";".join(f"{key}:{value}" for key, value in vm.tags.items()),
        "vmId": vm.vm_id,
        "vmScaleSetName": vm.vmss,
        "vmSize": vm.vm_size,
        "zone": vm.zone,
    }
    if "format=text" in url:
        leaf = url.partition("?")[0].rstrip("/").rpartition("/")[2]
        return Answer(str(compute.get(leaf, "")))
    if "/compute" in url:
        return Answer(json.dumps(compute))
    return Answer(
        json.dumps(
            {
                "compute": compute,
                "network": {
                    "interface": [{"ipv4": {"ipAddress": [{"privateIpAddress": vm.address, "publicIpAddress": ""}]}}]
                },
            }
        )
    )
