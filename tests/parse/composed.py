"""Healthy outputs of a GB300 node, put together from the tools' documented shapes; real captures are beside them."""

from __future__ import annotations

_PCI = ("00000008:01:00.0", "00000009:01:00.0", "00000018:01:00.0", "00000019:01:00.0")
_UUID = "a5c7c1f2-3c1f-4c2e-9f0a-1d2e3f405060"


def _smi_q_gpu(index: int) -> str:
    return f"""GPU {_PCI[index]}
    Product Name                          : NVIDIA GB300
    Product Brand                         : NVIDIA
    Product Architecture                  : Blackwell
    Persistence Mode                      : Enabled
    Addressing Mode                       : ATS
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    Serial Number                         : 165000000000{index}
    GPU UUID                              : GPU-00000000-0000-4000-8000-00000000000{index}
    Minor Number                          : {index}
    VBIOS Version                         : 97.10.4A.00.05
    Platform Info
        Chassis Serial Number             : 1820000000001
        Slot Number                       : 4
        Tray Index                        : 3
        Host ID                           : 1
        Peer Type                         : Switch Connected
        Module Id                         : {index + 1}
    Inforom Version
        Image Version                     : G548.0301.00.05
        OEM Object                        : 2.1
        ECC Object                        : 7.16
        Power Management Object           : N/A
    GPU C2C Mode                          : Enabled
    GPU Reset Status
        Reset Required                    : Requested functionality has been deprecated
        Drain and Reset Recommended       : Requested functionality has been deprecated
    GPU Recovery Action                   : None
    PCI
        Bus                               : 0x01
        Device Id                         : 0x31C210DE
        Bus Id                            : {_PCI[index]}
        GPU Link Info
            PCIe Generation
                Max                       : 6
                Current                   : 6
                Host Max                  : 6
            Link Width
                Max                       : 16x
                Current                   : 16x
        Replays Since Reset               : 0
    Fan Speed                             : N/A
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : Not Active
        Display Clock Setting             : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : 14325091 us
        Sync Boost                        : 0 us
        SW Thermal Slowdown               : 0 us
        HW Thermal Slowdown               : 0 us
        HW Power Braking                  : 0 us
    FB Memory Usage
        Total                             : 284208 MiB
        Reserved                          : 1214 MiB
        Used                              : 0 MiB
        Free                              : 282994 MiB
    Compute Mode                          : Default
    Utilization
        GPU                               : 0 %
        Memory                            : 0 %
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 2
            DRAM Uncorrectable            : 0
            SRAM Threshold Exceeded       : No
        Aggregate Uncorrectable SRAM Sources
            SRAM L2                       : 0
            SRAM SM                       : 0
            SRAM Microcontroller          : 0
            SRAM PCIE                     : 0
            SRAM Other                    : 0
        Channel Repair Pending            : No
        TPC Repair Pending                : No
        Unrepairable Memory               : No
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 6144 bank(s)
            High                          : 0 bank(s)
            Partial                       : 0 bank(s)
            Low                           : 0 bank(s)
            None                          : 0 bank(s)
    Temperature
        GPU Current Temp                  : 36 C
        GPU T.Limit Temp                  : 51 C
        GPU Shutdown T.Limit Temp         : -5 C
        GPU Slowdown T.Limit Temp         : 0 C
        Memory Current Temp               : 34 C
    GPU Power Readings
        Average Power Draw                : 181.02 W
        Instantaneous Power Draw          : 181.66 W
        Current Power Limit               : 1400.00 W
        Requested Power Limit             : 1400.00 W
        Max Power Limit                   : 1400.00 W
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 32766
        ClusterUUID                       : {_UUID}
        Health
            Summary                       : Healthy
            Bandwidth                     : Full
            Route Recovery in progress    : False
            Route Unhealthy               : False
            Access Timeout Recovery       : False
            Incorrect Configuration       : None
    Processes                             : None
    Capabilities
        EGM                               : disabled

"""


