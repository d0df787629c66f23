"""Throws damaged texts of every tool at `judge`, for a while: `python -m tests.fuzz --seconds 60` (or `make fuzz`).

Wrong is: an exception out of a parser or judge, an answer that is no JSON, a text with nothing in it that passes, and a
fault that a mere change of dress turns into a pass. Prints the seed; a text that does wrong is kept in a file.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ndctl.checks.judge import find, judge_text, tools
from ndctl.model.jsonable import dumps
from ndctl.model.status import Status
from ndctl.profiles import load
from ndctl.profiles.schema import Profile
from tests.fuzz.mutations import DAMAGE, DRESS

CAPTURES = Path(__file__).parent.parent / "captures"
_LONGEST = 200_000  # characters: longer texts would be the whole minute


def corpus() -> list[tuple[str, str, str]]:
    """(tool, file name, text) of every capture whose folder is a tool's."""
    known = set(tools())
    return [
        (folder.name, file.name, text)
        for folder in sorted(CAPTURES.iterdir())
        if folder.name in known
        for file in sorted(folder.iterdir())
        if file.is_file() and len(text := file.read_text(encoding="utf-8", errors="replace")) <= _LONGEST
    ]


def wrong(tool: str, text: str, profile: Profile | None, was: Status | None) -> str:
    """What is wrong with the answer, "" for nothing. was: the status before a change of dress; None after damage."""
    try:
        # Bare, so that the judge's own guard hides no crash.
        one = find(tool)
        one.judge(one.parse(text), profile)
        answer = judge_text(tool, text, profile)
        dumps(answer)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if not answer.findings:
        return "no finding at all"
    if answer.status is Status.PASS and not any(letter.isalnum() for letter in text):
        return "a text with nothing in it passes"
    if was in (Status.FAIL, Status.UNKNOWN) and answer.status is Status.PASS:
        return f"{was.value} became a pass by its dress"
    return ""


def fuzz(seconds: float, seed: int, texts: Sequence[tuple[str, str, str]]) -> tuple[int, list[str]]:
    """(how many texts were judged, what went wrong). Ends at the first five."""
    draw = random.Random(seed)
    until = time.monotonic() + seconds
    profiles = (None, load("gb300"), load("h200"))
    found: list[str] = []
    count = 0
    every_tool = tools()
    while time.monotonic() < until and len(found) < 5:
        tool, name, text = draw.choice(texts)
        profile = draw.choice(profiles)
        dress = draw.random() < 0.3
        if dress:
            was = judge_text(tool, text, profile).status
            changed = draw.choice(DRESS)(text, draw)
        else:
            was = None
            changed = text
            for _ in range(draw.randrange(1, 4)):
                changed = draw.choice(DAMAGE)(changed, draw)
            # A text may be handed to any tool.
            tool = draw.choice(every_tool) if draw.random() < 0.2 else tool
        count += 1
        problem = wrong(tool, changed, profile, was)
        if problem:
            with tempfile.NamedTemporaryFile("w", prefix=f"fuzz-{tool}-", suffix=".txt", delete=False) as kept:
                kept.write(changed)
            found.append(f"{tool} from {name}: {problem}   kept in {kept.name}")
    return count, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    texts = corpus()
    print(f"seed {seed}, {len(texts)} captures", flush=True)
    count, found = fuzz(options.seconds, seed, texts)
    print(f"{count} texts judged, {len(found)} wrong")
    for line in found:
        print(line)
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main())
