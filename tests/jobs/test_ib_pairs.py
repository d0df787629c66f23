"""Pair rounds over folders that stand in for nodes, with a stand-in ib_write_bw that really waits for its peer; and
what the figures of many pairs say of rails and paths."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndctl.jobs.ib_pairs import PairText, run_round
from ndctl.jobs.judge_pairs import PairResult, accused, floor_gbps, judge_pairs, read_pair
from ndctl.jobs.pairs import both_ways
from ndctl.model.answers import Command
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status
from ndctl.profiles import load
from tests.jobs.local_nodes import LocalNodes
from tests.jobs.mpi_lab import OWN, marked

PROFILE = load("gb300")
FLOOR = floor_gbps(PROFILE)
CHECK = "infiniband.write-bw"
RAILS = ("mlx5_ib0", "mlx5_ib1")

_WRITE_BW = r"""
here=${0%/*}; host=
while [ $# -gt 0 ]; do
  case $1 in -d) dev=$2; shift ;; -p) port=$2; shift ;; -s | -n) shift ;; -*) ;; *) host=$1 ;; esac; shift
done
node=${HOME%/home}; me=10.0.0.$((1${node##*-n} - 100))
grep -q "^dead $me $dev" "$here/faults" && { echo " Port number 1 state is Down"; echo "Couldn't set the link layer"; exit 1; }
if [ -z "$host" ]; then
  f=$here/listen-$me-$port; rm -f "$f.done"; : > "$f"; trap 'rm -f "$f" "$f.done"' EXIT; trap 'exit 143' TERM
  while [ ! -e "$f.done" ]; do sleep 0.05; done
  exit 0
fi
f=$here/listen-$host-$port
[ -e "$f" ] || { echo "Couldn't connect to $host:$port"; exit 1; }
grep -q "^cut $me $dev" "$here/faults" && { echo "Completion with error at client"
  echo "Failed status 12: wr_id 0 syndrom 0x81"; : > "$f.done"; exit 1; }
: > "$f.done"
gbps=$(sed -n "s/^slow $me $dev //p" "$here/faults"); echo " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
echo " 8388608    2000             ${gbps:-788.10}             ${gbps:-788.00}             0.011743"
echo "---------------------------------------------------------------------------------------"
"""  # noqa: E501


@pytest.fixture
def nodes(tmp_path: Path) -> LocalNodes:
    one = LocalNodes(tmp_path, count=4)
    one.tool("ib_write_bw", _WRITE_BW)
    plant(one)
    return one


def plant(nodes: LocalNodes, *faults: str) -> None:
    (nodes.tools / "faults").write_text("".join(f"{fault}\n" for fault in faults))


def run(nodes: LocalNodes, **more: float) -> dict[tuple[str, str], PairResult]:
    """(client, device) -> result of n01 → n02 and n03 → n04; the first serves."""
    a, b, c, d = nodes.nodes
    texts = run_round(nodes, [(a, b), (c, d)], RAILS, token=OWN, **more)  # type: ignore[arg-type]
    results = [read_pair(text, PROFILE, 1) for text in texts]
    assert [(r.server, r.client, r.device) for r in results] == [
        (s.name, k.name, device) for s, k in ((a, b), (c, d)) for device in RAILS
    ]
    return {(result.client, result.device): result for result in results}


def test_every_rail_of_every_pair_is_measured(nodes: LocalNodes) -> None:
    results = run(nodes)
    assert {result.gbps for result in results.values()} == {788.0}
    assert len(nodes.asked) == 2 and marked() == []  # servers and clients, and nothing to end


def test_a_rail_that_fails_does_not_spoil_the_next(nodes: LocalNodes) -> None:
    plant(nodes, "dead 10.0.0.2 mlx5_ib0", "dead 10.0.0.3 mlx5_ib1")
    begun = time.monotonic()
    results = run(nodes)
    assert results[("rack01-n02", "mlx5_ib1")].gbps == 788.0 and results[("rack01-n04", "mlx5_ib0")].gbps == 788.0
    first, other = results[("rack01-n02", "mlx5_ib0")], results[("rack01-n04", "mlx5_ib1")]
    assert first.owner == "rack01-n02" and first.fault and "not active" in first.problem
    assert other.owner == "rack01-n03", "the server's own words name the server"
    assert time.monotonic() - begun < 18, "a server that nobody comes to is ended, not waited for"
    assert marked() == []


def test_an_interruption_leaves_no_server_behind(nodes: LocalNodes) -> None:
    def interrupt(requests: Mapping[Node, Sequence[Command]]) -> None:
        if "ib-write-bw-mlx5_ib0" in {c.id for commands in requests.values() for c in commands}:
            end = time.monotonic() + 20
            while len(list(nodes.tools.glob("listen-*"))) < 4 and time.monotonic() < end:
                time.sleep(0.02)
            seen.extend(marked())
            raise KeyboardInterrupt

    seen: list[str] = []
    nodes.watch = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(nodes)
    assert len(seen) >= 4
    assert marked() == []


def test_a_node_that_is_away_is_named_in_the_problem(nodes: LocalNodes) -> None:
    nodes.away = {"rack01-n02", "rack01-n03"}
    results = run(nodes)
    assert results[("rack01-n02", "mlx5_ib0")].problem == "rack01-n02: unreachable no route"
    assert results[("rack01-n04", "mlx5_ib0")].problem == "rack01-n03: unreachable no route"
    assert all(result.gbps is None and not result.fault for result in results.values())


def test_a_missing_tool_is_no_fault(nodes: LocalNodes) -> None:
    (nodes.tools / "ib_write_bw").unlink()
    result = run(nodes)[("rack01-n02", "mlx5_ib0")]
    assert result.problem == "ib_write_bw is not installed on rack01-n02" and not result.fault


def test_a_completion_error_is_a_fault_of_the_path(nodes: LocalNodes) -> None:
    plant(nodes, "cut 10.0.0.2 mlx5_ib0")
    result = run(nodes)[("rack01-n02", "mlx5_ib0")]
    assert result.fault and result.owner == "" and "completion error" in result.problem


def text_of(printed: str) -> PairText:
    a, b = Node("rack01-n01", "rack01"), Node("rack01-n02", "rack01")
    return PairText(a, b, "mlx5_ib0", printed, "")


def test_figures_in_mebibytes_are_turned_into_gigabits() -> None:
    head = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
    row = " 8388608    2000             94000.00           93900.00             0.011743\n"
    result = read_pair(text_of(head + row + "-" * 80 + "\n"), PROFILE, 1)
    assert result.gbps == pytest.approx(93900 * 2**20 * 8 / 1e9)
    assert result.fast


@pytest.mark.parametrize("printed", ["", "\n\n", "garbage", " 8388608 2000 1"])
def test_no_figure_is_no_pass(printed: str) -> None:
    result = read_pair(text_of(printed), PROFILE, 1)
    assert result.gbps is None and result.problem and not result.fault
    findings = judge_pairs([result], PROFILE, "rack01", CHECK)
    assert [f.status for f in findings] == [Status.UNKNOWN]


def screen(size: int, count: int = 4, device: str = "mlx5_ib0", **faults: object) -> list[PairResult]:
    """Results of `count` rounds. slow: {node: Gb/s}, sends/receives: one way only, paths: set of pairs, dead: nodes."""
    slow, sends, receives = (dict(faults.get(k, {})) for k in ("slow", "sends", "receives"))  # type: ignore[call-overload]
    paths, dead = faults.get("paths", set()), faults.get("dead", set())
    results = []
    for number, pairs in enumerate(islice(both_ways(range(1, size + 1)), count), 1):
        for server, client in pairs:
            gbps: float | None = min(
                788.0, slow.get(server, 788.0), slow.get(client, 788.0), sends.get(client, 788.0),
                receives.get(server, 788.0), 300.0 if frozenset((server, client)) in paths else 788.0,  # type: ignore[operator]
            )  # fmt: skip
            problem = ""
            if {server, client} & dead:  # type: ignore[operator]
                gbps, problem = None, "no end within 20 s"
            results.append(PairResult(f"n{server:02d}", f"n{client:02d}", device, number, FLOOR, gbps, problem))
    return results


def judged(results: list[PairResult]) -> list[Finding]:
    return judge_pairs(results, PROFILE, "rack01", CHECK)


def test_a_healthy_rack_passes_with_its_slowest_figure() -> None:
    [finding] = judged(screen(18, 2))
    assert (finding.check, finding.status, finding.value, finding.unit) == (CHECK, Status.PASS, 788.0, "Gb/s")
    assert "18 rails in 18 pair tests" in finding.message and finding.expected and finding.source


@pytest.mark.parametrize("size", [5, 17, 18])
@pytest.mark.parametrize("bad", [1, 2, 4])
def test_a_slow_rail_is_named_with_its_node(size: int, bad: int) -> None:
    [finding] = judged(screen(size, slow={bad: 394.0}))
    assert (finding.check, finding.node, finding.subject) == (f"{CHECK}.slow", f"n{bad:02d}", "mlx5_ib0")
    assert (finding.status, finding.value, finding.action) == (Status.FAIL, 394.0, Action.REPLACE_AND_REPORT)
    assert finding.expected == "at least 760 Gb/s (0.95 × 800)" and "2026" in finding.source


@pytest.mark.parametrize(("way", "word"), [("sends", "sending"), ("receives", "receiving")])
@pytest.mark.parametrize("bad", [1, 7, 18])
def test_a_rail_that_is_slow_one_way_is_named_with_the_way(way: str, word: str, bad: int) -> None:
    [finding] = judged(screen(18, **{way: {bad: 400.0}}))
    assert (finding.node, finding.subject) == (f"n{bad:02d}", f"mlx5_ib0 {word}")


def test_a_slow_path_names_no_node() -> None:
    pair = next(iter(both_ways(range(1, 19))))[3]
    [finding] = judged(screen(18, paths={frozenset(pair)}))
    assert (finding.check, finding.status, finding.node) == (f"{CHECK}.path", Status.WARN, "")
    assert f"n{pair[0]:02d} ↔ n{pair[1]:02d} mlx5_ib0" == finding.subject
    assert finding.action is Action.WATCH


def test_two_nodes_alone_cannot_be_told_apart() -> None:
    [finding] = judged(screen(2, slow={1: 400.0}))
    assert (finding.check, finding.status, finding.node) == (f"{CHECK}.undecided", Status.WARN, "")


def test_a_rail_that_is_slow_everywhere_is_the_rails() -> None:
    [finding] = judged(screen(18, slow=dict.fromkeys(range(1, 19), 394.0)))
    assert (finding.check, finding.status, finding.node) == (f"{CHECK}.all-slow", Status.FAIL, "")
    assert finding.subject == "rack01 mlx5_ib0"


def test_rails_are_judged_apart() -> None:
    findings = judged(screen(18, slow={4: 394.0}) + screen(18, device="mlx5_ib3", slow={9: 394.0}))
    assert [(f.node, f.subject) for f in findings] == [("n04", "mlx5_ib0"), ("n09", "mlx5_ib3")]


def test_a_rail_that_gives_no_figure_is_one_unknown() -> None:
    findings = judged(screen(18, dead={5}))
    assert [(f.check, f.status, f.node) for f in findings] == [(f"{CHECK}.no-result", Status.UNKNOWN, "n05")]
    assert "in 4 of its pairs" in findings[0].message


def test_an_unreachable_pair_is_unknown_and_blames_nobody() -> None:
    results = [r if r.client != "n05" else PairResult(r.server, r.client, r.device, r.round, FLOOR, None, "gone")
               for r in screen(18, 2)]  # fmt: skip
    [finding] = judged(results)
    assert (finding.status, finding.node) == (Status.UNKNOWN, "") and "n05" in finding.subject


def test_when_nobody_gives_a_figure_it_is_said_once() -> None:
    findings = judged(screen(18, dead=set(range(1, 19))))
    assert [(f.status, f.node, f.subject) for f in findings] == [(Status.UNKNOWN, "", "rack01")]


@settings(max_examples=200, deadline=None)
@given(size=st.integers(4, 24), seed=st.integers(0, 10_000), count=st.integers(0, 3))
def test_with_up_to_three_bad_nodes_nobody_good_is_accused(size: int, seed: int, count: int) -> None:
    chance = random.Random(seed)
    bad = set(chance.sample(range(1, size + 1), min(count, size)))
    named = {int(node[1:]) for node, _ in accused(screen(size, slow=dict.fromkeys(bad, 400.0)))}
    assert named <= bad
    if size >= 8 and len(bad) < 2:
        assert named == bad


def test_a_screen_of_many_racks_misses_few_and_blames_none() -> None:
    """18 nodes, three bad ones, 500 racks."""
    chance = random.Random(7)
    missed = wrong = 0
    for _ in range(500):
        bad = set(chance.sample(range(1, 19), 3))
        named = {int(node[1:]) for node, _ in accused(screen(18, slow=dict.fromkeys(bad, 400.0)))}
        missed += named != bad
        wrong += bool(named - bad)
    assert wrong == 0 and missed <= 5