_SMI_Q = (
    "\n==============NVSMI LOG==============\n\n"
    "Timestamp                                 : Fri Aug 14 09:12:33 2026\n"
    "Driver Version                            : 580.126.20\n"
    "CUDA Version                              : 13.0\n\n"
    "Attached GPUs                             : 4\n" + "".join(_smi_q_gpu(i) for i in range(4))
)


def _xml_gpu(index: int) -> str:
    return f"""\t<gpu id="{_PCI[index]}">
\t\t<product_name>NVIDIA GB300</product_name>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<serial>165000000000{index}</serial>
\t\t<uuid>GPU-00000000-0000-4000-8000-00000000000{index}</uuid>
\t\t<minor_number>{index}</minor_number>
\t\t<c2c_mode>Enabled</c2c_mode>
\t\t<gpu_recovery_action>None</gpu_recovery_action>
\t\t<pci>
\t\t\t<pci_bus_id>{_PCI[index]}</pci_bus_id>
\t\t\t<pci_device_id>31C210DE</pci_device_id>
\t\t\t<pci_gpu_link_info>
\t\t\t\t<pcie_gen><max_link_gen>6</max_link_gen><current_link_gen>6</current_link_gen></pcie_gen>
\t\t\t\t<link_widths><max_link_width>16x</max_link_width><current_link_width>16x</current_link_width></link_widths>
\t\t\t</pci_gpu_link_info>
\t\t</pci>
\t\t<clocks_event_reasons>
\t\t\t<clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
\t\t\t<clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
\t\t\t<clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>
\t\t</clocks_event_reasons>
\t\t<fb_memory_usage><total>284208 MiB</total><used>0 MiB</used></fb_memory_usage>
\t\t<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
\t\t<ecc_errors>
\t\t\t<volatile>
\t\t\t\t<sram_uncorrectable_parity>0</sram_uncorrectable_parity>
\t\t\t\t<sram_uncorrectable_secded>0</sram_uncorrectable_secded>
\t\t\t\t<dram_correctable>0</dram_correctable>
\t\t\t\t<dram_uncorrectable>0</dram_uncorrectable>
\t\t\t</volatile>
\t\t\t<aggregate>
\t\t\t\t<dram_uncorrectable>0</dram_uncorrectable>
\t\t\t\t<sram_threshold_exceeded>No</sram_threshold_exceeded>
\t\t\t</aggregate>
\t\t\t<unrepairable_memory>No</unrepairable_memory>
\t\t</ecc_errors>
\t\t<remapped_rows>
\t\t\t<remapped_row_corr>0</remapped_row_corr>
\t\t\t<remapped_row_unc>0</remapped_row_unc>
\t\t\t<remapped_row_pending>No</remapped_row_pending>
\t\t\t<remapped_row_failure>No</remapped_row_failure>
\t\t\t<row_remapper_histogram>
\t\t\t\t<row_remapper_histogram_max>6144 bank(s)</row_remapper_histogram_max>
\t\t\t\t<row_remapper_histogram_none>0 bank(s)</row_remapper_histogram_none>
\t\t\t</row_remapper_histogram>
\t\t</remapped_rows>
\t\t<temperature><gpu_temp>36 C</gpu_temp><gpu_temp_tlimit>51 C</gpu_temp_tlimit></temperature>
\t\t<fabric>
\t\t\t<state>Completed</state>
\t\t\t<status>Success</status>
\t\t\t<cliqueId>32766</cliqueId>
\t\t\t<clusterUuid>{_UUID}</clusterUuid>
\t\t\t<health>
\t\t\t\t<summary>Healthy</summary>
\t\t\t\t<bandwidth>Full</bandwidth>
\t\t\t\t<route_recovery_in_progress>False</route_recovery_in_progress>
\t\t\t\t<route_unhealthy>False</route_unhealthy>
\t\t\t\t<access_timeout_recovery>False</access_timeout_recovery>
\t\t\t\t<incorrect_configuration>None</incorrect_configuration>
\t\t\t</health>
\t\t</fabric>
\t\t<processes>
\t\t</processes>
\t</gpu>
"""


