"""The GPUs of a node as nvidia-smi's XML tells them: what the GPU and fabric checks share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ndctl.checks import commands
from ndctl.checks.base import RackView
from ndctl.checks.from_text import both_streams, evidence, of_node, unusable
from ndctl.checks.texts.nvidia_smi_xml import read
from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.findings import Finding, Value
from ndctl.model.status import Action, Status
from ndctl.parse.gpu_facts import Gpu, Gpus


def gpus_of(answer: NodeAnswer) -> Gpus | None:
    """None when nvidia-smi gave no text. Several checks ask the same text, so it is parsed once."""
    result = answer.results.get(commands.NVIDIA_SMI_XML.id)
    if result is None or not result.stdout:
        return None
    return read(both_streams(result))


def subject(gpu: Gpu) -> str:
    """ "GPU 2 (0018:01:00.0, serial 1650…)": what a technician can find."""
    inside = ", ".join(part for part in (short_pci(gpu.pci), f"serial {gpu.serial}" if gpu.serial else "") if part)
    return f"GPU {gpu.index} ({inside})" if inside else f"GPU {gpu.index}"


def short_pci(pci: str | None) -> str:
    """One spelling of a PCI address: lower case, a domain of four digits."""
    if not pci:
        return ""
    domain, _, rest = pci.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if len(domain) > 4 and set(domain[:-4]) == {"0"} else pci.lower()


_INDEX = re.compile(r"^GPU (\d+)\b(?: \([^)]*\))?")


def named(finding: Finding, answer: NodeAnswer) -> Finding:
    """The finding with "GPU 2" in its subject made "GPU 2 (0018:01:00.0, serial …)", where nvidia-smi tells."""
    match = _INDEX.match(finding.subject)
    facts = gpus_of(answer) if match else None
    gpu = next((g for g in facts.gpus if match and g.index == int(match[1])), None) if facts else None
    return replace(finding, subject=subject(gpu) + finding.subject[match.end() :]) if gpu and match else finding


def gpus_of_rack(view: RackView) -> list[tuple[NodeAnswer, Gpu]]:
    """Every GPU that a node of the rack lists, in the order of nodes and listings."""
    found = []
    for answer in sorted(view.answers.values(), key=lambda one: one.node.name):
        facts = gpus_of(answer)
        found += [(answer, gpu) for gpu in facts.gpus] if facts else []
    return found


def of_gpu(
    check: str,
    status: Status,
    answer: NodeAnswer,
    gpu: Gpu,
    message: str,
    *,
    value: Value = None,
    unit: str = "",
    expected: str = "",
    source: str = "",
    cause: str = "",
    action: Action = Action.NONE,
    command: Command = commands.NVIDIA_SMI_XML,
) -> Finding:
    """A finding about one GPU of a node, named so that a technician finds it. `command`: whose answer shows it."""
    return Finding(
        check=check,
        status=status,
        subject=subject(gpu),
        node=answer.node.name,
        value=value,
        unit=unit,
        expected=expected,
        source=source,
        message=message,
        cause=cause,
        action=action,
        evidence=evidence(answer, command),
    )


def judged_gpus(check: str, answer: NodeAnswer, judge: Callable[[Gpu], Sequence[Finding]]) -> list[Finding]:
    """What the judge of a listing says of each GPU, as this check's findings about this node."""
    facts = gpus_of(answer)
    return [
        named(of_node(check, finding, answer, commands.NVIDIA_SMI_XML), answer)
        for gpu in (facts.gpus if facts else ())
        for finding in judge(gpu)
    ]


def not_listed(check: str, answer: NodeAnswer, what: str, seen: Callable[[Gpu], bool]) -> Finding | None:
    """Unknown where nvidia-smi gave no answer; a skip where its listing does not show what a check looks at on some
    GPUs; else None. A tool that is not there, or lists nothing, is gpu.count's to blame: here it is a skip too.
    """
    missing = unusable(check, answer, commands.NVIDIA_SMI_XML)
    result = answer.results.get(commands.NVIDIA_SMI_XML.id)
    if missing is not None and (result is None or result.timed_out or result.exit_code is None):
        return missing
    facts = gpus_of(answer)
    gpus = facts.gpus if facts else ()
    blind = [gpu for gpu in gpus if not seen(gpu)]
    if gpus and not blind:
        return None
    if missing is not None:
        message = f"{what} not seen: {missing.message}"
    elif not gpus:
        message = f"{what} not seen: nvidia-smi lists no GPU"
    else:
        message = f"nvidia-smi does not tell {what} of {len(blind)} of {len(gpus)} GPUs"
    return Finding(
        check=f"{check}.not-observable",
        status=Status.SKIP,
        subject=subject(blind[0]) if len(blind) == 1 else "GPUs",
        node=answer.node.name,
        message=message,
        evidence=evidence(answer, commands.NVIDIA_SMI_XML),
    )


def seen_well(check: str, answer: NodeAnswer, gpus: Sequence[Gpu], message: str) -> Finding:
    """A pass that says what was seen."""
    return Finding(
        check=check,
        status=Status.PASS,
        subject=f"{len(gpus)} GPUs",
        node=answer.node.name,
        value=len(gpus),
        unit="GPUs",
        message=message,
        evidence=evidence(answer, commands.NVIDIA_SMI_XML),
    )
