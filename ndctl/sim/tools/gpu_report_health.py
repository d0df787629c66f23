"""Memory, errors, temperatures, power, clocks and fabric of one GPU in the report of `nvidia-smi -q`."""

from __future__ import annotations

from collections.abc import Iterator

from ndctl.sim.tools.report_tree import NA, Entry, all_of, block, yes
from ndctl.sim.world import load
from ndctl.sim.world.parts import Gpu

_ECC = (
    ("SRAM Correctable", "sram_correctable"),
    ("SRAM Uncorrectable Parity", "sram_uncorrectable_parity"),
    ("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded"),
    ("DRAM Correctable", "dram_correctable"),
)
_ROOMS = (("Total", "total"), ("Used", "used"), ("Free", "free"))
_DRAWS = (("Average Power Draw", "average_power_draw"), ("Instantaneous Power Draw", "instant_power_draw"))
_LIMITS = (
    ("Current Power Limit", "current_power_limit"),
    ("Requested Power Limit", "requested_power_limit"),
    ("Default Power Limit", "default_power_limit"),
    ("Min Power Limit", "min_power_limit"),
    ("Max Power Limit", "max_power_limit"),
)
_BANKS = 5952  # of a GB300


def memory_and_errors(gpu: Gpu) -> Iterator[Entry]:
    used = sum(process.used_mib for process in gpu.processes)
    yield block(
        "FB Memory Usage",
        "fb_memory_usage",
        ("Total", "total", f"{gpu.memory_mib} MiB"),
        ("Reserved", "reserved", "1024 MiB"),
        ("Used", "used", f"{used} MiB"),
        ("Free", "free", f"{gpu.memory_mib - 1024 - used} MiB"),
    )
    yield block(
        "BAR1 Memory Usage",
        "bar1_memory_usage",
        ("Total", "total", "524288 MiB"),
        ("Used", "used", "1 MiB"),
        ("Free", "free", "524287 MiB"),
    )
    yield all_of("Conf Compute Protected Memory Usage", "cc_protected_memory_usage", "0 MiB", *_ROOMS)
    yield Entry("Compute Mode", "compute_mode", "Default")
    busy = "97 %" if gpu.processes else "0 %"
    yield block(
        "Utilization",
        "utilization",
        ("GPU", "gpu_util", busy),
        ("Memory", "memory_util", busy),
        ("Encoder", "encoder_util", "0 %"),
        ("Decoder", "decoder_util", "0 %"),
        ("JPEG", "jpeg_util", "0 %"),
        ("OFA", "ofa_util", "0 %"),
    )
    statistics = (("Average FPS", "average_fps"), ("Average Latency", "average_latency"))
    yield all_of("Encoder Stats", "encoder_stats", 0, ("Active Sessions", "session_count"), *statistics)
    yield all_of("FBC Stats", "fbc_stats", 0, ("Active Sessions", "session_count"), *statistics)
    yield all_of(
        "DRAM Encryption Mode",
        "dram_encryption_mode",
        NA,
        ("Current", "current_dram_encryption"),
        ("Pending", "pending_dram_encryption"),
    )
    yield block("ECC Mode", "ecc_mode", ("Current", "current_ecc", "Enabled"), ("Pending", "pending_ecc", "Enabled"))
    yield _ecc_errors(gpu)
    yield from _retired_pages()
    yield _remapped_rows(gpu)


