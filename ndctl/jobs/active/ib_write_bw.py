"""ib_write_bw between pairs of nodes reaches the port's rate on every rail, in both directions.

Two rounds let every node send once and receive once. Where a pair is slow, two more give everybody a second partner
each way: up to three bad nodes then make no good one look bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from ndctl.jobs.active.base import ActiveCheck, Outcome, RackUnderTest
from ndctl.jobs.ib_pairs import PairText, end_round, run_round
from ndctl.jobs.judge_pairs import PairResult, accused, judge_pairs, read_pair
from ndctl.jobs.pairs import both_ways
from ndctl.model.places import Node
from ndctl.model.status import Group, Level
from ndctl.profiles.schema import Profile

CHECK = "infiniband.write-bw"
_SCREEN_ROUNDS = 2
_MOST_ROUNDS = 4


def rails(profile: Profile) -> list[str]:
    """mlx5_ib0 … as the profile's pattern numbers them."""
    fabric = profile.infiniband
    stem = fabric.device_pattern.value.rstrip("*")
    return [f"{stem}{number}" for number in range(fabric.ports.value)]


def _run(rack: RackUnderTest) -> Outcome:
    outcome = Outcome()
    devices = rails(rack.profile)
    seen: list[PairResult] = []
    for number, pairs in enumerate(islice(both_ways(rack.nodes), _MOST_ROUNDS), 1):
        if number > _SCREEN_ROUNDS and not any(pair.slow for pair in seen):
            break
        reason = rack.may_go_on()
        if reason:
            return outcome.skip(CHECK, rack.rack, reason)
        rack.say("ib_write_bw", f"round {number}: {len(pairs)} pairs × {len(devices)} rails", "running")
        for text in round_of(rack, pairs, devices, f"pairs{number}"):
            seen.append(taken(outcome, text, rack.profile, number))
    outcome.findings += judge_pairs(seen, rack.profile, rack.rack, CHECK)
    blamed = accused(seen)
    if blamed:
        names = ", ".join(f"{node} {device}" for node, device in sorted(blamed))
        rack.say("ib_write_bw", f"slow: {names}", "failed")
    return outcome


def taken(outcome: Outcome, text: PairText, profile: Profile, number: int, kept: str = "ib-write-bw") -> PairResult:
    """The pair's result; its texts, under ids that begin with `kept`, and its figure go into the outcome."""
    pair = replace(read_pair(text, profile, number), kept=kept)
    both = text.client_text if pair.gbps is not None else f"{text.client_text}\n{text.server_text}"
    outcome.texts.append((text.client.name, pair.command, both))
    if pair.gbps is not None:
        outcome.measurements.append(
            {
                "node": text.client.name,
                "metric": "ib_write_bw",
                "subject": f"{text.device} to {text.server.name}",
                "value": pair.gbps,
                "unit": "Gb/s",
            }
        )
    return pair


def round_of(
    rack: RackUnderTest, pairs: Sequence[tuple[Node, Node]], devices: Sequence[str], name: str
) -> list[PairText]:
    """One round on all rails; `name` tells it from the run's others. Ended when somebody interrupts."""
    token = f"{rack.token}-{rack.rack}-{name}"
    nodes = [node for pair in pairs for node in pair]
    with rack.stopping.ended_by(lambda: end_round(rack.runner, nodes, token)):
        return run_round(rack.runner, pairs, devices, token=token)


ACTIVE = ActiveCheck(
    id=CHECK,
    group=Group.INFINIBAND,
    level=Level.STANDARD,
    title="ib_write_bw between pairs of nodes reaches the port's rate on every rail",
    cost_s=45,
    run=_run,
    texts=("ib-write-bw-DEVICE-roundN",),
)
