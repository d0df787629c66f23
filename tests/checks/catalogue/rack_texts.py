"""Racks as texts: what every node of a healthy GB300 rack prints, in our own words, to be damaged by each test."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ndctl.checks.base import Check, RackView
from ndctl.model.answers import CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.findings import Finding, RackResult
from ndctl.model.places import Node, Rack
from ndctl.model.status import Status
from ndctl.profiles import load
from ndctl.profiles.schema import Profile
from ndctl.workflow.judge_rack import judge_rack
from tests.checks.catalogue.host_texts import healthy_host

GB300 = load("gb300")
BUSES = ("0008:01:00", "0009:01:00", "0018:01:00", "0019:01:00")
UUID = "3f8a1c52-77d4-4c11-9a6e-0d2b5e7f9a10"
OK = Outcome(OutcomeKind.OK)
BAD = (Status.FAIL, Status.WARN, Status.UNKNOWN)


def node(number: int, address: str = "") -> Node:
    return Node(f"rack01-n{number:02d}", "rack01", address or f"10.0.0.{number}")


def result(command: str, stdout: str = "", stderr: str = "", code: int | None = 0, **more: bool) -> CommandResult:
    return CommandResult(command, code, stdout, stderr, 0.1, **more)


def answer(where: Node, texts: Mapping[str, str | CommandResult], outcome: Outcome = OK) -> NodeAnswer:
    """A node's answer; a plain text stands for a command that ended well."""
    return NodeAnswer(
        where,
        outcome,
        {name: text if isinstance(text, CommandResult) else result(name, text) for name, text in texts.items()},
    )


def gpu_xml(index: int, **changes: str) -> str:
    """One GPU of `nvidia-smi -q -x`. Changes are values by tag, e.g. cliqueId="7"."""
    tags = {
        "product_name": "NVIDIA GB300",
        "uuid": f"GPU-{index}",
        "serial": f"165000{index}",
        "vbios_version": "97.10.4C.00.0A",
        "persistence_mode": "Enabled",
        "recovery": "None",
        "state": "Completed",
        "status": "Success",
        "cliqueId": "32766",
        "clusterUuid": UUID,
        "summary": "Healthy",
        "sram": "0",
        "dram": "0",
        "remap_pending": "No",
        "remap_failure": "No",
        **changes,
    }
    bus = changes.get("bus", f"0000{BUSES[index]}.0")
    return f"""<gpu id="{bus}">
<product_name>{tags["product_name"]}</product_name><uuid>{tags["uuid"]}</uuid><serial>{tags["serial"]}</serial>
<persistence_mode>{tags["persistence_mode"]}</persistence_mode><vbios_version>{tags["vbios_version"]}</vbios_version>
<gpu_recovery_action>{tags["recovery"]}</gpu_recovery_action>
<pci><pci_bus_id>{bus}</pci_bus_id><pci_gpu_link_info><pcie_gen><max_link_gen>6</max_link_gen>
<current_link_gen>6</current_link_gen></pcie_gen><link_widths><max_link_width>16x</max_link_width>
<current_link_width>16x</current_link_width></link_widths></pci_gpu_link_info></pci>
<c2c_mode>Enabled</c2c_mode><performance_state>P0</performance_state>
<clocks_event_reasons><clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
<clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown></clocks_event_reasons>
<clocks_event_reasons_counters><clocks_event_reasons_counters_hw_therm_slowdown>0 us
</clocks_event_reasons_counters_hw_therm_slowdown></clocks_event_reasons_counters>
<temperature><gpu_temp>38 C</gpu_temp><memory_temp>38 C</memory_temp></temperature>
<gpu_power_readings><instant_power_draw>180.29 W</instant_power_draw>
<current_power_limit>1400.00 W</current_power_limit></gpu_power_readings>
<fabric><state>{tags["state"]}</state><status>{tags["status"]}</status><cliqueId>{tags["cliqueId"]}</cliqueId>
<clusterUuid>{tags["clusterUuid"]}</clusterUuid><health><summary>{tags["summary"]}</summary></health></fabric>
<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
<ecc_errors><volatile><sram_correctable>0</sram_correctable><sram_uncorrectable_parity>{tags["sram"]}</sram_uncorrectable_parity>
<dram_correctable>0</dram_correctable><dram_uncorrectable>{tags["dram"]}</dram_uncorrectable></volatile></ecc_errors>
<remapped_rows><remapped_row_corr>0</remapped_row_corr><remapped_row_unc>0</remapped_row_unc>
<remapped_row_pending>{tags["remap_pending"]}</remapped_row_pending>
<remapped_row_failure>{tags["remap_failure"]}</remapped_row_failure></remapped_rows>
</gpu>
"""


