"""Root cause before count: which finding explains which, so that one broken link is not sixty-four broken GPUs.

Rules are data: a finding that matches `root` explains findings of the same rack that match `explained` and `near`.
An explained finding keeps its status and text; it only stops counting against its node and the rack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status

Near = Callable[[Finding, Finding], bool]
# A root never explains what is worse than itself: a warning or a silence must not take a failure away.
_BADNESS = {Status.WARN: 1, Status.UNKNOWN: 2, Status.FAIL: 3}
_FAIL = (Status.FAIL,)
_FAIL_OR_UNKNOWN = (Status.FAIL, Status.UNKNOWN)


def _same_node(root: Finding, other: Finding) -> bool:
    return root.node == other.node != ""


def _silent_there(root: Finding, other: Finding) -> bool:
    """The same node, and nothing but the want of an answer."""
    return _same_node(root, other) and other.status is Status.UNKNOWN


def _same_text(root: Finding, other: Finding) -> bool:
    """Both are read from the same answer of the same node."""
    return _same_node(root, other) and root.evidence == other.evidence != ""


def _same_part(root: Finding, other: Finding) -> bool:
    """The same node and the same GPU or port: subjects begin with the part's name, "GPU 2 (…) link 8"."""
    return _same_node(root, other) and _part(root.subject) == _part(other.subject)


def _in_the_launch(root: Finding, other: Finding) -> bool:
    """A job over the rack that the root's node took part in; what was measured of one node is that node's own."""
    if other.node:
        return root.node == other.node
    return not (root.node and " without " in other.subject and root.node in other.subject)


def _same_rail(root: Finding, other: Finding) -> bool:
    """The rail itself, or a pair that it is one end of: a pair's subject names both nodes and the rail."""
    if _same_part(root, other):
        return True
    return root.node != "" and root.node in other.subject.split() and _part(root.subject) in other.subject.split()


def _names_the_other(root: Finding, other: Finding) -> bool:
    """The same node, and the root's text names what the other is about: a disk, a process, a version."""
    named = [word for word in (*other.subject.split()[-1:], str(other.value or "")) if len(word) > 2]
    return _same_node(root, other) and any(word in f"{root.subject} {root.message}" for word in named)


def _of(subject: str) -> Near:
    """The same node, and the other is about a part whose name holds this."""
    return lambda root, other: _same_node(root, other) and subject in other.subject.lower()


def _about_the_missing(root: Finding, other: Finding) -> bool:
    """The same node, and either the part's own address or a mere count of GPUs that comes out short.

    Where the GPU has left the bus nobody can say its address: then any that nvidia-smi no longer lists is it.
    """
    address = root.subject.rpartition(" ")[2].partition(".")[0]
    counted = other.check.rpartition(".")[2] in ("gpu-count", "count", "missing", "none", "no-gpu")
    named = address in other.subject if ":" in address else other.subject.startswith("GPU at ")
    return _same_node(root, other) and (counted or named)


def _part(subject: str) -> str:
    words = subject.split()
    return " ".join(words[:2]) if words[:1] == ["GPU"] else (words[0] if words else "")


@dataclass(frozen=True, slots=True)
class Rule:
    """`root` and `explained` are prefixes of check ids; `statuses` are those a root may have."""

    root: tuple[str, ...]
    explained: tuple[str, ...]
    near: Near
    statuses: tuple[Status, ...] = _FAIL


def _xids(*numbers: int) -> tuple[str, ...]:
    return tuple(f"gpu.xid.{number}" for number in numbers)


_LINK_XIDS = _xids(45, 74, 144, 145, 146, 147, 148, 149, 150, 154)
_MEMORY_XIDS = _xids(48, 63, 64, 92, 94, 95, 171, 172)
# What nvidia-smi says of memory: the same errors that the kernel log tells of as XIDs.
_MEMORY_HEALTH = tuple(
    f"gpu.health.{word}"
    for word in (
        "ecc-uncorrectable",
        "ecc-uncorrectable-ever",
        "sram-threshold",
        "unrepairable-memory",
        "retirement-pending",
        "retired-pages",
        "remap-failure",
        "remap-pending",
        "remapped-rows",
    )
)

