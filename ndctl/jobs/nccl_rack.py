"""One NCCL test over one rack: the full run, and who is to blame when it is slow, wrong or hangs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from ndctl.jobs.active.base import Outcome, RackUnderTest
from ndctl.jobs.isolate import isolate
from ndctl.jobs.isolation import GroupVerdict
from ndctl.jobs.nccl_asked import Asked, with_environment
from ndctl.jobs.nccl_bench import Bench, CannotGoOn, Shown
from ndctl.jobs.nccl_blame import Blame
from ndctl.jobs.nccl_hints import hints
from ndctl.jobs.nccl_layer_runs import LayerRuns
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Status

_SHARPNESS = 0.03  # how much looser a small group's floor may be than the full group's


def run_in_rack(rack: RackUnderTest, asked: Asked, *, layers: bool = False) -> Outcome:
    """The test over all nodes of the rack; where it fails the culprit is looked for.

    layers: where one is found, tell by a few more runs which layer it is
    """
    test = NcclOverRack(rack, asked, layers=layers)
    with rack.stopping.ended_by(test.stop):
        return test.test()


class NcclOverRack:
    """Tests one rack once."""

    def __init__(self, rack: RackUnderTest, asked: Asked, *, layers: bool = False) -> None:
        self.outcome = Outcome()
        self.asked = with_environment(asked, rack)
        self._rack = rack
        self._layers = layers
        self._bench = Bench(rack, self.outcome)
        self._groups: dict[frozenset[Node], list[Shown]] = {}
        self._numbers = itertools.count(1)

    def stop(self) -> None:
        """End what runs and begin nothing more; from another thread than the one in `test`, which then cleans up."""
        self._bench.stop()

    def test(self) -> Outcome:
        """The full run, and what follows from it."""
        full = self.first()
        self.outcome.findings += full.findings
        self.pursue(full)
        return self.outcome

    def first(self, label: str = "all") -> Shown:
        """The full run alone; its findings are not taken yet."""
        return self._bench.run(self.asked, [self._rack.nodes], [label], [self._rack.rack])[0]

    def pursue(self, full: Shown) -> None:
        """Where the full run failed: without the suspects of other checks, then by isolation."""
        if full.verdict in (None, GroupVerdict.GOOD) or self._bench.stopped:
            return
        everyone = self._rack.nodes
        group, known = everyone, full
        without = sorted(node.name for node in everyone if node.name in self._rack.suspects)
        sound = tuple(node for node in everyone if node.name not in self._rack.suspects)
        if without and len(sound) >= 2:
            subject = f"{self._rack.rack} without {', '.join(without)}"
            group, known = sound, self._bench.run(self.asked, [sound], ["without"], [subject])[0]
            self.outcome.findings += known.findings
            if known.verdict in (None, GroupVerdict.GOOD):
                self._explain(full, f"{', '.join(without)}; without, {known.findings[0].message}")
                return
        self._isolate(group, known, without)

    def _isolate(self, group: tuple[Node, ...], known: Shown, without: Sequence[str]) -> None:
        self._groups[frozenset(group)] = [known]
        self._bench.say(self.asked, "looking for the culprit", "running")
        smallest = self._smallest_sharp_group(len(group))
        try:
            found = isolate(
                group,
                self._test_groups,
                known=known.verdict,
                hints=hints(known.run),
                minimum=smallest,
                name=lambda node: node.name,
            )
        except CannotGoOn as reason:
            self._explain(known, f"who it is was not found: {reason}")
            return
        layers = None
        if self._layers:
            layers = LayerRuns(self._bench, self.asked, self._rack, smallest).of(found, self._shown_of, known)
        command = f"nccl-{self.asked.called}-isolation" if self.asked.called != "all_reduce" else "nccl-isolation"
        head = group[0].name
        story = [*found.reasoning, *(layers.reasoning if layers else ())]
        self.outcome.texts.append((head, command, "\n".join(story) + "\n"))
        blame = Blame(
            asked=self.asked,
            found=found,
            known=known.findings,
            rack=self._rack.rack,
            without=tuple(without),
            evidence=f"{head}/{command}",
            of_group=self._findings_of,
            layers=layers.told if layers else {},
        )
        self.outcome.findings = blame.applied_to(self.outcome.findings)
        self._bench.say(self.asked, blame.summary, "failed" if found.culprits or found.paths else "done")

    def _findings_of(self, members: Sequence[Node]) -> tuple[Finding, ...]:
        shown = self._shown_of(members)
        return shown.findings if shown is not None else ()

    def _shown_of(self, members: Sequence[Node]) -> Shown | None:
        """The last run over exactly these nodes, else the smallest failing one that holds some of them."""
        wanted = frozenset(members)
        exact = self._groups.get(wanted)
        if exact:
            return exact[-1]
        holding = [
            (len(group), shown[-1])
            for group, shown in self._groups.items()
            if wanted & group and shown[-1].verdict is not GroupVerdict.GOOD
        ]
        return min(holding, key=lambda one: one[0])[1] if holding else None

    def _test_groups(self, groups: list[tuple[Node, ...]]) -> list[GroupVerdict]:
        """The callback of the isolation. What could not be launched is tried once more from another head."""
        self._bench.go_on()
        # Partners that are proven good stand last: one of them is the safest head.
        turned = [(group[-1], *group[:-1]) for group in groups]
        shown = self._numbered(turned)
        again = [place for place, one in enumerate(shown) if one.verdict is None]
        if again and not self._bench.stopped:
            for place, one in zip(again, self._numbered([groups[place] for place in again]), strict=True):
                shown[place] = one
        verdicts = []
        for group, one in zip(groups, shown, strict=True):
            if one.verdict is None:
                raise CannotGoOn("interrupted" if self._bench.stopped else one.findings[0].message)
            self._groups.setdefault(frozenset(group), []).append(one)
            verdicts.append(one.verdict)
        return verdicts

    def _numbered(self, groups: Sequence[tuple[Node, ...]]) -> list[Shown]:
        number = next(self._numbers)
        labels = [f"r{number}" if len(groups) == 1 else f"r{number}-{index}" for index, _ in enumerate(groups, 1)]
        subjects = [", ".join(sorted(node.name for node in group)) for group in groups]
        return self._bench.run(self.asked, groups, labels, subjects, small=True)

    def _smallest_sharp_group(self, size: int) -> int:
        """The smallest group whose floor is about as tight as the full group's: what is slow in the one must show in
        the other."""
        full = self.asked.floor(self._rack.profile, size)
        for count in range(2, size):
            floor = self.asked.floor(self._rack.profile, count)
            if full is None or floor is None:
                continue
            tightness = [one.warn_below.value / one.expected.value for one in (full, floor)]
            if tightness[1] >= tightness[0] - _SHARPNESS:
                return count
        return 2

    def _explain(self, shown: Shown, cause: str) -> None:
        """Say the cause on the findings of a run that stand as they are."""
        self.outcome.findings = [
            replace(f, cause=cause) if f in shown.findings and f.status in (Status.FAIL, Status.WARN) else f
            for f in self.outcome.findings
        ]
