"""What an nvbandwidth output means; with a profile, whether copies run at the speed the hardware promises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import fmean, median

from ndctl.checks.texts.base import TextJudge
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.nvbandwidth import BandwidthTest, Nvbandwidth, parse
from ndctl.profiles.schema import Known, Profile

_OUTLIER = 0.6  # a cell this far below its table's median is another kind of path
_ASYMMETRIC = 0.7  # host to device and back use one link
WARN_SHARE, FAIL_SHARE = 0.9, 0.6  # of a profile's figure; ndctl's own, since no floors are published
# (pattern, check, status, meaning, cause, action)
_ERRORS = (
    (r"NOT_PERMITTED.*cuMem(?:Create|Import|Export)|cuMem(?:Create|Import).*NOT_PERMITTED", "imex", Status.FAIL,
     "memory to share between nodes was refused: nothing was measured",
     "IMEX channel or daemon missing (/dev/nvidia-caps-imex-channels, nvidia-imex)", Action.RESTART_IMEX),
    (r"cuMemSetAccess|CUDA_ERROR_INVALID_VALUE.*multinode|CUDA_ERROR_INVALID_DEVICE.*ultinode", "not-one-domain",
     Status.UNKNOWN, "memory of another node could not be mapped: the test does not apply, nothing was measured",
     "the nodes are not in one NVLink domain (no multi-node NVLink, another clique, or IMEX not running)", Action.NONE),
    (r"SYSTEM_NOT_READY|not yet initialized", "fabric-not-ready", Status.FAIL, "the NVLink fabric is not up",
     "fabric manager, or the GPUs' fabric registration", Action.INVESTIGATE),
    (r"Invalid value when checking|(?<![Vv]ersion )[Mm]ismatch", "data", Status.FAIL, "copied data is wrong",
     "link or GPU memory", Action.INVESTIGATE),
    (r"ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|ILLEGAL_ADDRESS|LAUNCH_FAILED|HARDWARE", "cuda-fault", Status.FAIL,
     "CUDA reported a fault", "GPU or NVLink; see the kernel log's XIDs", Action.INVESTIGATE),
    (r"more processes than GPUs", "launch", Status.WARN, "more processes than GPUs were started", "-np of mpirun",
     Action.NONE),
    (r".", "error", Status.UNKNOWN, "the tool failed", "", Action.NONE),
)  # fmt: skip


def judge(facts: Nvbandwidth, profile: Profile | None = None) -> list[Finding]:
    """Findings about one output; with a profile also against its figures."""
    findings = _errors(facts.errors)
    done = [test for test in facts.tests if test.status == "passed" and (_cells(test) or test.sum is not None)]
    bad = [test for test in facts.tests if test.status in ("error", "not-found")]
    for test in bad if not facts.errors else ():
        findings.append(_say("nvbandwidth.test", Status.UNKNOWN, test.name, f"{test.name}: {test.status}"))
    for test in facts.tests:
        if test.status == "passed" and test not in done:
            why = f"{test.name}: passed, but no figure of it can be read"
            findings.append(_say("nvbandwidth.test", Status.UNKNOWN, test.name, why))
    if facts.waived:
        findings.append(
            _say("nvbandwidth.waived", Status.SKIP, "tests", f"{facts.waived} tests waived: not for this machine")
        )
    begun = [test.name for test in facts.tests if test.status == "running"]
    if facts.cut:
        name = f" in {begun[-1]}" if begun else ""
        findings.append(_say("nvbandwidth.cut", Status.UNKNOWN, "output", f"the output is cut off{name}"))
    elif done and facts.has_head and not facts.complete and not facts.errors:
        findings.append(
            _say("nvbandwidth.cut", Status.WARN, "output", "the closing note is missing: tests may have followed")
        )
    if not done:
        if not any(f.status in (Status.FAIL, Status.UNKNOWN) for f in findings):
            findings.append(_say("nvbandwidth.no-result", Status.UNKNOWN, "output", "no measured test in this text"))
        return findings
    findings.insert(0, _say("nvbandwidth.measured", Status.PASS, "GPUs", _summary(done)))
    for test in done:
        findings += [*_consistent(test), *_outliers(test)]
        if profile:
            findings += _against(test, profile)
    findings += _asymmetry(done)
    return findings


def _errors(errors: tuple[str, ...]) -> list[Finding]:
    found: dict[str, Finding] = {}
    for text in errors:
        _, check, status, meaning, cause, action = next(one for one in _ERRORS if re.search(one[0], text))
        found.setdefault(
            check,
            Finding(
                check=f"nvbandwidth.{check}", status=status, subject="run", message=f"{meaning}: {text[:240]}",
                cause=cause, action=action,
            ),
        )  # fmt: skip
    if len(found) > 1:
        found.pop("error", None)
    return list(found.values())


def _summary(done: list[BandwidthTest]) -> str:
    between = [test for test in done if "device_to_device" in test.name and test.unit == "GB/s"]
    said = between[0] if between else done[0]
    cells = _cells(said)
    figure = f"{fmean(cells):.1f} {said.unit} on average" if cells else f"sum {said.sum:g} {said.unit}"
    rest = "" if between else "; no GPU-to-GPU test, so nothing about NVLink"
    return f"{len(done)} test{'s' if len(done) > 1 else ''}, {said.name} {figure}{rest}"


def _cells(test: BandwidthTest) -> list[float]:
    return [cell for row in test.values for cell in row if cell is not None]


def _consistent(test: BandwidthTest) -> Iterator[Finding]:
    cells = _cells(test)
    if cells and test.sum is not None and abs(sum(cells) - test.sum) > 0.01 * abs(test.sum) + 0.02 * len(cells):
        yield _say(
            "nvbandwidth.inconsistent", Status.WARN, test.name,
            f"{test.name}: the cells add up to {sum(cells):.2f}, the tool says {test.sum:g}",
            cause="edited or torn table",
        )  # fmt: skip
    if any(cell <= 0 for cell in cells):
        yield _say(
            "nvbandwidth.zero", Status.FAIL, test.name, f"{test.name}: a pair moved no data", action=Action.INVESTIGATE
        )


def _outliers(test: BandwidthTest) -> Iterator[Finding]:
    cells = _cells(test)
    if test.unit != "GB/s" or len(cells) < 4:
        return
    middle = median(cells)
    slow = [
        (f"{i}-{j}" if len(test.values) > 1 else f"GPU {j}", cell)
        for i, row in enumerate(test.values)
        for j, cell in enumerate(row)
        if cell is not None and cell < _OUTLIER * middle
    ]
    if slow:
        which = ", ".join(f"{name} {cell:g}" for name, cell in slow[:6])
        yield _say(
            "nvbandwidth.outlier", Status.WARN, test.name,
            f"{test.name}: {len(slow)} of {len(cells)} far below the median {middle:g} GB/s: {which}",
            value=min(cell for _, cell in slow), unit="GB/s", expected=f"about {middle:g} GB/s, the table's median",
            cause="a link down, or another path between these two", action=Action.INVESTIGATE,
        )  # fmt: skip


def _asymmetry(done: list[BandwidthTest]) -> Iterator[Finding]:
    by_name = {test.name: fmean(_cells(test)) for test in done if _cells(test)}
    for name, back in by_name.items():
        there = by_name.get(name.replace("device_to_host", "host_to_device"))
        if "device_to_host" not in name or there is None or min(there, back) <= 0:
            continue
        if min(there, back) < _ASYMMETRIC * max(there, back):
            slower = "host to device" if there < back else "device to host"
            yield _say(
                "nvbandwidth.asymmetric", Status.WARN, "host link",
                f"{slower} is slow: {there:.1f} GB/s to the devices, {back:.1f} GB/s back",
                value=round(min(there, back), 2), unit="GB/s", cause="PCIe link, IOMMU or NUMA placement of this host",
                action=Action.INVESTIGATE,
            )  # fmt: skip


def _against(test: BandwidthTest, profile: Profile) -> Iterator[Finding]:
    """Each cell of one-directional copies against the profile's figure for that path."""
    if "bidirectional" in test.name or test.unit != "GB/s":
        return
    known: Known[float] | None = None
    if test.name == "device_local_copy":
        yield from _local_copy(test, profile)
    elif "device_to_device_memcpy" in test.name:
        known = profile.nvlink.device_to_device_gb_per_s
    elif test.name.startswith("device_to_host_memcpy"):
        known = profile.gpu.device_to_host_gb_per_s
    elif test.name.startswith("host_to_device_memcpy"):
        known = profile.gpu.host_to_device_gb_per_s
    cells = _cells(test)
    if known is None or not cells:
        return
    lowest = min(cells)
    share = lowest / known.value
    status = Status.FAIL if share < FAIL_SHARE else Status.WARN if share < WARN_SHARE else Status.PASS
    words = {Status.FAIL: "far below", Status.WARN: "below", Status.PASS: "in line with"}[status]
    yield _say(
        "nvbandwidth.bandwidth", status, test.name,
        f"{test.name}: slowest {lowest:g} GB/s is {words} the {known.value:g} of {profile.name}",
        value=lowest, unit="GB/s",
        expected=f"{known.value:g} GB/s; warn below {WARN_SHARE:g} of it, fail below {FAIL_SHARE:g}",
        source=known.origin, cause="" if status is Status.PASS else "links down, or not this hardware",
        action=Action.NONE if status is Status.PASS else Action.INVESTIGATE,
    )  # fmt: skip


