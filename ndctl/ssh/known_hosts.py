"""known_hosts files as an index: read once, looked up in constant time, never added to by a connection.

Format: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT". Kept from OpenSSH's behaviour: names compare without case; a host on
another port than 22 is `[host]:port`, and a key known for the bare host is accepted for it; `@revoked` beats all.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Trust(StrEnum):
    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"
    AUTHORITY_ONLY = "authority-only"  # only @cert-authority lines name this host


@dataclass(frozen=True, slots=True)
class HostKey:
    """One key: its type as the file names it, its public blob, and the line it came from ("file:line")."""

    kind: str
    blob: bytes
    where: str = ""

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.blob)

    def line(self, name: str) -> str:
        return f"{name} {self.kind} {base64.b64encode(self.blob).decode()}"


def fingerprint(blob: bytes) -> str:
    """SHA256:… as `ssh-keygen -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def host_name(host: str, port: int) -> str:
    """The name a host has in known_hosts."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


@dataclass(slots=True)
class _Names:
    """Keys by plain name, by hashed name and by pattern, for one marker."""

    plain: dict[str, list[HostKey]] = field(default_factory=dict)
    hashed: list[tuple[bytes, bytes, HostKey]] = field(default_factory=list)
    patterns: list[tuple[list[tuple[bool, re.Pattern[str]]], HostKey]] = field(default_factory=list)
    found: dict[str, list[HostKey]] = field(default_factory=dict)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def quick(self, name: str) -> list[HostKey]:
        found = list(self.plain.get(name, ()))
        for tests, key in self.patterns:
            if _pattern_matches(tests, name):
                found.append(key)
        return found

    def slow(self, name: str) -> list[HostKey]:
        """Hashed names: one HMAC per line, so only asked when the quick way gave no answer, and once per name.

        A hash is of one name only, so a line that was found is not looked at for any other.
        """
        with self.turn:
            if name in self.found or not self.hashed:
                return self.found.get(name, [])
            encoded = name.encode()
            found, others = [], []
            for line in self.hashed:
                salt, digest, key = line
                if hmac.digest(salt, encoded, "sha1") == digest:
                    found.append(key)
                else:
                    others.append(line)
            if found:
                self.hashed = others
            self.found[name] = found
            return found

    def all(self, name: str) -> list[HostKey]:
        return self.quick(name) + self.slow(name)


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """An index over several files. `problems` are lines that could not be used, as "file:line why"."""

    keys: _Names
    revoked: _Names
    authorities: _Names
    files: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def load(cls, files: Iterable[Path]) -> KnownHosts:
        """Read the files that exist; one that cannot be read is a problem, not an exception."""
        paths = tuple(files)
        keys, revoked, authorities = _Names(), _Names(), _Names()
        problems: list[str] = []
        for path in paths:
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except FileNotFoundError:
                continue
            except OSError as error:
                problems.append(f"{path} cannot be read: {error.strerror}")
                continue
            for number, line in enumerate(text.splitlines(), start=1):
                words = line.split()
                if not words or words[0].startswith("#"):
                    continue
                where = f"{path}:{number}"
                marker = words.pop(0) if words[0].startswith("@") else ""
                target = {"": keys, "@revoked": revoked, "@cert-authority": authorities}.get(marker)
                if target is None:
                    problems.append(f"{where} unknown marker {marker}")
                    continue
                why = _add(target, words, where)
                if why:
                    problems.append(f"{where} {why}")
        return cls(keys, revoked, authorities, paths, tuple(problems))

    def expected(self, host: str, port: int = 22) -> list[HostKey]:
        """The keys a host may show, the best first guess: hashed lines are searched only when no other line fits."""
        for name in _names_of(host, port):
            found = self.keys.quick(name) or self.keys.slow(name)
            if found:
                return found
        return []

    def judge(self, host: str, port: int, kind: str, blob: bytes) -> tuple[Trust, list[HostKey]]:
        """What to think of a key a host showed, and the keys that were expected instead."""
        names = _names_of(host, port)
        if any(key.blob == blob for name in names for key in self.revoked.all(name)):
            return Trust.REVOKED, []
        own = self.keys.quick(names[0])
        if any(key.blob == blob for key in own):
            return Trust.KNOWN, []
        own = own + self.keys.slow(names[0])
        if any(key.blob == blob for key in own):
            return Trust.KNOWN, []
        if own:
            same_kind = [key for key in own if key.kind == kind]
            return Trust.CHANGED, same_kind or own
        # Keys of the bare host are another server's when it listens on another port: a match is welcome where this
        # port has no key of its own, a difference says nothing.
        if any(key.blob == blob for name in names[1:] for key in self.keys.all(name)):
            return Trust.KNOWN, []
        if any(self.authorities.all(name) for name in names):
            return Trust.AUTHORITY_ONLY, []
        return Trust.UNKNOWN, []


def parse_public_keys(text: str) -> list[HostKey]:
    """Host keys from public key lines (`ssh-ed25519 AAAA… comment`); other lines are passed over."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and (blob := _blob(words[0], words[1])) is not None:
            found.append(HostKey(words[0], blob))
    return found


def write_entries(path: Path, entries: Mapping[tuple[str, int], Sequence[HostKey]]) -> None:
    """Replace every plain line of these (host, port) by these keys; all other lines stay as they are.

    The file is replaced in one step and readable by its owner only. An empty list of keys forgets the host.
    Lines that name several hosts lose only the hosts given here. Raises OSError.
    """
    replaced = {host_name(host, port) for host, port in entries}
    kept: list[str] = []
    try:
        old = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        old = []
    for line in old:
        words = line.split(None, 1)
        if len(words) == 2 and not words[0].startswith(("#", "@")):
            names = words[0].split(",")
            left = [name for name in names if not _is_one_of(name, replaced)]
            if not left:
                continue
            if len(left) < len(names):
                line = f"{','.join(left)} {words[1]}"
        kept.append(line)
    for (host, port), keys in sorted(entries.items(), key=lambda item: item[0]):
        kept.extend(key.line(host_name(host, port)) for key in keys)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.writelines(f"{line}\n" for line in kept)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _names_of(host: str, port: int) -> list[str]:
    return [host_name(host, port)] if port == 22 else [host_name(host, port), host_name(host, 22)]


def _add(target: _Names, words: list[str], where: str) -> str:
    """Put one line into the index; the reason when it cannot be used."""
    if len(words) < 3:
        return "too few fields"
    blob = _blob(words[1], words[2])
    if blob is None:
        return f"not a {words[1]} key"
    key = HostKey(words[1], blob, where)
    if words[0].startswith("|"):
        salt = _hash_parts(words[0])
        if salt is None:
            return "unreadable hashed name"
        target.hashed.append((*salt, key))
        return ""
    names = [name.lower() for name in words[0].split(",") if name]
    if any(set(name) & set("*?!") for name in names):
        target.patterns.append(([_pattern(name) for name in names], key))
        return ""
    for name in names:
        target.plain.setdefault(name, []).append(key)
    return ""


def _blob(kind: str, text: str) -> bytes | None:
    """The key's bytes when the text is base64 of a key of that kind (the blob repeats its own type)."""
    try:
        blob = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    prefix = len(kind).to_bytes(4, "big") + kind.encode()
    return blob if blob.startswith(prefix) and len(blob) > len(prefix) else None


def _hash_parts(name: str) -> tuple[bytes, bytes] | None:
    parts = name.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return None
    try:
        return base64.b64decode(parts[2], validate=True), base64.b64decode(parts[3], validate=True)
    except (binascii.Error, ValueError):
        return None


def _is_one_of(name: str, wanted: set[str]) -> bool:
    if not name.startswith("|"):
        return name.lower() in wanted
    parts = _hash_parts(name)
    return parts is not None and any(hmac.digest(parts[0], item.encode(), "sha1") == parts[1] for item in wanted)


def _pattern(name: str) -> tuple[bool, re.Pattern[str]]:
    """(negated, regular expression); only * and ? are special, brackets belong to `[host]:port`."""
    negated = name.startswith("!")
    body = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in name.lstrip("!"))
    return negated, re.compile(body, re.DOTALL)


def _pattern_matches(tests: list[tuple[bool, re.Pattern[str]]], name: str) -> bool:
    hit = False
    for negated, expression in tests:
        if expression.fullmatch(name):
            if negated:
                return False
            hit = True
    return hit