_NCCL_OVER_INFINIBAND = ("nccl.all-reduce-ib", "nccl.one-rail")
_NCCL_ACROSS = ("nccl.across-racks",)  # of many small launches: what it says of two racks no single node explains
_NCCL_TESTS = (
    *(f"nccl.{test}" for test in ("all-reduce", "all-gather", "reduce-scatter", "alltoall", "sendrecv")),
    *_NCCL_OVER_INFINIBAND,
)
_NCCL_CULPRITS = tuple(
    f"{test}.{word}"
    for test in (*_NCCL_TESTS, *_NCCL_ACROSS)
    for word in ("slow-node", "error-node", "hang-node", "fall-back-node", "path")
)
_NCCL_SYMPTOMS = tuple(
    f"{test}.{word}"
    for test in _NCCL_TESTS
    for word in ("slow", "error", "hang", "wrong", "transport", "nvls", "gdr", "rails", "no-result")
)

_HEAT = tuple(f"gpu.thermals.{word}" for word in ("throttled", "hbm-hot", "no-margin", "hotter"))
# The matrix over the whole rack gave no figure: what stands in the way of one node does for all.
_NO_MATRIX = tuple(
    f"nvlink.nvbandwidth.{word}"
    for word in ("imex", "not-one-domain", "fabric-not-ready", "cuda-fault", "error", "hang", "no-result")
)
_FAIL_OR_WARN = (Status.FAIL, Status.WARN)
_BURN_IN_RULES: tuple[Rule, ...] = (
    Rule((*_MEMORY_HEALTH, "nvlink.links"), ("gpu.diag", "nvlink.nvbandwidth.slow"), _same_part, _FAIL_OR_WARN),
    Rule(("gpu.xid",), ("gpu.diag", "gpu.gemm", "gpu.hbm-bandwidth", "gpu.memcpy"), _same_part),
    Rule(
        ("gpu.driver", "gpu.count", "nvlink.links", "nvlink.fabric", "nvlink.clique", "nvlink.imex", "gpu.xid"),
        _NO_MATRIX,
        _in_the_launch,
        _FAIL_OR_UNKNOWN,
    ),
    # Too hot is why it is slow; slow is why its clock is low, or DCGM not content.
    Rule(("gpu.thermals.throttled",), _HEAT[1:], _same_part, _FAIL_OR_WARN),
    Rule(_HEAT, ("gpu.thermals.clock-slow", "gpu.gemm", "gpu.diag", "gpu.hbm-bandwidth"), _same_part, _FAIL_OR_WARN),
    Rule(("gpu.gemm.slow",), ("gpu.thermals.clock-slow", "gpu.diag"), _same_part, _FAIL_OR_WARN),
    Rule(("gpu.hbm-bandwidth.slow",), ("gpu.diag", "gpu.gemm"), _same_part, _FAIL_OR_WARN),
    Rule(("nvlink.nvbandwidth.slow", "gpu.hbm-bandwidth.slow"), _NCCL_TESTS, _in_the_launch),
    # One rail, seen by its port, by two rounds and by all of them.
    Rule(("infiniband.ports", "infiniband.pkeys"), ("infiniband.pair-matrix",), _same_rail, _FAIL_OR_UNKNOWN),
    Rule(("infiniband.write-bw",), ("infiniband.pair-matrix",), _same_rail, _FAIL_OR_WARN),
)

