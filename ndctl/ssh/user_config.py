"""The part of the user's ssh_config that ndctl follows. What it passes over is listed, so that it can be said.

Read: Host, Match (`config_conditions`), Include, HostName, User, Port, IdentityFile, ProxyJump, ConnectTimeout,
UserKnownHostsFile, with their tokens. As in ssh_config(5) the first value found wins, except IdentityFile, which
gathers. A ProxyCommand is not run; where it would count, the answer names its line.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ndctl.ssh.config_conditions import Asked
from ndctl.ssh.config_reader import ConfigReader, Setting, expand_path, seconds_of

_TOKEN = re.compile(r"%(.)")


@dataclass(frozen=True, slots=True)
class HostConfig:
    """What the file says of one host; empty where it says nothing. `proxy_jump` "none" switches jumping off.

    unfollowed: the place of a ProxyCommand that ssh would use for this host and ndctl does not
    """

    host_name: str = ""
    user: str = ""
    port: int = 0
    identity_files: tuple[Path, ...] = ()
    proxy_jump: str = ""
    connect_timeout_s: float = 0.0
    known_hosts: tuple[Path, ...] = ()
    unfollowed: str = ""


@dataclass(frozen=True, slots=True)
class UserConfig:
    """A parsed ssh_config. `ignored` are lines like "~/.ssh/config:12 ForwardAgent"."""

    settings: tuple[Setting, ...] = ()
    ignored: tuple[str, ...] = ()
    home: Path = Path("/")
    local_user: str = ""

    @classmethod
    def load(cls, path: Path, home: Path | None = None) -> UserConfig:
        """Read the file and what it includes; a missing file is an empty configuration."""
        home = home or Path.home()
        reader = ConfigReader(home)
        reader.read(path)
        return cls(tuple(reader.settings), tuple(reader.ignored), home, _local_user())

    def lookup(self, host: str, *, user: str = "", port: int = 0, else_user: str = "") -> HostConfig:
        """What the file says of a host asked for by this name.

        user, port: given already (as by `ssh -l`, `-p`): they beat the file's, and conditions and tokens see them
        else_user:  who logs in when neither says
        """
        found = _Found(host, user)
        for setting in self.settings:
            if all(condition.met(found.asked(else_user, self.local_user)) for condition in setting.conditions):
                found.take(setting)
        values = found.values
        name = found.host_name()
        who = user or _one(values, "user")
        known_port = port or _number(_one(values, "port"))
        tokens = {
            "h": name or host,
            "n": host,
            "k": host,
            "p": str(known_port or 22),
            "r": who or else_user or self.local_user,
        }
        own = {"d": str(self.home), "i": str(os.getuid()), "u": self.local_user, **_machine()}
        return HostConfig(
            host_name=name,
            user=_one(values, "user"),
            port=_number(_one(values, "port")),
            identity_files=tuple(
                dict.fromkeys(self._path(text, tokens | own) for text in found.identities if text.lower() != "none")
            ),
            proxy_jump=_with_tokens(_one(values, "proxyjump"), tokens),
            connect_timeout_s=seconds_of(_one(values, "connecttimeout")) or 0.0,
            known_hosts=tuple(
                self._path(text, tokens | own)
                for text in values.get("userknownhostsfile", ())
                if text.lower() != "none"
            ),
            unfollowed=found.unfollowed,
        )

    def _path(self, text: str, tokens: Mapping[str, str]) -> Path:
        return expand_path(_with_tokens(text, tokens), self.home)


@dataclass(slots=True)
class _Found:
    """What has been found for one host so far; conditions further down look at it."""

    original: str
    user: str
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    identities: list[str] = field(default_factory=list)
    unfollowed: str = ""

    def asked(self, else_user: str, local_user: str) -> Asked:
        user = self.user or _one(self.values, "user") or else_user or local_user
        return Asked(self.original, self.host_name() or self.original, user, local_user)

    def host_name(self) -> str:
        return _with_tokens(_one(self.values, "hostname"), {"h": self.original}).lower()

    def take(self, setting: Setting) -> None:
        if setting.keyword == "identityfile":
            self.identities.extend(setting.words[:1])
        elif setting.keyword == "proxycommand":
            # ProxyJump and ProxyCommand compete: the one that stands first counts.
            if "proxyjump" not in self.values and setting.words[0].lower() != "none":
                self.unfollowed = self.unfollowed or setting.where
                self.values["proxyjump"] = ()
        else:
            self.values.setdefault(setting.keyword, setting.words)


def _with_tokens(text: str, tokens: Mapping[str, str]) -> str:
    """%h and its like; one that is not among `tokens` stays as it is."""
    return _TOKEN.sub(lambda match: "%" if match[1] == "%" else tokens.get(match[1], match[0]), text)


@cache
def _machine() -> Mapping[str, str]:
    name = socket.gethostname()
    return {"L": name.partition(".")[0], "l": name}


def _local_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _one(values: Mapping[str, tuple[str, ...]], keyword: str) -> str:
    return values[keyword][0] if values.get(keyword) else ""


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