_SMI_XML = (
    '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
    "\t<timestamp>Fri Aug 14 09:12:33 2026</timestamp>\n\t<driver_version>580.126.20</driver_version>\n"
    "\t<cuda_version>13.0</cuda_version>\n\t<attached_gpus>4</attached_gpus>\n"
    + "".join(_xml_gpu(i) for i in range(4))
    + "</nvidia_smi_log>\n"
)

_RULE = "+-----------------------------------------+------------------------+----------------------+\n"
_TABLE = (
    "Fri Aug 14 09:12:33 2026       \n"
    "+-----------------------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 580.126.20             Driver Version: 580.126.20     CUDA Version: 13.0     |\n"
    "|-----------------------------------------+------------------------+----------------------+\n"
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
    "|                                         |                        |               MIG M. |\n"
    "|=========================================+========================+======================|\n"
    + "".join(
        f"|   {i}  NVIDIA GB300                   On  |   {_PCI[i]} Off |                    0 |\n"
        "| N/A   36C    P0            181W / 1400W |       0MiB / 284208MiB |      0%      Default |\n"
        "|                                         |                        |             Disabled |\n" + _RULE
        for i in range(4)
    )
    + "\n"
    "+-----------------------------------------------------------------------------------------+\n"
    "| Processes:                                                                              |\n"
    "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
    "|        ID   ID                                                               Usage      |\n"
    "|=========================================================================================|\n"
    "|  No running processes found                                                             |\n"
    "+-----------------------------------------------------------------------------------------+\n"
)

_CSV = (
    "index, pci.bus_id, name, ecc.errors.uncorrected.volatile.total, remapped_rows.pending, remapped_rows.failure,"
    " gpu_recovery_action, fabric.state, fabric.status, temperature.gpu, power.draw [W], pcie.link.width.current\n"
    + "".join(
        f"{i}, {_PCI[i]}, NVIDIA GB300, 0, No, No, None, Completed, Success, 36, 181.66 W, 16\n" for i in range(4)
    )
)

_NVLINK_STATUS = "".join(
    f"GPU {g}: NVIDIA GB300 (UUID: GPU-00000000-0000-4000-8000-00000000000{g})\n"
    + "".join(f"\t Link {n}: 53.125 GB/s\n" for n in range(18))
    for g in range(4)
)

_COUNTERS = (
    "Malformed packet Errors",
    "Buffer overrun Errors",
    "Rx Errors",
    "Rx remote Errors",
    "Rx General Errors",
    "Local link integrity Errors",
    "Tx discards",
    "Link recovery successful events",
    "Link recovery failed events",
    "Total link recovery events",
    "Effective Errors",
    "Symbol Errors",
)
_NVLINK_ERRORS = "".join(
    f"GPU {g}: NVIDIA GB300 (UUID: GPU-00000000-0000-4000-8000-00000000000{g})\n"
    + "".join(
        f"\t Link {n}: Tx packets: 182736\n\t Link {n}: Rx packets: 182736\n"
        + "".join(f"\t Link {n}: {name}: 0\n" for name in _COUNTERS)
        + f"\t Link {n}: Effective BER: 15e-255\n\t Link {n}: Symbol BER: 15e-255\n"
        + f"\t Link {n}: FEC Errors - 0: 36140749276\n\t Link {n}: FEC Errors - 1: 3\n"
        for n in range(18)
    )
    for g in range(4)
)

_TOPO = (
    "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    + "".join(
        f"GPU{r}\t"
        + "\t".join(" X " if c == r else "NV18" for c in range(4))
        + f"\tNODE\tSYS\t{0 if r < 2 else 64}-{63 if r < 2 else 127}\t{r // 2}\t\t{2 + r * 8}\n"
        for r in range(4)
    )
    + "NIC0\tNODE\tNODE\tSYS\tSYS\t X \tSYS\nNIC1\tSYS\tSYS\tNODE\tNODE\tSYS\t X \n\n"
    "Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n"
    "  NIC0: mlx5_ib0\n  NIC1: mlx5_ib1\n"
)

