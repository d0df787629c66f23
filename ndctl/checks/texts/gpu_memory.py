"""What ECC counts, retired pages and remapped rows of one GPU mean."""

from __future__ import annotations

from ndctl.checks.texts.gpu_finding import about
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.gpu_facts import Gpu
from ndctl.profiles.schema import Profile

_REMAP_CATEGORY = "Resource.Hpc.Unhealthy.HpcRowRemapFailure"
_RETIRED_PAGES_LIMIT = 60  # NVIDIA Dynamic Page Retirement guide: return the board at this many
_REMAP_LIMIT = 512  # NVIDIA A100 memory error management guide: uncorrectable remaps a board has room for


def memory_findings(gpu: Gpu, profile: Profile | None) -> list[Finding]:
    """Faults and warnings only; a clean memory gives none."""
    return [*_ecc_mode(gpu, profile), *_ecc(gpu), *_repairs(gpu), *_retired(gpu), *_remapped(gpu)]


def sees_memory(gpu: Gpu) -> list[str]:
    """Which memory health the text shows, in words for a pass finding."""
    seen = []
    if gpu.ecc.volatile.uncorrectable is not None or gpu.ecc.aggregate.uncorrectable is not None:
        seen.append("ECC counts")
    if gpu.remapped_rows.pending is not None or gpu.remapped_rows.failure is not None:
        seen.append("row remapping")
    if gpu.retired_pages.pending is not None:
        seen.append("page retirement")
    return seen


def _ecc_mode(gpu: Gpu, profile: Profile | None) -> list[Finding]:
    current, pending = gpu.ecc.mode_current, gpu.ecc.mode_pending
    findings = []
    if current and pending and current.lower() != pending.lower():
        findings.append(
            about(
                gpu,
                "gpu.ecc-mode-pending",
                Status.WARN,
                f"ECC is {current.lower()} now and {pending.lower()} after the next reset",
                value=pending,
                expected=current,
                cause="switched by someone, and not reset since",
                action=Action.RESET_GPU,
            )
        )
    if profile and profile.gpu.ecc.value and current and current.lower() == "disabled":
        findings.append(
            about(
                gpu,
                "gpu.ecc-mode",
                Status.FAIL,
                "ECC is switched off",
                value=current,
                expected="Enabled",
                source=profile.gpu.ecc.origin,
                cause="switched off by someone, or by another image",
                action=Action.RESET_GPU,
            )
        )
    return findings


def _ecc(gpu: Gpu) -> list[Finding]:
    findings = []
    now, ever = gpu.ecc.volatile.uncorrectable, gpu.ecc.aggregate.uncorrectable
    if now:
        findings.append(
            about(
                gpu,
                "gpu.ecc-uncorrectable",
                Status.FAIL,
                f"{now} uncorrectable ECC errors since the driver loaded",
                value=now,
                expected="0",
                cause="memory or SRAM fault",
                action=Action.RESET_GPU,
                category="Resource.Hpc.Unhealthy.HpcGenericFailure",
            )
        )
    elif ever:
        findings.append(
            about(
                gpu,
                "gpu.ecc-uncorrectable-ever",
                Status.WARN,
                f"{ever} uncorrectable ECC errors in this board's life, none since the driver loaded",
                value=ever,
                expected="0",
                cause="an earlier memory or SRAM fault",
                action=Action.WATCH,
            )
        )
    if gpu.ecc.sram_threshold_exceeded:
        findings.append(
            about(
                gpu,
                "gpu.sram-threshold",
                Status.FAIL,
                "the SRAM error threshold is exceeded: the board is to be replaced",
                value=True,
                expected="No",
                cause="SRAM fault",
                action=Action.REPLACE_AND_REPORT,
            )
        )
    return findings


def _repairs(gpu: Gpu) -> list[Finding]:
    findings = []
    if gpu.ecc.unrepairable_memory:
        message = "memory that cannot be repaired: the board is to be replaced"
        findings.append(
            about(
                gpu,
                "gpu.unrepairable-memory",
                Status.FAIL,
                message,
                value=True,
                expected="No",
                cause="memory fault",
                action=Action.REPLACE_AND_REPORT,
            )
        )
    for what, pending in (("channel", gpu.ecc.channel_repair_pending), ("TPC", gpu.ecc.tpc_repair_pending)):
        if pending:
            findings.append(
                about(
                    gpu,
                    f"gpu.{what.lower()}-repair-pending",
                    Status.FAIL,
                    f"a {what} repair waits for a reboot",
                    value=True,
                    expected="No",
                    cause="a fault that the GPU found and mends when it starts anew",
                    action=Action.REBOOT,
                )
            )
    return findings


