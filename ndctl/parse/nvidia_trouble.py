"""Sentences by which nvidia-smi says that it, the driver or a GPU failed; shared by the parsers of its outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ndctl.parse.tidy import straight

_PCI = r"(?P<pci>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?)"


@dataclass(frozen=True, slots=True)
class Trouble:
    """kind: one of the keys below; pci: the GPU named in the sentence, "" if none; text: the sentence."""

    kind: str
    text: str
    pci: str = ""


# kind -> how it is said. Blanks stand for any run of white space, since sentences are pasted wrapped.
_SAID = {
    "driver-not-loaded": r"couldn.?t communicate with the NVIDIA driver",
    "library-missing": r"couldn.?t find libnvidia-ml(?:\.so)?",
    "version-mismatch": r"Failed to initialize NVML: Driver/library version mismatch",
    "nvml-failed": r"Failed to initialize NVML: (?!Driver/library)[A-Za-z][A-Za-z\x20/-]{2,60}",
    "no-devices": r"No devices were found",
    # As the value of a field (`: …` after blanks, `<tag>…`, `[…]`) it is that field's only: since driver 580 every
    # listing of Blackwell boards says so of power smoothing where the user is not root.
    "no-permission": r"(?<![>\[])(?<!\x20:\x20)Insufficient Permissions(?![<\]])",
    "gpu-unreachable": r"Unable to determine the device handle for (?:gpu|GPU) ?"
    + _PCI
    + r"\s*: ?(?:GPU is lost|[A-Za-z][A-Za-z\x20]{2,40})?",
    "gpu-lost": r"GPU is lost\b[^\n]{0,60}",
    "gpu-requires-reset": r"\[?GPU requires reset\]?",
    "inforom-corrupt": r"inforom is corrupted(?: at gpu " + _PCI + r")?",
    "tool-missing": r"nvidia-smi: (?:command )?not found|nvidia-smi: No such file|command not found: nvidia-smi"
    r"|'nvidia-smi' is not recognized",
    "handle-failed": r"nvmlDeviceGetHandleBy\w{2,20}\(\): [A-Za-z][A-Za-z\x20]{2,40}",
}
_PATTERNS = {
    kind: re.compile(said.replace(" ?", "\0").replace(" ", r"\s+").replace("\0", r"\s?"), re.IGNORECASE)
    for kind, said in _SAID.items()
}
# Words of each sentence that no line break can part, in lower case: a text that lacks one does not say it. Every
# listing of a healthy node is looked through, and plain searches cost a tenth of what the patterns do.
_WORDS = {
    "driver-not-loaded": ("communicate",),
    "library-missing": ("libnvidia-ml",),
    "version-mismatch": ("mismatch",),
    "nvml-failed": ("initialize",),
    "no-devices": ("devices", "found"),
    "no-permission": ("insufficient", "permissions"),
    "gpu-unreachable": ("determine",),
    "gpu-lost": ("lost",),
    "gpu-requires-reset": ("requires",),
    "inforom-corrupt": ("corrupted",),
    "tool-missing": ("nvidia-smi",),
    "handle-failed": ("nvmldevice",),
}
_FIRST_WORD = "insufficient"
_INSUFFICIENT = re.compile(_FIRST_WORD, re.IGNORECASE)
_MOST = 256  # more of them say nothing new


def troubles(text: str) -> tuple[Trouble, ...]:
    """Every distinct failure sentence of the text, in order of kind, then of place."""
    lowered = text.lower()
    said = [kind for kind, words in _WORDS.items() if all(word in lowered for word in words)]
    if not said:
        return ()
    text = straight(text)
    found: dict[tuple[str, str], Trouble] = {}
    for kind in said:
        for match in _matches(kind, text):
            groups = match.groupdict()
            pci = (groups.get("pci") or "").lower()
            if kind == "gpu-lost" and any(key[0] == "gpu-unreachable" for key in found):
                continue  # the tail of the sentence before
            found.setdefault((kind, pci), Trouble(kind, " ".join(match[0].split()), pci))
            if len(found) >= _MOST:
                return tuple(found.values())
    return tuple(found.values())


def _matches(kind: str, text: str) -> Iterator[re.Match[str]]:
    """Where a sentence stands. Since driver 580 each healthy listing holds dozens of permissions that are values of
    fields; the pattern is tried only where its first word stands, for it looks behind itself at every other place."""
    pattern = _PATTERNS[kind]
    if kind != "no-permission":
        yield from pattern.finditer(text)
        return
    for start in _starts(text):
        match = pattern.match(text, start)
        if match:
            yield match


def _starts(text: str) -> Iterator[int]:
    """Where "insufficient" stands, in any case."""
    if not text.isascii():
        yield from (match.start() for match in _INSUFFICIENT.finditer(text))
        return
    lowered = text.lower()  # of ASCII every letter stays where it is, and a plain search is many times as fast
    at = lowered.find(_FIRST_WORD)
    while at >= 0:
        yield at
        at = lowered.find(_FIRST_WORD, at + len(_FIRST_WORD))
