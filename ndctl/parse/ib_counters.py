"""Counters as infiniband-diags print them: `perfquery` and `ibqueryerrors`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ndctl.parse.figures import whole
from ndctl.parse.tidy import tidy_lines

_PERF_HEAD = re.compile(r"# Port (?:extended )?counters: (?P<where>.{0,120}?)(?:\(CapMask|$)", re.IGNORECASE)
_PERF_LINE = re.compile(r"^\s*(?P<name>[A-Za-z]\w{2,60}):\.*\s*(?P<value>0x[0-9a-fA-F]+|\d{1,30}|N/A)\s*$")
_ERRORS_HEAD = re.compile(r"^\s*Errors for (?P<guid>0x[0-9a-fA-F]{1,16})? ?\"?(?P<name>[^\"]{0,120})\"?")
_ERRORS_PORT = re.compile(r"GUID (?P<guid>0x[0-9a-fA-F]{1,16}) port (?P<port>\d{1,4}|ALL): ?(?P<rest>.*)$")
_ERRORS_ITEM = re.compile(r"\[(?P<name>[A-Za-z]\w{2,60}) == (?P<value>\d{1,30})(?: \([^)\]]{0,40}\))?\]")
_SUMMARY = re.compile(r"##\s*(?:Summary: )?(?P<all>\d{1,9}) (?P<what>nodes|ports) checked, (?P<bad>\d{1,9}) ")
_FAILED = re.compile(r"query failed|ibwarn:|iberror:|ibpanic:|\bfailed:|Permission denied|can't", re.IGNORECASE)
_COUNTER_NAME = re.compile(
    r"Counter|Error|Discard|Downed|Data|Pkts|Packets|Wait|Overrun|Dropped|Recover|^(?:Xmt|Rcv|Port)"
)
_NOT_COUNTERS = {"PortSelect", "CounterSelect", "CounterSelect2"}


@dataclass(frozen=True, slots=True)
class CountedPort:
    where: str
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IbCounters:
    """checked, bad: nodes and ports as the summary of ibqueryerrors counts them."""

    ports: tuple[CountedPort, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)
    bad: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> IbCounters:
    """Never raises."""
    ports: list[tuple[str, dict[str, int]]] = []
    checked: dict[str, int] = {}
    bad: dict[str, int] = {}
    errors: list[str] = []
    node = ""
    for line in tidy_lines(f"{text}\n{stderr}"):
        if _FAILED.search(line):
            errors.append(line.strip()[:300])
            continue
        perf_head, perf = _PERF_HEAD.search(line), _PERF_LINE.match(line)
        head, port, summary = _ERRORS_HEAD.match(line), _ERRORS_PORT.search(line), _SUMMARY.search(line)
        if summary:
            checked[summary["what"]], bad[summary["what"]] = int(summary["all"]), int(summary["bad"])
        elif perf_head:
            ports.append((perf_head["where"].strip(), {}))
        elif port:
            items = {m["name"]: int(m["value"]) for m in _ERRORS_ITEM.finditer(port["rest"])}
            ports.append((f"{node or port['guid']} port {port['port']}", items))
        elif head:
            node = (head["name"] or head["guid"] or "").strip()
        elif perf:
            if not ports and _COUNTER_NAME.search(perf["name"]):
                ports.append(("port", {}))
            if not ports:
                continue
            value = whole(perf["value"])
            if value is not None and perf["name"] not in _NOT_COUNTERS and _COUNTER_NAME.search(perf["name"]):
                ports[-1][1][perf["name"]] = value
    return IbCounters(
        ports=tuple(CountedPort(where, counters) for where, counters in ports),
        checked=checked,
        bad=bad,
        errors=tuple(errors[:50]),
    )
