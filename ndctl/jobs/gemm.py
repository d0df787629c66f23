"""GEMM on all GPUs of a node at the same time, with clocks, temperatures and clock event counters before, during and
after: one script a node, and what it printed.

ubergemm is NVIDIA's load of DCGM 4's proprietary plugins, which Azure's images install; where it is missing
dcgmproftester makes the load, without a figure (DCGM issue 239). `--adapters N --time_to_run S`:
Azure/ai-infrastructure-on-azure, gpu_test.slurm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ndctl.model.answers import Command, CommandResult
from ndctl.parse.gpu_samples import Samples
from ndctl.parse.gpu_samples import parse as parse_samples
from ndctl.parse.ubergemm import Ubergemm
from ndctl.parse.ubergemm import parse as parse_gemm

SECONDS = 60
_START_S = 60  # tuning, and loading of kernels on all GPUs at once
_PAUSE_S = 2
_PLUGINS = "/usr/libexec/datacenter-gpu-manager-4/plugins/cuda*"
_UBERGEMM = (f"{_PLUGINS}/ubergemm", f"{_PLUGINS}/updated/ubergemm", "/opt/ubergemm/ubergemm")
_PLACE = "index,pci.bus_id,temperature.gpu,temperature.memory,clocks.sm,clocks.max.sm,power.draw,utilization.gpu"
_COUNTERS = ",".join(
    f"clocks_event_reasons_counters.{reason}"
    for reason in ("sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
)
# Drivers from 580 on know the first, from 535 on the second; a field that is not known refuses the whole query.
_QUERIES = (
    f"{_PLACE},temperature.gpu.tlimit,clocks_event_reasons.active,{_COUNTERS}",
    f"{_PLACE},clocks_event_reasons.active",
    f"{_PLACE},clocks_throttle_reasons.active",
)
_MARK = re.compile(r"^ndctl-load (\w+)(?: (\d{1,4}) (\d{1,3}))?(?: (\S{1,80}))?$")


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """One GPU's run. code: exit code, None where it was not told."""

    facts: Ubergemm
    code: int | None
    last_line: str


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A node's run. program: "ubergemm", "dcgmproftester13" …; complete: the script came to its last line."""

    program: str
    gpus: Mapping[int, GpuLoad]
    before: Samples
    during: Samples
    after: Samples
    complete: bool
    problems: tuple[str, ...] = field(default=())


def load_command(command: str, indices: Sequence[int], token: str, seconds: int = SECONDS) -> Command:
    """The load on these GPUs, as one command; `token` marks what it starts."""
    limit = seconds + _START_S
    known = " ".join(f'"$NDCTL_SYSROOT"{place}' for place in _UBERGEMM)
    gpus = " ".join(map(str, indices))
    queries = " ".join(_QUERIES)
    shell = (
        f"export NDCTL_JOB={token}: CUDA_DEVICE_ORDER=PCI_BUS_ID; "
        f'u=; for c in {known}; do [ -x "$c" ] && u=$c; done; [ -n "$u" ] || u=$(command -v ubergemm); p=ubergemm; '
        'if [ -z "$u" ]; then for p in dcgmproftester13 dcgmproftester12; do u=$(command -v $p) && break; done; fi; '
        '[ -n "$u" ] || { echo "neither ubergemm nor dcgmproftester is installed" >&2; exit 127; }; '
        "d=$(mktemp -d) || exit 1; trap 'rm -rf \"$d\"' EXIT; "
        'smi() { timeout -k 2 15 nvidia-smi "--query-gpu=$q" --format=csv; }; '
        f"for q in {queries}; do smi > /dev/null 2>&1 && break; done; "
        'echo "ndctl-load program $p"; echo "ndctl-load before"; smi 2>&1; '
        f"for g in {gpus}; do ("
        f'if [ $p = ubergemm ]; then timeout -k 5 {limit} "$u" --adapters $g --time_to_run {seconds}; '
        f'else CUDA_VISIBLE_DEVICES=$g timeout -k 5 {limit} "$u" --no-dcgm-validation -t 1004 -d {seconds}; fi '
        '> "$d/$g" 2>&1; echo $? > "$d/$g.code") & done; '
        # The subshells are awaited by their codes: `wait` alone would leave no time to look at the clocks.
        f'echo "ndctl-load during"; n=0; while [ $n -lt {limit} ]; do k=; '
        f'for g in {gpus}; do [ -e "$d/$g.code" ] || k=1; done; [ -n "$k" ] || break; smi 2>&1; '
        f"sleep {_PAUSE_S}; n=$((n + {_PAUSE_S})); done; wait; "
        'echo "ndctl-load after"; smi 2>&1; '
        f'for g in {gpus}; do echo "ndctl-load gpu $g $(cat "$d/$g.code")"; '
        'head -c 40000 "$d/$g"; echo; done; echo "ndctl-load end"'
    )
    return Command(command, shell, timeout_s=limit + 60, cap_bytes=2_000_000)


def read_load(result: CommandResult) -> NodeLoad:
    """What the script printed. A text that is cut anywhere has no `complete`."""
    parts: dict[str, str] = {}
    gpus: dict[int, GpuLoad] = {}
    program, complete = "", False
    for mark, index, code, text in _sections(result.stdout):
        if mark.startswith("program"):
            program = mark.partition(" ")[2]
        elif mark == "gpu" and index is not None:
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            gpus[index] = GpuLoad(parse_gemm(text), code, lines[-1][:200] if lines else "")
        elif mark == "end":
            complete = True
        else:
            parts[mark] = text
    samples = {name: parse_samples(parts.get(name, "")) for name in ("before", "during", "after")}
    problems = tuple(dict.fromkeys(problem for one in samples.values() for problem in one.problems))
    return NodeLoad(program, gpus, samples["before"], samples["during"], samples["after"], complete, problems)


def _sections(text: str) -> list[tuple[str, int | None, int | None, str]]:
    """(mark, GPU, exit code, text behind it)."""
    found: list[tuple[str, int | None, int | None, list[str]]] = []
    for line in text.splitlines(keepends=True):
        match = _MARK.match(line.rstrip("\r\n"))
        if match is None:
            if found:
                found[-1][3].append(line)
            continue
        name, index, code, word = match.groups()
        mark = f"program {word}" if name == "program" and word else name
        found.append((mark, int(index) if index else None, int(code) if code else None, []))
    return [(mark, index, code, "".join(lines)) for mark, index, code, lines in found]