RULES: tuple[Rule, ...] = (
    # A node that does not answer, or broke off, leaves unknowns behind; what it did say stands.
    Rule(("host.reachable",), ("gpu.", "nvlink.", "infiniband.", "host.", "nccl."), _silent_there, (Status.UNKNOWN,)),
    # Of an answer that was cut each check says that it lacks the rest.
    Rule(("host.answers",), ("gpu.", "nvlink.", "infiniband.", "host."), _same_text, (Status.UNKNOWN,)),
    # A driver that does not answer says nothing about links, ECC or the fabric either.
    Rule(("gpu.driver",), ("gpu.", "nvlink."), _same_node, _FAIL_OR_UNKNOWN),
    # A GPU that is gone has no links, no fabric and no memory to judge.
    Rule(("gpu.count",), ("gpu.", "nvlink."), _about_the_missing),
    Rule(("nvlink.links",), (*_LINK_XIDS, "gpu.health.recovery-action", "nvlink.errors", "nvlink.fabric"), _same_part),
    # A GPU that is in no fabric names no clique.
    Rule(("nvlink.fabric",), ("nvlink.clique",), _same_node, _FAIL_OR_UNKNOWN),
    Rule(
        ("infiniband.ports",),
        ("infiniband.counters", "infiniband.pkeys", "infiniband.flaps", "infiniband.addresses"),
        _same_part,
        _FAIL_OR_UNKNOWN,
    ),
    # Of what gave no answer each check that needed it says so; the one whose own it is says it for all.
    Rule(
        ("infiniband.ports", "infiniband.rails", "nvlink.imex-list", "nvlink.clique"),
        (
            "nvlink.subgroup",
            *(f"infiniband.{word}" for word in ("addresses", "capabilities", "gpudirect", "flaps", "adapters")),
        ),
        _silent_there,
        _FAIL_OR_UNKNOWN,
    ),
    Rule(("infiniband.adapters",), ("infiniband.ports", "infiniband.flaps", "infiniband.counters"), _same_part),
    # A link that comes and goes leaves its marks in the counters and on the rail's measurements.
    Rule(("infiniband.flaps",), ("infiniband.counters", "infiniband.write-bw"), _same_rail, (Status.FAIL, Status.WARN)),
    Rule(("infiniband.addresses",), ("infiniband.write-bw",), _same_rail),
    # Where a VM landed in another rack, everything that follows the rack is another there.
    Rule(
        ("nvlink.subgroup.elsewhere",),
        ("nvlink.clique", "nvlink.imex", "nvlink.imex-list", "nvlink.subgroup", "infiniband.pkeys"),
        _same_node,
    ),
    # The nodes' own comparison names the part; the control plane's says the same of the node.
    Rule(("nvlink.clique",), ("nvlink.subgroup.clique",), _same_node),
    Rule(("infiniband.pkeys",), ("nvlink.subgroup.partition",), _same_node),
    Rule(("nvlink.imex", "nvlink.imex-list"), ("nvlink.subgroup.imex",), _same_node),
    Rule(("nvlink.subgroup.clique",), ("nvlink.subgroup.imex",), _same_node, (Status.FAIL, Status.WARN)),
    Rule(("infiniband.ports.port-count",), ("infiniband.counters.not-observable",), _same_node),
    Rule(("infiniband.ports", "infiniband.pkeys"), ("infiniband.write-bw",), _same_rail),
    Rule(
        ("infiniband.ports", "infiniband.pkeys", "infiniband.write-bw"),
        _NCCL_OVER_INFINIBAND,
        _in_the_launch,
        _FAIL_OR_UNKNOWN,
    ),
    Rule(("infiniband.ports", "infiniband.pkeys", "infiniband.write-bw"), _NCCL_ACROSS, _same_node, _FAIL_OR_UNKNOWN),
    Rule(
        ("gpu.driver", "gpu.count", "nvlink.links", "nvlink.fabric", "nvlink.clique", "nvlink.imex", "gpu.xid"),
        _NCCL_TESTS,
        _in_the_launch,
        _FAIL_OR_UNKNOWN,
    ),
    Rule(("gpu.driver", "gpu.count", "gpu.xid"), _NCCL_ACROSS, _same_node, _FAIL_OR_UNKNOWN),
    Rule(("gpu.xid",), tuple(f"gpu.health.{w}" for w in ("recovery-action", "reset-required", "lost")), _same_part),
    # Counters and the kernel log tell of one memory error in two ways; the counters say which memory.
    Rule(_MEMORY_HEALTH, _MEMORY_XIDS, _same_part, (Status.FAIL, Status.WARN)),
    # nvidia-smi complains of the InfoROM on stderr whatever it is asked.
    Rule(
        ("gpu.health",),
        ("nvlink.links.inforom-corrupt", "nvlink.errors.inforom-corrupt"),
        _same_node,
        (Status.FAIL, Status.WARN),
    ),
    Rule(_MEMORY_HEALTH, _NCCL_TESTS, _in_the_launch),
    Rule(_MEMORY_HEALTH, _NCCL_ACROSS, _same_node),
    # One fault of the machine, told of by its present state and by the kernel's log.
    Rule(("host.numa.cpus-offline",), ("host.identity",), _of("vcpus")),
    Rule(("host.mounts.read-only",), ("host.kernel.read-only", "host.kernel.filesystem"), _names_the_other),
    Rule(
        ("host.nvme",),
        ("host.kernel.nvme", "host.kernel.disk-error", "host.mounts.missing", "host.smart.no-answer"),
        _same_node,
    ),
    Rule(("gpu.driver",), ("host.tasks.stuck", "host.kernel.hung-task"), _of("nvidia"), _FAIL_OR_UNKNOWN),
    Rule(("host.tasks.stuck",), ("host.kernel.hung-task",), _names_the_other, (Status.FAIL, Status.WARN)),
    Rule(("gpu.xid",), ("host.kernel",), _silent_there, (Status.UNKNOWN,)),
    Rule(("nvlink.imex",), ("host.units",), _of("nvidia-imex")),
    Rule(
        ("host.components.differs",),
        ("gpu.identity.mixed", "host.identity.kernel"),
        _names_the_other,
        (Status.FAIL, Status.WARN),
    ),
    # Who was located as the culprit of a collective explains what the whole rack showed.
    Rule(_NCCL_CULPRITS, _NCCL_SYMPTOMS, _in_the_launch, (Status.FAIL, Status.WARN)),
    Rule(_NCCL_CULPRITS, _NCCL_ACROSS, _same_node, (Status.FAIL, Status.WARN)),
    *_BURN_IN_RULES,
)


