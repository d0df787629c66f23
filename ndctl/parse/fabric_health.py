"""Health of a GPU's place in the NVLink fabric: the mask of NVML, and nvidia-smi's words for the same."""

from __future__ import annotations

from collections.abc import Mapping

# Two-bit fields: 0 not supported, 1 TRUE (in trouble), 2 FALSE (fine). Source: nvml.h, nvmlGpuFabricInfoV.
_FLAGS = {0: "bandwidth degraded", 2: "route recovery in progress", 4: "route unhealthy", 6: "access timeout recovery"}
_CONFIGURATION = {
    2: "incorrect system GUID",
    3: "incorrect chassis serial number",
    4: "no partition",
    5: "insufficient NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
}


def faults_of_mask(mask: int) -> tuple[str, ...]:
    """What a health mask says is wrong: 0xaa and 0x1aa are healthy, 0x0 says nothing."""
    found = [name for shift, name in _FLAGS.items() if (mask >> shift) & 3 == 1]
    configuration = (mask >> 8) & 0xF
    if configuration > 1:
        found.append(f"incorrect configuration: {_CONFIGURATION.get(configuration, f'code {configuration}')}")
    return tuple(found)


_SILENT = {"", "n/a", "not supported", "none", "[n/a]", "unknown"}


def faults_of_words(details: Mapping[str, str]) -> tuple[str, ...]:
    """The same from nvidia-smi's rows, by label in lower case; N/A and Not Supported say nothing."""
    found = []
    for label, value in details.items():
        word = value.strip().lower()
        if word in _SILENT or label in {"summary", "healthmask", "health mask"}:
            continue
        if label == "bandwidth":
            if word in {"degraded", "true"}:
                found.append("bandwidth degraded")
        elif word in {"true", "yes"}:
            found.append(label)
        elif label == "incorrect configuration" and word not in {"false", "no"} and not "none".startswith(word):
            found.append(f"incorrect configuration: {value.strip()}")
    return tuple(found)
