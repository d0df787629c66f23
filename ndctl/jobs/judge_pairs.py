"""What pairwise InfiniBand bandwidth says of nodes, rails and paths.

A pair's bandwidth is at most that of its worse end, so a rail of a node is as good as its best pair. With r rounds
of distinct partners, up to r-1 bad rails can't make a good one look bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ndctl.jobs.ib_pairs import MESSAGE_BYTES, PairText
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from ndctl.parse.ib_bw import parse
from ndctl.profiles.schema import Profile


@dataclass(frozen=True, slots=True)
class PairResult:
    """One rail of one pair in one round. gbps: measured Gb/s, None when `problem` says why there is none."""

    server: str
    client: str
    device: str
    round: int
    floor: float
    gbps: float | None
    problem: str = ""

    @property
    def slow(self) -> bool:
        return self.gbps is not None and self.gbps < self.floor

    @property
    def subject(self) -> str:
        return f"{self.server} ↔ {self.client} {self.device}"

    @property
    def evidence(self) -> str:
        return f"{self.client}/ib-write-bw-{self.device}-round{self.round}"


def floor_gbps(profile: Profile) -> float:
    fabric = profile.infiniband
    return fabric.rate_gbps.value * fabric.write_bw_fraction.value


def read_pair(text: PairText, profile: Profile, number: int) -> PairResult:
    """The pair's figure: the client's average at the large message, in Gb/s."""
    base = (text.server.name, text.client.name, text.device, number, floor_gbps(profile))
    if text.problem:
        return PairResult(*base, gbps=None, problem=text.problem)
    facts = parse(text.client_text)
    rows = [row for row in facts.rows if row.bytes == MESSAGE_BYTES and not row.sample]
    if not rows or facts.error:
        said = facts.error or _last_line(text.client_text) or _last_line(text.server_text) or "no result"
        return PairResult(*base, gbps=None, problem=said[:200])
    gbps = rows[-1].bw_average_gbps
    return PairResult(*base, gbps=gbps, problem="" if gbps is not None else f"unit {facts.unit!r} is not understood")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" -")]
    return lines[-1] if lines else ""


def _best(pairs: Sequence[PairResult]) -> dict[tuple[str, str], float]:
    """(node, device) -> the best figure of its pairs."""
    best: dict[tuple[str, str], float] = {}
    for pair in pairs:
        if pair.gbps is not None:
            for node in (pair.server, pair.client):
                key = (node, pair.device)
                best[key] = max(best.get(key, 0.0), pair.gbps)
    return best


def accused(pairs: Sequence[PairResult]) -> set[str]:
    """ "node device" of the rails whose every pair was slow; a rail with one pair only is not told from its partner."""
    best = _best(pairs)
    return {f"{node} {device}" for (node, device), gbps in best.items() if gbps < _floor(pairs)}


def _floor(pairs: Sequence[PairResult]) -> float:
    return pairs[0].floor if pairs else 0.0


def judge_pairs(pairs: Sequence[PairResult], profile: Profile, rack: str, check: str) -> list[Finding]:
    """A finding per slow rail of a node, per slow path whose ends are good, and per pair that gave no figure."""
    best = _best(pairs)
    floor = floor_gbps(profile)
    source = f"{profile.infiniband.write_bw_fraction.origin}; rate: {profile.infiniband.rate_gbps.origin}"
    fabric = profile.infiniband
    expected = f"at least {floor:g} Gb/s ({fabric.write_bw_fraction.value:g} × {fabric.rate_gbps.value:g})"
    bad = {key: gbps for key, gbps in best.items() if gbps < floor}
    findings = []
    for (node, device), gbps in sorted(bad.items()):
        mine = [p for p in pairs if p.device == device and node in (p.server, p.client) and p.gbps is not None]
        partners = {p.client if p.server == node else p.server for p in mine}
        shared = all((partner, device) in bad for partner in partners)
        findings.append(
            Finding(
                check=f"{check}.slow",
                status=Status.WARN if shared else Status.FAIL,
                subject=device,
                node=node,
                value=round(gbps, 1),
                unit="Gb/s",
                expected=expected,
                source=source,
                message=f"best of {len(mine)} pairs is {gbps:.0f} Gb/s"
                + (", but its partners are as slow: which end it is cannot be told" if shared else ""),
                cause="the port's rate or link, its PCIe path, or congestion",
                action=Action.INVESTIGATE if shared else Action.REPLACE_AND_REPORT,
                evidence=mine[0].evidence,
                health_category="Resource.Hpc.Unhealthy.IBPerformance",
            )
        )
    for pair in pairs:
        ends = {(pair.server, pair.device), (pair.client, pair.device)}
        if pair.slow and not ends & set(bad):
            findings.append(
                Finding(
                    check=f"{check}.path",
                    status=Status.WARN,
                    subject=pair.subject,
                    value=round(pair.gbps or 0.0, 1),
                    unit="Gb/s",
                    expected=expected,
                    source=source,
                    message="slow, while both ends are fast with other partners: the path between them, not a node",
                    cause="a switch link on this path, or congestion at that moment",
                    action=Action.WATCH,
                    evidence=pair.evidence,
                )
            )
        if pair.gbps is None:
            findings.append(
                Finding(
                    check=f"{check}.no-result",
                    status=Status.UNKNOWN,
                    subject=pair.subject,
                    message=pair.problem,
                    action=Action.INVESTIGATE,
                    evidence=pair.evidence,
                )
            )
    if not findings and best:
        slowest = min(best.values())
        findings.append(
            Finding(
                check=check,
                status=Status.PASS,
                subject=rack,
                value=round(slowest, 1),
                unit="Gb/s",
                expected=expected,
                source=source,
                message=f"{len(best)} rails in {len(pairs)} pair tests, the slowest {slowest:.0f} Gb/s",
            )
        )
    return findings
