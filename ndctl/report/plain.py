"""Texts that nodes wrote, made safe to show: a log line must not move an operator's cursor or recolour the answer."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\Z)"  # window titles, links and other strings for the terminal
    r"|\x1b[ -/]*[0-~]",  # short ones
    re.DOTALL,
)
_LINE_ENDS = re.compile(r"\r\n|[\r\n\v\f\x85\u2028\u2029]")
# C0 and C1 controls, marks that turn the direction of writing, lone surrogates: none can be shown as it is.
_UNSHOWABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def shown(text: str) -> str:
    """The text without escape sequences, line ends as \\n, what can't be shown as U+FFFD."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSHOWABLE.sub(REPLACEMENT, _LINE_ENDS.sub("\n", _ESCAPE.sub("", text)))


def one_line(text: str) -> str:
    """`shown`, with line ends and tabs as single blanks."""
    return re.sub(r"[ \t]*[\n\t][ \t\n]*", " ", shown(text)).rstrip()
