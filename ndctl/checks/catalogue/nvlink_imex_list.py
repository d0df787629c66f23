"""The IMEX node list is byte-identical on every node of the rack and names exactly its nodes."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from ndctl.checks import commands
from ndctl.checks.addresses import known_by, own_addresses
from ndctl.checks.base import Check, RackView
from ndctl.checks.from_text import evidence, unusable
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Group, Level, Status
from ndctl.profiles.schema import Profile

_ID = "nvlink.imex-list"
_SOURCE = "NVIDIA IMEX guide: nodes_config.cfg is the same on every node"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    findings: list[Finding] = []
    texts: dict[str, str] = {}
    for node, answer in view.answers.items():
        if not answer.outcome.ok and not answer.results:
            continue
        missing = unusable(_ID, answer, commands.IMEX_NODE_LIST)
        if missing:
            findings.append(missing)
            continue
        result = answer.results[commands.IMEX_NODE_LIST.id]
        if result.exit_code or not result.stdout.strip():
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
    usual = min(counts, key=lambda text: (-counts[text], text))
    for name, text in texts.items():
        if text != usual:
            findings.append(
                Finding(
                    check=_ID,
                    status=Status.FAIL,
                    subject="nodes_config.cfg",
                    node=name,
                    value=sha256(text.encode()).hexdigest()[:12],
                    expected=f"{sha256(usual.encode()).hexdigest()[:12]}, as on {counts[usual]} nodes",
                    source=_SOURCE,
                    message=f"{len(text.split())} addresses that differ from the rack's {len(usual.split())}",
                    cause="written at another time, when other nodes were there",
                    action=Action.RESTART_IMEX,
                    evidence=f"{name}/{commands.IMEX_NODE_LIST.id}",
                )
            )
    listed = set(usual.split())
    known = known_by(listed, own_addresses(view))
    # Where no entry is any node's address, who is who cannot be told, so nobody can be called absent.
    absent = sorted(node.name for node in view.answers if known and node not in known)
    if absent:
        findings.append(
            Finding(
                check=f"{_ID}.absent",
                status=Status.FAIL,
                subject="nodes_config.cfg",
                value=len(usual.split()),
                unit="addresses",
                expected=f"all {len(view.answers)} nodes of the rack",
                source=_SOURCE,
                message=f"the rack's list leaves out {', '.join(absent[:4])}",
                cause="written before those nodes were there",
                action=Action.RESTART_IMEX,
            )
        )
    return findings or [
        Finding(
            check=_ID,
            status=Status.PASS,
            subject=view.name,
            value=len(usual.split()),
            unit="addresses",
            message=f"one list of {len(usual.split())} addresses on {len(texts)} nodes",
        )
    ]


CHECK = Check(
    id=_ID,
    group=Group.NVLINK,
    level=Level.QUICK,
    title="the IMEX node list is the same on every node and names all of them",
    commands=(commands.IMEX_NODE_LIST,),
    judge_rack=_judge_rack,
    applies=lambda profile: profile.nvlink.imex.value,
)
