"""What differs between a recorded run and the same run made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ndctl.model.findings import Finding, RackResult, Run

MOST = 40  # lines; more is another story


def differences(recorded: Run, again: Run) -> list[str]:
    """Lines for people, empty when verdicts, exit status and all findings are the same."""
    before = {(rack.cluster, rack.name): rack for rack in recorded.racks}
    after = {(rack.cluster, rack.name): rack for rack in again.racks}
    lines: list[str] = []
    for key in sorted({*before, *after}):
        name = f"{key[0]} {key[1]}".strip()
        old, new = before.get(key), after.get(key)
        if old is None or new is None:
            lines.append(f"{name}: {'was not recorded' if old is None else 'is not there any more'}")
        else:
            lines += _of_rack(name, old, new)
    if recorded.exit_code != again.exit_code:
        lines.append(f"exit status {recorded.exit_code} → {again.exit_code}")
    if len(lines) > MOST:
        lines = [*lines[:MOST], f"and {len(lines) - MOST} more"]
    return lines


def _of_rack(name: str, old: RackResult, new: RackResult) -> list[str]:
    lines = [f"{name}: verdict {old.verdict.value} → {new.verdict.value}"] if old.verdict is not new.verdict else []
    gone = Counter(old.findings) - Counter(new.findings)
    come = Counter(new.findings) - Counter(old.findings)
    gone_by, come_by = _by_part(gone.elements()), _by_part(come.elements())
    for part in dict.fromkeys((*gone_by, *come_by)):
        was, now = gone_by.get(part, []), come_by.get(part, [])
        for one, other in zip(was, now, strict=False):
            lines.append(f"{name}: {_words(part)}: {_change(one, other)}")
        lines += [f"{name}: {_words(part)}: no longer said ({f.status.value}: {f.message})" for f in was[len(now) :]]
        lines += [f"{name}: {_words(part)}: new ({f.status.value}: {f.message})" for f in now[len(was) :]]
    return lines


def _by_part(findings: Iterable[Finding]) -> dict[tuple[str, str, str], list[Finding]]:
    found: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        found.setdefault((one.check, one.node, one.subject), []).append(one)
    return found


def _words(part: tuple[str, str, str]) -> str:
    return " ".join(word for word in part if word)


def _change(old: Finding, new: Finding) -> str:
    if old.status is not new.status:
        return f"{old.status.value} → {new.status.value} ({new.message})"
    if old.message != new.message:
        return f"{old.message} → {new.message}"
    return "told with other words, cause or threshold"