def _retired(gpu: Gpu) -> list[Finding]:
    pages = gpu.retired_pages
    total = (pages.single_bit or 0) + (pages.double_bit or 0)
    findings = []
    if pages.pending:
        findings.append(
            about(
                gpu,
                "gpu.retirement-pending",
                Status.FAIL,
                "memory pages wait to be retired: reset or reboot before use",
                value=True,
                expected="No",
                cause="a memory error since the last reset",
                action=Action.RESET_GPU,
            )
        )
    if total >= _RETIRED_PAGES_LIMIT:
        findings.append(
            about(
                gpu,
                "gpu.retired-pages",
                Status.FAIL,
                f"{total} retired pages ({pages.single_bit} single bit, {pages.double_bit} double bit)",
                value=total,
                expected=f"under {_RETIRED_PAGES_LIMIT}",
                source="NVIDIA Dynamic Page Retirement guide, 2026-12-02",
                cause="worn memory: the limit for return is reached",
                action=Action.REPLACE_AND_REPORT,
            )
        )
    elif total and not pages.pending:
        message = f"{total} retired pages ({pages.single_bit} single bit, {pages.double_bit} double bit), none pending"
        findings.append(
            about(gpu, "gpu.retired-pages", Status.WARN, message, value=total, expected="0", action=Action.WATCH)
        )
    return findings


def _remapped(gpu: Gpu) -> list[Finding]:
    rows = gpu.remapped_rows
    findings = []
    if rows.failure:
        findings.append(
            about(
                gpu,
                "gpu.remap-failure",
                Status.FAIL,
                "a row could not be remapped: the board is to be replaced",
                value=True,
                expected="No",
                cause="no spare rows left in a bank",
                action=Action.REPLACE_AND_REPORT,
                category=_REMAP_CATEGORY,
            )
        )
    if rows.pending:
        findings.append(
            about(
                gpu,
                "gpu.remap-pending",
                Status.FAIL,
                f"a row remap is pending ({rows.correctable or 0} correctable, {rows.uncorrectable or 0} uncorrectable"
                " so far): reset the GPU before use",
                value=True,
                expected="No",
                cause="a memory error since the last reset",
                action=Action.RESET_GPU,
            )
        )
    if rows.uncorrectable and rows.uncorrectable > _REMAP_LIMIT:
        findings.append(
            about(
                gpu,
                "gpu.remapped-rows",
                Status.FAIL,
                f"{rows.uncorrectable} rows remapped for uncorrectable errors",
                value=rows.uncorrectable,
                expected=f"at most {_REMAP_LIMIT}",
                source="NVIDIA GPU memory error management, 2026-12-02",
                cause="worn memory",
                action=Action.REPLACE_AND_REPORT,
                category=_REMAP_CATEGORY,
            )
        )
    elif rows.uncorrectable and not rows.pending:
        message = f"{rows.uncorrectable} rows were remapped for uncorrectable errors; repaired, and worth watching"
        findings.append(
            about(gpu, "gpu.remapped-rows", Status.WARN, message, value=rows.uncorrectable, action=Action.WATCH)
        )
    return [*findings, *_spares(gpu)]


def _spares(gpu: Gpu) -> list[Finding]:
    """Banks that run out of spare rows: none left is the last warning, few left an early one."""
    spent, few = (gpu.remapped_rows.histogram.get(bank, 0) for bank in ("none", "low"))
    if not spent and not few:
        return []
    return [
        about(
            gpu,
            "gpu.remap-spares",
            Status.WARN,
            f"{spent} memory banks have no spare row left: the next error there cannot be repaired"
            if spent
            else f"{few} memory banks have few spare rows left",
            value=spent or few,
            unit="banks",
            expected="0",
            cause="worn memory: rows were remapped there before",
            action=Action.WATCH,
        )
    ]
