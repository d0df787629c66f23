"""A node's kernel log: XIDs and SXIDs, links that went down, other signs of faults: each an event with its time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from ndctl.parse.kernel_signs import SIGNS, Sign
from ndctl.parse.log_lines import LogLine, numbered, undress
from ndctl.parse.tidy import straight

_XID = re.compile(
    r"\bXid ?\((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{5,20})(?: [^)]{0,40})?\):? ?(?P<xid>\d{1,4})\b,?\s*(?P<text>.*)$"
)
_SXID = re.compile(r"\bSXid ?\((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{5,20})\):? ?(?P<sxid>\d{1,6})\b,?\s*(?P<text>.*)$")
_SXID_HEAD = re.compile(
    r"^(?P<severity>Fatal|Non-fatal|Nonfatal)\b,?\s*(?:Link (?P<link>\d{1,3})\b)?\s*", re.IGNORECASE
)
_PID = re.compile(r"\bpid=(?:'([^']{0,40})'|(\d{1,12})|<unknown>)")
_NVLINK5 = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9]{1,12}(?:_[A-Z0-9]{1,16}){0,4})\s+(?P<severity>Non-?fatal|Fatal)\s+(?P<path>XC\d)\s+i(?P<injected>\d+)"
    r"\s+Link\s+(?P<link>-?\d{1,3})\s*(?:\((?P<words>0x[^)]*)\)?)?",
    re.IGNORECASE,
)
_RECOVERY = re.compile(
    r"recovery action changed from 0x([0-9a-f]+) ?\(([^)]*)\) to 0x([0-9a-f]+) ?\(([^)]*)\)?", re.IGNORECASE
)
_FELL_OFF = re.compile(r"fallen off the bus|GPU is lost", re.IGNORECASE)
_PCI_ANYWHERE = re.compile(r"\b((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\b")
_DOWN = re.compile(
    r"(?P<name>\b[A-Za-z][\w.-]{0,30}): (?:(?:NIC )?Link (?:is )?Down|Lost carrier|link down)\b"
    r"|(?P<core>mlx5_core [0-9a-fA-F:.]{7,16}(?: (?P<netdev>[\w.-]{1,30}))?): (?:Port: ?\d+ )?Link down\b"
    r"|(?P<ib>\bmlx5_\w{1,20}|\bib\w{1,20})[: ]{1,2}(?:Port:? ?\d+[: ]{1,2})?Link DOWN\b",
    re.IGNORECASE,
)
# Interfaces of containers and bridges come and go with their containers.
_VIRTUAL = re.compile(
    r"^(?:cali|veth|lxc|cilium|docker|br-|virbr|tap|tun|vnet|flannel|cni|nodelocaldns|kube|dummy|ovs)", re.IGNORECASE
)
_PROMPT = re.compile(r"Operation not permitted|No journal files were found|-- No entries --", re.IGNORECASE)
_MOST = 20_000
_MOST_LOST = 256
_Kept = TypeVar("_Kept")
_KEYWORDS = ("xid", "fallen off the bus", "gpu is lost", "lost carrier", "link down", "link is down")


@dataclass(frozen=True, slots=True)
class NvlinkEvent:
    """The words of XID 144 to 150. link is None where the event is not of one link; reason is of a link-down event.

    words: the registers as printed; the first is the interrupt information, the second the error status.
    """

    unit: str
    severity: str
    link: int | None
    injected: bool
    words: tuple[int, ...] = ()
    reason: int | None = None


@dataclass(frozen=True, slots=True)
class XidEvent:
    """pci: as printed, lower case. recovery: the action XID 154 ends with."""

    xid: int
    pci: str
    text: str
    time: str
    seconds: float | None = None
    host: str = ""
    pid: str = ""
    nvlink: NvlinkEvent | None = None
    recovery: str | None = None


@dataclass(frozen=True, slots=True)
class SxidEvent:
    """severity: fatal · non-fatal · "" where the line has none."""

    sxid: int
    pci: str
    severity: str
    link: int | None
    text: str
    time: str


@dataclass(frozen=True, slots=True)
class LinkFlap:
    """A link that went down. device: the interface, or the adapter's PCI address."""

    device: str
    time: str
    text: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """Any other sign of a fault. kind: a name of `kernel_signs`; subject: the part named in the line."""

    kind: str
    subject: str
    text: str
    time: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class KernelLog:
    """lines: how many the text has; shaped: how many of those looked at have the dress of a kernel log.

    booted: seconds of the kernel's first line where the log begins with it, on the clock of the events.
    pstore: raw records with a priority, as crash records are kept.
    """

    xids: tuple[XidEvent, ...] = ()
    sxids: tuple[SxidEvent, ...] = ()
    link_flaps: tuple[LinkFlap, ...] = ()
    fell_off_bus: tuple[str, ...] = ()
    events: tuple[KernelEvent, ...] = ()
    lines: int = 0
    shaped: int = 0
    booted: float | None = None
    pstore: bool = False
    problems: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def parse(text: str, stderr: str = "") -> KernelLog:
    """Time is linear in the text's length. Never raises."""
    source = straight(text)
    reading = _Reading()
    keywords = (*_KEYWORDS, *(sign.keyword for sign in SIGNS))
    for begin, end in numbered(source, tuple(dict.fromkeys(keywords))):
        reading.line(undress(source[begin:end].rstrip()))
    lines = _sample(source)
    sample = [undress(line, timed=False) for line in lines]
    return KernelLog(
        xids=tuple(reading.xids.values()),
        sxids=tuple(reading.sxids.values()),
        link_flaps=tuple(reading.flaps.values()),
        fell_off_bus=tuple(reading.fell_off),
        events=tuple(reading.events.values()),
        lines=source.count("\n") + 1 if source.strip() else 0,
        shaped=sum(1 for line in sample if line.shaped),
        booted=next((undress(raw).seconds for raw, s in zip(lines[:20], sample, strict=False) if _boots(s)), None),
        pstore=bool(sample) and sum(1 for line in sample if line.pstore) > 0.8 * len(sample),
        problems=_problems(reading, f"{source[:4000]}\n{stderr}"),
    )


