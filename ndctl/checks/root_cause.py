"""Root cause before count: which finding explains which, so that one broken link is not sixty-four broken GPUs.

Rules are data: a finding that matches `root` explains findings of the same rack that match `explained` and `near`.
An explained finding keeps its status and text; it only stops counting against its node and the rack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status

Near = Callable[[Finding, Finding], bool]
_BAD = (Status.FAIL, Status.UNKNOWN, Status.WARN)


def _same_node(root: Finding, other: Finding) -> bool:
    return root.node == other.node


def _same_part(root: Finding, other: Finding) -> bool:
    """The same node and the same GPU or port: subjects begin with the part's name, "GPU 2 (…) link 8"."""
    return root.node == other.node and _part(root.subject) == _part(other.subject)


def _anywhere(root: Finding, other: Finding) -> bool:
    return True


def _same_rail(root: Finding, other: Finding) -> bool:
    """The rail itself, or a pair that it is one end of: a pair's subject names both nodes and the rail."""
    if _same_part(root, other):
        return True
    return root.node != "" and root.node in other.subject.split() and _part(root.subject) in other.subject.split()


def _about_the_missing(root: Finding, other: Finding) -> bool:
    """The same node, and either the part's own address or a mere count of GPUs that comes out short."""
    address = root.subject.rpartition(" ")[2].partition(".")[0]
    counted = other.check.rpartition(".")[2] in ("gpu-count", "count", "missing", "none", "no-gpu")
    return root.node == other.node and (counted or (":" in address and address in other.subject))


def _part(subject: str) -> str:
    words = subject.split()
    return " ".join(words[:2]) if words[:1] == ["GPU"] else (words[0] if words else "")


@dataclass(frozen=True, slots=True)
class Rule:
    """`root` and `explained` are prefixes of check ids; `statuses` are those a root may have."""

    root: tuple[str, ...]
    explained: tuple[str, ...]
    near: Near
    statuses: tuple[Status, ...] = (Status.FAIL,)


RULES: tuple[Rule, ...] = (
    # Peers call the IMEX of a node that is down unavailable; that it is down is the better answer.
    Rule(("host.reachable",), ("nvlink.imex",), _same_node, (Status.UNKNOWN,)),
    # A driver that does not answer says nothing about links, ECC or the fabric either.
    Rule(("gpu.driver",), ("gpu.", "nvlink."), _same_node, (Status.FAIL, Status.UNKNOWN)),
    # A GPU that is gone has no links, no fabric and no memory to judge.
    Rule(("gpu.count",), ("gpu.", "nvlink."), _about_the_missing),
    Rule(("nvlink.links",), ("gpu.xid", "gpu.health.recovery-action", "nvlink.errors", "nvlink.fabric"), _same_part),
    Rule(("infiniband.ports",), ("infiniband.counters", "infiniband.pkeys"), _same_part),
    Rule(("infiniband.ports", "infiniband.pkeys"), ("infiniband.write-bw",), _same_rail),
    Rule(
        ("gpu.driver", "gpu.count", "nvlink.links", "nvlink.fabric", "nvlink.clique", "nvlink.imex", "gpu.xid"),
        ("nccl.",),
        _anywhere,
        (Status.FAIL, Status.UNKNOWN),
    ),
    Rule(("gpu.xid",), ("gpu.health.recovery-action",), _same_part),
    # Counters and the kernel log tell of one memory error in two ways; the counters say which memory.
    Rule(
        ("gpu.health",),
        tuple(f"gpu.xid.{number}" for number in (48, 63, 64, 92, 94, 95, 171, 172)),
        _same_part,
        (Status.FAIL, Status.WARN),
    ),
    # nvidia-smi complains of the InfoROM on stderr whatever it is asked.
    Rule(("gpu.health",), ("nvlink.links.inforom-corrupt", "nvlink.errors.inforom-corrupt"), _same_node, _BAD),
    Rule(("gpu.health",), ("nccl.",), _anywhere),
)


def _matches(check: str, prefixes: Iterable[str]) -> bool:
    return any(check == p or check.startswith(p if p.endswith(".") else p + ".") for p in prefixes)


def attribute(findings: Sequence[Finding], rules: Sequence[Rule] = RULES) -> list[Finding]:
    """The findings in the same order, with `caused_by` and `explains` filled in. The first rule that fits wins."""
    result = list(findings)
    explained_by: dict[int, int] = {}
    for rule in rules:
        roots = [
            i
            for i, f in enumerate(result)
            if f.status in rule.statuses and not f.caused_by and i not in explained_by and _matches(f.check, rule.root)
        ]
        for i, other in enumerate(result):
            if other.status not in _BAD or other.caused_by or i in explained_by:
                continue
            if not _matches(other.check, rule.explained):
                continue
            root = next((r for r in roots if r != i and r not in explained_by and rule.near(result[r], other)), None)
            if root is not None and result[root].check != other.check:
                explained_by[i] = root
    for i, root in explained_by.items():
        result[i] = replace(result[i], caused_by=reference(result[root]))
    for root in sorted(set(explained_by.values())):
        explained = [result[i] for i, r in sorted(explained_by.items()) if r == root]
        texts = [*_texts(explained), *(text for finding in explained for text in finding.explains)]
        result[root] = replace(
            result[root],
            explains=(*result[root].explains, *dict.fromkeys(texts)),
            action=_action(result[root], explained),
        )
    return result


def _action(root: Finding, explained: Sequence[Finding]) -> Action:
    """The root's own action, unless it only says to look and what it explains says what to do (an XID's advice)."""
    if root.action is not Action.INVESTIGATE:
        return root.action
    told = [f.action for f in explained if f.check.startswith("gpu.xid.") and f.status is Status.FAIL]
    return next((action for action in told if action not in (Action.NONE, Action.INVESTIGATE)), root.action)


def reference(finding: Finding) -> str:
    """ "<check>@<node or subject>": how an explained finding names its root."""
    return f"{finding.check}@{finding.node or finding.subject}"


def _texts(explained: Sequence[Finding]) -> list[str]:
    """One short text per check: its message when there is one of it, else how many."""
    by_check: dict[str, list[Finding]] = {}
    for finding in explained:
        by_check.setdefault(finding.check, []).append(finding)
    return [
        found[0].message if len(found) == 1 else f"{found[0].message} (and {len(found) - 1} more {check})"
        for check, found in by_check.items()
    ]
