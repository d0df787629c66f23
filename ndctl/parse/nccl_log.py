"""NCCL's own INFO and WARN lines inside a test's output: transport, NVLink domain, settings, complaints.

Wording facts: NVIDIA/nccl `src/transport`, `src/mnnvl.cc`, `src/init.cc` of 2.9 to 2.30, and captured logs.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

# host:pid:tid [device] file.cc:line NCCL LEVEL message, at times behind a time stamp, at times glued to a torn row
_LEVEL = re.compile(r" NCCL (INFO|WARN|ERROR|ABORT|TRACE|CALL|VERSION)(?: |$)")
_SPEAKER = re.compile(
    r"(?:\[[\d: .,TZ+-]{8,40}\] )?([\w.{}-]{1,100}):(\d{1,10}):(\d{1,10}) \[(-?\d{1,4})\]"
    r"(?: \S{1,80}:\d{1,6})?(?: \([^()]{0,80}\))?$"
)
_ROOT_GLUED = re.compile(r"(\s-?\d{1,3})(?=[A-Za-z_{][\w.{}-]{0,99}:\d+:\d+ \[-?\d+\])")
_CHANNEL = re.compile(r"Channel \d+(?:/\d+)? : .{1,60}? via (\S+)")
_MNNVL_GPU = re.compile(
    r"MNNVL busId (0x)?([0-9a-fA-F]{1,16}) fabric UUID (\S{1,80}) cliqueId 0x([0-9a-fA-F]{1,16}) "
    r"state (\d{1,4}) healthMask 0x([0-9a-fA-F]{1,8})"
)
_MNNVL_CLIQUE = re.compile(r"MNNVL ([01]) cliqueId ([0-9a-fA-F]{1,16}) cliqueSize (\d{1,6})")
_COMM = re.compile(r"\brank \d{1,6} n[rR]anks (\d{1,6})(?: nNodes (\d{1,6}))?")
_COMM_MNNVL = re.compile(r"localRank \d{1,6} MNNVL ([01])")
_ENV = re.compile(r"\b(NCCL_\w{1,80}) set by environment to (.{0,200}?)\.?$")
_IB_DEVICES = re.compile(r"\[(\d{1,3})\](\w{1,40}):\d{1,3}/(?:IB|RoCE)")
_MERGED = re.compile(r"Made virtual device \[(\d{1,3})\] name=(\S{1,160})")
_GDR = re.compile(r"\bGDR ([01])\b")
_VERSION = re.compile(r"NCCL version (\S{1,60})")


@dataclass(frozen=True, slots=True)
class FabricGpu:
    """One GPU's NVLink fabric registration as NCCL prints it. Clique and mask are numbers, the UUID is text."""

    host: str
    bus_id: str
    uuid: str
    clique: int
    state: int
    health_mask: int