def _local_copy(test: BandwidthTest, profile: Profile) -> Iterator[Finding]:
    """A copy reads and writes, and the tool counts a byte once: it shows half of what memory moves (issue 48 of
    NVIDIA/nvbandwidth), so that it is not held against memory's own bandwidth."""
    bounds, cells = profile.gpu.local_copy_gb_per_s, _cells(test)
    if bounds is None or not cells:
        return
    lowest = min(cells)
    status = (
        Status.FAIL
        if lowest < bounds.fail_below.value
        else Status.WARN
        if lowest < bounds.warn_below.value
        else Status.PASS
    )
    yield _say(
        "nvbandwidth.bandwidth", status, test.name,
        f"{test.name}: slowest {lowest:g} GB/s, {bounds.expected.value:g} is usual for {profile.name}",
        value=lowest, unit="GB/s",
        expected=f"warn below {bounds.warn_below.value:g} GB/s, fail below {bounds.fail_below.value:g}",
        source=bounds.fail_below.origin if status is Status.FAIL else bounds.warn_below.origin,
        cause="" if status is Status.PASS else "this GPU's memory, or not this hardware",
        action=Action.NONE if status is Status.PASS else Action.INVESTIGATE,
    )  # fmt: skip


def looks_like(text: str) -> float:
    if "nvbandwidth Version" in text or '"nvbandwidth"' in text:
        return 0.98
    if re.search(r"Running \w+(?:_memcpy|_latency|_copy|_(?:ce|sm))\w*\.|SUM \w+_(?:ce|sm|copy)\w* ", text):
        return 0.95
    return 0.9 if re.search(r"(?:PU|CPU)\(row\).{0,10}(?:PU)\(column\)", text) else 0.0


def _say(
    check: str,
    status: Status,
    subject: str,
    message: str,
    *,
    value: float | None = None,
    unit: str = "",
    expected: str = "",
    source: str = "",
    cause: str = "",
    action: Action = Action.NONE,
) -> Finding:
    return Finding(
        check=check, status=status, subject=subject, message=message, value=value, unit=unit, expected=expected,
        source=source, cause=cause, action=action,
    )  # fmt: skip


JUDGE = TextJudge(
    tool="nvbandwidth",
    title="nvbandwidth, text or JSON (-j), one node or several",
    parse=parse,
    judge=judge,
    looks_like=looks_like,
)
