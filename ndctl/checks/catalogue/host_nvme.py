"""The node has its local NVMe data disks: told by their model, since a disk of another kind stands beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median

from ndctl.checks import host_commands as asked
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence
from ndctl.checks.host_facts import few, gathered
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.host_files import HostFiles
from ndctl.profiles.schema import Profile

_ID = "host.nvme"
_CATEGORY = "Resource.Hpc.Unhealthy.HpcGenericFailure"
_CONTROLLER = re.compile(r"^sys/class/nvme/(?P<name>nvme\d+)/model$")
# With multipath a disk is numbered by its subsystem, and its path names the controller: nvme0c3n1.
_NAMESPACE = re.compile(r"^sys/class/block/nvme(?P<number>\d+)(?:c(?P<controller>\d+))?n\d+/size$")
_SECTOR = 512  # bytes, whatever the disk's own blocks are
_SAME_SIZE = 0.01


@dataclass(frozen=True, slots=True)
class _Disk:
    """size in bytes, 0 where no namespace is shown."""

    name: str
    model: str
    state: str
    size: int


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    told, findings = gathered(_ID, view, asked.CPUS_ONLINE, asked.COMMAND_LINE)
    disks = {name: _data_disks(files, profile) for name, (_, files) in told.items()}
    sizes = [disk.size for found in disks.values() for disk in found if disk.size]
    usual = median(sizes) if sizes else 0
    for name, (answer, files) in told.items():
        said = [*_missing(answer, files, disks[name], profile), *_bad(answer, disks[name], usual)]
        findings += said or [_fine(answer, disks[name])]
    return findings


def _data_disks(files: HostFiles, profile: Profile) -> list[_Disk]:
    sizes = _sizes(files)
    wanted = profile.host.nvme_data_model.value.lower()
    return [
        _Disk(name, model, files.first(f"sys/class/nvme/{name}/state"), sizes.get(name, 0))
        for path in files.files
        if (match := _CONTROLLER.match(path))
        for name, model in [(match["name"], files.first(path))]
        if wanted in model.lower()
    ]


def _sizes(files: HostFiles) -> dict[str, int]:
    """Controller -> bytes of its namespaces."""
    plain: dict[str, int] = {}
    by_path: dict[str, int] = {}
    for path in files.files:
        match = _NAMESPACE.match(path)
        text = files.first(path)
        if match and text.isascii() and text.isdigit() and len(text) < 20:
            kept, name = (by_path, match["controller"]) if match["controller"] else (plain, match["number"])
            kept[f"nvme{name}"] = kept.get(f"nvme{name}", 0) + int(text) * _SECTOR
    return by_path or plain


def _missing(answer: NodeAnswer, files: HostFiles, disks: list[_Disk], profile: Profile) -> list[Finding]:
    wanted = profile.host.nvme_data_disks
    if len(disks) >= wanted.value:
        return []
    others = [files.first(path) for path in files.files if _CONTROLLER.match(path)]
    beside = [model for model in others if profile.host.nvme_data_model.value.lower() not in model.lower()]
    return [
        Finding(
            check=f"{_ID}.missing",
            status=Status.FAIL,
            subject="NVMe data disks",
            node=answer.node.name,
            value=len(disks),
            unit="disks",
            expected=f"{wanted.value} of model {profile.host.nvme_data_model.value}",
            source=wanted.origin,
            message=f"{len(disks)} of {wanted.value} NVMe data disks"
            + (f" ({', '.join(disk.name for disk in disks)})" if disks else "")
            + (f"; beside them {few(beside)}" if beside else ""),
            cause="a disk has failed or was not attached to this host",
            action=Action.REDEPLOY,
            evidence=evidence(answer, asked.HOST_FILES),
            health_category=_CATEGORY,
        )
    ]


def _bad(answer: NodeAnswer, disks: list[_Disk], usual: float) -> list[Finding]:
    findings = []
    for disk in disks:
        if disk.state not in ("live", ""):
            findings.append(
                Finding(
                    check=f"{_ID}.not-live",
                    subject=disk.name,
                    node=answer.node.name,
                    status=Status.FAIL,
                    value=disk.state,
                    expected="live",
                    source="the Linux NVMe driver",
                    message=f"{disk.name} ({disk.model}) is {disk.state}",
                    cause="the disk, or its path, does not answer",
                    action=Action.REDEPLOY,
                    health_category=_CATEGORY,
                    evidence=evidence(answer, asked.HOST_FILES),
                )
            )
        elif usual and abs(disk.size / usual - 1) > _SAME_SIZE:
            findings.append(
                Finding(
                    check=f"{_ID}.size",
                    subject=disk.name,
                    node=answer.node.name,
                    status=Status.WARN,
                    value=disk.size,
                    unit="bytes",
                    expected=_tb(usual),
                    source="the rack's other data disks",
                    message=f"{disk.name} ({disk.model}) has {_tb(disk.size)}"
                    if disk.size
                    else f"{disk.name} ({disk.model}) shows no namespace of its own",
                    cause="another disk than the rack's, or a part of one",
                    action=Action.INVESTIGATE,
                    evidence=evidence(answer, asked.HOST_FILES),
                )
            )
    return findings


def _tb(size: float) -> str:
    return f"{size / 1e12:.2f} TB"


def _fine(answer: NodeAnswer, disks: list[_Disk]) -> Finding:
    whole = sum(disk.size for disk in disks)
    return Finding(
        check=_ID,
        status=Status.PASS,
        subject="NVMe data disks",
        node=answer.node.name,
        value=len(disks),
        unit="disks",
        message=f"{len(disks)} NVMe data disks" + (f", {_tb(whole)} in all" if whole else ""),
        evidence=evidence(answer, asked.HOST_FILES),
    )


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="the local NVMe data disks are all there, live and of one size",
    commands=(asked.HOST_FILES,),
    judge_rack=_judge_rack,
)