_IMEX = (
    "Connectivity Table Legend:\nI - Invalid - Node wasn't reachable, no connection status available\n"
    "N - Never Connected\n!V! - Version mismatch, communication disabled.\nC - Connected - Ready for operation\n\n"
    "8/14/2026 09:12:33.100\nNodes:\n"
    + "".join(f"Node #{n:<3} - 10.40.0.{n + 4:<9} - READY                - Version: 580.126.20\n" for n in range(18))
    + "\n Nodes From\\To  "
    + "".join(f"{n:<4}" for n in range(18))
    + "\n"
    + "".join(f"      {n:>2}        " + "C   " * 18 + "\n" for n in range(18))
    + "\nDomain State: UP\n"
)

_IMEX_LOG = (
    "IMEX Log initializing at: 8/14/2026 09:00:01.100\n"
    "[Aug 14 2026 09:00:01] [INFO] [tid 40] IMEX version 580.126.20 is running with the following"
    " configuration options\n"
    "[Aug 14 2026 09:00:02] [INFO] [tid 44] Connection established to node 1 at 10.40.0.5\n"
    "[Aug 14 2026 09:00:03] [INFO] [tid 40] Node state READY\n"
)

_IB = "/sys/class/infiniband"
_SYSFS = "".join(
    "".join(
        f"{_IB}/mlx5_ib{i}/ports/1/{name}:{value}\n"
        for name, value in (
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("rate", "800 Gb/sec (4X XDR)"),
            ("link_layer", "InfiniBand"),
            ("lid", f"0x{300 + i:x}"),
            ("sm_lid", "0x1"),
            ("counters/symbol_error", "0"),
            ("counters/link_downed", "0"),
            ("counters/port_xmit_data", "123456789"),
            ("hw_counters/rnr_nak_retry_err", "0"),
            ("pkeys/0", "0x8123"),
            ("pkeys/1", "0x7fff"),
            ("pkeys/2", "0x0000"),
        )
    )
    + f"{_IB}/mlx5_ib{i}/fw_ver:40.47.1026\n{_IB}/mlx5_ib{i}/board_id:MSF0000000070\n"
    for i in range(4)
)

_IBSTAT = "".join(
    f"CA 'mlx5_ib{i}'\n\tCA type: MT4132\n\tNumber of ports: 1\n\tFirmware version: 40.47.1026\n\tHardware version: 0\n"
    f"\tNode GUID: 0x00155dfffe34000{i}\n\tSystem image GUID: 0x042728030126770{i}\n\tPort 1:\n\t\tState: Active\n"
    f"\t\tPhysical state: LinkUp\n\t\tRate: 800\n\t\tBase lid: {1200 + i}\n\t\tLMC: 0\n\t\tSM lid: 1\n"
    f"\t\tCapability mask: 0xa751ec48\n\t\tPort GUID: 0x00155dfffd34000{i}\n\t\tLink layer: InfiniBand\n"
    for i in range(4)
)

_IBSTATUS = "".join(
    f"Infiniband device 'mlx5_ib{i}' port 1 status:\n\tdefault gid:\t fe80:0000:0000:0000:0015:5dff:fd34:000{i}\n"
    f"\tbase lid:\t 0x{1200 + i:x}\n\tsm lid:\t\t 0x1\n\tstate:\t\t 4: ACTIVE\n\tphys state:\t 5: LinkUp\n"
    f"\trate:\t\t 800 Gb/sec (4X XDR)\n\tlink_layer:\t InfiniBand\n\n"
    for i in range(4)
)

_DEVINFO = "".join(
    f"hca_id:\tmlx5_ib{i}\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t40.47.1026\n"
    f"\tnode_guid:\t\t\t0015:5dff:fe34:000{i}\n\tvendor_id:\t\t\t0x02c9\n\tvendor_part_id:\t\t\t4132\n\tphys_port_cnt:\t\t\t1\n"
    f"\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t4096 (5)\n"
    f"\t\t\tsm_lid:\t\t\t1\n\t\t\tport_lid:\t\t{1200 + i}\n\t\t\tport_lmc:\t\t0x00\n\t\t\tlink_layer:\t\tInfiniBand\n\n"
    for i in range(4)
)

