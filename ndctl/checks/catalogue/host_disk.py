"""No file system a job or the system writes to is full or nearly so, in space or in inodes."""

from __future__ import annotations

import re

from ndctl.checks import host_commands as asked
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.host_facts import silent
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse import df
from ndctl.parse.df import FileSystem
from ndctl.profiles.schema import Profile

_ID = "host.disk"
# Full by design, or a second view of another file system.
_NOT_JUDGED = re.compile(
    r"^(?:squashfs|iso9660|udf|ramfs|devtmpfs|efivarfs|overlay|aufs|fuse.*|nsfs|tracefs|autofs|erofs)$"
)
_FOREIGN = re.compile(
    r"^/(?:snap|proc|sys|dev(?!/shm)|run/user|var/snap|var/lib/(?:snapd|docker|containerd|kubelet|lxc))(?:/|$)"
)
_BROKEN = re.compile(r"Input/output error|Structure needs cleaning|Read-only file system", re.IGNORECASE)


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    missing = unusable(_ID, answer, asked.HOST_DISK)
    if missing:
        return [missing]
    result = answer.results[asked.HOST_DISK.id]
    text = result.stdout.rpartition("\n")[0] if result.truncated else result.stdout
    facts = df.parse(text, result.stderr)
    judged = [one for one in facts.file_systems.values() if _counts(one)]
    findings = [_broken(answer, point, why) for point, why in facts.complaints.items() if _BROKEN.search(why)]
    for one in judged:
        finding = _space(answer, one, profile)
        # XFS makes inodes out of free space: where one is short the other is, and one finding is enough.
        finding = finding or _inodes(answer, one, profile)
        findings += [finding] if finding else []
    root = next((one for one in judged if one.point == "/"), None)
    if root is None or root.available is None:
        findings.append(silent(_ID, answer, asked.HOST_DISK, "/", "df does not list the space of /"))
    elif not any(one.inodes is not None for one in judged) and not findings:
        findings.append(silent(_ID, answer, asked.HOST_DISK, "inodes", "df -i lists none"))
    return findings or [_fine(answer, judged, profile)]


def _counts(one: FileSystem) -> bool:
    if one.point == "/":
        return True
    if _NOT_JUDGED.match(one.kind) or _FOREIGN.match(one.point) or one.device.startswith("/dev/loop"):
        return False
    return one.kind != "tmpfs" or one.point in ("/dev/shm", "/run", "/tmp", "/var/tmp")


def _share(free: int | None, used: int | None) -> float | None:
    """What is left for ordinary users, as df's own percentage counts it: blocks that root keeps are neither."""
    return free / (free + used) if free is not None and used is not None and free + used > 0 else None


def _space(answer: NodeAnswer, one: FileSystem, profile: Profile) -> Finding | None:
    free = _share(one.available, one.used)
    if free is None:
        return None
    left = _gib(one.available or 0)
    return _short(answer, one, "space", free, f"{left} free", profile)


def _inodes(answer: NodeAnswer, one: FileSystem, profile: Profile) -> Finding | None:
    free = _share(one.inodes_free, one.inodes_used)
    return None if free is None else _short(answer, one, "inodes", free, f"{one.inodes_free} inodes free", profile)


def _short(answer: NodeAnswer, one: FileSystem, what: str, free: float, left: str, profile: Profile) -> Finding | None:
    least = profile.host.free_fraction
    full = free <= 0
    if not full and (least is None or free >= least.value):
        return None
    return Finding(
        check=f"{_ID}.{'full' if full else 'nearly-full'}" if what == "space" else f"{_ID}.inodes",
        status=Status.FAIL if full else Status.WARN,
        subject=one.point,
        node=answer.node.name,
        value=round(100 * free, 1),
        unit="% free",
        expected=f"at least {100 * least.value:g} %" if least else "more than none",
        source=least.origin if least else "",
        message=f"{one.point} ({one.device}) is full: no {what} left"
        if full
        else f"{one.point} ({one.device}): {left}, {100 * free:.1f} %",
        cause="logs, core dumps, container images or a job's data"
        if one.kind != "tmpfs"
        else "files in memory that a job left behind",
        action=Action.INVESTIGATE,
        evidence=evidence(answer, asked.HOST_DISK),
    )


def _broken(answer: NodeAnswer, point: str, why: str) -> Finding:
    return Finding(
        check=f"{_ID}.unreadable",
        status=Status.FAIL,
        subject=point,
        node=answer.node.name,
        value=why,
        expected="an answer",
        source="df",
        message=f"{point} does not answer: {why}",
        cause="the file system has shut itself down after an error of its disk",
        action=Action.REBOOT,
        evidence=evidence(answer, asked.HOST_DISK),
    )


def _gib(kib: int) -> str:
    return f"{kib / 2**20:.1f} GiB"


def _fine(answer: NodeAnswer, judged: list[FileSystem], profile: Profile) -> Finding:
    shares = [(share, one.point) for one in judged if (share := _share(one.available, one.used)) is not None]
    least, point = min(shares)
    return Finding(
        check=_ID,
        status=Status.PASS,
        subject="file systems",
        node=answer.node.name,
        value=round(100 * least, 1),
        unit="% free",
        message=f"{len(judged)} file systems, the fullest is {point} with {100 * least:.0f} % free",
        evidence=evidence(answer, asked.HOST_DISK),
    )


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="no local file system is full, in space or inodes",
    commands=(asked.HOST_DISK,),
    judge_node=_judge_node,
)
