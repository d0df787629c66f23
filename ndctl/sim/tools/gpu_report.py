"""The full GPU report of `nvidia-smi -q`: one tree, printed as text by its labels and as XML by its tags.

Labels, tags and their order are those of driver 580 on a GB300 node, without its hundreds of supported clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ndctl.sim.tools.gpu_report_health import fabric, memory_and_errors, power_and_clocks
from ndctl.sim.tools.report_tree import NA, Entry, all_of, block
from ndctl.sim.world import load
from ndctl.sim.world.parts import Gpu
from ndctl.sim.world.view import DRIVER_VERSION, NodeView

DEPRECATED = "Requested functionality has been deprecated"


def gpu_entries(gpu: Gpu, view: NodeView, now: float) -> Iterator[Entry]:
    """The blocks of one GPU in the order the driver prints them."""
    pdi = "0x" + gpu.uuid.removeprefix("GPU-").replace("-", "")[:16]
    yield Entry("Product Name", "product_name", gpu.name)
    yield Entry("Product Brand", "product_brand", "NVIDIA")
    yield Entry("Product Architecture", "product_architecture", "Blackwell" if view.shape.arm else "Hopper")
    yield Entry("Display Mode", "display_mode", DEPRECATED)
    yield Entry("Display Attached", "display_attached", "No")
    yield Entry("Display Active", "display_active", "Disabled")
    yield Entry("Persistence Mode", "persistence_mode", "Enabled")
    yield Entry("Addressing Mode", "addressing_mode", "ATS" if view.shape.arm else "None")
    yield block("MIG Mode", "mig_mode", ("Current", "current_mig", "Disabled"), ("Pending", "pending_mig", "Disabled"))
    yield Entry("MIG Devices", "mig_devices", "None", only="xml")
    yield Entry("Accounting Mode", "accounting_mode", "Disabled")
    yield Entry("Accounting Mode Buffer Size", "accounting_mode_buffer_size", "4000")
    yield block("Driver Model", "driver_model", ("Current", "current_dm", NA), ("Pending", "pending_dm", NA))
    yield Entry("Serial Number", "serial", gpu.serial)
    yield Entry("GPU UUID", "uuid", gpu.uuid)
    yield Entry("GPU PDI", "pdi", pdi)
    yield Entry("Minor Number", "minor_number", str(gpu.index))
    yield Entry("VBIOS Version", "vbios_version", "97.10.4A.00.05")
    yield Entry("MultiGPU Board", "multigpu_board", "No")
    yield Entry("Board ID", "board_id", f"0x{int(gpu.pci[:8], 16) << 16 | int(gpu.pci[9:11], 16) << 8:x}")
    yield Entry("Board Part Number", "board_part_number", "900-2G548-0000-000")
    yield Entry("GPU Part Number", "gpu_part_number", f"{view.shape.pci_device_id.upper()}-893-A1")
    yield Entry("FRU Part Number", "gpu_fru_part_number", NA)
    yield block(
        "Platform Info",
        "platformInfo",
        ("Chassis Serial Number", "chassis_serial_number", NA),
        ("Slot Number", "slot_number", NA),
        ("Tray Index", "tray_index", NA),
        ("Host ID", "host_id", NA),
        ("Peer Type", "peer_type", "Switch Connected"),
        ("Module Id", "module_id", gpu.index + 1),
        ("GPU Fabric GUID", "gpu_fabric_guid", pdi if view.shape.rack_fabric else NA),
    )
    yield block(
        "Inforom Version",
        "inforom_version",
        ("Image Version", "img_version", "G548.0301.00.05" if gpu.inforom_ok else NA),
        ("OEM Object", "oem_object", "2.1" if gpu.inforom_ok else NA),
        ("ECC Object", "ecc_object", "7.16" if gpu.inforom_ok else NA),
        ("Power Management Object", "pwr_object", NA),
    )
    yield all_of(
        "Inforom BBX Object Flush",
        "inforom_bbx_flush",
        NA,
        ("Latest Timestamp", "latest_timestamp"),
        ("Latest Duration", "latest_duration"),
    )
    yield all_of("GPU Operation Mode", "gpu_operation_mode", NA, ("Current", "current_gom"), ("Pending", "pending_gom"))
    yield Entry("GPU C2C Mode", "c2c_mode", "Enabled" if view.shape.arm else "Disabled")
    yield block(
        "GPU Virtualization Mode",
        "gpu_virtualization_mode",
        ("Virtualization Mode", "virtualization_mode", "Pass-Through"),
        ("Host VGPU Mode", "host_vgpu_mode", NA),
        ("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode", NA),
    )
    yield Entry("GPU Recovery Action", "gpu_recovery_action", gpu.recovery_action)
    yield Entry("GSP Firmware Version", "gsp_firmware_version", DRIVER_VERSION)
    yield block("IBMNPU", "ibmnpu", ("Relaxed Ordering Mode", "relaxed_ordering_mode", NA))
    yield from _bus_and_state(gpu, view, now)
    yield from memory_and_errors(gpu)
    yield from power_and_clocks(gpu, now)
    yield fabric(gpu)


def _bus_and_state(gpu: Gpu, view: NodeView, now: float) -> Iterator[Entry]:
    reasons = load.state(gpu, now).reasons
    domain, bus, rest = gpu.pci.split(":")
    gen = 6 if view.shape.arm else 5
    yield block(
        "PCI",
        "pci",
        ("Bus", "pci_bus", f"0x{bus}"),
        ("Device", "pci_device", f"0x{rest[:2]}"),
        ("Domain", "pci_domain", f"0x{domain[-4:]}"),
        ("Base Classcode", "pci_base_class", "0x3"),
        ("Sub Classcode", "pci_sub_class", "0x2"),
        ("Device Id", "pci_device_id", f"0x{view.shape.pci_device_id.upper()}10DE"),
        ("Bus Id", "pci_bus_id", gpu.pci),
        ("Sub System Id", "pci_sub_system_id", "0x21F110DE"),
        block(
            "GPU Link Info",
            "pci_gpu_link_info",
            block(
                "PCIe Generation",
                "pcie_gen",
                ("Max", "max_link_gen", gen),
                ("Current", "current_link_gen", gen),
                ("Device Current", "device_current_link_gen", gen),
                ("Device Max", "max_device_link_gen", gen),
                ("Host Max", "max_host_link_gen", NA),
            ),
            block(
                "Link Width",
                "link_widths",
                ("Max", "max_link_width", "16x"),
                ("Current", "current_link_width", f"{gpu.pcie_lanes}x"),
            ),
        ),
        all_of("Bridge Chip", "pci_bridge_chip", NA, ("Type", "bridge_chip_type"), ("Firmware", "bridge_chip_fw")),
        ("Replays Since Reset", "replay_counter", 0),
        ("Replay Number Rollovers", "replay_rollover_counter", 0),
        ("Tx Throughput", "tx_util", "0 KB/s"),
        ("Rx Throughput", "rx_util", "0 KB/s"),
        ("Atomic Caps Outbound", "atomic_caps_outbound", NA),
        ("Atomic Caps Inbound", "atomic_caps_inbound", "FETCHADD_32 FETCHADD_64 SWAP_32 SWAP_64 CAS_32 CAS_64 "),
    )
    yield Entry("Fan Speed", "fan_speed", NA)
    yield Entry("Performance State", "performance_state", "P0")
    yield block(
        "Clocks Event Reasons",
        "clocks_event_reasons",
        *(
            (label, f"clocks_event_reason_{tag}", "Active" if reasons & bit else "Not Active")
            for label, tag, bit in (
                ("Idle", "gpu_idle", 0x1),
                ("Applications Clocks Setting", "applications_clocks_setting", 0x2),
                ("SW Power Cap", "sw_power_cap", 0x4),
                ("HW Slowdown", "hw_slowdown", 0x8),
                ("HW Thermal Slowdown", "hw_thermal_slowdown", 0x40),
                ("HW Power Brake Slowdown", "hw_power_brake_slowdown", 0x80),
                ("Sync Boost", "sync_boost", 0x10),
                ("SW Thermal Slowdown", "sw_thermal_slowdown", 0x20),
                ("Display Clock Setting", "display_clocks_setting", 0x100),
            )
        ),
    )
    yield block(
        "Clocks Event Reasons Counters",
        "clocks_event_reasons_counters",
        *(
            (label, f"clocks_event_reasons_counters_{tag}", f"{load.slowed(gpu, reason, now - view.booted)} us")
            for label, tag, reason in (
                ("SW Power Capping", "sw_power_cap", "sw_power_cap"),
                ("Sync Boost", "sync_boost", "sync_boost"),
                ("SW Thermal Slowdown", "sw_therm_slowdown", "sw_thermal_slowdown"),
                ("HW Thermal Slowdown", "hw_therm_slowdown", "hw_thermal_slowdown"),
                ("HW Power Braking", "hw_power_brake", "hw_power_brake_slowdown"),
            )
        ),
    )
    yield Entry("Sparse Operation Mode", "sparse_operation_mode", NA)


# Sections `-d` can choose, by the blocks they show.
SECTIONS: dict[str, Sequence[str]] = {
    "MEMORY": ("FB Memory Usage", "BAR1 Memory Usage"),
    "UTILIZATION": ("Utilization",),
    "ECC": ("ECC Mode", "ECC Errors"),
    "TEMPERATURE": ("Temperature",),
    "POWER": ("GPU Power Readings", "GPU Memory Power Readings", "Module Power Readings"),
    "CLOCK": ("Clocks", "Max Clocks"),
    "COMPUTE": ("Compute Mode",),
    "PIDS": ("Processes",),
    "PERFORMANCE": ("Performance State", "Clocks Event Reasons", "Clocks Event Reasons Counters"),
    "ROW_REMAPPER": ("Remapped Rows",),
}