def _matches(check: str, prefixes: Iterable[str]) -> bool:
    return any(check == p or check.startswith(p if p.endswith(".") else p + ".") for p in prefixes)


def attribute(findings: Sequence[Finding], rules: Sequence[Rule] = RULES) -> list[Finding]:
    """The findings in the same order, with `caused_by` and `explains` filled in. The first rule that fits wins; what
    explains others and is explained itself hands them on, so that every `caused_by` names a finding that stands."""
    result = list(findings)
    explained_by: dict[int, int] = {}
    # Of hundreds of findings nearly all are well, in nearly all racks.
    standing = [i for i, f in enumerate(result) if f.status in _BADNESS and not f.caused_by]
    for rule in rules if standing else ():
        roots = [
            i
            for i, f in enumerate(result)
            if f.status in rule.statuses and not f.caused_by and i not in explained_by and _matches(f.check, rule.root)
        ]
        for i in standing:
            other = result[i]
            if i in explained_by:
                continue
            if not _matches(other.check, rule.explained):
                continue
            root = next((r for r in roots if r not in explained_by and _explains(rule, result[r], other)), None)
            if root is not None:
                explained_by[i] = root
    top = {i: _top(i, explained_by) for i in explained_by}
    handed_on = {reference(result[i]): reference(result[root]) for i, root in top.items()}
    for i, finding in enumerate(findings):
        if i in top:
            result[i] = replace(finding, caused_by=reference(findings[top[i]]))
        elif finding.caused_by in handed_on:
            result[i] = replace(finding, caused_by=handed_on[finding.caused_by])
    for root in sorted(set(top.values())):
        explained = [result[i] for i, r in sorted(top.items()) if r == root]
        texts = [*_texts(explained), *(text for finding in explained for text in finding.explains)]
        result[root] = replace(
            result[root],
            explains=tuple(dict.fromkeys((*result[root].explains, *texts))),
            action=_action(result[root], explained),
        )
    return result


def _explains(rule: Rule, root: Finding, other: Finding) -> bool:
    # One check does not explain itself: what it says of two parts are two faults.
    return root.check != other.check and _BADNESS[root.status] >= _BADNESS[other.status] and rule.near(root, other)


def _top(index: int, explained_by: Mapping[int, int]) -> int:
    """The end of the chain. There are no cycles: what is explained is never taken as a root afterwards."""
    while index in explained_by:
        index = explained_by[index]
    return index


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