def _boots(line: LogLine) -> bool:
    return "Linux version" in line.text or "Booting Linux" in line.text


def _sample(source: str) -> list[str]:
    head, tail = source[:40_000], source[-40_000:] if len(source) > 80_000 else source[40_000:]
    return [line for part in (head, tail) for line in part.split("\n") if line.strip()][:2000]


def _problems(reading: _Reading, ends: str) -> tuple[str, ...]:
    found = [match[0] for match in _PROMPT.finditer(ends)][:3]
    if reading.overflow:
        found.append(f"only the first {_MOST} events of a kind are kept")
    return tuple(dict.fromkeys(found))


class _Reading:
    """Collects events; the same line twice (dmesg and journal in one text) counts once."""

    def __init__(self) -> None:
        self.xids: dict[tuple[str, ...], XidEvent] = {}
        self.sxids: dict[tuple[str, ...], SxidEvent] = {}
        self.flaps: dict[tuple[str, ...], LinkFlap] = {}
        self.events: dict[tuple[str, str], KernelEvent] = {}
        self.fell_off: dict[str, None] = {}
        self.overflow = False

    def line(self, line: LogLine) -> None:
        lowered = line.text.lower()  # a word tells at once what a pattern would take its time to find
        numbered = "xid" in lowered
        sxid = _SXID.search(line.text) if numbered else None
        xid = _XID.search(line.text) if numbered and not sxid else None
        if sxid:
            self._sxid(sxid, line)
        elif xid:
            self._xid(xid, line)
        if _FELL_OFF.search(lowered):
            pci = xid["pci"] if xid else _first_pci(line.text)
            self._fell(pci)
        if sxid or xid:
            return
        down = _DOWN.search(line.text) if "down" in lowered or "lost carrier" in lowered else None
        if down:
            self._flap(down, line)
        for sign in SIGNS:
            if sign.matches(line.text, lowered):
                self._event(sign, line)
                break

    def _fell(self, pci: str) -> None:
        known = any(_same_device(pci, other) for other in self.fell_off)
        if not known and len(self.fell_off) < _MOST_LOST:
            self.fell_off[pci.lower()] = None

    def _xid(self, match: re.Match[str], line: LogLine) -> None:
        text = match["text"].strip()
        pid = _PID.search(text)
        recovery = _RECOVERY.search(text)
        number = int(match["xid"])
        event = XidEvent(
            xid=number,
            pci=match["pci"].lower(),
            text=text[:1000],
            time=line.time,
            seconds=line.seconds,
            host=line.host,
            pid=(pid[1] or pid[2] or "") if pid else "",
            nvlink=_nvlink(text) if 144 <= number <= 150 else None,
            recovery=_action(recovery) if recovery else _bracketed(text) if number == 154 else None,
        )
        self._keep(self.xids, (str(number), event.pci, text, line.time, line.host), event)

    def _sxid(self, match: re.Match[str], line: LogLine) -> None:
        text = match["text"].strip()
        head = _SXID_HEAD.match(text)
        severity = head["severity"].lower().replace("nonfatal", "non-fatal") if head else ""
        link = int(head["link"]) if head and head["link"] else None
        event = SxidEvent(int(match["sxid"]), match["pci"].lower(), severity, link, text[:1000], line.time)
        self._keep(self.sxids, (match["sxid"], event.pci, text, line.time), event)

    def _flap(self, match: re.Match[str], line: LogLine) -> None:
        device = match["netdev"] or match["core"] or match["ib"] or match["name"] or ""
        device = device.removeprefix("mlx5_core ")
        if _VIRTUAL.match(device):
            return
        self._keep(
            self.flaps,
            (device, line.time, line.text),
            LinkFlap(device, line.time, line.text.strip()[:300], line.seconds),
        )

    def _event(self, sign: Sign, line: LogLine) -> None:
        subject = sign.subject(line.text)
        key = (sign.kind, subject)
        before = self.events.get(key)
        if before is not None:
            self.events[key] = KernelEvent(before.kind, before.subject, before.text, before.time, before.count + 1)
        elif len(self.events) < _MOST:
            self.events[key] = KernelEvent(sign.kind, subject, line.text.strip()[:300], line.time)
        else:
            self.overflow = True

    def _keep(self, kept: dict[tuple[str, ...], _Kept], key: tuple[str, ...], event: _Kept) -> None:
        if len(kept) < _MOST:
            kept.setdefault(key, event)
        else:
            self.overflow = True


