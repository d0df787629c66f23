"""What pairwise InfiniBand bandwidth says of nodes, rails and paths.

A pair is at most as fast as its worse end, so an end is as good as its best pair. Sending and receiving are judged
apart. Who is slow with two different partners that are fast with others is to blame; a slow pair whose ends are both
fast with others is a path; where that can't be told, nobody is blamed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ndctl.checks.perftest_complaints import complaint_findings
from ndctl.jobs.ib_pairs import MESSAGE_BYTES, PairText
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.ib_bw import parse
from ndctl.profiles.schema import Profile

_CATEGORY = "Resource.Hpc.Unhealthy.IBPerformance"
# Complaints about the own port or device: whoever prints them has the fault.
_OWN = ("infiniband.port-down", "infiniband.no-device", "infiniband.memory-registration")
_SENDS, _RECEIVES = "sending", "receiving"


@dataclass(frozen=True, slots=True)
class PairResult:
    """One rail of one pair in one round.

    gbps:  measured Gb/s, None when `problem` says why there is none
    fault: the problem is a fault of the link, not only that nothing was measured
    owner: name of the node whose own words say that the fault is its own, "" where nobody's do
    kept:  how the ids of the kept texts begin
    """

    server: str
    client: str
    device: str
    round: int
    floor: float
    gbps: float | None
    problem: str = ""
    fault: bool = False
    owner: str = ""
    kept: str = "ib-write-bw"

    @property
    def slow(self) -> bool:
        return self.gbps is not None and self.gbps < self.floor

    @property
    def fast(self) -> bool:
        return self.gbps is not None and self.gbps >= self.floor

    @property
    def subject(self) -> str:
        return f"{self.server} ↔ {self.client} {self.device}"

    @property
    def evidence(self) -> str:
        return f"{self.client}/{self.command}"

    @property
    def command(self) -> str:
        return f"{self.kept}-{self.device}-round{self.round}"

    def other(self, node: str) -> str:
        return self.client if node == self.server else self.server

    def role(self, node: str) -> str:
        return _RECEIVES if node == self.server else _SENDS


def floor_gbps(profile: Profile) -> float:
    fabric = profile.infiniband
    return fabric.rate_gbps.value * fabric.write_bw_fraction.value


def read_pair(text: PairText, profile: Profile, number: int) -> PairResult:
    """The pair's figure: the client's average at the large message, in Gb/s."""
    base = (text.server.name, text.client.name, text.device, number, floor_gbps(profile))
    facts = parse(text.client_text)
    rows = [row for row in facts.rows if row.bytes == MESSAGE_BYTES and not row.sample]
    if rows and not facts.error and not text.problem:
        gbps = rows[-1].bw_average_gbps
        problem = "" if gbps is not None else f"unit {facts.unit!r} is not understood"
        return PairResult(*base, gbps=gbps, problem=problem)
    for node, said in ((text.client.name, facts.errors), (text.server.name, parse(text.server_text).errors)):
        own = next((c for c in complaint_findings(said, measured=False) if c.check in _OWN), None)
        if own is not None:
            fault = own.status is Status.FAIL
            return PairResult(*base, gbps=None, problem=f"{node}: {own.message}", fault=fault, owner=node)
    complaints = complaint_findings(facts.errors, measured=False)
    worst = next((c for c in complaints if c.status is Status.FAIL), next(iter(complaints), None))
    said_last = _last_line(text.client_text) or _last_line(text.server_text) or "no result"
    problem = text.problem or (worst.message if worst else said_last)
    return PairResult(*base, gbps=None, problem=problem[:240], fault=worst is not None and worst.status is Status.FAIL)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" -")]
    return lines[-1] if lines else ""


def accused(pairs: Sequence[PairResult]) -> dict[tuple[str, str], str]:
    """(node, device) -> "" for a rail that is slow both ways, else the way that is slow."""
    found: dict[tuple[str, str], str] = {}
    for device in dict.fromkeys(pair.device for pair in pairs):
        rail = [pair for pair in pairs if pair.device == device and pair.gbps is not None]
        for node in sorted({name for pair in rail for name in (pair.server, pair.client)}):
            way = _way(node, rail)
            if way is not None:
                found[(node, device)] = way
    return found


def _way(node: str, rail: Sequence[PairResult]) -> str | None:
    mine = [pair for pair in rail if node in (pair.server, pair.client)]
    if not any(pair.fast for pair in mine):
        # Any fast pair of a partner tells that this partner is good.
        if len({p.other(node) for p in mine if _is_fast(p.other(node), rail)}) > 1:
            return ""
        return None
    for role in (_SENDS, _RECEIVES):
        so = [pair for pair in mine if pair.role(node) == role]
        opposite = _RECEIVES if role == _SENDS else _SENDS
        witnesses = {p.other(node) for p in so if _is_fast(p.other(node), rail, opposite)}
        if so and not any(pair.fast for pair in so) and len(witnesses) > 1:
            return role
    return None


def _is_fast(node: str, rail: Iterable[PairResult], role: str = "") -> bool:
    return any(p.fast and node in (p.server, p.client) and role in ("", p.role(node)) for p in rail)


def judge_pairs(pairs: Sequence[PairResult], profile: Profile, rack: str, check: str) -> list[Finding]:
    """A finding per slow rail of a node, per slow path whose ends are good, and per rail or pair without a figure."""
    judge = _Judge(profile, rack, check, pairs)
    findings = judge.slow() + judge.without_result()
    best = [pair.gbps for pair in pairs if pair.gbps is not None]
    if not findings and best:
        rails = {(name, pair.device) for pair in pairs for name in (pair.server, pair.client)}
        text = f"{len(rails)} rails in {len(pairs)} pair tests, the slowest {min(best):.0f} Gb/s"
        findings.append(judge.finding("", Status.PASS, rack, text, value=min(best)))
    return findings


class _Judge:
    def __init__(self, profile: Profile, rack: str, check: str, pairs: Sequence[PairResult]) -> None:
        fabric = profile.infiniband
        self._expected = (
            f"at least {floor_gbps(profile):g} Gb/s ({fabric.write_bw_fraction.value:g} × {fabric.rate_gbps.value:g})"
        )
        self._source = f"{fabric.write_bw_fraction.origin}; rate: {fabric.rate_gbps.origin}"
        self._rack, self._check, self._pairs = rack, check, pairs

    def slow(self) -> list[Finding]:
        blamed = accused(self._pairs)
        findings = [self._slow_rail(node, device, way) for (node, device), way in sorted(blamed.items())]
        for device in dict.fromkeys(pair.device for pair in self._pairs):
            rail = [pair for pair in self._pairs if pair.device == device and pair.gbps is not None]
            if len(rail) > 1 and not any(pair.fast for pair in rail):
                findings.append(self._whole_rail(device, rail))
                continue
            for pair in rail:
                ends = [blamed.get((node, device)) for node in (pair.server, pair.client)]
                roles = [pair.role(node) for node in (pair.server, pair.client)]
                explained = any(way in ("", role) for way, role in zip(ends, roles, strict=True) if way is not None)
                if pair.slow and not explained:
                    findings.append(self._slow_pair(pair, rail))
        return findings

    def _slow_rail(self, node: str, device: str, way: str) -> Finding:
        mine = [p for p in self._pairs if p.device == device and node in (p.server, p.client) and p.gbps is not None]
        mine = [p for p in mine if way in ("", p.role(node))]
        best = max(mine, key=lambda pair: pair.gbps or 0.0)
        partners = ", ".join(dict.fromkeys(pair.other(node) for pair in mine))
        return self.finding(
            "slow",
            Status.FAIL,
            f"{device} {way}".strip(),
            f"best of {len(mine)} pairs is {best.gbps:.0f} Gb/s, with {partners}, which are faster with others",
            node=node,
            value=best.gbps,
            cause="the port's rate or link, its PCIe path, or its cable",
            action=Action.REPLACE_AND_REPORT,
            evidence=best.evidence,
            category=_CATEGORY,
        )

    def _whole_rail(self, device: str, rail: Sequence[PairResult]) -> Finding:
        best = max(rail, key=lambda pair: pair.gbps or 0.0)
        return self.finding(
            "all-slow",
            Status.FAIL,
            f"{self._rack} {device}",
            f"all {len(rail)} pairs are slow on this rail, the best {best.gbps:.0f} Gb/s: no node stands out",
            value=best.gbps,
            cause="the fabric of this rail, a setting of all nodes, or another rate than the profile says",
            action=Action.INVESTIGATE,
            evidence=best.evidence,
        )

    def _slow_pair(self, pair: PairResult, rail: Sequence[PairResult]) -> Finding:
        good = _is_fast(pair.server, rail, _RECEIVES) and _is_fast(pair.client, rail, _SENDS)
        return self.finding(
            "path" if good else "undecided",
            Status.WARN,
            pair.subject,
            f"{pair.gbps:.0f} Gb/s, while both ends are fast with other partners: the path between them, not a node"
            if good
            else f"{pair.gbps:.0f} Gb/s; which end it is, or the path, cannot be told",
            value=pair.gbps,
            cause="a switch link on this path, or congestion at that moment" if good else "one of the two, or the path",
            action=Action.WATCH if good else Action.INVESTIGATE,
            evidence=pair.evidence,
        )

    def without_result(self) -> list[Finding]:
        silent = [pair for pair in self._pairs if pair.gbps is None]
        if silent and len(silent) == len(self._pairs):
            problem, times = Counter(pair.problem for pair in silent).most_common(1)[0]
            more = f" ({times} of {len(silent)})" if times < len(silent) else ""
            text = f"no pair gave a result: {problem}{more}"
            return [self._silence(self._rack, "", text, any(p.fault for p in silent), silent[0])]
        findings, told = [], set()
        for pair in silent:
            owner = pair.owner or self._silent_end(pair)
            if owner and (owner, pair.device) in told:
                continue
            told.add((owner, pair.device))
            if owner:
                mine = [p for p in silent if p.device == pair.device and owner in (p.server, p.client)]
                text = f"no result in {len(mine)} of its pairs: {pair.problem}"
                findings.append(self._silence(pair.device, owner, text, any(p.fault for p in mine), pair))
            else:
                findings.append(self._silence(pair.subject, "", pair.problem, pair.fault, pair))
        return findings

    def _silent_end(self, pair: PairResult) -> str:
        """The end that has no figure with anybody, while those it met have some with others."""
        ends = []
        for node in (pair.server, pair.client):
            mine = [p for p in self._pairs if p.device == pair.device and node in (p.server, p.client)]
            partners = {p.other(node) for p in mine}
            if len(partners) > 1 and all(p.gbps is None for p in mine):
                rail = [p for p in self._pairs if p.device == pair.device and p.gbps is not None]
                if all(any(name in (p.server, p.client) for p in rail) for name in partners):
                    ends.append(node)
        return ends[0] if len(ends) == 1 else ""

    def _silence(self, subject: str, node: str, text: str, fault: bool, pair: PairResult) -> Finding:
        return self.finding(
            "error" if fault else "no-result",
            Status.FAIL if fault else Status.UNKNOWN,
            subject,
            text,
            node=node,
            cause="the link, its partition or the path" if fault else "nothing was measured",
            action=Action.INVESTIGATE,
            evidence=pair.evidence,
        )

    def finding(
        self,
        kind: str,
        status: Status,
        subject: str,
        message: str,
        *,
        node: str = "",
        value: float | None = None,
        cause: str = "",
        action: Action = Action.NONE,
        evidence: str = "",
        category: str = "",
    ) -> Finding:
        measured = value is not None
        return Finding(
            check=f"{self._check}.{kind}" if kind else self._check,
            status=status,
            subject=subject,
            node=node,
            value=round(value, 1) if value is not None else None,
            unit="Gb/s" if measured else "",
            expected=self._expected if measured else "",
            source=self._source if measured else "",
            message=message,
            cause=cause,
            action=action,
            evidence=evidence,
            health_category=category,
        )