_RDMA = "".join(
    f"link mlx5_ib{i}/1 subnet_prefix fe80:0000:0000:0000 lid {1200 + i} sm_lid 1 lmc 0 state ACTIVE"
    f" physical_state LINK_UP netdev ib{i} \n"
    for i in range(4)
)

_LINKINFO = "".join(
    f"CA: rack01-n{n:02} mlx5_ib0:\n      0x00155dfffe3400{n:02}     {n + 10}    1[  ] "
    "==( 4X        212.5 Gbps Active/  LinkUp)==>"
    f'       3   {n}[  ] "Quantum-X800 Leaf" ( )\n'
    for n in range(1, 5)
)

_PERFQUERY = (
    "# Port counters: Lid 1200 port 1 (CapMask: 0x5A00)\nPortSelect:......................1\n"
    "CounterSelect:...................0x0000\nSymbolErrorCounter:..............0\nLinkErrorRecoveryCounter:........0\n"
    "LinkDownedCounter:...............0\nPortRcvErrors:...................0\nPortXmitDiscards:................0\n"
    "LocalLinkIntegrityErrors:........0\nExcessiveBufferOverrunErrors:....0\nPortXmitData:....................4294967295\n"
    "PortXmitWait:....................12\n"
)

_QUERYERRORS = (
    "\n## Summary: 22 nodes checked, 0 bad nodes found\n"
    "##          72 ports checked, 0 ports have errors beyond threshold\n## Thresholds: \n"
)

_MLXLINK = (
    "\nOperational Info\n----------------\nState                           : Active\n"
    "Physical state                  : LinkUp\nSpeed                           : IB-XDR\n"
    "Width                           : 4x\nFEC                             : RS-FEC\n\n"
    "Troubleshooting Info\n--------------------\nStatus Opcode                   : 0\n"
    "Group Opcode                    : N/A\n"
    "Recommendation                  : No issue was observed\n\nPhysical Counters and BER Info\n"
    "------------------------------\nEffective Physical BER          : 15E-255\n"
    "Raw Physical BER                : 3E-9\n"
)

_KERNEL = (
    "[    0.000000] Linux version 6.17.0-1005-azure-nvidia (buildd@bos03) (gcc 13.3.0) #5-Ubuntu SMP\n"
    "[    4.100000] nvidia: loading out-of-tree module taints kernel.\n"
    "[    5.200000] NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.126.20  Release Build\n"
    "[   11.300000] mlx5_core 0101:00:00.0: firmware version: 40.47.1026\n"
    "[   12.400000] mlx5_core 0101:00:00.0 ib0: Link up\n"
    "[   13.500000] EDAC MC: Ver: 3.0.0\n"
    "[   14.600000] nvidia-nvlink: Nvlink Core is being initialized, major device number 234\n"
    "[   15.700000] systemd[1]: Started NVIDIA Persistence Daemon.\n"
)

HEALTHY: dict[str, str] = {
    "nvidia-smi-q": _SMI_Q,
    "nvidia-smi-xml": _SMI_XML,
    "nvidia-smi": _TABLE,
    "nvidia-smi-csv": _CSV,
    "nvlink-status": _NVLINK_STATUS,
    "nvlink-errors": _NVLINK_ERRORS,
    "topo": _TOPO,
    "imex": _IMEX,
    "imex-log": _IMEX_LOG,
    "ib-sysfs": _SYSFS,
    "ibstat": _IBSTAT,
    "ibstatus": _IBSTATUS,
    "ibv-devinfo": _DEVINFO,
    "rdma-link": _RDMA,
    "iblinkinfo": _LINKINFO,
    "perfquery": _PERFQUERY,
    "ibqueryerrors": _QUERYERRORS,
    "mlxlink": _MLXLINK,
    "kernel-log": _KERNEL,
}
