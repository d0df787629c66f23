"""The kernel of every node of a rack was started and tuned alike: command line, sysctls, the NVIDIA driver's
parameters. A collective is as fast as its slowest node, and one that differs is the first suspect."""

from __future__ import annotations

import re
from collections.abc import Callable

from ndctl.checks import host_commands as asked
from ndctl.checks.base import Check, RackView
from ndctl.checks.host_equal import Comparison, compare
from ndctl.checks.host_facts import gathered
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.host_files import HostFiles
from ndctl.profiles.schema import Profile

_ID = "host.settings"
# Names of this one node, its disks and its kernel's file; host.identity compares the kernels.
_OWN = re.compile(
    r"^(?:BOOT_IMAGE|initrd|root|resume|rd\.\S*uuid|ip|ifname|bootif|systemd\.machine_id|ds|cloud-\S+)$", re.I
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PARAMETER = re.compile(r"^(?P<name>\w{2,80}): (?P<value>.*)$")
_QUOTED = re.compile(r'[^\s"]*(?:"[^"]*"[^\s"]*)+|\S+')


def _command_line(files: HostFiles) -> dict[str, str]:
    """Name -> value of the kernel's command line; a name that stands there twice keeps both, in their order."""
    found: dict[str, list[str]] = {}
    for word in _QUOTED.findall(files.first(asked.COMMAND_LINE)):
        name, _, value = word.partition("=")
        if not _OWN.match(name):
            found.setdefault(name, []).append(_UUID.sub("…", value))
    return {f"kernel {name}": " ".join(values) or "(set)" for name, values in found.items()}


def _settings(files: HostFiles) -> dict[str, str]:
    """A setting whose file is not there is not compared, since the list holds what some kernels lack; it is seen by its
    absence where others have it."""
    return {
        path.removeprefix("proc/sys/").replace("/", ".") if path.startswith("proc/sys/") else f"/{path}": " ".join(
            files.first(path).split()
        )
        for path in asked.SETTING_FILES
        if files.first(path)
    }


def _driver(files: HostFiles) -> dict[str, str]:
    found = (_PARAMETER.match(line.strip()) for line in files.files.get(asked.NVIDIA_PARAMETERS, ()))
    return {f"NVreg_{match['name']}": match["value"] for match in found if match}


_SOURCES: tuple[tuple[str, str, Callable[[HostFiles], dict[str, str]]], ...] = (
    ("command-line", "kernel parameters", _command_line),
    ("sysctl", "kernel settings", _settings),
    ("driver", "parameters of the NVIDIA driver", _driver),
)


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    told, findings = gathered(_ID, view, asked.COMMAND_LINE)
    voters = sum(1 for answer in view.answers.values() if answer.results)
    if len(told) < 2:
        return [*findings, _of_rack(view, Status.SKIP, "there is no second node to compare with")] if told else findings
    counts = []
    for what, noun, read in _SOURCES:
        by_node = {name: values for name, (_, files) in told.items() if (values := read(files))}
        if len(by_node) < 2:
            continue
        comparison = Comparison(
            f"{_ID}.{what}",
            noun,
            "started or tuned otherwise: another image, or changed by hand",
            Action.REIMAGE,
            asked.HOST_FILES.id,
        )
        findings += compare(comparison, view.name, by_node, voters)
        counts.append(f"{max(map(len, by_node.values()))} {noun}")
    if not any(finding.status is Status.WARN for finding in findings):
        findings.append(_of_rack(view, Status.PASS, f"{', '.join(counts)}: equal on {len(told)} nodes"))
    return findings


def _of_rack(view: RackView, status: Status, message: str) -> Finding:
    return Finding(check=_ID, status=status, subject=view.name, message=message)


CHECK = Check(
    id=_ID,
    group=Group.HOST,
    level=Level.QUICK,
    title="kernel parameters, sysctls and driver parameters are equal across the rack",
    commands=(asked.HOST_FILES,),
    judge_rack=_judge_rack,
    required=False,
)