@dataclass(slots=True)
class NcclLog:
    """What NCCL said of itself, gathered over all ranks."""

    version: str | None = None
    network: str | None = None  # what "Using network X" says: chosen plugin, no proof that data went over it
    paths: Counter[str] = field(default_factory=Counter)  # "P2P/MNNVL", "NET/IB", ... -> channel lines
    rails: set[str] = field(default_factory=set)  # NET/IB device numbers that channels use
    ib_devices: set[str] = field(default_factory=set)
    ib_numbers: dict[str, dict[str, str]] = field(default_factory=dict)  # host -> number NCCL gave -> device
    ib_merged: dict[str, dict[str, str]] = field(default_factory=dict)  # the same of several ports as one device
    rails_of: dict[str, set[str]] = field(default_factory=dict)  # host -> numbers its channels use
    gdr: set[bool] = field(default_factory=set)
    nvls: bool | None = None
    without_nvls: set[str] = field(default_factory=set)
    mnnvl: bool | None = None
    clique_size: int | None = None
    fabric: dict[tuple[str, str], FabricGpu] = field(default_factory=dict)
    ranks: int | None = None
    nodes: int | None = None
    env: dict[str, str] = field(default_factory=dict)
    speakers: set[tuple[str, str]] = field(default_factory=set)  # (host, pid)
    warnings: Counter[str] = field(default_factory=Counter)  # message -> times, in order of appearance
    warned_by: dict[str, set[str]] = field(default_factory=dict)
    lines: int = 0

    @property
    def transport(self) -> str | None:
        """The farthest-reaching path that channels use: what bounds the figure. None where no channel is shown."""
        for prefix in ("NET/Socket", "NET/", "COLLNET", "P2P/MNNVL", "P2P", "SHM"):
            fitting = [name for name in self.paths if name.startswith(prefix)]
            if fitting:
                return max(fitting, key=lambda name: (self.paths[name], name))
        return None

    @property
    def hosts(self) -> set[str]:
        return {host for host, _ in self.speakers}

    def split(self, line: str) -> tuple[str, str, str, str] | None:
        """(what stood before, host, level, message) of an NCCL line, None for any other."""
        level = _LEVEL.search(line)
        if level is None:
            return None
        before = line[: level.start()]
        tail = before[-420:]
        glued = _ROOT_GLUED.search(tail)
        if glued:
            tail = f"{tail[: glued.end(1)]} {tail[glued.end(1) :]}"
        speaker = _SPEAKER.search(tail)
        host = speaker[1] if speaker else ""
        if speaker:
            self.speakers.add((host, speaker[2]))
        rest = before[:-420] + (tail[: speaker.start()] if speaker else tail)
        return rest, host, level[1], line[level.end() :]

    def take(self, host: str, level: str, message: str) -> None:
        self.lines += 1
        if level in ("WARN", "ERROR", "ABORT"):
            text = message.strip()
            self.warnings[text] += 1
            self.warned_by.setdefault(text, set()).add(host)
        self.take_text(message, host)

    def take_text(self, message: str, host: str = "") -> None:
        """Facts of a message; also of excerpts that lost their speaker."""
        if " via " in message:
            for channel in _CHANNEL.finditer(message):
                self._path(channel[1], host)
        if "MNNVL" in message:
            self._mnnvl(message, host)
        if "anks " in message and (comm := _COMM.search(message)):
            self.ranks = max(self.ranks or 0, int(comm[1]))
            if comm[2]:
                self.nodes = max(self.nodes or 0, int(comm[2]))
        if " set by environment to " in message and (setting := _ENV.search(message)):
            self.env[setting[1]] = setting[2].strip()
        if "NVLS multicast support is" in message:
            available = "not available" not in message
            # One rank without it is enough: the multicast needs all.
            self.nvls = available and self.nvls is not False
            if not available:
                self.without_nvls.add(host)
        if "Using network " in message:
            self.network = next(iter(message.split("Using network ", 1)[1].split()), None)
        if "NET/IB" in message and ": Using" in message:
            devices = dict(_IB_DEVICES.findall(message))
            self.ib_devices.update(devices.values())
            self.ib_numbers.setdefault(host, {}).update(devices)
        if "Made virtual device" in message and (merged := _MERGED.search(message)):
            # Ports of one card as one device, "mlx5_0+mlx5_1": it is listed beside its parts.
            self.ib_merged.setdefault(host, {})[merged[1]] = merged[2]
        if "GDR " in message and ("Connected all" in message or "use ring" in message):
            self.gdr.update(found == "1" for found in _GDR.findall(message))
        if self.version is None and "NCCL version" in message and (version := _VERSION.search(message)):
            self.version = version[1]

    def _path(self, raw: str, host: str) -> None:
        parts = raw.rstrip(".,;").split("/")
        if parts[0] == "NET" and len(parts) > 1:
            plugin = "IB" if parts[1].upper().startswith("IB") else parts[1]
            self.paths[f"NET/{plugin}"] += 1
            if plugin == "IB" and len(parts) > 2:
                number = parts[2].partition("(")[0]
                self.rails.add(number)
                self.rails_of.setdefault(host, set()).add(number)
            if plugin == "IB":
                self.gdr.add(any(part.upper().startswith("GDR") for part in parts[2:]))
        else:
            self.paths["/".join(parts[:2])] += 1

    def _mnnvl(self, message: str, host: str) -> None:
        if match := _MNNVL_GPU.search(message):
            bus = match[2].lower()
            self.fabric[(host, bus)] = FabricGpu(
                host, bus, match[3], int(match[4], 16), int(match[5]), int(match[6], 16)
            )
        if match := _MNNVL_CLIQUE.search(message):
            self.mnnvl = match[1] == "1" or bool(self.mnnvl)
            self.clique_size = max(self.clique_size or 0, int(match[3]))
        elif match := _COMM_MNNVL.search(message):
            self.mnnvl = match[1] == "1" or bool(self.mnnvl)
