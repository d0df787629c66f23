"""The full GPU report of `nvidia-smi -q`: one tree, printed as text by its labels and as XML by its tags.

Labels, tags and their order are those of drivers 575 and 580 on real nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ndctl.sim.world.parts import Gpu
from ndctl.sim.world.view import DRIVER_VERSION, NodeView

NA = "N/A"
DEPRECATED = "Requested functionality has been deprecated"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the report, or a block when it has children. `text_only`/`xml_only` mark what one form lacks."""

    label: str
    tag: str
    value: str = ""
    children: tuple[Entry, ...] = ()


def _block(label: str, tag: str, *children: tuple[str, str, object] | Entry) -> Entry:
    return Entry(label, tag, "", tuple(c if isinstance(c, Entry) else Entry(c[0], c[1], str(c[2])) for c in children))


def _all(label: str, tag: str, value: str, *pairs: tuple[str, str]) -> Entry:
    return _block(label, tag, *((name, child, value) for name, child in pairs))


def _yes(value: bool) -> str:
    return "Yes" if value else "No"


_ECC = (
    ("SRAM Correctable", "sram_correctable"),
    ("SRAM Uncorrectable Parity", "sram_uncorrectable_parity"),
    ("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded"),
    ("DRAM Correctable", "dram_correctable"),
)


def gpu_entries(gpu: Gpu, view: NodeView) -> Iterator[Entry]:
    """The blocks of one GPU in the order the driver prints them."""
    yield Entry("Product Name", "product_name", gpu.name)
    yield Entry("Product Brand", "product_brand", "NVIDIA")
    yield Entry("Product Architecture", "product_architecture", "Blackwell" if view.shape.arm else "Hopper")
    yield Entry("Display Mode", "display_mode", DEPRECATED)
    yield Entry("Display Attached", "display_attached", "No")
    yield Entry("Display Active", "display_active", "Disabled")
    yield Entry("Persistence Mode", "persistence_mode", "Enabled")
    yield Entry("Addressing Mode", "addressing_mode", "ATS" if view.shape.arm else "None")
    yield _block("MIG Mode", "mig_mode", ("Current", "current_mig", "Disabled"), ("Pending", "pending_mig", "Disabled"))
    yield Entry("Accounting Mode", "accounting_mode", "Disabled")
    yield Entry("Accounting Mode Buffer Size", "accounting_mode_buffer_size", "4000")
    yield _block("Driver Model", "driver_model", ("Current", "current_dm", NA), ("Pending", "pending_dm", NA))
    yield Entry("Serial Number", "serial", gpu.serial)
    yield Entry("GPU UUID", "uuid", gpu.uuid)
    yield Entry("Minor Number", "minor_number", str(gpu.index))
    yield Entry("VBIOS Version", "vbios_version", "97.10.4A.00.05")
    yield Entry("MultiGPU Board", "multigpu_board", "No")
    yield Entry("Board ID", "board_id", f"0x{int(gpu.pci[:8], 16) << 16 | int(gpu.pci[9:11], 16) << 8:x}")
    yield Entry("Board Part Number", "board_part_number", "900-2G548-0000-000")
    yield Entry("GPU Part Number", "gpu_part_number", f"{view.shape.pci_device_id.upper()}-893-A1")
    yield Entry("FRU Part Number", "gpu_fru_part_number", NA)
    yield _block(
        "Platform Info",
        "platformInfo",
        ("Chassis Serial Number", "chassis_serial_number", NA),
        ("Slot Number", "slot_number", NA),
        ("Tray Index", "tray_index", NA),
        ("Host ID", "host_id", NA),
        ("Peer Type", "peer_type", "Switch Connected"),
        ("Module Id", "module_id", gpu.index + 1),
        ("GPU Fabric GUID", "gpu_fabric_guid", NA),
    )
    yield _block(
        "Inforom Version",
        "inforom_version",
        ("Image Version", "img_version", "G548.0301.00.05" if gpu.inforom_ok else NA),
        ("OEM Object", "oem_object", "2.1" if gpu.inforom_ok else NA),
        ("ECC Object", "ecc_object", "7.16" if gpu.inforom_ok else NA),
        ("Power Management Object", "pwr_object", NA),
    )
    yield Entry("C2C Mode", "c2c_mode", "Enabled" if view.shape.arm else "Disabled")
    yield _block(
        "GPU Virtualization Mode",
        "gpu_virtualization_mode",
        ("Virtualization Mode", "virtualization_mode", "Pass-Through"),
        ("Host VGPU Mode", "host_vgpu_mode", NA),
        ("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode", NA),
    )
    yield Entry("GPU Recovery Action", "gpu_recovery_action", gpu.recovery_action)
    yield Entry("GSP Firmware Version", "gsp_firmware_version", DRIVER_VERSION)
    yield from _bus_and_state(gpu, view)
    yield from _memory_and_errors(gpu)
    yield from _power_and_clocks(gpu)
    yield _fabric(gpu)