def smi_xml(gpus: Sequence[str] | None = None, driver: str = "580.95.05") -> str:
    listed = [gpu_xml(index) for index in range(4)] if gpus is None else gpus
    return (
        f"<nvidia_smi_log>\n<driver_version>{driver}</driver_version><cuda_version>13.0</cuda_version>\n"
        f"<attached_gpus>{len(listed)}</attached_gpus>\n{''.join(listed)}</nvidia_smi_log>\n"
    )


def imex_json(
    hosts: Sequence[str],
    states: Mapping[str, str] | None = None,
    broken: Mapping[tuple[str, str], str] | None = None,
    status: str = "UP",
    versions: Mapping[str, str] | None = None,
) -> str:
    """`nvidia-imex-ctl -N -j`; `broken` is (from, to) -> state."""
    nodes = {
        str(index): {
            "status": (states or {}).get(host, "READY"),
            "host": host,
            "version": (versions or {}).get(host, "580.95.05"),
            "connections": {
                str(peer): {"host": other, "status": (broken or {}).get((host, other), "CONNECTED")}
                for peer, other in enumerate(hosts)
            },
        }
        for index, host in enumerate(hosts)
    }
    return json.dumps({"nodes": nodes, "timestamp": "12/2/2026 03:00:00.000", "status": status})


def ib_sysfs(pkeys: Sequence[str] = ("0x8012", "0x7fff"), ports: int = 4, node: int = 1, **changes: str) -> str:
    """The listing of the InfiniBand ports of the rack's n-th node, with an Ethernet function beside them.

    Changes are of all ports; one of `gid` is that of gids/0.
    """
    lines = []
    for index in range(ports):
        root = f"/sys/class/infiniband/mlx5_ib{index}"
        values = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "800 Gb/sec (4X XDR)"}
        values |= {"link_layer": "InfiniBand", "lid": f"0x{16 * node + index:x}", "sm_lid": "0x1"}
        values |= {"gids/0": f"fe80:0000:0000:0000:0015:5dff:fe{node:02x}:{index:04x}"}
        values |= {{"gid": "gids/0"}.get(name, name): value for name, value in changes.items()}
        lines += [f"{root}/ports/1/{name}:{value}" for name, value in values.items()]
        lines += [f"{root}/ports/1/pkeys/{slot}:{key}" for slot, key in enumerate(pkeys)]
        lines += [f"{root}/fw_ver:40.45.1020", f"{root}/board_id:MT_0000001244"]
    root = "/sys/class/infiniband/mlx5_an0"
    lines += [f"{root}/ports/1/state:4: ACTIVE", f"{root}/ports/1/phys_state:5: LinkUp"]
    lines += [f"{root}/ports/1/link_layer:Ethernet", f"{root}/ports/1/pkeys/0:0xffff"]
    lines += [f"{root}/ports/1/rate:100 Gb/sec (4X EDR)"]
    return "\n".join(lines) + "\n"


def counters(ports: int = 4, **changes: int) -> str:
    """Error counters; a change is of mlx5_ib1."""
    values = dict.fromkeys(GB300.infiniband.counter_limits, 0)
    return "".join(
        f"/sys/class/infiniband/mlx5_ib{index}/ports/1/counters/{name}:{value}\n"
        for index in range(ports)
        for name, value in ({**values, **changes} if index == 1 else values).items()
    )


