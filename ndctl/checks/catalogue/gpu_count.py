"""How many GPUs: on the PCI bus, as device files, and as nvidia-smi lists them. The three are told apart, since a GPU
that is on the bus and not in the list has fallen off the driver."""

from __future__ import annotations

import re

from ndctl.checks import commands
from ndctl.checks.base import Check
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.gpus import gpus_of, short_pci
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "gpu.count"
_CATEGORY = "Resource.Hpc.Unhealthy.HpcMissingGpu"
_PCI_LINE = re.compile(r"^(?P<address>[0-9a-f:.]+) (?P<pci_class>0x[0-9a-f]+) (?P<device>0x[0-9a-f]+)$", re.IGNORECASE)


def _on_bus(answer: NodeAnswer) -> list[str]:
    """PCI addresses of the NVIDIA display and 3D controllers (class 0x03….)."""
    result = answer.results.get(commands.GPU_PCI.id)
    matches = (_PCI_LINE.match(line.strip()) for line in (result.stdout if result else "").splitlines())
    return sorted(m["address"].lower() for m in matches if m and m["pci_class"].lower().startswith("0x03"))


def _judge_node(answer: NodeAnswer, profile: Profile) -> list[Finding]:
    missing = unusable("gpu.driver", answer, commands.NVIDIA_SMI_XML)
    if missing:
        return [missing]
    facts = gpus_of(answer)
    wanted = profile.gpu.count
    bus = _on_bus(answer)
    listed = [short_pci(gpu.pci) for gpu in facts.gpus] if facts else []
    raw = evidence(answer, commands.NVIDIA_SMI_XML)
    result = answer.results[commands.NVIDIA_SMI_XML.id]
    if not listed:
        said = next((line.strip() for line in (result.stdout + "\n" + result.stderr).splitlines() if line.strip()), "")
        looked = bool(bus) or "no devices were found" in (result.stdout + result.stderr).lower()
        return [
            Finding(
                check="gpu.driver",
                status=Status.FAIL if looked else Status.UNKNOWN,
                subject="NVIDIA driver",
                node=answer.node.name,
                value=0,
                unit="GPUs",
                expected=str(wanted.value),
                source=wanted.origin,
                message=f"nvidia-smi lists no GPU ({len(bus)} on the PCI bus): {said[:160] or 'no text'}",
                cause="the driver is not loaded or lost all GPUs",
                action=Action.REBOOT,
                evidence=raw,
                health_category=_CATEGORY,
            )
        ]
    if len(listed) < wanted.value and facts is not None and (facts.cut or result.truncated):
        return [
            Finding(
                check=_ID,
                status=Status.UNKNOWN,
                subject="GPUs",
                node=answer.node.name,
                value=len(listed),
                unit="GPUs listed",
                expected=str(wanted.value),
                source=wanted.origin,
                message=f"nvidia-smi's listing breaks off after {len(listed)} GPUs: nothing is known of the others",
                action=Action.INVESTIGATE,
                evidence=raw,
            )
        ]
    # Where a listed GPU tells no address, which one is missing can't be told from the bus either.
    lost = [address for address in bus if address not in listed] if all(listed) else []
    findings = [
        Finding(
            check=_ID,
            status=Status.FAIL,
            subject=f"GPU at {address}",
            node=answer.node.name,
            value=len(listed),
            unit="GPUs listed",
            expected=str(wanted.value),
            source=wanted.origin,
            message=f"on the PCI bus, not in nvidia-smi: it fell off the driver ({len(listed)} of {wanted.value})",
            cause="the GPU stopped answering; the kernel log tells (XID 79, 119, 143)",
            action=Action.REPLACE_AND_REPORT,
            evidence=raw,
            health_category=_CATEGORY,
        )
        for address in lost[: max(0, wanted.value - len(listed))]
    ]
    gone = wanted.value - len(listed) - len(findings)
    if gone > 0:
        if not bus:
            seen = "and the PCI bus could not be read"
        elif len(bus) < wanted.value:
            seen = f"{len(bus)} on the PCI bus: the hardware is gone from the bus"
        else:
            seen = f"{len(bus)} on the PCI bus: one of them fell off the driver"
        findings.append(
            Finding(
                check=_ID,
                status=Status.FAIL,
                subject=f"{gone} GPU{'s' if gone > 1 else ''}",
                node=answer.node.name,
                value=len(listed),
                unit="GPUs listed",
                expected=str(wanted.value),
                source=wanted.origin,
                message=f"{len(listed)} of {wanted.value} GPUs are listed, {seen}",
                cause="a dead GPU, or one that was not given to this VM",
                action=Action.REPLACE_AND_REPORT,
                evidence=raw,
                health_category=_CATEGORY,
            )
        )
    if gone < 0 and not findings:
        findings.append(
            Finding(
                check=_ID,
                status=Status.FAIL,
                subject="GPUs",
                node=answer.node.name,
                value=len(listed),
                unit="GPUs listed",
                expected=str(wanted.value),
                source=wanted.origin,
                message=f"{len(listed)} GPUs, more than the profile's {wanted.value}",
                cause="another VM size than the inventory says",
                action=Action.FIX_INVENTORY,
                evidence=raw,
            )
        )
    findings += _without_file(answer, len(listed))
    on_bus = f"{len(bus)} on the PCI bus" if bus else "the PCI bus could not be read"
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject="GPUs",
            node=answer.node.name,
            value=len(listed),
            unit="GPUs",
            message=f"{len(listed)} GPUs listed, {on_bus}",
            evidence=raw,
        )
    ]


def _without_file(answer: NodeAnswer, listed: int) -> list[Finding]:
    """Fewer device files than GPUs; none at all says nothing, since they are made at first use."""
    result = answer.results.get(commands.GPU_DEVICE_FILES.id)
    files = len(result.stdout.split()) if result is not None and result.exit_code == 0 else 0
    if not 0 < files < listed:
        return []
    return [
        Finding(
            check=f"{_ID}.device-files",
            status=Status.WARN,
            subject="device files",
            node=answer.node.name,
            value=files,
            unit="files /dev/nvidiaN",
            expected=str(listed),
            source="nvidia-smi of the same node",
            message=f"{files} device files for {listed} GPUs: programs will not see them all",
            cause="the driver or nvidia-modprobe did not make them",
            action=Action.REBOOT,
            evidence=evidence(answer, commands.GPU_DEVICE_FILES),
        )
    ]


CHECK = Check(
    id=_ID,
    group=Group.GPU,
    level=Level.QUICK,
    title="all GPUs are there: on the PCI bus and in nvidia-smi",
    commands=(commands.NVIDIA_SMI_XML, commands.GPU_PCI, commands.GPU_DEVICE_FILES),
    judge_node=_judge_node,
)
