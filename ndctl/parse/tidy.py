"""Pasted lines of status tools made plain: quotes, word processors' punctuation, e-mail marks, prompts' prefixes."""

from __future__ import annotations

import re

from ndctl.parse.pasted import lines, plain

# Word processors and chat programs turn ASCII punctuation into these.
_PUNCTUATION = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201b": "'",
    "\u2032": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u201e": '"',
    "\u2010": "-",
    "\u2011": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u2212": "-",
    "\uff1a": ":",
}
_COLOUR_REMAINS = re.compile(r"(?:\^\[|#033|\\x1b|\\033|\\e)\[[0-9;]{0,12}m")
_QUOTE = re.compile(r"^(?:> ?)+(?!=)")
_CONTAINER_STAMP = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,12}(?:Z|[+-]\d\d:?\d\d)? ")
_HOST_TAG = re.compile(r"^([A-Za-z][\w.-]{1,62}): ")
# No tool prints a line as long as this; what is longer is cut so that one endless line stays cheap.
LONGEST_LINE = 8192


def straight(text: str) -> str:
    """Plain text with ASCII quotes and dashes, and without the remains of colour codes."""
    text = plain(text)
    if not text.isascii():
        for typographic, ascii_mark in _PUNCTUATION.items():
            text = text.replace(typographic, ascii_mark)
    if "[" in text and ("^[[" in text or "#033[" in text or "\\x1b[" in text or "\\033[" in text or "\\e[" in text):
        text = _COLOUR_REMAINS.sub("", text)
    if "^M\n" in text:
        text = text.replace("^M\n", "\n")
    return text


def unescaped(text: str) -> str:
    """Text copied out of a web page's source: the five entities of XML decoded."""
    if "&" not in text:
        return text
    for entity, mark in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&amp;", "&")):
        text = text.replace(entity, mark)
    return text


def tidy_lines(text: str) -> list[str]:
    """Lines with their indentation, without launchers' tags, e-mail quote marks, container time stamps.

    A `host: ` prefix (pdsh, clush) goes only where nearly all lines bear the same one.
    """
    found = [line[:LONGEST_LINE] for line in lines(straight(unescaped(text)))]
    found = [_QUOTE.sub("", line, count=1) if line.startswith(">") else line for line in found]
    filled = [line for line in found if line.strip()]
    if len(filled) > 1:
        if all(_CONTAINER_STAMP.match(line) for line in filled):
            found = [_CONTAINER_STAMP.sub("", line, count=1) for line in found]
        found = _without_host_tag(found)
    return found


def _without_host_tag(found: list[str]) -> list[str]:
    filled = [line for line in found if line.strip()]
    first = _HOST_TAG.match(filled[0])
    if first is None or len(filled) < 4:
        return found
    tag = first[0]
    if sum(1 for line in filled if line.startswith(tag.rstrip())) < 0.9 * len(filled):
        return found
    return [line.removeprefix(tag) if line.startswith(tag) else line.removeprefix(tag.rstrip()) for line in found]
