"""Every check has a page, and every finding that a check can emit is told on it. Read from the sources themselves."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ndctl
from ndctl.checks import catalogue
from ndctl.checks.catalogue import host_kernel
from ndctl.checks.pages import page_of, pages
from ndctl.checks.registry import catalogue as passive_checks
from ndctl.checks.texts import nvbandwidth
from ndctl.checks.texts.xids import XIDS
from ndctl.jobs import active, thermals
from ndctl.jobs.active.registry import active_checks
from ndctl.parse.nvidia_trouble import _SAID
from ndctl.workflow.known_checks import known_checks
from tests.checks.finding_ids import Emitted, emitted

ROOT = Path(ndctl.__file__).parent
# Findings that no check of the catalogue makes: of nodes that are silent or missing, and of what tests leave behind.
BESIDE = {"host.present", "host.reachable", "host.asked", "host.answers", "gpu.driver", "job.leftovers"}
FIGURES_OF_SEVERAL = ("clock", "to-device", "to-host")  # Metric.detail of gpu.thermals and gpu.memcpy
# What the reader of sources cannot follow, by file, and what it can be there.
FOLLOWED_BY_HAND = {
    ("gpu_figures.py", "f'{self.check}.{self.detail}-{word}'"): {
        f"{detail}-{word}" for detail in FIGURES_OF_SEVERAL for word in ("slow", "all-slow", "not-confirmed")
    },
    ("nccl_blame.py", "f'{self.asked.check}.{word}'"): {"slow-node", "error-node", "hang-node", "fall-back-node"},
    ("judge_nccl_end.py", "f'{check}.{kind}'"): {
        "correctness", "cut", "gdr", "no-result", "rails", "ranks", "transport",
    },
    ("thermals.py", "f'{CHECK}.{word}'"): set(thermals._CAUSES),
    ("gpu_diag.py", "f'{CHECK}.{word}'"): {"test", "host-engine", "error", "message", "cut", "no-result"},
    ("nvbandwidth.py", "f'{check}.{word}'"): {one[1] for one in nvbandwidth._ERRORS} | {"test", "cut"},
    ("host_settings.py", "f'{_ID}.{what}'"): set(),  # the part before a suffix, see test of the settings
    ("gpu_xid.py", "f'{_ID}.{one.xid}'"): set(),  # XIDs have pages of their own
}  # fmt: skip
# A judge of texts says it, and this check keeps of it what is its own.
FROM_TEXTS = {
    "gpu.health": ("nvidia_smi_xml", lambda id: not id.startswith(("gpu.count", "fabric."))),
    "nvlink.fabric": ("nvidia_smi_xml", lambda id: id.startswith("fabric.")),
    "nvlink.links": ("nvlink_status", lambda id: True),
    "infiniband.ports": ("ib_sysfs", lambda id: "pkey" not in id),
}
_TEXT_ID = re.compile(r"^(?:gpu|fabric|nvlink|infiniband)\.[a-z0-9-]+$")


def _module(package: object, check_id: str, attribute: str) -> Path:
    folder = Path(str(package.__path__[0]))  # type: ignore[attr-defined]
    for source in sorted(folder.glob("*.py")):
        found = getattr(importlib.import_module(f"{package.__name__}.{source.stem}"), attribute, None)  # type: ignore[attr-defined]
        if found is not None and found.id == check_id:
            return source
    raise AssertionError(f"no module has {check_id}")


@cache
def imported(source: Path, room: str) -> frozenset[Path]:
    """The modules of a room that a module imports, through others of that room, itself included."""
    found: set[Path] = set()
    left = [source]
    while left:
        here = left.pop()
        if here in found:
            continue
        found.add(here)
        for node in ast.walk(ast.parse(here.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"ndctl.{room}"):
                parts = str(node.module).split(".")[1:]
                for path in (
                    ROOT.joinpath(*parts).with_suffix(".py"),
                    *(ROOT.joinpath(*parts, f"{n.name}.py") for n in node.names),
                ):
                    if path.is_file():
                        left.append(path)
    return frozenset(found)


@cache
def texts_ids(tool: str) -> frozenset[str]:
    """The ids in the sources of a text's judge, those made of a kind filled in."""
    found: set[str] = set()
    for source in imported(ROOT / "checks" / "texts" / f"{tool}.py", "checks.texts"):
        text = source.read_text(encoding="utf-8")
        found |= {
            node.value
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _TEXT_ID.match(node.value)
        }
        if 'f"gpu.{trouble.kind}"' in text:
            found |= {f"gpu.{kind}" for kind in _SAID}
        if 'f"gpu.{what.lower()}-repair-pending"' in text:
            found |= {"gpu.channel-repair-pending", "gpu.tpc-repair-pending"}
    return frozenset(found)


