"""The part of the user's ssh_config that ndctl follows. What it passes over is listed, so that it can be said.

Read: Host (patterns, negation), HostName, User, Port, IdentityFile, ProxyJump, ConnectTimeout, UserKnownHostsFile,
Include. As in ssh_config(5) the first value found wins, except IdentityFile, which gathers. `Match` blocks other
than `Match all` are passed over whole: a condition that is not understood must not count as met.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

_KEYWORDS = {
    "hostname": "HostName",
    "user": "User",
    "port": "Port",
    "identityfile": "IdentityFile",
    "proxyjump": "ProxyJump",
    "connecttimeout": "ConnectTimeout",
    "userknownhostsfile": "UserKnownHostsFile",
}
_LINE = re.compile(r"^\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*$")
_INCLUDE_DEPTH = 16


@dataclass(frozen=True, slots=True)
class HostConfig:
    """What the file says of one host; empty where it says nothing. `proxy_jump` "none" switches jumping off."""

    host_name: str = ""
    user: str = ""
    port: int = 0
    identity_files: tuple[Path, ...] = ()
    proxy_jump: str = ""
    connect_timeout_s: float = 0.0
    known_hosts: tuple[Path, ...] = ()


@dataclass(slots=True)
class _Block:
    """`patterns` None: applies to every host. An included file keeps the patterns it was included under."""

    conditions: tuple[tuple[str, ...], ...]
    values: list[tuple[str, list[str]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UserConfig:
    """A parsed ssh_config. `ignored` are lines like "~/.ssh/config:12 ForwardAgent"."""

    blocks: tuple[_Block, ...] = ()
    ignored: tuple[str, ...] = ()
    home: Path = Path("/")

    @classmethod
    def load(cls, path: Path, home: Path | None = None) -> UserConfig:
        """Read the file and what it includes; a missing file is an empty configuration."""
        home = home or Path.home()
        reader = _Reader(home)
        reader.read(path, (), depth=0)
        return cls(tuple(reader.blocks), tuple(reader.ignored), home)

    def lookup(self, host: str) -> HostConfig:
        first: dict[str, list[str]] = {}
        identities: list[str] = []
        for block in self.blocks:
            if not all(_matches(patterns, host) for patterns in block.conditions):
                continue
            for keyword, words in block.values:
                if keyword == "identityfile":
                    identities.extend(words[:1])
                else:
                    first.setdefault(keyword, words)
        name = _one(first, "hostname").replace("%h", host).replace("%%", "%")
        return HostConfig(
            host_name=name,
            user=_one(first, "user"),
            port=_number(_one(first, "port")),
            identity_files=tuple(self._path(text) for text in identities if text.lower() != "none"),
            proxy_jump=_one(first, "proxyjump"),
            connect_timeout_s=float(_number(_one(first, "connecttimeout"))),
            known_hosts=tuple(
                self._path(text) for text in first.get("userknownhostsfile", ()) if text.lower() != "none"
            ),
        )

    def _path(self, text: str) -> Path:
        return _expand(text, self.home)


class _Reader:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.blocks: list[_Block] = []
        self.ignored: list[str] = []

    def read(self, path: Path, outer: tuple[tuple[str, ...], ...], depth: int) -> None:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            self.ignored.append(f"{path} cannot be read: {error.strerror}")
            return
        block: _Block | None = self._open(outer)
        for number, line in enumerate(text.splitlines(), start=1):
            match = _LINE.match(line)
            if match is None or line.lstrip().startswith("#"):
                continue
            keyword, words = match[1].lower(), _words(match[2])
            where = f"{path}:{number}"
            if not words:
                self.ignored.append(f"{where} {match[1]} without a value")
            elif keyword == "host":
                block = self._open((*outer, tuple(words)))
            elif keyword == "match":
                block = self._open(outer) if [word.lower() for word in words] == ["all"] else None
                if block is None:
                    self.ignored.append(f"{where} Match {match[2]} (its whole block)")
            elif block is None:
                continue
            elif keyword == "include":
                self._include(words, block.conditions, depth, where)
                block = self._open(block.conditions)
            elif keyword in _KEYWORDS:
                if _wrong_number(keyword, words[0]):
                    self.ignored.append(f"{where} {match[1]} {words[0]} is not a number")
                else:
                    block.values.append((keyword, words))
            else:
                self.ignored.append(f"{where} {match[1]}")

    def _open(self, conditions: tuple[tuple[str, ...], ...]) -> _Block:
        block = _Block(conditions)
        self.blocks.append(block)
        return block

    def _include(self, words: list[str], outer: tuple[tuple[str, ...], ...], depth: int, where: str) -> None:
        if depth >= _INCLUDE_DEPTH:
            self.ignored.append(f"{where} Include nested more than {_INCLUDE_DEPTH} deep")
            return
        for word in words:
            pattern = _expand(word, self.home)
            if not pattern.is_absolute():
                pattern = self.home / ".ssh" / pattern
            for name in sorted(glob.glob(str(pattern))):
                self.read(Path(name), outer, depth + 1)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _matches(patterns: tuple[str, ...], host: str) -> bool:
    """Some pattern fits and no negated one does; only * and ? are special."""
    hit = False
    for pattern in patterns:
        negated = pattern.startswith("!")
        plain = pattern.lstrip("!").lower().replace("[", "[[]")
        if fnmatch.fnmatchcase(host.lower(), plain):
            if negated:
                return False
            hit = True
    return hit


def _wrong_number(keyword: str, word: str) -> bool:
    return keyword in ("port", "connecttimeout") and not word.isdigit() and word.lower() != "none"


def _one(values: dict[str, list[str]], keyword: str) -> str:
    return values[keyword][0] if keyword in values else ""


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _expand(text: str, home: Path) -> Path:
    text = text.replace("%d", str(home))
    if text == "~" or text.startswith("~/"):
        return home / text[2:]
    return Path(os.path.expandvars(text.replace("${HOME}", str(home))))
