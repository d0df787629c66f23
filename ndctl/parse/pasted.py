"""Text as people paste it, made plain: decoded, without colours, carriage returns and launchers' line prefixes."""

from __future__ import annotations

import codecs
import re

_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\x1b\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)"  # window titles, links
    r"|\x1b[@-Z\\^_=>78c]"  # two-character escapes
)
# NBSP and its narrow kin are blanks; byte order marks, zero-width blanks and NULs are nothing.
_STRAY = {
    **dict.fromkeys(map(ord, "\u00a0\u2007\u202f\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), " "),
    **dict.fromkeys(map(ord, "\ufeff\u200b\x00"), ""),
}
# Open MPI --tag-output and --timestamp-output, Slurm -l, GNU parallel and kubectl style tags are told apart by shape.
_MPI_TAG = re.compile(
    r"^(?:\[[^\]\n]{0,40}\])?(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})?"  # a host, a time
    r"\[\d+,\d+\](?:\[[^\]\n]{0,60}\])?<std(?:out|err|diag)>: ?"
)
_SLURM_LABEL = re.compile(r"^ {0,4}\d{1,4}: ")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class NotText(ValueError):
    """The bytes are no text; the message says why, for a person."""


def decode(data: bytes) -> str:
    """Bytes of a file as text: UTF-8, or UTF-16 as PowerShell's `>` writes it. Raises NotText for binary data.

    A few stray bytes in a text are replaced, not held against it.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    head = data[:65536]
    if head.count(0) > max(8, len(head) // 100):
        if _is_bare_utf16(head):
            return data.decode("utf-16-le", errors="replace")
        raise NotText("binary data (NUL bytes), not the output of a tool")
    text = data.decode("utf-8", errors="replace")
    sample = text[:65536]
    strange = sample.count("\ufffd") + len(_CONTROL.findall(sample))
    if sample and strange > max(16, len(sample) // 10):
        raise NotText("binary data, not the output of a tool")
    return text


def _is_bare_utf16(head: bytes) -> bool:
    """UTF-16 without a byte order mark: almost every second byte of Western text is zero."""
    odd = head[1::2]
    return head[::2].count(0) == 0 and odd.count(0) > 0.95 * len(odd)


def plain(text: str) -> str:
    """The text without ANSI sequences, with `\\n` line ends only and ordinary blanks."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.translate(_STRAY)


def lines(text: str) -> list[str]:
    """Plain lines without launchers' prefixes; indentation and order are kept.

    `[1,0]<stdout>:` tags of mpirun are always taken off; `0: ` labels of `srun -l` only where nearly all lines
    bear one.
    """
    found = [_MPI_TAG.sub("", line, count=1) if "<std" in line else line for line in plain(text).split("\n")]
    filled = [line for line in found if line.strip()]
    if len(filled) > 3 and sum(1 for line in filled if _SLURM_LABEL.match(line)) > 0.9 * len(filled):
        found = [_SLURM_LABEL.sub("", line, count=1) for line in found]
    return found