def identity(where: Node, addresses: str | None = None, **changes: str) -> str:
    values = {
        "boot_id": "8d0c",
        "uptime_s": "90000.1",
        "kernel": "6.8.0-1043-azure-nvidia",
        "machine": "aarch64",
        "cpus": "128",
        "addresses": where.address if addresses is None else addresses,
        "memory_kb": "904809536",
        **changes,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def fabric_map(*, swap: bool = False, modules: str = "modules\n", driver: str = "", **ports: str) -> str:
    """The listing `fabric-map`: rails 0 and 1 on socket 0. `swap`: the first and the last rail changed places.

    Other arguments are whole lines of a port, "" for none: mlx5_ib2="port mlx5_ib2 ? ? ? ?".
    """
    places = [(f"{0x101 + index:04x}:00:00.0", index // 2) for index in range(4)]
    if swap:
        places[0], places[3] = places[3], places[0]
    lines = []
    for index, (pci, numa) in enumerate(places):
        device = f"mlx5_ib{index}"
        lines.append(ports.get(device, f"port {device} {pci} {numa} ib{index} 2"))
    lines.append("port mlx5_an0 7870:00:02.0 0 enP30832s1 3")
    lines += [f"gpu {bus}.0 {index // 2}" for index, bus in enumerate(BUSES)]
    kind = driver or "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.126.20  Release Build"
    return "\n".join(line for line in [*lines, f"driver {kind}"] if line) + f"\n{modules}end\n"


def port_changes(*changes: tuple[str, int, str], log: str | None = None) -> str:
    """A kernel log with lines of ports: (device, seconds after 01:00, state); all are ACTIVE at second 9."""
    lines = [(f"mlx5_ib{index}", 9, "ACTIVE") for index in range(4)] + list(changes)
    text = QUIET_LOG if log is None else log
    for device, after, state in lines:
        hours, rest = divmod(3600 + after, 3600)
        at = f"2026-12-02T{hours:02d}:{rest // 60:02d}:{rest % 60:02d}.000001+0000"
        pci = f"{0x101 + int(device[-1]):04x}:00:00.0"
        text += f"{at} host kernel: mlx5_core {pci} {device}: Port: 1 Link {state}\n"
    return text


QUIET_LOG = (
    "2026-12-02T01:00:00.000001+0000 host kernel: Booting Linux on physical CPU 0x0\n"
    "2026-12-02T01:00:05.000001+0000 host kernel: NVRM: loading NVIDIA UNIX Open Kernel Module\n"
)
LINKS = "".join(
    f"GPU {gpu}: NVIDIA GB300 (UUID: GPU-{gpu})\n" + "".join(f"\t Link {link}: 53.125 GB/s\n" for link in range(18))
    for gpu in range(4)
)


def xid(gpu: int, number: int, text: str, at: str = "03:12:09", log: str = QUIET_LOG) -> str:
    """A kernel log with one more line."""
    return f"{log}2026-12-02T{at}.000001+0000 host kernel: NVRM: Xid (PCI:{BUSES[gpu]}): {number}, {text}\n"


def c2c_links(gpus: int = 4) -> str:
    """`nvidia-smi c2c --status`."""
    return "".join(
        f"GPU {gpu}: NVIDIA GB300 (UUID: GPU-{gpu})\n"
        + "".join(f"\t C2C Link {link}: 44.712 GB/s\n" for link in range(5))
        for gpu in range(gpus)
    )


def slowdowns(gpus: int = 4) -> str:
    """The second reading of the slowdown counters."""
    reasons = ("sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
    head = ", ".join(("index", "pci.bus_id", *(f"clocks_event_reasons_counters.{one} [us]" for one in reasons)))
    return head + "\n" + "".join(f"{gpu}, 0000{BUSES[gpu].upper()}.0, 0 us, 0 us, 0 us, 0 us\n" for gpu in range(gpus))


def healthy(nodes: Sequence[Node]) -> dict[Node, dict[str, str | CommandResult]]:
    """Every command of every node, as a healthy rack answers it."""
    hosts = [one.address for one in nodes]
    listing = "".join(f"{host}\n" for host in hosts)
    return {
        one: {
            "identity": identity(one),
            "physical-host": "HOST-1\n",
            "ib-counters-before": counters(),
            "nvlink-errors-before": "",
            "nvidia-smi-xml": smi_xml(),
            "gpu-pci": "".join(f"{bus}.0 0x030200 0x31c2\n" for bus in BUSES),
            "gpu-device-files": "nvidia0\nnvidia1\nnvidia2\nnvidia3\n",
            "nvlink-status": LINKS,
            "c2c-status": c2c_links(),
            "gpu-slowdowns-after": slowdowns(),
            "imex-domain": imex_json(hosts),
            "imex-node-list": listing,
            "fabric-manager": result("fabric-manager", "inactive\n", code=3),
            "ib-sysfs": ib_sysfs(node=number),
            "fabric-map": fabric_map(),
            "kernel-log": QUIET_LOG,
            "ib-counters-after": counters(),
            "nvlink-errors-after": "",
            **healthy_host(),
        }
        for number, one in enumerate(nodes, 1)
    }


def rack_of(nodes: Sequence[Node], expected: int | None = None) -> Rack:
    return Rack("rack01", 1, len(nodes) if expected is None else expected, tuple(nodes))


Change = Callable[[dict[Node, dict[str, str | CommandResult]]], None]


def view(answers: Sequence[NodeAnswer], expected: int | None = None) -> RackView:
    return RackView("rack01", len(answers) if expected is None else expected, {one.node: one for one in answers})


def judged(
    answers: Sequence[NodeAnswer],
    checks: Sequence[Check],
    rack: Rack | None = None,
    profile: Profile = GB300,
    **more: object,
) -> RackResult:
    of = rack or rack_of([one.node for one in answers])
    return judge_rack(of, "lab", {one.node: one for one in answers}, checks, profile, **more)  # type: ignore[arg-type]


def standing(findings: Sequence[Finding]) -> list[Finding]:
    return [one for one in findings if one.status in BAD and not one.caused_by]


def blamed(findings: Sequence[Finding]) -> set[str]:
    """The nodes that a standing failure or warning names."""
    return {one.node for one in standing(findings) if one.node and one.status is not Status.UNKNOWN}


def without(of: NodeAnswer, *commands: str) -> NodeAnswer:
    return replace(of, results={name: one for name, one in of.results.items() if name not in commands})
