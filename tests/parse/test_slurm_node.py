"""scontrol's node line: real captures (Slurm 22.05.8, four slurmd), and what other releases print."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndctl.parse.slurm_node import flags_of, parse

CAPTURES = Path(__file__).parents[1] / "captures" / "slurm-node"
STATES = {
    "allocated": ({"ALLOCATED"}, 2),
    "mixed": ({"MIXED"}, 1),
    "draining": ({"MIXED", "DRAIN"}, 1),
    "drained": ({"IDLE", "DRAIN"}, 0),
    "reserved": ({"IDLE", "RESERVED"}, 0),
    "maintenance": ({"IDLE", "MAINTENANCE", "RESERVED"}, 0),
    "down": ({"DOWN"}, 0),
}


@pytest.mark.parametrize("name", STATES)
def test_real_lines(name: str) -> None:
    [node] = parse((CAPTURES / f"{name}.txt").read_text()).nodes
    flags, cpus = STATES[name]
    assert node.flags == flags and node.cpus_allocated == cpus
    assert bool(node.tres_allocated) is (cpus > 0)


def test_every_capture_is_expected() -> None:
    assert {path.stem for path in CAPTURES.glob("*.txt")} == set(STATES)


@pytest.mark.parametrize(
    ("state", "flags"),
    [
        ("DOWN*", {"DOWN", "NOT_RESPONDING"}),
        ("IDLE~", {"IDLE", "POWERED_DOWN"}),
        ("IDLE#", {"IDLE", "POWERING_UP"}),
        ("IDLE!", {"IDLE", "POWER_DOWN"}),
        ("IDLE%", {"IDLE", "POWERING_DOWN"}),
        ("ALLOCATED$", {"ALLOCATED", "MAINTENANCE"}),
        ("ALLOCATED@", {"ALLOCATED", "REBOOT_REQUESTED"}),
        ("IDLE^", {"IDLE", "REBOOT_ISSUED"}),
        ("IDLE-", {"IDLE", "PLANNED"}),
        ("MIXED*+CLOUD+DRAIN", {"MIXED", "NOT_RESPONDING", "CLOUD", "DRAIN"}),
        ("idle+drain", {"IDLE", "DRAIN"}),
        ("DRAINED", {"IDLE", "DRAIN"}),
        ("DRAINING", {"ALLOCATED", "DRAIN"}),
        ("MAINT", {"IDLE", "MAINTENANCE"}),
        ("", set()),
    ],
)
def test_suffixes_and_other_names(state: str, flags: set[str]) -> None:
    assert flags_of(state) == flags


def test_a_reason_is_free_text() -> None:
    line = (CAPTURES / "drained.txt").read_text().strip() + " State=ALLOCATED CPUAlloc=64"
    [node] = parse(line).nodes
    assert node.flags == {"IDLE", "DRAIN"} and node.cpus_allocated == 0


def test_jobs_and_errors() -> None:
    text = (CAPTURES / "allocated.txt").read_text() + "JobId=7 UserId=train State=RUNNING JobName=a b = c\n"
    assert [(job.id, job.user, job.name) for job in parse(text).jobs] == [("7", "train", "a b = c")]
    assert parse("Node nosuch not found\n").not_found
    # What scontrol 22.05 says where it finds no configuration, and where its controller is away.
    nowhere = (
        "scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
        "scontrol: error: fetch_config: DNS SRV lookup failed\n"
        "scontrol: fatal: Could not establish a configuration source\n"
    )
    assert parse(nowhere).not_configured
    away = parse("slurm_load_node error: Unable to contact slurm controller (connect failure)")
    assert not away.not_configured and not away.not_found and away.problems


@given(st.text(max_size=300), st.integers(0, 900))
def test_any_text_and_any_cut_give_facts(noise: str, cut: int) -> None:
    parse(noise, noise)
    facts = parse((CAPTURES / "allocated.txt").read_text()[:cut] + "\r\n" + noise)
    # A line that is cut never shows an allocated node as an idle one.
    assert not any("IDLE" in node.flags for node in facts.nodes if "State" not in noise and "IDLE" not in noise)
