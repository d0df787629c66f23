"""The host's own tools, answering for the node instead of the machine that stands in for it."""

from __future__ import annotations

import json

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world.view import KERNEL_RELEASE, NodeView


def _arch(view: NodeView) -> str:
    return "aarch64" if view.shape.arm else "x86_64"


def nproc(view: NodeView, arguments: list[str]) -> Answer:
    first, _, last = view.host.online_cpus.partition("-")
    return Answer(f"{int(last) - int(first) + 1}\n")


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
    if arguments[:1] == ["smart-log"]:
        return _smart_log(view, arguments)
    devices = [
        {
            "NameSpace": 1,
            "DevicePath": f"/dev/nvme{disk.index}n1",
            "Firmware": "NVMDV002",
            "Index": disk.index,
            "ModelNumber": disk.model,
            "ProductName": "Non-Volatile memory controller: Microsoft Corporation Device 0x00b9",
            "SerialNumber": disk.serial,
            "UsedBytes": disk.size,
            "MaximumLBA": disk.size // 512,
            "PhysicalSize": disk.size,
            "SectorSize": 512,
        }
        for disk in view.host.disks
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


def _smart_log(view: NodeView, arguments: list[str]) -> Answer:
    """JSON as nvme-cli 2 prints it; the accelerator, which is no disk of its own, refuses."""
    device = next((argument for argument in arguments[1:] if argument.startswith("/dev/")), "")
    name = device.removeprefix("/dev/").partition("n1")[0]
    disk = next((one for one in view.host.disks if f"nvme{one.index}" == name), None)
    if disk is None:
        return Answer(err=f"{device}: No such file or directory\n", code=2)
    if "Accelerator" in disk.model:
        return Answer(err="NVMe status: Invalid Field in Command: A reserved coded value(0x4002)\n", code=2)
    values = {
        "critical_warning": disk.critical_warning,
        "temperature": 305,
        "avail_spare": 100,
        "spare_thresh": 10,
        "percent_used": disk.percent_used,
        "endurance_grp_critical_warning_summary": 0,
        "data_units_read": 48_211_902,
        "data_units_written": 97_704_077,
        "host_read_commands": 1_187_934_110,
        "host_write_commands": 2_491_540_602,
        "controller_busy_time": 1_974,
        "power_cycles": 29,
        "power_on_hours": 3_811,
        "unsafe_shutdowns": 13,
        "media_errors": disk.media_errors,
        "num_err_log_entries": 17,
        "warning_temp_time": 0,
        "critical_comp_time": 0,
        "thm_temp1_trans_count": 0,
        "thm_temp2_trans_count": 0,
        "thm_temp1_total_time": 0,
        "thm_temp2_total_time": 0,
    }
    return Answer(json.dumps(values, indent=2, separators=(",", ":")) + "\n")


def df(view: NodeView, arguments: list[str]) -> Answer:
    """GNU df in its POSIX form (-P), with types (-T) and inodes (-i); only local file systems are mounted."""
    letters = "".join(argument[1:] for argument in arguments if argument.startswith("-"))
    wanted = [argument for argument in arguments if not argument.startswith("-")]
    inodes, types = "i" in letters, "T" in letters
    heads = ["Inodes", "IUsed", "IFree", "IUse%"] if inodes else ["1024-blocks", "Used", "Available", "Capacity"]
    rows = [["Filesystem", *(["Type"] if types else []), *heads, "Mounted on"]]
    for mount in view.host.mounts:
        if wanted and mount.point not in wanted:
            continue
        if inodes:
            free = mount.inodes - mount.inodes_used
            numbers = [str(mount.inodes), str(mount.inodes_used), str(free), _percent(mount.inodes_used, mount.inodes)]
        else:
            usable = mount.used + mount.available
            numbers = [str(mount.total), str(mount.used), str(mount.available), _percent(mount.used, usable)]
        rows.append([mount.device, *([mount.kind] if types else []), *numbers, mount.point])
    return Answer("".join(_aligned(row, rows, left=2 if types else 1) for row in rows))


def _aligned(row: list[str], rows: list[list[str]], left: int) -> str:
    """One line of df's table: the first `left` columns to the left, the last as it is, the others to the right."""
    widths = [max(len(other[column]) for other in rows) for column in range(len(row) - 1)]
    widths[0] = max(widths[0], 14)
    cells = [cell.ljust(widths[at]) if at < left else cell.rjust(widths[at]) for at, cell in enumerate(row[:-1])]
    return " ".join([*cells, row[-1]]) + "\n"


def _percent(used: int, usable: int) -> str:
    return f"{-(-used * 100 // usable)}%" if usable else "-"


def timedatectl(view: NodeView, arguments: list[str]) -> Answer:
    synced = "yes" if abs(view.host.clock_offset_s) < 1 else "no"
    if arguments[:1] == ["show"]:
        return Answer(f"Timezone=Etc/UTC\nLocalRTC=no\nCanNTP=yes\nNTP=yes\nNTPSynchronized={synced}\n")
    return Answer(f"System clock synchronized: {synced}\n              NTP service: active\n")


def chronyc(view: NodeView, arguments: list[str]) -> Answer:
    if "tracking" not in arguments:
        return Answer("501 Not authorised\n", code=1)
    offset = view.host.clock_offset_s
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
