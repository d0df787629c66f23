"""What should be written to can be written to, and what the rack's other nodes have mounted is mounted here too."""

from __future__ import annotations

import re
from collections import Counter

from ndctl.checks import host_commands as asked
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence
from ndctl.checks.host_facts import THE_RACK, gathered, silent
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse import mounts
from ndctl.parse.mounts import Mount
from ndctl.profiles.schema import Profile

_ID = "host.mounts"
_REAL = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "bcachefs", "vfat"))
# What containers and packages bring along comes and goes, and is read-only where they want it so.
_FOREIGN = re.compile(
    r"^/(?:snap|proc|sys|run|tmp|var/snap|var/lib/(?:snapd|docker|containerd|containers|kubelet|lxc))/"
)
_BROKEN = ("emergency_ro", "shutdown")  # ext4's words since Linux 6.15; the "ro" flag is not set then


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    told, findings = gathered(_ID, view, asked.MOUNTS)
    by_node = {name: mounts.of_lines(files.files[asked.MOUNTS]).mounts for name, (_, files) in told.items()}
    real = {name: _real(found) for name, found in by_node.items()}
    read_only = {name: _read_only(found) for name, found in real.items()}
    often = Counter(point for found in read_only.values() for point, _ in found)
    have = Counter(one.point for found in real.values() for one in {m.point: m for m in found}.values())
    for name, (answer, _) in told.items():
        if not real[name]:
            findings.append(silent(_ID, answer, asked.HOST_FILES, "mounts", "no local file system is listed"))
            continue
        # Most of the rack has it read-only: so it is meant, unless the kernel says that it broke.
        said = [
            _finding(answer, point, why, real[name])
            for point, why in read_only[name]
            if why != "ro" or point == "/" or 2 * often[point] <= len(told)
        ]
        points = {one.point for one in real[name]}
        said += [
            _absent(answer, point, have[point], len(told))
            for point in have
            if point not in points and 2 * have[point] > len(told) and len(told) > 2
        ]
        findings += said or [_fine(answer, real[name], len(read_only[name]))]
    return findings


def _real(found: tuple[Mount, ...]) -> list[Mount]:
    return [one for one in found if one.point == "/" or (one.kind in _REAL and not _FOREIGN.match(one.point))]


def _read_only(real: list[Mount]) -> list[tuple[str, str]]:
    """(mount point, the word that says so). A device that is mounted for writing elsewhere is well: the other mount is
    only a view of it."""
    writable = {one.device for one in real if "rw" in one.options and not set(_BROKEN) & set(one.options)}
    found: dict[str, str] = {}
    for one in real:
        word = next((word for word in _BROKEN if word in one.options), "ro" if "ro" in one.options else "")
        if word and (word in _BROKEN or one.device not in writable):
            found.setdefault(one.point, word)
        elif not word:
            found.pop(one.point, None)  # what was mounted later covers it
    return list(found.items())


def _finding(answer: NodeAnswer, point: str, word: str, real: list[Mount]) -> Finding:
    mount = next(one for one in reversed(real) if one.point == point)
    broke = word in _BROKEN or any(option.startswith("errors=") for option in mount.options)
    return Finding(
        check=f"{_ID}.read-only",
        status=Status.WARN if point.startswith("/boot") else Status.FAIL,
        subject=point,
        node=answer.node.name,
        value=word,
        expected="rw",
        source="/proc/mounts",
        message=f"{point} ({mount.device}, {mount.kind}) cannot be written to: {word}",
        cause="the file system met an error and protects itself: see the kernel log"
        if broke
        else "mounted so, or the file system met an error",
        action=Action.REIMAGE if broke and point == "/" else Action.REBOOT,
        evidence=evidence(answer, asked.HOST_FILES),
    )


def _absent(answer: NodeAnswer, point: str, others: int, nodes: int) -> Finding:
    return Finding(
        check=f"{_ID}.missing",
        status=Status.WARN,
        subject=point,
        node=answer.node.name,
        value="not mounted",
        expected=f"mounted as on {others} of {nodes} nodes",
        source=THE_RACK,
        message=f"{point} is not mounted here, and is on {others} of {nodes} nodes",
        cause="a disk is missing, or the mount failed at boot",
        action=Action.INVESTIGATE,
        evidence=evidence(answer, asked.HOST_FILES),
    )


def _fine(answer: NodeAnswer, real: list[Mount], meant: int) -> Finding:
    also = f"; {meant} read-only as on most nodes" if meant else ""
    return Finding(
        check=_ID,
        status=Status.PASS,
        subject="mounts",
        node=answer.node.name,
        value=len(real),
        unit="mounts",
        message=f"{len(real) - meant} local file systems can be written to{also}",
        evidence=evidence(answer, asked.HOST_FILES),
    )


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="local file systems are writable, and mounted on every node",
    commands=(asked.HOST_FILES,),
    judge_rack=_judge_rack,
)
