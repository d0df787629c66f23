"""Listings of the plain shape are read by a short way, all others by a tolerant one: both must give the same facts."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ndctl.parse import nvidia_smi_xml, nvlink_errors

CAPTURES = Path(__file__).parents[1] / "captures" / "nvidia-smi-xml"
XML = {path.name: path.read_text(errors="replace") for path in sorted(CAPTURES.glob("*.xml"))}
COPIES = 150
# Lines that turn up where they do not belong.
STRAY = (
    "", "foo", "GPU 3: x", "<a>", "</gpu>", "<process_info>", "Link 3: a: 4", "</nvidia_smi_log>", '<gpu id="x">',
    "GPU is lost", " > q", "No devices were found", "<x/>", "<!-- c -->", "<nvidia_smi_log>", "<x>ERR!</x>",
    "\t Link 2: GPU 3: 1", "\tGPU 2: Link 3: 5", "&amp;", "\t Link 1: Symbol Errors: N/A", "<gpu>5</gpu>",
    "\t Link 1: X: 18446744073709551615", "Insufficient Permissions", "\t Link 0: FEC Errors - 3: 1",
)  # fmt: skip

VALUES = (
    "", " ", "N/A", " 5 ", "0x1f", "-3", "1e400", "Yes", "No", "Enabled", "[Not Supported]", "ERR!", "GPU is lost",
    "12 MiB", "&lt;b&gt;", "Unknown Error", "\n\t\tNone\n\t", "é", "\0", "\r", "1 > 0", "Insufficient Permissions",
    "99 W", "7 C", "x" * 300,
)  # fmt: skip


def listing(gpus: int = 2, links: int = 4) -> str:
    lines = []
    for gpu in range(gpus):
        lines.append(f"GPU {gpu}: NVIDIA GB300 (UUID: GPU-0000000{gpu}-7598-4826-8ce4-7b6c53e1a502)")
        for link in range(links):
            told = [f"{way} {what}: {100 * link + gpu}" for way in ("Tx", "Rx") for what in ("packets", "bytes")]
            told += ["Malformed packet Errors: 0", f"Total link recovery events: {link % 2}", "Symbol BER: 15e-255"]
            told += [f"FEC Errors - {number}: {7 * link if number == 0 else 0}" for number in range(16)]
            lines += [f"\t Link {link}: {one}" for one in told]
    return "\n".join(lines) + "\n"


def damaged(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    here, there = chance.randrange(len(lines)), chance.randrange(len(lines))
    at = chance.randrange(len(text) + 1)
    match chance.randrange(8):
        case 0:
            del lines[here]
        case 1:
            lines[here], lines[there] = lines[there], lines[here]
        case 2:
            return text[:at]
        case 3:
            return text[at:]
        case 4:
            lines.insert(here, chance.choice(STRAY))
        case 5:
            return (
                text[:at]
                + chance.choice(["<", ">", "&", "\r", "\x1b[0m", " ", ":", "\n", '"', "^M\n", "’"])
                + text[at:]
            )
        case 6:
            return text[:at] + text[at + chance.randrange(1, 40) :]
        case _:
            lines[here:here] = lines[there : there + 30]
    return "\n".join(lines)


def held_against_the_tolerant_way(
    monkeypatch: pytest.MonkeyPatch, module: object, ways: Sequence[str], text: str, parse: Callable[[str], object]
) -> int:
    """How many of the damaged copies still went the shortest way. ways: the short ones, the shortest first."""
    chance = random.Random(text[:200])
    copies = [text]
    for _ in range(COPIES):
        copy = text
        for _ in range(chance.randrange(1, 3)):
            copy = damaged(copy, chance) or text
        copies.append(copy)
    short = getattr(module, ways[0])
    quick = [(parse(copy), short(copy) is not None) for copy in copies]
    assert quick[0][1], "the undamaged text must go the short way"
    for way in ways:
        monkeypatch.setattr(module, way, lambda source: None)
    for copy, (facts, _) in zip(copies, quick, strict=True):
        assert facts == parse(copy), copy
    return sum(taken for _, taken in quick)


def test_link_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = held_against_the_tolerant_way(
        monkeypatch, nvlink_errors, ["_plain_listing"], listing(), nvlink_errors.parse
    )
    assert 5 < taken < COPIES  # both ways are tried


WHOLE_XML = pytest.mark.parametrize("name", [name for name in XML if "gb" in name])


@WHOLE_XML
@pytest.mark.parametrize("ways", [["_of_a_shape", "_whole_listing"], ["_whole_listing"]])
def test_xml_listings(monkeypatch: pytest.MonkeyPatch, name: str, ways: list[str]) -> None:
    if ways == ["_whole_listing"]:
        monkeypatch.setattr(nvidia_smi_xml, "_of_a_shape", lambda source: None)
    taken = held_against_the_tolerant_way(monkeypatch, nvidia_smi_xml, ways, XML[name], nvidia_smi_xml.parse)
    assert 5 < taken < COPIES


@WHOLE_XML
def test_other_values_of_the_same_shape(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each value goes to its own place, whatever it is."""
    chance = random.Random(name)
    nvidia_smi_xml.parse(XML[name])  # its shape is known from here on

    def other(match: re.Match[str]) -> str:
        among = chance.random()
        figure = match[2] if among < 0.5 else str(chance.randrange(10**6))
        return f"{match[1]}{chance.choice(VALUES) if among > 0.997 else figure}{match[3]}"

    copies = [re.sub(r"""(>|id=")([^<>&"\n]+)(</|">)""", other, XML[name]) for _ in range(40)]
    quick = [(nvidia_smi_xml.parse(copy), nvidia_smi_xml._of_a_shape(copy) is not None) for copy in copies]
    assert sum(taken for _, taken in quick) > 5
    monkeypatch.setattr(nvidia_smi_xml, "_of_a_shape", lambda source: None)
    monkeypatch.setattr(nvidia_smi_xml, "_whole_listing", lambda source: None)
    for copy, (facts, _) in zip(copies, quick, strict=True):
        assert facts == nvidia_smi_xml.parse(copy), copy


def test_a_shape_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = next(iter(XML[name] for name in XML if "gb300" in name))
    nvidia_smi_xml._shape.cache_clear()
    for serial in ("1650000000001", "1650000000002", "1650000000003"):
        facts = nvidia_smi_xml.parse(re.sub(r"<serial>\w+</serial>", f"<serial>{serial}</serial>", text))
        assert {gpu.serial for gpu in facts.gpus} == {serial}
    assert nvidia_smi_xml._shape.cache_info().misses == 1


def test_both_ways_read_every_counter_of_a_link() -> None:
    facts = nvlink_errors.parse(listing())
    assert [len(gpu.links) for gpu in facts.gpus] == [4, 4]
    link = facts.gpus[1].links[3]
    assert link.counters == {"Malformed packet Errors": 0, "Total link recovery events": 1}
    assert link.fec[:2] == (21, 0) and len(link.fec) == 16
