"""What an nccl-tests output means: was it measured, was it right, over which path, and is anything wrong with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ndctl.checks.nccl_bandwidth import BANDWIDTH_BOUND, lowest, platform_findings, size
from ndctl.checks.nccl_complaints import complaint_findings, read_complaint
from ndctl.checks.nccl_fabric import fabric_findings
from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nccl_rows import Measure, Row
from ndctl.parse.nccl_tests import NcclTests, parse
from ndctl.profiles.schema import Profile

# Complaints that are faults only of a run that came to nothing; NCCL also repeats its last warning as an error.
_ENDS_A_RUN = frozenset({"nccl.bootstrap", "nccl.peer-lost", "nccl.timeout", "nccl.failure"})
_DIP = 0.6  # a large message this much slower than a smaller one is no noise
_OLD_ERROR_LIMIT = 0.1  # deviations of any data type the old versions test stay far below this
# Azure's images set a topology file for their own sizes; that is the standard run there.
_AZURE_TOPOLOGY = re.compile(r"^/opt/microsoft/|/topologies?/nd", re.IGNORECASE)


def judge(facts: NcclTests, profile: Profile | None = None) -> list[Finding]:
    """Findings about one output; with a profile also against what the platform promises."""
    findings = [*_complaints(facts), *fabric_findings(facts.fabric, profile), *_separate_jobs(facts), *_unusual(facts)]
    if not facts.rows:
        if not any(f.status in (Status.FAIL, Status.UNKNOWN) for f in findings):
            findings.append(
                _say("nccl.no-result", Status.UNKNOWN, f"no measured row in this text{_what_is_there(facts)}")
            )
        findings += _socket(facts) if profile is None else ()
        return findings
    findings += [
        *_completeness(facts),
        *_correctness(facts),
        *_one_rank(facts),
        *_consistent(facts.rows),
        *_dips(facts),
    ]
    findings += _socket(facts) if profile is None else platform_findings(facts, profile)
    return [_say("nccl.measured", Status.PASS, summary(facts)), *findings]


def summary(facts: NcclTests) -> str:
    """ "16 ranks on 4 nodes, peak 378.2 GB/s at 16 GiB"."""
    ranks = f"{facts.ranks} rank{'' if facts.ranks == 1 else 's'}" if facts.ranks else "ranks not shown"
    nodes = f" on {facts.nodes} node{'' if facts.nodes == 1 else 's'}" if facts.nodes and facts.ranks else ""
    name = f"{' and '.join(facts.collectives) or facts.collective} over " if facts.collective else ""
    name = f"{facts.runs} runs, {name}" if facts.runs > 1 else name
    if facts.peak_busbw is None or facts.peak_bytes is None:
        return f"{name}{ranks}{nodes}, no bandwidth"
    return f"{name}{ranks}{nodes}, peak {facts.peak_busbw:g} GB/s at {size(facts.peak_bytes)}"


def _complaints(facts: NcclTests) -> list[Finding]:
    findings = complaint_findings([*facts.errors, *facts.warnings])
    unknown = [text for text in facts.warnings if read_complaint(text) is None]
    if unknown:
        findings.append(_say("nccl.warning", Status.WARN, f"NCCL warns: {unknown[0][:200]}", value=len(unknown)))
    if facts.rows and facts.complete:
        # The run came to its end, so what only says "nothing was measured" is not true of it.
        findings = [
            replace(f, status=Status.WARN) if f.status is Status.UNKNOWN or f.check in _ENDS_A_RUN else f
            for f in findings
        ]
    return [f for f in findings if f.status is not Status.PASS]


def _what_is_there(facts: NcclTests) -> str:
    if facts.hosts or facts.ranks or facts.parameters:
        return ": it ends before the results"
    return ""


def _completeness(facts: NcclTests) -> Iterator[Finding]:
    largest = max(row.bytes for row in facts.rows)
    wanted = facts.parameters.get("maxBytes")
    if facts.form == "rccl-json":
        yield _say(
            "nccl.cut", Status.WARN, "this form has no closing line, so it cannot be seen whether rows are missing"
        )
    elif not facts.complete and facts.torn_rows == 0 and wanted and largest * 2 > wanted:
        yield _say("nccl.cut", Status.WARN, "the closing lines are missing; all sizes are there")
    elif not facts.complete:
        yield _say(
            "nccl.cut",
            Status.UNKNOWN,
            f"the output is cut off after {size(largest)}: larger sizes and the tool's own verdict are missing",
        )
    elif wanted and largest * 2 <= wanted and facts.parameters.get("minBytes", 0) <= largest:
        yield _say(
            "nccl.cut", Status.WARN, f"rows above {size(largest)} are missing, the run went up to {size(wanted)}"
        )
    if all(lowest(row) is None for row in facts.rows):
        yield _say("nccl.no-figure", Status.UNKNOWN, "no bandwidth in the rows is a number")
    elif any(side.busbw is None for row in facts.rows for side in row.sides):
        yield _say("nccl.no-figure", Status.WARN, "some bandwidths in the rows are no numbers")


def _correctness(facts: NcclTests) -> Iterator[Finding]:
    wrong = [(row, side.wrong, place) for row in facts.rows for side, place in _placed(row) if side.wrong]
    if wrong:
        row, count, place = wrong[0]
        yield _say(
            "nccl.wrong",
            Status.FAIL,
            f"wrong results: {count} elements at {size(row.bytes)} {place}"
            f"{f', and {len(wrong) - 1} more such' if len(wrong) > 1 else ''}",
            value=count,
            expected="0 wrong",
            cause="data corrupted on its way or in memory: NVLink, GPU memory or network",
            action=Action.INVESTIGATE,
        )
    if facts.out_of_bounds:
        how_many = f"{facts.out_of_bounds} values" if facts.out_of_bounds > 0 else "values"
        yield _say(
            "nccl.out-of-bounds",
            Status.FAIL,
            f"the test says {how_many} out of bounds: FAILED",
            value=facts.out_of_bounds,
            expected="0",
            cause="data corrupted on its way or in memory: NVLink, GPU memory or network",
            action=Action.INVESTIGATE,
        )
    if facts.out_of_bounds is None:
        off = [row for row in facts.rows if row.out_of_place and (row.out_of_place.error or 0) > _OLD_ERROR_LIMIT]
        if off:
            yield _say("nccl.wrong", Status.FAIL, f"results deviate at {size(off[0].bytes)}", expected="rounding only")
    if facts.avg_failed:
        yield _say("nccl.average", Status.FAIL, "the test says its average bus bandwidth FAILED the wanted minimum")
    if facts.checked is False:
        yield _say("nccl.not-checked", Status.WARN, "correctness not checked (run with -c 0)")


def _placed(row: Row) -> Iterator[tuple[Measure, str]]:
    if row.out_of_place:
        yield row.out_of_place, "out-of-place"
    if row.in_place:
        yield row.in_place, "in-place"


def _separate_jobs(facts: NcclTests) -> Iterator[Finding]:
    """Processes that never met: each prints its own table."""
    sizes = Counter(row.bytes for row in facts.rows if row.bytes)
    unmet = _alone(facts) and facts.ranks is None and max(sizes.values(), default=1) > 1
    if facts.communicators > 1 or unmet:
        yield _say(
            "nccl.separate-jobs",
            Status.UNKNOWN,
            "every process ran alone: these are independent jobs, nothing crossed between them"
            if _alone(facts)
            else f"{facts.communicators} independent jobs of {facts.ranks} ranks, not one: ranks are claimed twice",
            value=facts.communicators,
            cause="nccl-tests built without MPI=1, or started without mpirun",
            action=Action.FIX_IMAGE,
        )


def _alone(facts: NcclTests) -> bool:
    """busbw is 0 by its formula where one rank runs alone, whatever algbw says."""
    moved = [side for row in facts.rows if row.bytes >= 2**20 for side in row.sides]
    return bool(moved) and all(side.busbw == 0 and (side.algbw or 0) > 0.1 for side in moved)


def _one_rank(facts: NcclTests) -> Iterator[Finding]:
    if facts.communicators == 1 and (facts.ranks == 1 or (_alone(facts) and not any(_separate_jobs(facts)))):
        yield _say(
            "nccl.one-rank",
            Status.WARN,
            "one rank only: no link or network was tested, and its algbw means nothing",
            value=1,
            expected="2 ranks and more",
        )


def _unusual(facts: NcclTests) -> Iterator[Finding]:
    """Settings under which a figure says little of the machine."""
    given = [name for name in ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE") if facts.env.get(name)]
    if given and not _AZURE_TOPOLOGY.search(facts.env[given[0]]):
        yield _say(
            "nccl.topology-file",
            Status.WARN,
            f"{given[0]} replaces what NCCL finds by itself ({facts.env[given[0]]}): not a standard run",
        )


def _consistent(rows: tuple[Row, ...]) -> Iterator[Finding]:
    """busbw is algbw times one factor in every row, and algbw is size by time: typed samples give themselves away."""
    low, high, before = 0.0, float("inf"), 0
    for row in rows:
        if row.bytes < before:
            low, high = 0.0, float("inf")  # another sweep, perhaps of another collective
        before = row.bytes
        for side, _ in _placed(row):
            if not side.algbw or side.busbw is None or not row.bytes:
                continue
            time_step, alg_step, bus_step = row.precision
            low = max(low, (side.busbw - bus_step) / (side.algbw + alg_step))
            if side.algbw > alg_step:
                high = min(high, (side.busbw + bus_step) / (side.algbw - alg_step))
            if low > high * 1.02:
                yield _say(
                    "nccl.inconsistent",
                    Status.WARN,
                    "algbw and busbw do not fit together over the rows: this is no measurement of one run",
                    cause="a typed or edited sample",
                )
                return
            computed = row.bytes / side.time_us / 1000 if side.time_us and side.time_us > 20 * time_step else None
            if computed and side.algbw > 20 * alg_step and abs(computed - side.algbw) > 0.2 * side.algbw:
                yield _say(
                    "nccl.inconsistent",
                    Status.WARN,
                    f"{size(row.bytes)} in {side.time_us:g} us is {computed:.4g} GB/s, the row says {side.algbw:g}",
                    cause="typed or edited figures",
                )
                return


def _dips(facts: NcclTests) -> Iterator[Finding]:
    best = 0.0
    for row in sorted(facts.rows, key=lambda one: one.bytes):
        busbw = lowest(row)
        if busbw is None or row.bytes < BANDWIDTH_BOUND:
            continue
        if busbw < _DIP * best:
            yield _say(
                "nccl.dip",
                Status.WARN,
                f"busbw falls to {busbw:g} GB/s at {size(row.bytes)}, {best:g} at a smaller size",
                value=busbw,
                unit="GB/s",
                cause="congestion, a flapping link or throttling",
            )
            return
        best = max(best, busbw)


def _socket(facts: NcclTests) -> Iterator[Finding]:
    if (facts.transport or "").startswith("NET/Socket"):
        yield _say(
            "nccl.transport",
            Status.WARN,
            "data went over TCP sockets (NET/Socket), neither NVLink nor InfiniBand",
            value=facts.transport,
            cause="InfiniBand devices not visible to NCCL: rdma-core, NCCL_IB_HCA, NCCL_IB_DISABLE",
            action=Action.INVESTIGATE,
        )


def looks_like(text: str) -> float:
    if "Out of bounds values" in text or "nccl-tests version" in text or "Collective test starting" in text:
        return 0.98
    if "algbw" in text and "busbw" in text:
        return 0.95
    if '"average_bus_bandwidth"' in text or '"oop_busbw"' in text or '"busBw"' in text or '"out_of_place"' in text:
        return 0.95
    if re.search(r"nThread \d+ nGpus|Test (?:NCCL|CUDA) failure|#\s+Rank\s+\d+ .* device", text):
        return 0.9
    if re.search(r"^\s*\d+\s+\d+\s+(?:float|half|bfloat16|double|u?int\d+)\s+(?:\w+\s+-?\d+\s+)?[\d.]+\s", text, re.M):
        return 0.8
    return 0.7 if re.search(r"\bNCCL (?:INFO|WARN) |\b\w+_perf\b", text) else 0.0


def _say(
    check: str,
    status: Status,
    message: str,
    *,
    subject: str = "run",
    node: str = "",
    value: float | int | str | None = None,
    unit: str = "",
    expected: str = "",
    cause: str = "",
    action: Action = Action.NONE,
) -> Finding:
    return Finding(
        check=check, status=status, subject=subject, node=node, message=message, value=value, unit=unit,
        expected=expected, cause=cause, action=action,
    )  # fmt: skip


JUDGE = TextJudge(
    tool="nccl-tests",
    title="nccl-tests and rccl-tests (all_reduce_perf and its kin), text or JSON, with NCCL_DEBUG lines or without",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
    aliases=("nccl", "rccl-tests", "all-reduce-perf", "all-gather-perf", "alltoall-perf", "sendrecv-perf"),
)
