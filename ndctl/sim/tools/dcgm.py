"""dcgmi diag, as text and JSON.

JSON as DCGM 4 emits it: the `DCGM Diagnostic` tree of categories and tests, results by entity, a test summary.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world.parts import Gpu
from ndctl.sim.world.view import DRIVER_VERSION, NodeView

_VERSION = "4.5.3"
_DCGM_MEMORY_SHARE = 4522.5 / 6624
Reason = Callable[[Gpu], str]


def _software(gpu: Gpu) -> str:
    if gpu.remap_pending:
        return f"GPU {gpu.index} has uncorrectable memory errors and row remappings are pending"
    if gpu.remap_failure:
        return f"GPU {gpu.index} had memory errors and row remapping failed"
    return "" if gpu.inforom_ok else f"GPU {gpu.index} has a corrupt infoROM"


def _memory(gpu: Gpu) -> str:
    return f"GPU {gpu.index} has {gpu.ecc_volatile_dram} uncorrectable volatile DBE" if gpu.ecc_volatile_dram else ""


def _pcie(gpu: Gpu) -> str:
    down = next((link.index for link in gpu.links if not link.active), None)
    return "" if down is None else f"GPU {gpu.index}'s NvLink link {down} is currently down"


def _bandwidth(gpu: Gpu) -> str:
    """DCGM's own floor is far below what healthy memory gives."""
    if gpu.memory_speed >= _DCGM_MEMORY_SHARE:
        return ""
    return f"GPU {gpu.index}'s memory bandwidth is below the minimum of this test"


def _heat(gpu: Gpu) -> str:
    """Words of DCGM_FR_THERMAL_VIOLATIONS_TS."""
    if not gpu.throttles:
        return ""
    return f"Thermal violations totaling 21.4 seconds started at 12.5 seconds into the test on GPU {gpu.index}"


def _nothing(gpu: Gpu) -> str:
    return ""


# (level it starts at, category, name in JSON, name in text, what would fail it)
_TESTS: tuple[tuple[int, str, str, str, Reason], ...] = (
    (1, "Deployment", "software", "Software", _software),
    (2, "Integration", "pcie", "PCIe", _pcie),
    (2, "Hardware", "memory", "GPU Memory", _memory),
    (3, "Hardware", "diagnostic", "Diagnostic", _nothing),
    (3, "Hardware", "nvbandwidth", "nvbandwidth", _nothing),
    (3, "Stress", "memory_bandwidth", "Memory Bandwidth", _bandwidth),
    (3, "Stress", "targeted_stress", "Targeted Stress", _heat),
    (3, "Stress", "targeted_power", "Targeted Power", _heat),
)


def answer(view: NodeView, arguments: list[str]) -> Answer:
    if arguments[:1] == ["-v"] or arguments[:1] == ["--version"]:
        return Answer(f"\ndcgmi  version: {_VERSION}\n\n")
    if arguments[:1] != ["diag"]:
        return Answer(
            err="PARSE ERROR: Argument: (other)\n             no subcommand given that is known here\n", code=1
        )
    level = 1
    for index, argument in enumerate(arguments):
        if argument in ("-r", "--run") and index + 1 < len(arguments) and arguments[index + 1].isdigit():
            level = int(arguments[index + 1])
    tests = [test for test in _TESTS if test[0] <= level]
    failed = any(reason(gpu) for *_, reason in tests for gpu in view.live_gpus)
    text = _json(view, tests) if "-j" in arguments or "--json" in arguments else _text(view, tests)
    return Answer(text, code=226 if failed else 0)


def _json(view: NodeView, tests: list[tuple[int, str, str, str, Reason]]) -> str:
    categories: dict[str, list[object]] = {}
    for _, category, name, _, reason in tests:
        results: list[dict[str, object]] = []
        for gpu in view.live_gpus:
            message = reason(gpu)
            result: dict[str, object] = {
                "entity_group": "GPU",
                "entity_group_id": 1,
                "entity_id": gpu.index,
                "status": "Fail" if message else "Pass",
            }
            if message:
                result["warnings"] = [{"error_category": 1, "error_id": 1, "error_severity": 2, "warning": message}]
            results.append(result)
        status = "Fail" if any(result["status"] == "Fail" for result in results) else "Pass"
        categories.setdefault(category, []).append(
            {"name": name, "results": results, "test_summary": {"status": status}}
        )
    entities = [
        {"device_id": view.shape.pci_device_id, "entity_id": gpu.index, "serial_num": gpu.serial}
        for gpu in view.live_gpus
    ]
    return (
        json.dumps(
            {
                "DCGM Diagnostic": {
                    "test_categories": [{"category": name, "tests": items} for name, items in categories.items()]
                },
                "entity_groups": [{"entities": entities, "entity_group": "GPU", "entity_group_id": 1}],
                "metadata": {"Driver Version Detected": DRIVER_VERSION, "version": _VERSION},
            },
            indent=2,
        )
        + "\n"
    )


def _text(view: NodeView, tests: list[tuple[int, str, str, str, Reason]]) -> str:
    rule = f"+{'-' * 27}+{'-' * 48}+\n"
    text = "Successfully ran diagnostic for group.\n" + rule
    text += f"| {'Diagnostic':<26}| {'Result':<47}|\n+{'=' * 27}+{'=' * 48}+\n"
    text += f"|-----  {'Metadata  ':-<20}+{'-' * 48}|\n"
    text += f"| {'DCGM Version':<26}| {_VERSION:<47}|\n| {'Driver Version Detected':<26}| {DRIVER_VERSION:<47}|\n"
    shown = ""
    for _, category, _, name, reason in tests:
        if category != shown:
            text += f"|-----  {category + '  ':-<20}+{'-' * 48}|\n"
            shown = category
        messages = [message for gpu in view.live_gpus if (message := reason(gpu))]
        text += f"| {name:<26}| {'Fail' if messages else 'Pass':<47}|\n"
        for gpu in view.live_gpus:
            message = reason(gpu)
            text += f"| {'':<26}| {f'GPU{gpu.index}: ' + ('Fail' if message else 'Pass'):<47}|\n"
        for message in messages:
            for start in range(0, len(message), 46):
                label = f"Warning: GPU{message[4]}" if start == 0 else ""
                text += f"| {label:<26}| {message[start : start + 46]:<47}|\n"
    return text + rule