def _ecc_errors(gpu: Gpu) -> Entry:
    zeros = tuple((label, tag, 0) for label, tag in _ECC)
    return block(
        "ECC Errors",
        "ecc_errors",
        block("Volatile", "volatile", *zeros, ("DRAM Uncorrectable", "dram_uncorrectable", gpu.ecc_volatile_dram)),
        block(
            "Aggregate",
            "aggregate",
            *zeros,
            ("DRAM Uncorrectable", "dram_uncorrectable", gpu.ecc_aggregate_dram),
            ("SRAM Threshold Exceeded", "sram_threshold_exceeded", "No"),
        ),
        all_of(
            "Aggregate Uncorrectable SRAM Sources",
            "aggregate_uncorrectable_sram_sources",
            0,
            ("SRAM L2", "sram_l2"),
            ("SRAM SM", "sram_sm"),
            ("SRAM Microcontroller", "sram_microcontroller"),
            ("SRAM PCIE", "sram_pcie"),
            ("SRAM Other", "sram_other"),
        ),
        ("Channel Repair Pending", "channel_repair_pending", "No"),
        ("TPC Repair Pending", "tpc_repair_pending", "No"),
        ("Unrepairable Memory", "unrepairable_memory", "No"),
    )


def _retired_pages() -> Iterator[Entry]:
    """A thing of boards before Ampere; the two forms name it differently."""
    text = (("Single Bit ECC", ""), ("Double Bit ECC", ""), ("Pending Page Blacklist", ""))
    one = all_of("Retired Pages", "", NA, *text)
    yield Entry(one.label, one.tag, "", one.children, "text")
    counts = (("", "retired_count"), ("", "retired_pagelist"))
    yield Entry(
        "",
        "retired_pages",
        "",
        (
            all_of("", "multiple_single_bit_retirement", NA, *counts),
            all_of("", "double_bit_retirement", NA, *counts),
            Entry("", "pending_blacklist", NA),
            Entry("", "pending_retirement", NA),
        ),
        "xml",
    )


def _remapped_rows(gpu: Gpu) -> Entry:
    return block(
        "Remapped Rows",
        "remapped_rows",
        ("Correctable Error", "remapped_row_corr", gpu.remap_correctable),
        Entry("", "remapped_row_corr_inactive", "0", only="xml"),
        ("Uncorrectable Error", "remapped_row_unc", gpu.remap_uncorrectable),
        Entry("", "remapped_row_unc_inactive", "0", only="xml"),
        ("Pending", "remapped_row_pending", yes(gpu.remap_pending)),
        ("Remapping Failure Occurred", "remapped_row_failure", yes(gpu.remap_failure)),
        block(
            "Bank Remap Availability Histogram",
            "row_remapper_histogram",
            ("Max", "row_remapper_histogram_max", f"{_BANKS - (gpu.remap_uncorrectable > 0)} bank(s)"),
            ("High", "row_remapper_histogram_high", f"{int(0 < gpu.remap_uncorrectable < 8)} bank(s)"),
            ("Partial", "row_remapper_histogram_partial", "0 bank(s)"),
            ("Low", "row_remapper_histogram_low", "0 bank(s)"),
            ("None", "row_remapper_histogram_none", f"{int(gpu.remap_uncorrectable >= 8)} bank(s)"),
        ),
    )


