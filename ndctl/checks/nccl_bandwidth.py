"""An NCCL bandwidth held against what a platform promises: the floor of its scope, and the path it should take.

Scope is what the figure measures: `node` (NVLink inside one), `rack` (NVLink across nodes), `infiniband`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nccl_rows import Row
from ndctl.parse.nccl_tests import NcclTests
from ndctl.profiles.schema import BandwidthFloor, Profile

# Rows at least this large are bound by bandwidth, not latency, on any of these machines ...
BANDWIDTH_BOUND = 128 * 2**20
# ... though short of the floor's own size; so only a figure far below the floor is held against them.
_SHORT_ROW_SHARES = ((2**30, 0.8), (BANDWIDTH_BOUND, 0.25))


def platform_findings(facts: NcclTests, profile: Profile) -> Iterator[Finding]:
    """What the profile says to a run with results."""
    yield from _transport(facts, profile)
    yield from _bandwidth(facts, profile)


def reaches(facts: NcclTests, profile: Profile) -> str | None:
    """The scope the figure measures; None where the log does not show it."""
    if facts.nodes is None:
        return None
    if facts.nodes == 1:
        return "node"
    transport = facts.transport or ""
    if transport.startswith(("NET/", "COLLNET")):
        return "infiniband" if not transport.startswith("NET/Socket") else "socket"
    if transport == "P2P/MNNVL" or facts.mnnvl:
        return "rack"
    return None if profile.nvlink.domain.value == "rack" else "infiniband"


def _transport(facts: NcclTests, profile: Profile) -> Iterator[Finding]:
    """Rule: a figure counts only with proof of its path."""
    scope = reaches(facts, profile)
    in_one_rack = profile.nvlink.domain.value == "rack" and (facts.nodes or 0) <= profile.vms_per_rack.value
    if scope == "socket":
        yield _finding(
            "nccl.transport",
            Status.FAIL,
            "data went over TCP sockets (NET/Socket), neither NVLink nor InfiniBand",
            expected="P2P/MNNVL or NET/IB",
            cause="InfiniBand devices not visible to NCCL: rdma-core, NCCL_IB_HCA, NCCL_IB_DISABLE, /dev/infiniband",
            action=Action.INVESTIGATE,
        )
    elif scope == "infiniband" and in_one_rack:
        disabled = facts.env.get("NCCL_MNNVL_ENABLE") == "0"
        yield _finding(
            "nccl.transport",
            Status.WARN,
            f"the log says {facts.transport}, not P2P/MNNVL: inside one rack this is a fall-back",
            value=facts.transport,
            expected="P2P/MNNVL",
            cause="NCCL_MNNVL_ENABLE=0 is set"
            if disabled
            else "IMEX channel missing, NCCL_MNNVL_ENABLE=0, or the nodes are not in one rack",
            action=Action.INVESTIGATE,
        )
    elif scope is None:
        what = "the log does not show which path the data took: the figure proves neither NVLink nor InfiniBand"
        if facts.nodes is None:
            what = "the log shows neither ranks nor the path the data took"
        yield _finding("nccl.transport", Status.WARN, what, cause="run with NCCL_DEBUG=INFO", action=Action.NONE)
    if scope == "infiniband":
        yield from _rails(facts, profile)
    if scope in ("rack", "node") and facts.nvls is False and profile.nvlink.domain.value == "rack":
        yield _finding(
            "nccl.nvls",
            Status.WARN,
            "NVLink SHARP (NVLS) multicast is not available",
            expected="available",
            cause="IMEX or the fabric's multicast teams; NCCL_NVLS_ENABLE=0",
            action=Action.INVESTIGATE,
        )


def _rails(facts: NcclTests, profile: Profile) -> Iterator[Finding]:
    ports = profile.infiniband.ports.value
    if facts.rails and len(facts.rails) < ports:
        yield _finding(
            "nccl.rails",
            Status.WARN,
            f"only {len(facts.rails)} of {ports} InfiniBand rails carry data",
            value=len(facts.rails),
            expected=f"{ports} rails",
            source=profile.infiniband.ports.origin,
            cause="a port is down or hidden (NCCL_IB_HCA)",
            action=Action.INVESTIGATE,
        )
    if facts.gdr is False:
        yield _finding(
            "nccl.gdr",
            Status.WARN,
            "GPUDirect RDMA is off: data goes through host memory",
            expected="GDR 1",
            cause="nvidia-peermem or DMA-BUF missing, or NCCL_NET_GDR_LEVEL",
            action=Action.INVESTIGATE,
        )


def _bandwidth(facts: NcclTests, profile: Profile) -> Iterator[Finding]:
    test = facts.collective
    if test is None:
        yield _finding("nccl.bandwidth", Status.SKIP, "which collective ran is not shown, so no floor fits")
        return
    if len(facts.collectives) > 1:
        yield _finding(
            "nccl.bandwidth", Status.SKIP, f"{len(facts.collectives)} collectives in one text: judge them one by one"
        )
        return
    scope = reaches(facts, profile)
    if scope == "socket":
        return
    nodes = facts.nodes or 2
    floors = {s: profile.floor(test, s, nodes) for s in ([scope] if scope else _possible(facts, profile))}
    fitting = {name: floor for name, floor in floors.items() if floor is not None}
    if not fitting:
        yield _finding(
            "nccl.bandwidth", Status.SKIP, f"profile {profile.name} has no {test} floor for {scope or 'this run'}"
        )
        return
    # Where the path is not shown, only what is below every possible floor is a fault.
    ranked = sorted(fitting.items(), key=lambda item: item[1].fail_below.value)
    yield from _held(facts, profile, ranked[0], ranked[-1])


def _possible(facts: NcclTests, profile: Profile) -> list[str]:
    if facts.nodes is None:
        return ["node", "rack", "infiniband"]
    return ["rack", "infiniband"] if profile.nvlink.domain.value == "rack" else ["infiniband"]


Scoped = tuple[str, BandwidthFloor]


def _held(facts: NcclTests, profile: Profile, floor: Scoped, warns: Scoped) -> Iterator[Finding]:
    """Rows against the floor that fails and the one that warns; they are the same where the path is known."""
    rows = [row for row in facts.rows if lowest(row) is not None]
    large = [row for row in rows if row.bytes >= floor[1].min_bytes]
    if not large:
        yield from _short_rows(rows, floor)
        return
    row = min(large, key=lambda one: lowest(one) or 0.0)
    measured = lowest(row) or 0.0
    if measured < floor[1].fail_below.value:
        status, cited = Status.FAIL, floor
    else:
        status, cited = (Status.WARN if measured < warns[1].warn_below.value else Status.PASS), warns
    partial = _partial(facts, profile)
    if partial and status is Status.FAIL:
        status = Status.WARN
    words = {Status.FAIL: "below the floor", Status.WARN: "lower than it should be", Status.PASS: "as expected"}[status]
    yield _finding(
        "nccl.bandwidth",
        status,
        f"busbw {measured:g} GB/s at {size(row.bytes)} is {words}{partial}",
        value=measured,
        unit="GB/s",
        expected=_expectation(cited),
        source=_origin(cited),
        cause="" if status is Status.PASS else "a slow node, link or rail, or a fall-back of the transport",
        action=Action.NONE if status is Status.PASS else Action.INVESTIGATE,
    )


def _expectation(scoped: Scoped) -> str:
    scope, floor = scoped
    return (
        f"{floor.expected.value:g} GB/s, warn below {floor.warn_below.value:g}, fail below {floor.fail_below.value:g} "
        f"({floor.test} {scope}, {size(floor.min_bytes)} and up, {floor.min_nodes} nodes and up)"
    )


def _origin(scoped: Scoped) -> str:
    floor = scoped[1]
    origins = dict.fromkeys((floor.expected.origin, floor.warn_below.origin, floor.fail_below.origin))
    return "; ".join(origins)


def _partial(facts: NcclTests, profile: Profile) -> str:
    """Floors are for all GPUs of each node; fewer may rightly be slower."""
    per_node = profile.gpu.count.value
    if facts.ranks and facts.nodes and facts.ranks < per_node * facts.nodes:
        return f"; only {facts.ranks} of {per_node * facts.nodes} GPUs took part, the floor is for all"
    return ""


def _short_rows(rows: list[Row], floor: Scoped) -> Iterator[Finding]:
    """No message is as large as the floor's: only what is far below it is a fault, the more so the smaller it is."""
    largest = max(rows, key=lambda one: one.bytes, default=None)
    wanted = floor[1].min_bytes
    share = next((part for least, part in _SHORT_ROW_SHARES if largest and largest.bytes >= least), 0.0)
    if largest is not None and (lowest(largest) or 0.0) < share * floor[1].fail_below.value:
        yield _finding(
            "nccl.bandwidth",
            Status.FAIL,
            f"busbw {lowest(largest):g} GB/s at {size(largest.bytes)} is far below the floor, even for a message "
            f"short of {size(wanted)}",
            value=lowest(largest),
            unit="GB/s",
            expected=_expectation(floor),
            source=_origin(floor),
            cause="a GPU without its NVLinks, or a fall-back of the transport",
            action=Action.INVESTIGATE,
        )
        return
    at_most = size(largest.bytes) if largest else "none"
    yield _finding(
        "nccl.bandwidth",
        Status.WARN,
        f"the floor is for messages of {size(wanted)} and up, the largest measured is {at_most}",
        expected=_expectation(floor),
        source=_origin(floor),
        cause="run with -e 16G",
    )


def lowest(row: Row) -> float | None:
    """The row's busbw in GB/s, of its slower side."""
    return min((side.busbw for side in row.sides if side.busbw is not None), default=None)


def size(count: int) -> str:
    """17179869184 -> "16 GiB"."""
    for unit, step in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= step:
            return f"{count / step:.4g} {unit}"
    return f"{count} B"


def _finding(
    check: str,
    status: Status,
    message: str,
    *,
    value: float | int | str | None = None,
    unit: str = "",
    expected: str = "",
    source: str = "",
    cause: str = "",
    action: Action = Action.NONE,
) -> Finding:
    return Finding(
        check=check, status=status, subject="run", message=message, value=value, unit=unit, expected=expected,
        source=source, cause=cause, action=action,
    )  # fmt: skip
