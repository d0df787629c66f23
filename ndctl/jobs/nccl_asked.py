"""What a NCCL test is asked to measure: the collective, over which path, and what its log must prove for the figure to
count. Every NCCL test of a rack is one of these; the engine that runs, judges and isolates is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ndctl.jobs.active.base import RackUnderTest
from ndctl.profiles.schema import BandwidthFloor, Known, Profile

MNNVL, NET_IB = "MNNVL", "NET/IB"
ON, OFF = "1", "0"
# What goes from GPU to GPU in pairs uses no multicast, whatever is switched on.
USES_NVLS = ("all_reduce", "all_gather", "reduce_scatter")
# nccl-tests compares no in-place results of these (`reportErrors` in their sources): N/A there says nothing is wrong.
NOT_IN_PLACE = ("alltoall", "sendrecv")


@dataclass(frozen=True, slots=True)
class Asked:
    """One NCCL test.

    check:       prefix of its findings' ids
    test:        nccl-tests name without `_perf`
    scope:       whose floors hold: "rack" or "infiniband"
    wanted:      the path between nodes that the log must show: MNNVL or NET_IB
    environment: of every rank
    name:        of its texts and measurements, e.g. "all_reduce", "all_reduce-ib"
    title:       for people, e.g. "all_reduce over InfiniBand only"
    rails:       InfiniBand devices that must carry it, and no others; () where that is not asserted
    share:       of the profile's floors: one rail of four is asked for a quarter
    held:        a floor in place of the profile's, e.g. learned from the other rails
    """

    check: str
    test: str
    scope: str
    wanted: str
    name: str = ""
    title: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    rails: tuple[str, ...] = ()
    share: float = 1.0
    held: BandwidthFloor | None = None

    @property
    def called(self) -> str:
        return self.name or self.test

    @property
    def spoken(self) -> str:
        return self.title or self.test

    def floor(self, profile: Profile, nodes: int) -> BandwidthFloor | None:
        """What a run over so many nodes is held against; None where nothing is published."""
        if self.held is not None:
            return self.held
        floor = profile.floor(self.test, self.scope, nodes)
        return scaled(floor, self.share) if floor is not None and self.share != 1.0 else floor


def scaled(floor: BandwidthFloor, share: float) -> BandwidthFloor:
    """A floor for a share of the hardware; what is computed is an inference, and says so."""

    def part(known: Known[float]) -> Known[float]:
        update = {"value": round(known.value * share, 2), "source": f"{share:.3g} of: {known.source}", "mark": "I"}
        return known.model_copy(update=update)

    return floor.model_copy(
        update={name: part(getattr(floor, name)) for name in ("expected", "warn_below", "fail_below")}
    )


def rails(profile: Profile) -> tuple[str, ...]:
    """mlx5_ib0 … as the profile's pattern numbers them."""
    fabric = profile.infiniband
    stem = fabric.device_pattern.value.rstrip("*")
    return tuple(f"{stem}{number}" for number in range(fabric.ports.value))


def in_rack(check: str, test: str, profile: Profile) -> Asked:
    """Over the path that joins the rack's nodes: NVLink where it reaches that far, else InfiniBand."""
    nvlink = profile.nvlink.domain.value == "rack"
    return Asked(check, test, "rack" if nvlink else "infiniband", MNNVL if nvlink else NET_IB)


def over_infiniband(check: str, profile: Profile) -> Asked:
    """all_reduce between the nodes over all rails, NVLink being left to what is inside each node."""
    return Asked(
        check,
        "all_reduce",
        "infiniband",
        NET_IB,
        name="all_reduce-ib",
        title="all_reduce over InfiniBand only",
        rails=rails(profile),
    )


def over_rail(check: str, profile: Profile, rail: str) -> Asked:
    """The same over one rail alone."""
    return replace(
        over_infiniband(check, profile),
        name=f"all_reduce-{rail}",
        title=f"all_reduce over {rail} alone",
        rails=(rail,),
        share=1 / profile.infiniband.ports.value,
    )


def with_environment(asked: Asked, rack: RackUnderTest, *, nvls: bool = True) -> Asked:
    """The test with the environment it needs. What the test is about cannot be overridden by an inventory: a run over
    InfiniBand with MNNVL left on would measure NVLink."""
    recipe = rack.environment(asked.scope)
    if asked.wanted == NET_IB and rack.profile.nvlink.domain.value == "rack":
        recipe = {**recipe, "NCCL_MNNVL_ENABLE": OFF, "NCCL_NVLS_ENABLE": OFF}
    if len(asked.rails) == 1:
        # "=" takes the name as it is written; without it mlx5_ib1 would also mean mlx5_ib10.
        recipe = {**recipe, "NCCL_IB_HCA": f"={asked.rails[0]}"}
    if not nvls:
        recipe = {**recipe, "NCCL_NVLS_ENABLE": OFF}
    return replace(asked, environment=recipe)
