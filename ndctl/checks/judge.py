"""Judge one tool's text with no cluster: every module of `checks/texts` that has a `JUDGE` is known here.

A judge is added by adding its module; nothing is registered by hand.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from ndctl.checks import texts
from ndctl.checks.texts.base import TextJudge
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.findings import Finding, Judgement
from ndctl.model.jsonable import jsonable
from ndctl.model.status import Status, worst_status
from ndctl.parse.pasted import NotText, decode, plain
from ndctl.profiles.schema import Profile

AUTO = "auto"
# No output of these tools is near this size; beyond it a whole-text answer would be a guess about noise.
MAX_BYTES = 32 * 1024 * 1024
_TOO_LARGE = f"more than {MAX_BYTES // 2**20} MiB, which none of these tools prints; cut out the part with the result"
_SAMPLE = 128 * 1024  # `auto` looks at this much of head and tail,
_CLIP = 4096  # and of a long line at this much of its two ends, so that no pattern is slow on it
_TELLING = re.compile(r"[^\W_]")
_SURE = 0.5  # below it a text is nobody's
_CLEAR = 0.1  # two tools nearer than this are not told apart


@cache
def judges() -> Mapping[str, TextJudge]:
    """Every judge by its tool's name, sorted."""
    found: dict[str, TextJudge] = {}
    for module in pkgutil.iter_modules(texts.__path__):
        judge = getattr(importlib.import_module(f"{texts.__name__}.{module.name}"), "JUDGE", None)
        if isinstance(judge, TextJudge):
            found[judge.tool] = judge
    return dict(sorted(found.items()))


def tools() -> list[str]:
    """The names `ndctl judge` takes, sorted, without `auto`."""
    return list(judges())


def find(tool: str) -> TextJudge:
    """The judge of that name or alias, in any case, `_` for `-`. Raises NdctlError (exit 2) where there is none."""
    wanted = tool.strip().lower().replace("_", "-")
    names = {alias: judge for judge in judges().values() for alias in (*judge.aliases, judge.tool)}
    if wanted in names:
        return names[wanted]
    near = get_close_matches(wanted, [*names, AUTO], n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else "ndctl judge --list shows the tools; 'auto' detects"
    raise NdctlError("judge.unknown-tool", f"no tool '{tool}'", hint=hint, exit_code=ExitCode.USAGE)


def detect(text: str) -> tuple[TextJudge | None, str]:
    """Whose text this is; (None, reason) where it is nobody's or could be two tools'."""
    sample = _sample(text)
    scores = sorted(((judge.looks_like(sample), name) for name, judge in judges().items()), reverse=True)
    if not scores or scores[0][0] < _SURE:
        return None, "this looks like the output of no tool ndctl knows"
    best = [name for score, name in scores if score > scores[0][0] - _CLEAR]
    if len(best) > 1:
        return None, f"this could be {' or '.join(sorted(best))}: name the tool in place of auto"
    return judges()[best[0]], ""


def _sample(text: str) -> str:
    """What detection reads of a text: no lines without a letter or digit, over which patterns would wander."""
    ends = text if len(text) <= 2 * _SAMPLE else f"{text[:_SAMPLE]}\n{text[-_SAMPLE:]}"
    lines = (line for line in ends.split("\n") if _TELLING.search(line))
    return "\n".join(line if len(line) <= 2 * _CLIP else f"{line[:_CLIP]}\n{line[-_CLIP:]}" for line in lines)


def judge_text(tool: str, text: str, profile: Profile | None = None) -> Judgement:
    """Facts of one text, and what they mean; `tool` may be `auto`. Findings come worst first.

    Raises NdctlError (exit 2) only for an unknown tool. No usable result is unknown, with a finding that says why.
    """
    chosen = None if tool.strip().lower() == AUTO else find(tool)
    if len(text) > MAX_BYTES:
        return _unknown(tool, profile, "judge.too-large", _TOO_LARGE)
    text = plain(text)
    if not text.strip():
        return _unknown(tool, profile, "judge.empty", "the text is empty")
    if chosen is None:
        chosen, reason = detect(text)
        if chosen is None:
            return _unknown(AUTO, profile, "judge.not-recognised", reason)
    return _judged(chosen, text, profile)


def judge_bytes(tool: str, data: bytes, profile: Profile | None = None) -> Judgement:
    """`judge_text` of undecoded bytes; binary and oversized data are unknown."""
    if tool.strip().lower() != AUTO:
        find(tool)
    if len(data) > MAX_BYTES:
        return _unknown(tool, profile, "judge.too-large", _TOO_LARGE)
    try:
        text = decode(data)
    except NotText as error:
        return _unknown(tool, profile, "judge.binary", str(error))
    return judge_text(tool, text, profile)


def _judged(judge: TextJudge, text: str, profile: Profile | None) -> Judgement:
    facts: Any = None
    findings: Sequence[Finding]
    try:
        facts = judge.parse(text)
        findings = judge.judge(facts, profile)
    except Exception as error:
        # A text that breaks a parser must still get an honest answer, and must be seen as ndctl's fault.
        message = f"ndctl could not read this text ({type(error).__name__}: {error}); please report it"
        findings = [_reason("judge.parser-failed", message)]
    if all(finding.status is Status.SKIP for finding in findings):
        findings = [*findings, _reason("judge.no-result", f"no result of {judge.tool} in this text")]
    plain_facts = dict(jsonable(facts)) if facts is not None else {}
    unknown_fields = tuple(str(name) for name in plain_facts.pop("unknown_fields", ()))
    ranked = sorted(findings, key=lambda finding: _ORDER.index(finding.status))
    return Judgement(
        tool=judge.tool,
        profile=profile.name if profile else None,
        status=worst_status(f.status for f in ranked if f.status is not Status.SKIP),
        facts=plain_facts,
        findings=tuple(ranked),
        unknown_fields=unknown_fields,
    )


_ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS, Status.SKIP)


def _reason(check: str, message: str) -> Finding:
    return Finding(check=check, status=Status.UNKNOWN, subject="text", message=message)


def _unknown(tool: str, profile: Profile | None, check: str, message: str) -> Judgement:
    name = tool if tool == AUTO else find(tool).tool if tool.strip().lower() != AUTO else AUTO
    return Judgement(
        tool=name,
        profile=profile.name if profile else None,
        status=Status.UNKNOWN,
        facts={},
        findings=(_reason(check, message),),
    )