def power_and_clocks(gpu: Gpu, now: float) -> Iterator[Entry]:
    state = load.state(gpu, now)
    limit = f"{gpu.power_limit_w:.2f} W"
    yield block(
        "Temperature",
        "temperature",
        ("GPU Current Temp", "gpu_temp", f"{state.celsius} C"),
        ("GPU T.Limit Temp", "gpu_temp_tlimit", f"{87 - state.celsius} C"),
        ("GPU Shutdown T.Limit Temp", "gpu_temp_max_tlimit_threshold", "-5 C"),
        ("GPU Slowdown T.Limit Temp", "gpu_temp_slow_tlimit_threshold", "-2 C"),
        ("GPU Max Operating T.Limit Temp", "gpu_temp_max_gpu_tlimit_threshold", "0 C"),
        ("GPU Target Temperature", "gpu_target_temperature", NA),
        ("Memory Current Temp", "memory_temp", f"{state.memory_celsius} C"),
        ("Memory Max Operating T.Limit Temp", "gpu_temp_max_mem_tlimit_threshold", "0 C"),
    )
    targets = all_of("", "supported_gpu_target_temp", NA, ("", "gpu_target_temp_min"), ("", "gpu_target_temp_max"))
    yield Entry("", targets.tag, "", targets.children, "xml")
    p_state = Entry("", "power_state", "P0", only="xml")
    draws = (f"{state.watts:.2f} W", f"{state.watts + 0.41:.2f} W")
    # Both processors of a superchip share a board, which has a limit of its own.
    yield block(
        "GPU Power Readings",
        "gpu_power_readings",
        p_state,
        *((label, tag, value) for (label, tag), value in zip(_DRAWS, draws, strict=True)),
        *((label, tag, "200.00 W" if label.startswith("Min") else limit) for label, tag in _LIMITS),
    )
    yield all_of("GPU Memory Power Readings", "gpu_memory_power_readings", NA, *_DRAWS)
    yield block(
        "Module Power Readings",
        "module_power_readings",
        p_state,
        *((label, tag, NA) for label, tag in (*_DRAWS, *_LIMITS)),
    )
    # Only root is told.
    yield Entry("Power Smoothing", "power_smoothing", "Insufficient Permissions")
    yield all_of(
        "Workload Power Profiles",
        "power_profiles",
        NA,
        ("Requested Profiles", "power_profile_requested_profiles"),
        ("Enforced Profiles", "power_profile_enforced_profiles"),
    )
    yield from _clocks(state.sm_mhz)


def _clocks(sm_mhz: int) -> Iterator[Entry]:
    clocks = (("Graphics", "graphics_clock"), ("SM", "sm_clock"), ("Memory", "mem_clock"), ("Video", "video_clock"))
    two = (clocks[0], clocks[2])
    now, most = ((sm_mhz, sm_mhz, 3996, 1650), (load.MAX_SM_MHZ, load.MAX_SM_MHZ, 3996, 1875))
    set_to = (load.MAX_SM_MHZ, 3996)
    yield block("Clocks", "clocks", *((n, t, f"{v} MHz") for (n, t), v in zip(clocks, now, strict=True)))
    for label, tag in (
        ("Applications Clocks", "applications_clocks"),
        ("Default Applications Clocks", "default_applications_clocks"),
    ):
        yield block(label, tag, *((n, t, f"{v} MHz") for (n, t), v in zip(two, set_to, strict=True)))
    yield block("Deferred Clocks", "deferred_clocks", ("Memory", "mem_clock", NA))
    yield block("Max Clocks", "max_clocks", *((n, t, f"{v} MHz") for (n, t), v in zip(clocks, most, strict=True)))
    yield block(
        "Max Customer Boost Clocks",
        "max_customer_boost_clocks",
        ("Graphics", "graphics_clock", f"{load.MAX_SM_MHZ} MHz"),
    )
    yield all_of(
        "Clock Policy", "clock_policy", NA, ("Auto Boost", "auto_boost"), ("Auto Boost Default", "auto_boost_default")
    )


def fabric(gpu: Gpu) -> Entry:
    state = gpu.fabric
    known = state.bandwidth != NA
    answer = "False" if known else NA
    return block(
        "Fabric",
        "fabric",
        ("State", "state", state.state),
        ("Status", "status", state.status),
        ("CliqueId", "cliqueId", state.clique_id),
        ("ClusterUUID", "clusterUuid", state.cluster_uuid),
        block(
            "Health",
            "health",
            ("Summary", "summary", state.summary),
            ("Bandwidth", "bandwidth", state.bandwidth),
            ("Route Recovery in progress", "route_recovery_in_progress", answer),
            ("Route Unhealthy", "route_unhealthy", "True" if known and state.summary == "Unhealthy" else answer),
            ("Access Timeout Recovery", "access_timeout_recovery", answer),
            ("Incorrect Configuration", "incorrect_configuration", "None" if known else NA),
            ("Partition Assigned", "partition_assigned", NA),
        ),
    )
