"""The IMEX node list is byte-identical on every node of the rack and names exactly its nodes."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from ndctl.checks import commands
from ndctl.checks.addresses import addressed, left_out, own_addresses
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.majority import camps, majority
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "nvlink.imex-list"
_SOURCE = "NVIDIA IMEX guide: nodes_config.cfg is the same on every node"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    findings: list[Finding] = []
    texts: dict[str, str] = {}
    for node, answer in view.answers.items():
        if not answer.results:
            continue
        missing = unusable(_ID, answer, commands.IMEX_NODE_LIST)
        if missing:
            findings.append(missing)
            continue
        result = answer.results[commands.IMEX_NODE_LIST.id]
        if result.exit_code and "no such file" not in result.stderr.lower():
            findings.append(_not_read(answer, result.stderr))
            continue
        if not _entries(result.stdout):
            findings.append(
                Finding(
                    check=_ID,
                    status=Status.FAIL,
                    subject="nodes_config.cfg",
                    node=node.name,
                    message="is missing or empty, so IMEX knows no peers",
                    source=_SOURCE,
                    cause="the image's IMEX was never configured; cloud-init writes the list",
                    action=Action.REIMAGE,
                    evidence=evidence(answer, commands.IMEX_NODE_LIST),
                )
            )
            continue
        texts[node.name] = result.stdout
    if not texts:
        return findings
    counts = Counter(texts.values())
    usual = majority(texts.values(), view.expected_nodes)
    if usual is None:
        # One list on all nodes that told theirs is nobody's fault, however few they are.
        if len(counts) > 1:
            return [*findings, _split(view, texts)]
        usual = next(iter(counts))
    for name, text in texts.items():
        if text != usual:
            findings.append(
                Finding(
                    check=_ID,
                    # A blank or a remark more changes nothing for the daemon, but it is not the same file.
                    status=Status.WARN if _entries(text) == _entries(usual) else Status.FAIL,
                    subject="nodes_config.cfg",
                    node=name,
                    value=sha256(text.encode()).hexdigest()[:12],
                    expected=f"{sha256(usual.encode()).hexdigest()[:12]}, as on {counts[usual]} nodes",
                    source=_SOURCE,
                    message=_difference(_entries(text), _entries(usual)),
                    cause="written at another time, when other nodes were there",
                    action=Action.RESTART_IMEX,
                    evidence=f"{name}/{commands.IMEX_NODE_LIST.id}",
                )
            )
    listed = _entries(usual)
    absent = sorted(node.name for node in left_out(listed, view, own_addresses(view)))
    nodes = addressed(view)
    too_few = f"only {len(listed)} entries for {nodes} nodes" if len(listed) < nodes else ""
    if absent or too_few:
        findings.append(
            Finding(
                check=f"{_ID}.absent",
                status=Status.FAIL,
                subject="nodes_config.cfg",
                value=len(listed),
                unit="addresses",
                expected=f"all {nodes} nodes of the rack",
                source=_SOURCE,
                message=f"the rack's list leaves out {', '.join(absent[:4])}" if absent else too_few,
                cause="written before those nodes were there",
                action=Action.RESTART_IMEX,
            )
        )
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject=view.name,
            value=len(listed),
            unit="addresses",
            message=f"one list of {len(listed)} addresses on {len(texts)} nodes",
        )
    ]


def _entries(text: str) -> list[str]:
    """One address or name a line; what follows a '#' is a remark."""
    return [line for line in (row.partition("#")[0].strip() for row in text.splitlines()) if line]


def _difference(own: list[str], usual: list[str]) -> str:
    lacks, has = [a for a in usual if a not in own], [a for a in own if a not in usual]
    parts = [f"lacks {', '.join(lacks[:3])}"] if lacks else []
    parts += [f"has {', '.join(has[:3])}, which the others have not"] if has else []
    if not parts:
        parts = ["has the same addresses in another order or form"]
    return f"{len(own)} addresses beside the rack's {len(usual)}: {'; '.join(parts)}"


def _not_read(answer: NodeAnswer, stderr: str) -> Finding:
    return Finding(
        check=_ID,
        status=Status.UNKNOWN,
        subject="nodes_config.cfg",
        node=answer.node.name,
        message=f"could not be read: {stderr.strip()[:160] or 'no reason given'}",
        action=Action.INVESTIGATE,
        evidence=evidence(answer, commands.IMEX_NODE_LIST),
    )


def _split(view: RackView, texts: dict[str, str]) -> Finding:
    marks = {name: sha256(text.encode()).hexdigest()[:12] for name, text in texts.items()}
    return Finding(
        check=f"{_ID}.split",
        status=Status.FAIL,
        subject=view.name,
        value=len(set(marks.values())),
        unit="lists",
        expected="one",
        source=_SOURCE,
        message=f"the nodes have different lists, and none has the majority: {camps(marks)}",
        cause="written at different times, or nodes of two racks",
        action=Action.RESTART_IMEX,
    )


CHECK = Check(
    id=_ID,
    group=Group.NVLINK,
    level=Level.QUICK,
    title="the IMEX node list is the same on every node and names all of them",
    commands=(commands.IMEX_NODE_LIST,),
    judge_rack=_judge_rack,
    applies=lambda profile: profile.nvlink.imex.value,
)
