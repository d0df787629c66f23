"""What happens to a text on its way into a chat or a file, and worse.

Dress changes nothing that a tool said: whatever was shown to be a fault must stay one. Damage may take anything away:
then only a crash is wrong, and a pass of a text in which nothing is left.
"""

from __future__ import annotations

import random
from collections.abc import Callable

Mutation = Callable[[str, random.Random], str]

_NOISE = (
    "Warning: Permanently added '10.0.0.4' (ED25519) to the list of known hosts.\n",
    "bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)\n",
    "Last login: Wed Dec  2 03:12:09 2026 from 10.0.0.9\n",
)
_HUGE = ("99999999999999999999", "1e308", "-1", "0x7fffffffffffffff", "NaN", "4294967295", "\u0663")


def crlf(text: str, draw: random.Random) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def coloured(text: str, draw: random.Random) -> str:
    """ANSI colours around whole lines, as a terminal's log keeps them."""
    return "\n".join(f"\x1b[3{draw.randrange(8)}m{line}\x1b[0m" if line.strip() else line for line in text.split("\n"))


def framed(text: str, draw: random.Random) -> str:
    """Lines of a login in front."""
    return draw.choice(_NOISE) + text


DRESS: tuple[Mutation, ...] = (crlf, coloured, framed)


def cut_end(text: str, draw: random.Random) -> str:
    return text[: draw.randrange(len(text) + 1)]


def cut_start(text: str, draw: random.Random) -> str:
    return text[draw.randrange(len(text) + 1) :]


def interleaved(text: str, draw: random.Random) -> str:
    """A line of stderr in the middle of a line of stdout."""
    at = draw.randrange(len(text) + 1)
    return text[:at] + draw.choice(_NOISE) + text[at:]


def doubled(text: str, draw: random.Random) -> str:
    """Every line of several ranks, printed again."""
    return "".join(line * draw.choice((1, 2)) for line in text.splitlines(keepends=True))


def shuffled_words(text: str, draw: random.Random) -> str:
    """The columns of some lines in another order."""
    lines = text.split("\n")
    for at in draw.sample(range(len(lines)), k=min(4, len(lines))):
        words = lines[at].split(" ")
        draw.shuffle(words)
        lines[at] = " ".join(words)
    return "\n".join(lines)


def huge_numbers(text: str, draw: random.Random) -> str:
    words = text.split(" ")
    numbers = [at for at, word in enumerate(words) if word.strip(",%").replace(".", "", 1).isdigit()]
    for at in draw.sample(numbers, k=min(3, len(numbers))):
        words[at] = draw.choice(_HUGE)
    return " ".join(words)


def flipped(text: str, draw: random.Random) -> str:
    """Some characters replaced by any others, control characters among them."""
    letters = list(text)
    for at in draw.sample(range(len(letters)), k=min(8, len(letters))):
        letters[at] = chr(draw.choice((draw.randrange(0x20), draw.randrange(0x80), draw.randrange(0x250))))
    return "".join(letters)


def unknown_fields(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    at = draw.randrange(len(lines) + 1)
    return "\n".join([*lines[:at], "    A Field Of Tomorrow               : 17", *lines[at:]])


DAMAGE: tuple[Mutation, ...] = (
    cut_end,
    cut_start,
    interleaved,
    doubled,
    shuffled_words,
    huge_numbers,
    flipped,
    unknown_fields,
)
