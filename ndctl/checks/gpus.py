"""The GPUs of a node as nvidia-smi's XML tells them: what the GPU and fabric checks share."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from ndctl.checks import commands
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.parse.gpu_facts import Gpu, Gpus
from ndctl.parse.nvidia_smi_xml import parse


@lru_cache(maxsize=4096)
def _read(text: str, stderr: str) -> Gpus:
    return parse(text, stderr)


def gpus_of(answer: NodeAnswer) -> Gpus | None:
    """None when nvidia-smi gave no text. Several checks ask the same text, so it is parsed once."""
    result = answer.results.get(commands.NVIDIA_SMI_XML.id)
    return _read(result.stdout, result.stderr) if result is not None and result.stdout else None


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
