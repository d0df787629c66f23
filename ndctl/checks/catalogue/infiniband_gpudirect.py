"""Adapters can reach GPU memory: nvidia_peermem is loaded, or the kernel and an open NVIDIA driver offer DMABUF.

That it can be is seen here; that NCCL does it is proven by NCCL's own log.
"""

from __future__ import annotations

import re

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.read_once import fabric_of
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse import key_values
from ndctl.profiles.schema import Profile

_ID = "infiniband.gpudirect"
_SOURCE = "NVIDIA GPUDirect RDMA guide: nvidia-peermem, or DMABUF with kernel 5.12 and the open driver from R515"
_PEERMEM = {"nvidia_peermem", "nv_peer_mem"}
_FIRST_KERNEL = (5, 12)
_FIRST_DRIVER = 515
_DRIVER = re.compile(
    r"NVRM version: +NVIDIA UNIX (?P<kind>.*?Kernel Module.*?) {1,4}(?P<version>\d{3,4})(?:\.\d+){1,3}\b"
)
_KERNEL = re.compile(r"^(\d{1,3})\.(\d{1,3})")


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    missing = unusable(_ID, answer, commands.FABRIC_MAP)
    if missing:
        return [missing]
    fabric = fabric_of(answer.results[commands.FABRIC_MAP.id].stdout)
    loaded = sorted(_PEERMEM & set(fabric.modules))
    identity = answer.results.get(commands.IDENTITY.id)
    release = key_values.parse(identity.stdout).get("kernel", "") if identity is not None else ""
    kernel, driver = _KERNEL.match(release), _DRIVER.search(fabric.driver)
    if loaded:
        return [_finding(answer, Status.PASS, loaded[0], f"{loaded[0]} is loaded")]
    if not fabric.complete or not fabric.all_modules:
        return [_finding(answer, Status.UNKNOWN, None, "the list of kernel modules could not be read to its end")]
    if driver is None or kernel is None:
        what = "the NVIDIA driver's kind" if driver is None else "the kernel's version"
        text = f"nvidia_peermem is not loaded, and {what} is not told, so DMABUF is not known"
        return [_finding(answer, Status.UNKNOWN, None, text)]
    is_open = "open" in driver["kind"].lower()
    new = (int(kernel[1]), int(kernel[2])) >= _FIRST_KERNEL and int(driver["version"]) >= _FIRST_DRIVER
    if is_open and new:
        text = f"DMABUF: open NVIDIA driver {driver['version']} on kernel {kernel[0]}, nvidia_peermem not loaded"
        return [_finding(answer, Status.PASS, "DMABUF", text)]
    lacks = "the NVIDIA driver is not the open one" if not is_open else "kernel or driver are too old for DMABUF"
    return [
        _finding(
            answer,
            Status.WARN,
            "none",
            f"nvidia_peermem is not loaded, and {lacks}: data between GPUs and adapters goes through host memory",
            "the image does not load nvidia_peermem (modprobe nvidia-peermem), or lacks the open driver",
        )
    ]


def _finding(answer: NodeAnswer, status: Status, value: str | None, message: str, cause: str = "") -> Finding:
    return Finding(
        check=_ID if status is not Status.WARN else f"{_ID}.missing",
        status=status,
        subject="GPUDirect RDMA",
        node=answer.node.name,
        value=value,
        expected="nvidia_peermem or DMABUF",
        source=_SOURCE,
        message=message,
        cause=cause,
        action=Action.FIX_IMAGE if status is Status.WARN else Action.NONE,
        evidence=evidence(answer, commands.FABRIC_MAP),
    )


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="GPUDirect RDMA is possible: nvidia_peermem or DMABUF",
    commands=(commands.FABRIC_MAP, commands.IDENTITY),
    judge_node=_judge_node,
    required=False,
)
