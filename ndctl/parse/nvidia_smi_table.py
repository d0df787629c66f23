"""The plain table of `nvidia-smi`, whole, as some of its rows, or with its frame lost."""

from __future__ import annotations

import re
from typing import Any

from ndctl.parse.figures import known, real, whole
from ndctl.parse.gpu_facts import Ecc, EccCounts, Gpu, Gpus, Power, Process, Temperature
from ndctl.parse.nvidia_trouble import troubles
from ndctl.parse.tidy import tidy_lines

_VERSIONS = re.compile(r"Driver Version: ?([\w.]+)")
_CUDA = re.compile(r"CUDA Version: ?([\d.]+)")
_PCI = r"(?P<pci>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])"
# `|   0  NVIDIA H200                    Off |   00000001:00:00.0 Off |                    0 |`
_FIRST = re.compile(
    r"^[|\s]*(?P<index>\d{1,3})\s+(?P<name>\S.{1,60}?)\s+(?P<persistence>On|Off|N/A|ERR!)?\s*\|?\s*"
    + _PCI
    + r"\s+(?P<display>On|Off|N/A|ERR!)?\s*\|?\s*(?P<ecc>\d{1,20}|On|Off|N/A|ERR!|Disabled|Unknown Error)?\s*\|?\s*$"
)
# `| N/A   34C    P0            123W /  700W |       1MiB / 143771MiB |      0%      Default |`
_SECOND = re.compile(
    r"^[|\s]*(?P<fan>\d{1,3}%|N/A|ERR!)\s+(?P<temp>\d{1,3}C|N/A|ERR!)\s+(?P<perf>P\d{1,2}|N/A|ERR!)\s+"
    r"(?P<power>[\d.]{1,7}W|N/A|ERR!|Unknown Error|Off)\s*/\s*(?P<limit>[\d.]{1,7}W|N/A|ERR!)\s*\|?\s*"
    r"(?P<used>[\d.]{1,10}MiB|N/A|ERR!)\s*/\s*(?P<total>[\d.]{1,10}MiB|N/A|ERR!)\s*\|?\s*"
    r"(?P<util>\d{1,3}%|N/A|ERR!)?\s*(?P<mode>[\w.]{1,14})?\s*\|?\s*$"
)
_THIRD = re.compile(r"^\|\s+\|\s+\|\s+(?P<mig>Enabled\*?|Disabled\*?|N/A)\s*\|\s*$")
_PROCESS = re.compile(
    r"^\|\s+(?P<gpu>\d{1,3})\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(?P<pid>\d{1,9})\s+(?P<kind>C|G|C\+G|M\+C)\s+(?P<name>\S.{0,60}?)"
    r"\s+(?P<memory>[\d.]{1,9})MiB\s*\|\s*$"
)


def parse(text: str, stderr: str = "") -> Gpus:
    """`cut` where the table has its head but not its box of processes. Never raises."""
    rows: list[dict[str, Any]] = []
    processes: list[tuple[int, Process]] = []
    driver = cuda = None
    boxed = False
    for line in tidy_lines(text):
        first, second, third = _FIRST.match(line), _SECOND.match(line), _THIRD.match(line)
        process = _PROCESS.match(line)
        if process:
            entry = Process(int(process["pid"]), process["kind"], process["name"], real(process["memory"]))
            processes.append((int(process["gpu"]), entry))
        elif first:
            rows.append(first.groupdict())
        elif second:
            if not rows or "temp" in rows[-1]:
                rows.append({})
            rows[-1].update(second.groupdict())
        elif third and rows:
            rows[-1]["mig"] = third["mig"]
        else:
            version = _VERSIONS.search(line)
            if version:
                driver = version[1]
                runtime = _CUDA.search(line)
                cuda = runtime[1] if runtime else cuda
            boxed = boxed or "Processes" in line or "No running processes" in line
    return Gpus(
        gpus=tuple(_gpu(position, row, processes) for position, row in enumerate(rows)),
        driver_version=driver,
        cuda_version=cuda,
        cut=bool(rows) and driver is not None and not boxed,
        troubles=troubles(f"{text}\n{stderr}"),
        problems=tuple(f"GPU row {n} has no second line" for n, row in enumerate(rows) if "temp" not in row)[:20],
    )


def _gpu(position: int, row: dict[str, Any], processes: list[tuple[int, Process]]) -> Gpu:
    index = whole(row.get("index"))
    ecc = row.get("ecc")
    return Gpu(
        index=index if index is not None else position,
        pci=row.get("pci"),
        name=row.get("name"),
        persistence={"On": True, "Off": False}.get(row.get("persistence") or ""),
        mig=known(row.get("mig")),
        memory_total_mib=real(row.get("total")),
        memory_used_mib=real(row.get("used")),
        utilization_percent=real(row.get("util")),
        ecc=Ecc(
            mode_current="Disabled"
            if ecc in {"Off", "Disabled"}
            else "Enabled"
            if ecc == "On" or (ecc or "").isdigit()
            else None,
            volatile=EccCounts(uncorrectable_total=whole(ecc)),
        ),
        temperature=Temperature(gpu=real(row.get("temp"))),
        power=Power(draw=real(row.get("power")), limit=real(row.get("limit"))),
        processes=tuple(process for gpu, process in processes if gpu == index),
        errors=tuple(f"{label}: {value}" for label, value in row.items() if value in {"ERR!", "Unknown Error"}),
    )
