"""Texts of many nodes without what is each node's own, so that equal ones are seen to be equal.

Taken out are a node's own names and addresses, as they are known, and by their form: UUIDs, GUIDs and GIDs, MACs and
InfiniBand hardware addresses, serial numbers (by the word before them). Another node's name or address stays: whom a
node cannot reach is what it says. So does every number that could be measured: a hexadecimal one counts as a GUID only
with a vendor's prefix, as masks such as 0x0000000000000004 have none. And so does what names something that nodes
share, where a node that differs is the one to be found: the UUID of an NVLink domain, the serial of a chassis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

NAME = "<node>"
ADDRESS = "<address>"
UUID = "<uuid>"
GUID = "<guid>"
MAC = "<mac>"
SERIAL = "<serial>"
WORDS = {NAME: "names", ADDRESS: "addresses", UUID: "UUIDs", GUID: "GUIDs", MAC: "MACs", SERIAL: "serial numbers"}

_HEX = "[0-9A-Fa-f]"
_BEFORE = r"(?<![\w:.-])"
_AFTER = r"(?![\w:-]|\.\w)"
# Most are found by one look through the text: the longer forms first, so that none is taken for a part of another.
_FORMS = re.compile(
    rf"(?P<uuid>(?<![0-9A-Fa-f])(?<![0-9A-Fa-f]-){_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}(?![\w-]))"
    # 20 octets of an InfiniBand interface, 8 of an EUI-64, 6 of Ethernet; dashes as some BIOS tables print them
    rf"|(?P<mac>{_BEFORE}(?:(?:{_HEX}{{2}}:){{19}}|(?:{_HEX}{{2}}:){{7}}|(?:{_HEX}{{2}}:){{5}}|(?:{_HEX}{{2}}-){{5}})"
    rf"{_HEX}{{2}}{_AFTER})"
    rf"|(?P<gid>{_BEFORE}(?:{_HEX}{{4}}:){{7}}{_HEX}{{4}}{_AFTER}|{_BEFORE}(?:{_HEX}{{4}}:){{3}}{_HEX}{{4}}{_AFTER}"
    rf")|(?P<local>{_BEFORE}[Ff][Ee]80::{_HEX}{{1,4}}(?::{_HEX}{{1,4}}){{0,3}}{_AFTER})"
    rf"|(?P<guid>(?<![\w.])0[xX]{_HEX}{{16}}(?!\w))"
    # ibv_devices prints GUIDs bare, behind the device
    rf"|(?P<device>\b(?:mlx5|mana|bnxt_re|irdma)_\w+[ \t]+)(?P<bare>{_HEX}{{16}})(?!\w)"
    r"|(?P<word>\b(?:[Ss]erial|SERIAL)(?:[ _-]?(?:[Nn]umber|NUMBER|[Nn]o\.?))?|\bS/N|\bSN)"
    r"(?P<sep>>|[ \t]{0,60}[\"']?[ \t]{0,60}[:=]?[ \t]{0,4}[\"']?)(?P<serial>[A-Za-z0-9][A-Za-z0-9-]{3,39})(?![\w.-])"
)
_STANDS_FOR = {
    "uuid": UUID, "mac": MAC, "gid": GUID, "local": ADDRESS, "guid": GUID, "bare": GUID, "serial": SERIAL,
}  # fmt: skip
_SHARED = {
    "uuid": re.compile(r"(?i)(?:cluster|domain|fabric|partition)[ _-]?uuid\W{0,60}$"),
    "serial": re.compile(r"(?i)chassis[ _-]?$"),
}
_LOOKED_BACK = 80  # characters before a word, where it says whose it is
_NO_GUID = re.compile("000000|ffff")  # masks and counters; addresses in the kernel
_DIGITS = re.compile(r"\d")
_NUMBER_LIKE = re.compile(r"[0-9.,:eExXa-fA-F+-]+")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a node is called and where it is reached, as far as it is known."""

    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Common:
    """A text without what is a node's own. `taken`: the placeholders that stand in it now."""

    text: str
    taken: tuple[str, ...] = ()


NOBODY = Identity()


def common(text: str, own: Identity = NOBODY) -> Common:
    """The text with placeholders. The same again when it is taken from its own result."""
    taken: set[str] = set()
    named = without_own(text, own, taken.add)
    result = _FORMS.sub(lambda match: _replaced(match, taken.add), named)
    return Common(result, tuple(word for word in WORDS if word in taken))


def without_own(text: str, own: Identity, note: Callable[[str], object] = lambda _: None) -> str:
    """Only the node's own names and addresses replaced; `note` is told each placeholder that was put in."""
    for words, stands_for in ((own.addresses, ADDRESS), (own.names, NAME)):
        for word in sorted(filter(_telling, words), key=len, reverse=True):
            if word in text:
                text, count = re.subn(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\w)", stands_for, text)
                if count:
                    note(stands_for)
    return text


def in_words(taken: Iterable[str]) -> str:
    """ "names, MACs", in a fixed order."""
    told = set(taken)
    return ", ".join(words for placeholder, words in WORDS.items() if placeholder in told)


def _telling(word: str) -> bool:
    """A host that is called 7 or cafe must not cost anybody a number; addresses have dots or colons."""
    return len(word) >= 3 and ("." in word or ":" in word or not _NUMBER_LIKE.fullmatch(word))


def _replaced(match: re.Match[str], note: Callable[[str], object]) -> str:
    text, kind = match[0], match.lastgroup or ""
    shared = _SHARED.get(kind)
    if shared is not None and shared.search(match.string[max(0, match.start() - _LOOKED_BACK) : match.start()]):
        return text
    before = ""
    if kind == "serial":
        if not _DIGITS.search(match["serial"]) or not match["sep"]:
            return text
        before = match["word"] + match["sep"]
    elif kind in ("guid", "bare"):
        if _NO_GUID.match(match[kind].lower().removeprefix("0x")):
            return text
        before = match["device"] if kind == "bare" else ""
    note(_STANDS_FOR[kind])
    return before + _STANDS_FOR[kind]
