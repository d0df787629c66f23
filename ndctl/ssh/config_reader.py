"""Reading an ssh_config and what it includes into settings, each with the conditions it stands under.

Lines that are not followed are kept as words for a person: `ignored`.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from ndctl.ssh.config_conditions import Condition, host_line, match_line

FOLLOWED = frozenset(
    ("hostname", "user", "port", "identityfile", "proxyjump", "connecttimeout", "userknownhostsfile", "proxycommand")
)
_LINE = re.compile(r"^\s*([A-Za-z0-9]+)(?:\s*=\s*|\s+)(.*?)\s*$")
_BARE = re.compile(r"^\s*([A-Za-z0-9]+)\s*=?\s*$")
_TIME = re.compile(r"(\d+)([smhdw]?)", re.IGNORECASE)
_SHELL_VARIABLE = re.compile(r"\$\{(\w+)\}")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
# What ssh itself bears.
_INCLUDE_DEPTH = 16


@dataclass(frozen=True, slots=True)
class Setting:
    """One line that is followed: its keyword in small letters, its words, what must be met, and "file:line"."""

    keyword: str
    words: tuple[str, ...]
    conditions: tuple[Condition, ...]
    where: str


class ConfigReader:
    """`read` a file; then `settings` in their order, and `ignored`."""

    def __init__(self, home: Path) -> None:
        self.settings: list[Setting] = []
        self.ignored: list[str] = []
        self._home = home
        self._open: list[Path] = []

    def read(self, path: Path, outer: tuple[Condition, ...] = ()) -> None:
        """`outer`: what the Include that names this file stands under; its own Host and Match lines come on top."""
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        except OSError as error:
            self.ignored.append(f"{path} cannot be read: {error.strerror}")
            return
        self._open.append(path.resolve())
        conditions: tuple[Condition, ...] | None = outer
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            where = f"{path}:{number}"
            if (match := _LINE.match(line)) is None or not (words := _words(match[2])):
                bare = _BARE.match(line)
                self.ignored.append(f"{where} {bare[1]} without a value" if bare else f"{where} no keyword and value")
                continue
            keyword = match[1].lower()
            if keyword == "host":
                conditions = (*outer, host_line(words))
            elif keyword == "match":
                asked, never = match_line(words)
                conditions = None if never else (*outer, *asked)
                if never:
                    self.ignored.append(f"{where} Match {match[2]} (its whole block: {never})")
            elif conditions is None:
                continue
            elif keyword == "include":
                for word in words:
                    self._include(word, conditions, where)
            else:
                self._take(match[1], words, conditions, where)
        self._open.pop()

    def _take(self, keyword: str, words: list[str], conditions: tuple[Condition, ...], where: str) -> None:
        lower = keyword.lower()
        if lower not in FOLLOWED:
            self.ignored.append(f"{where} {keyword}")
        elif lower == "port" and not (words[0].isdigit() and 0 < int(words[0]) < 65_536):
            self.ignored.append(f"{where} {keyword} {words[0]} is no port number")
        elif lower == "connecttimeout" and words[0].lower() == "none":
            return  # to ssh as if nothing was said
        elif lower == "connecttimeout" and not seconds_of(words[0]):
            self.ignored.append(f"{where} {keyword} {words[0]} is no time")
        else:
            if lower == "proxycommand" and words[0].lower() != "none":
                self.ignored.append(f"{where} {keyword} (write it as ProxyJump)")
            self.settings.append(Setting(lower, tuple(words), conditions, where))

    def _include(self, word: str, conditions: tuple[Condition, ...], where: str) -> None:
        pattern = expand_path(word, self._home)
        if not pattern.is_absolute():
            pattern = self._home / ".ssh" / pattern
        for name in sorted(glob.glob(str(pattern))):
            path = Path(name)
            if path.resolve() in self._open:
                self.ignored.append(f"{where} Include {word}: {path} is being read already, a loop")
            elif len(self._open) > _INCLUDE_DEPTH:
                self.ignored.append(f"{where} Include {word}: nested more than {_INCLUDE_DEPTH} deep")
            else:
                self.read(path, conditions)


def seconds_of(text: str) -> float | None:
    """Seconds of ssh's time format (90, 90s, 1m30s); None when it is none."""
    parts = _TIME.findall(text)
    if not text or "".join(number + unit for number, unit in parts) != text:
        return None
    return float(sum(int(number) * _UNITS[unit.lower()] for number, unit in parts))


def expand_path(text: str, home: Path) -> Path:
    """`~`, `~user` and `${VARIABLE}` as ssh expands them; a name that cannot be expanded stays."""
    text = _SHELL_VARIABLE.sub(lambda match: _variable(match, home), text)
    if text == "~" or text.startswith("~/"):
        return home / text[2:]
    return Path(os.path.expanduser(text))


def _variable(match: re.Match[str], home: Path) -> str:
    return str(home) if match[1] == "HOME" else os.environ.get(match[1], match[0])


def _words(text: str) -> list[str]:
    """Quotes hold words together; a # begins a comment only where a word would begin."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        words = text.split()
    comment = next((at for at, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:comment]