def _bus_and_state(gpu: Gpu, view: NodeView) -> Iterator[Entry]:
    domain, bus, rest = gpu.pci.split(":")
    yield _block(
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
        _block(
            "GPU Link Info",
            "pci_gpu_link_info",
            _block(
                "PCIe Generation",
                "pcie_gen",
                ("Max", "max_link_gen", 6 if view.shape.arm else 5),
                ("Current", "current_link_gen", 6 if view.shape.arm else 5),
                ("Device Current", "device_current_link_gen", 6 if view.shape.arm else 5),
                ("Device Max", "max_device_link_gen", 6 if view.shape.arm else 5),
                ("Host Max", "max_host_link_gen", NA),
            ),
            _block(
                "Link Width", "link_widths", ("Max", "max_link_width", "16x"), ("Current", "current_link_width", "16x")
            ),
        ),
        ("Replays Since Reset", "replay_counter", 0),
        ("Replay Number Rollovers", "replay_rollover_counter", 0),
    )
    yield Entry("Fan Speed", "fan_speed", NA)
    yield Entry("Performance State", "performance_state", "P0")
    yield _block(
        "Clocks Event Reasons",
        "clocks_event_reasons",
        ("Idle", "clocks_event_reason_gpu_idle", "Not Active" if gpu.processes else "Active"),
        ("Applications Clocks Setting", "clocks_event_reason_applications_clocks_setting", "Not Active"),
        ("SW Power Cap", "clocks_event_reason_sw_power_cap", "Not Active"),
        ("HW Slowdown", "clocks_event_reason_hw_slowdown", "Not Active"),
        ("HW Thermal Slowdown", "clocks_event_reason_hw_thermal_slowdown", "Not Active"),
        ("HW Power Brake Slowdown", "clocks_event_reason_hw_power_brake_slowdown", "Not Active"),
        ("Sync Boost", "clocks_event_reason_sync_boost", "Not Active"),
        ("SW Thermal Slowdown", "clocks_event_reason_sw_thermal_slowdown", "Not Active"),
        ("Display Clock Setting", "clocks_event_reason_display_clocks_setting", "Not Active"),
    )


def _memory_and_errors(gpu: Gpu) -> Iterator[Entry]:
    used = sum(process.used_mib for process in gpu.processes)
    yield _block(
        "FB Memory Usage",
        "fb_memory_usage",
        ("Total", "total", f"{gpu.memory_mib} MiB"),
        ("Reserved", "reserved", "1024 MiB"),
        ("Used", "used", f"{used} MiB"),
        ("Free", "free", f"{gpu.memory_mib - 1024 - used} MiB"),
    )
    yield _block(
        "BAR1 Memory Usage",
        "bar1_memory_usage",
        ("Total", "total", "524288 MiB"),
        ("Used", "used", "1 MiB"),
        ("Free", "free", "524287 MiB"),
    )
    yield Entry("Compute Mode", "compute_mode", "Default")
    busy = "97 %" if gpu.processes else "0 %"
    yield _block(
        "Utilization",
        "utilization",
        ("GPU", "gpu_util", busy),
        ("Memory", "memory_util", busy),
        ("Encoder", "encoder_util", "0 %"),
        ("Decoder", "decoder_util", "0 %"),
        ("JPEG", "jpeg_util", "0 %"),
        ("OFA", "ofa_util", "0 %"),
    )
    yield _block("ECC Mode", "ecc_mode", ("Current", "current_ecc", "Enabled"), ("Pending", "pending_ecc", "Enabled"))
    zeros = tuple((label, tag, 0) for label, tag in _ECC)
    yield _block(
        "ECC Errors",
        "ecc_errors",
        _block("Volatile", "volatile", *zeros, ("DRAM Uncorrectable", "dram_uncorrectable", gpu.ecc_volatile_dram)),
        _block(
            "Aggregate",
            "aggregate",
            *zeros,
            ("DRAM Uncorrectable", "dram_uncorrectable", gpu.ecc_aggregate_dram),
            ("SRAM Threshold Exceeded", "sram_threshold_exceeded", "No"),
        ),
        _all(
            "Aggregate Uncorrectable SRAM Sources",
            "aggregate_uncorrectable_sram_sources",
            "0",
            ("SRAM L2", "sram_l2"),
            ("SRAM SM", "sram_sm"),
            ("SRAM Microcontroller", "sram_microcontroller"),
            ("SRAM PCIE", "sram_pcie"),
            ("SRAM Other", "sram_other"),
        ),
        ("Channel Repair Pending", "channel_repair_pending", "No"),
        ("TPC Repair Pending", "tpc_repair_pending", "No"),
    )
    yield _block(
        "Remapped Rows",
        "remapped_rows",
        ("Correctable Error", "remapped_row_corr", gpu.remap_correctable),
        ("Uncorrectable Error", "remapped_row_unc", gpu.remap_uncorrectable),
        ("Pending", "remapped_row_pending", _yes(gpu.remap_pending)),
        ("Remapping Failure Occurred", "remapped_row_failure", _yes(gpu.remap_failure)),
        _block(
            "Bank Remap Availability Histogram",
            "row_remapper_histogram",
            ("Max", "row_remapper_histogram_max", f"{4096 - (gpu.remap_uncorrectable > 0)} bank(s)"),
            ("High", "row_remapper_histogram_high", f"{int(0 < gpu.remap_uncorrectable < 8)} bank(s)"),
            ("Partial", "row_remapper_histogram_partial", "0 bank(s)"),
            ("Low", "row_remapper_histogram_low", "0 bank(s)"),
            ("None", "row_remapper_histogram_none", f"{int(gpu.remap_uncorrectable >= 8)} bank(s)"),
        ),
    )