def _details(check_id: str) -> set[str]:
    return set(pages()[check_id].details) if check_id in pages() else set()


def wanted(check_id: str, source: Path) -> Iterator[str]:
    """Suffixes that a passive check's own module, and the judge of texts behind it, can emit."""
    yield from followed(source)
    if check_id in FROM_TEXTS:
        tool, keep = FROM_TEXTS[check_id]
        for one in texts_ids(tool):
            tail = one.partition(".")[2]
            if keep(one) and not check_id.endswith("." + tail):
                yield tail


def read(source: Path) -> Emitted:
    return emitted(source)


def test_every_check_has_a_page_and_every_page_a_check() -> None:
    ids = {one.id for one in known_checks()}
    assert ids - set(pages()) == set()
    assert set(pages()) - ids == BESIDE


@pytest.mark.parametrize("check_id", [check.id for check in passive_checks()])
def test_every_finding_of_a_passive_check_is_told_on_its_page(check_id: str) -> None:
    source = _module(catalogue, check_id, "CHECK")
    assert check_id in pages(), f"ndctl/checks/pages/{check_id}.yaml is missing"
    lacking = set(wanted(check_id, source)) - set(pages()[check_id].details)
    assert not lacking, f"ndctl/checks/pages/{check_id}.yaml lacks details: {', '.join(sorted(lacking))}"


@pytest.mark.parametrize("check_id", [check.id for check in active_checks()])
def test_a_page_of_an_active_check_tells_what_its_modules_can_say(check_id: str) -> None:
    """Shared modules say more than one check needs: each suffix is told by one of the checks that import it."""
    assert check_id in pages(), f"ndctl/checks/pages/{check_id}.yaml is missing"
    sharers: dict[Path, list[str]] = {}
    for check in active_checks():
        for source in imported(_module(active, check.id, "ACTIVE"), "jobs"):
            sharers.setdefault(source, []).append(check.id)
    lacking = set()
    for source in imported(_module(active, check_id, "ACTIVE"), "jobs"):
        told = {suffix for other in sharers[source] for suffix in _details(other)}
        lacking |= {f"{suffix} ({source.name})" for suffix in followed(source) - told}
    assert not lacking, f"ndctl/checks/pages/{check_id}.yaml lacks details: {', '.join(sorted(lacking))}"
    assert "left-out" in pages()[check_id].details


def followed(source: Path) -> set[str]:
    found = read(source)
    return set(found.suffixes).union(*(FOLLOWED_BY_HAND.get((source.name, one), set()) for one in found.opaque))


def test_what_cannot_be_followed_is_known() -> None:
    """A new way to make an id must be taught to the reader of sources, or named here with what it can be."""
    sources = [*(ROOT / "checks" / "catalogue").glob("*.py"), *(ROOT / "jobs").rglob("*.py")]
    assert {(source.name, one) for source in sources for one in read(source).opaque} <= set(FOLLOWED_BY_HAND)


def test_checks_that_compare_a_rack_tell_both_findings_of_it() -> None:
    comparing = {
        check.id
        for check in passive_checks()
        if "host_equal import" in _module(catalogue, check.id, "CHECK").read_text()
    }
    assert {"host.components", "host.settings"} <= comparing
    for one in comparing:
        told = [suffix.rpartition(".")[2] for suffix in pages()[one].details]
        assert told.count("differs") == told.count("split") > 0, one


def test_every_kind_of_the_kernel_logs_signs_is_told() -> None:
    assert set(pages()["host.kernel"].details) == set(host_kernel.KINDS)


def test_checks_made_of_texts_are_the_ones_named_here() -> None:
    made = {
        match[1] or match[2]
        for source in (ROOT / "checks" / "catalogue").glob("*.py")
        for match in re.finditer(r"node_judge\(\s*(?:\"([a-z.-]+)\"|(_ID))", source.read_text())
        if match
    }
    named = {one for one in made if one != "_ID"}
    assert named <= set(FROM_TEXTS)
    counted = sum(
        len(re.findall(r"\bnode_judge\(", source.read_text()))
        for source in (ROOT / "checks" / "catalogue").glob("*.py")
    )
    assert counted == len(FROM_TEXTS), "a check made of a text's judge must be named in FROM_TEXTS"


def test_xids_of_the_xid_check_have_pages_of_their_own() -> None:
    assert page_of("gpu.xid.149") is not None and 149 in XIDS