def _action(match: re.Match[str]) -> str:
    """The words of the new action; code 0 is None, however its word was cut."""
    return "None" if int(match[3], 16) == 0 else match[4].strip()


def _first_pci(text: str) -> str:
    match = _PCI_ANYWHERE.search(text)
    return match[1].lower() if match else ""


def _same_device(one: str, other: str) -> bool:
    """`0000:05:00` and `05:00.0` name one device; an empty name is any."""
    a, b = _slot(one), _slot(other)
    return not a or not b or a.endswith(b) or b.endswith(a)


def _slot(pci: str) -> str:
    return re.sub(r"\.[0-7]$", "", pci.lower()).removeprefix("0000:").removeprefix("0000")


def _bracketed(text: str) -> str | None:
    """The action in brackets of an XID 154 said in other words."""
    found = re.findall(r"\(([A-Za-z][A-Za-z0-9 ]{2,40})\)", text)
    return found[-1] if found else None


# Low bits of the interrupt information of a link-down event: driver forms before and since R575.
_LINK_DOWN_V1, _LINK_DOWN_V2 = 0b0111000110, 0b0010001


def _nvlink(text: str) -> NvlinkEvent | None:
    match = _NVLINK5.search(text)
    if not match:
        return None
    words = tuple(int(word, 16) for word in re.findall(r"0x([0-9a-fA-F]{1,8})\b", match["words"] or ""))
    link = int(match["link"])
    reason = None
    if words and (words[0] & 0x3FF == _LINK_DOWN_V1 or words[0] & 0x7F == _LINK_DOWN_V2):
        reason = (words[0] >> 20) & 0x3F
    return NvlinkEvent(
        unit=match["unit"].upper(),
        severity="fatal" if match["severity"].lower() == "fatal" else "non-fatal",
        link=link if link >= 0 else None,
        injected=match["injected"] != "0",
        words=words,
        reason=reason,
    )