def _power_and_clocks(gpu: Gpu) -> Iterator[Entry]:
    limit = f"{gpu.power_limit_w:.2f} W"
    yield _block(
        "Temperature",
        "temperature",
        ("GPU Current Temp", "gpu_temp", f"{gpu.temperature} C"),
        ("GPU T.Limit Temp", "gpu_temp_tlimit", f"{87 - gpu.temperature} C"),
        ("GPU Shutdown T.Limit Temp", "gpu_temp_max_tlimit_threshold", "-5 C"),
        ("GPU Slowdown T.Limit Temp", "gpu_temp_slow_tlimit_threshold", "-2 C"),
        ("GPU Max Operating T.Limit Temp", "gpu_temp_max_gpu_tlimit_threshold", "0 C"),
        ("GPU Target Temperature", "gpu_target_temperature", NA),
        ("Memory Current Temp", "memory_temp", f"{gpu.memory_temperature} C"),
        ("Memory Max Operating T.Limit Temp", "gpu_temp_max_mem_tlimit_threshold", "0 C"),
    )
    yield _block(
        "GPU Power Readings",
        "gpu_power_readings",
        ("Average Power Draw", "average_power_draw", f"{gpu.power_w:.2f} W"),
        ("Instantaneous Power Draw", "instant_power_draw", f"{gpu.power_w + 0.41:.2f} W"),
        ("Current Power Limit", "current_power_limit", limit),
        ("Requested Power Limit", "requested_power_limit", limit),
        ("Default Power Limit", "default_power_limit", limit),
        ("Min Power Limit", "min_power_limit", "200.00 W"),
        ("Max Power Limit", "max_power_limit", limit),
    )
    clocks = (("Graphics", "graphics_clock"), ("SM", "sm_clock"), ("Memory", "mem_clock"), ("Video", "video_clock"))
    now, most = (("1920", "1920", "3996", "1650"), ("2032", "2032", "3996", "1875"))
    yield _block("Clocks", "clocks", *((n, t, f"{v} MHz") for (n, t), v in zip(clocks, now, strict=True)))
    yield _block("Max Clocks", "max_clocks", *((n, t, f"{v} MHz") for (n, t), v in zip(clocks, most, strict=True)))


def _fabric(gpu: Gpu) -> Entry:
    fabric = gpu.fabric
    known = fabric.bandwidth != NA
    answer = "False" if known else NA
    return _block(
        "Fabric",
        "fabric",
        ("State", "state", fabric.state),
        ("Status", "status", fabric.status),
        ("CliqueId", "cliqueId", fabric.clique_id),
        ("ClusterUUID", "clusterUuid", fabric.cluster_uuid),
        _block(
            "Health",
            "health",
            ("Summary", "summary", fabric.summary),
            ("Bandwidth", "bandwidth", fabric.bandwidth),
            ("Route Recovery in progress", "route_recovery_in_progress", answer),
            ("Route Unhealthy", "route_unhealthy", "True" if known and fabric.summary == "Unhealthy" else answer),
            ("Access Timeout Recovery", "access_timeout_recovery", answer),
            ("Incorrect Configuration", "incorrect_configuration", "None" if known else NA),
        ),
    )


# Sections `-d` can choose, by the blocks they show.
SECTIONS: dict[str, Sequence[str]] = {
    "MEMORY": ("FB Memory Usage", "BAR1 Memory Usage"),
    "UTILIZATION": ("Utilization",),
    "ECC": ("ECC Mode", "ECC Errors"),
    "TEMPERATURE": ("Temperature",),
    "POWER": ("GPU Power Readings",),
    "CLOCK": ("Clocks", "Max Clocks"),
    "COMPUTE": ("Compute Mode",),
    "PIDS": ("Processes",),
    "PERFORMANCE": ("Performance State", "Clocks Event Reasons"),
    "ROW_REMAPPER": ("Remapped Rows",),
}
