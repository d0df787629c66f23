"""One full-member partition key on all rails of all nodes; with several, every link is up and nothing connects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.catalogue.infiniband_counters import is_ours
from ndctl.checks.from_text import unusable
from ndctl.checks.majority import camps, majority
from ndctl.checks.read_once import ports_of
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse.ports import Port
from ndctl.profiles.schema import Profile

_ID = "infiniband.pkeys"
_FULL_MEMBER = 0x8000
_DEFAULT = 0x7FFF  # the management partition, with the member bit taken off
_SOURCE = "InfiniBand partitioning; Azure gives each group of VMs a key of its own"
_CATEGORY = "Resource.Hpc.Unhealthy.HpcGenericFailure"
_CAUSE = "the VM is in another partition: another scale set's group, or its port was not configured"
Keys = frozenset[int]
Rails = dict[tuple[Node, str], Keys]


def _own(pkeys: Iterable[int]) -> Keys:
    """The keys that tell partitions apart: not empty slots, not the default partition."""
    return frozenset(key for key in pkeys if key & _DEFAULT not in (0, _DEFAULT))


def _partitions(keys: Keys) -> Keys:
    """Which partitions, whatever the kind of membership."""
    return frozenset(key & _DEFAULT for key in keys)


def _full(keys: Keys) -> bool:
    return any(key & _FULL_MEMBER for key in keys)


def _text(keys: Keys) -> str:
    return ", ".join(f"0x{key:04x}" for key in sorted(keys)) or "none beside the default"


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    rails: Rails = {}
    findings: list[Finding] = []
    for node, answer in view.answers.items():
        if not answer.results:
            continue
        missing = unusable(_ID, answer, commands.IB_SYSFS)
        if missing:
            findings.append(missing)
            continue
        found = [p for p in ports_of(answer.results[commands.IB_SYSFS.id].stdout).ports if _is_rail(p, profile)]
        rails.update({(node, port.device): frozenset(port.pkeys) for port in found if port.pkeys})
        blind = [port.device for port in found if not port.pkeys]
        findings += [_unread(node.name, device) for device in (blind if found else ["partition keys"])]
    if not rails:
        return findings
    findings += _compared(view, rails, profile)
    if not findings:
        usual = _own(next(iter(rails.values())))
        findings.append(
            Finding(
                check=_ID,
                status=Status.PASS,
                subject=view.name,
                value=_text(usual),
                message=f"one partition key ({_text(usual)}) on {len(rails)} rails",
            )
        )
    return findings


def _is_rail(port: Port, profile: Profile) -> bool:
    """An InfiniBand port; where the link layer is not told, one whose name is the profile's."""
    return port.link_layer == "InfiniBand" or (not port.link_layer and is_ours(port.device, profile))


def _compared(view: RackView, rails: Rails, profile: Profile) -> list[Finding]:
    own = {rail: _own(keys) for rail, keys in rails.items()}
    if not any(own.values()):
        return [_only_default(view, rails)]
    expected = view.expected_nodes * profile.infiniband.ports.value
    usual = majority((_partitions(keys) for keys in own.values()), expected)
    if usual is None and len({_partitions(keys) for keys in own.values()}) == 1:
        usual = _partitions(next(iter(own.values())))
    if usual is None:
        shown = {f"{node.name} {device}": _text(keys) for (node, device), keys in own.items()}
        text = f"the rack is split, and no partition key has the majority of its rails: {camps(shown)}"
        return [_of_rack(view, "split", text, Action.INVESTIGATE)]
    if not usual:
        text = f"most rails have no partition key beside the default, and {sum(map(bool, own.values()))} have one"
        return [_of_rack(view, "split", text, Action.INVESTIGATE)]
    if not any(_full(keys) for keys in own.values()):
        text = f"all rails are only limited members of {_text(usual)}: limited members cannot talk to each other"
        return [_of_rack(view, "limited", text, Action.INVESTIGATE)]
    same = [keys for keys in own.values() if _partitions(keys) == usual]
    wanted = f"{_text(majority(same) or usual)} as on {len(same)} of {len(own)} rails"
    return [
        Finding(
            check=_ID,
            status=Status.FAIL,
            subject=device,
            node=node.name,
            value=_text(keys),
            expected=wanted,
            source=_SOURCE,
            message=problem,
            cause=_CAUSE,
            action=Action.REDEPLOY,
            evidence=f"{node.name}/{commands.IB_SYSFS.id}",
            health_category=_CATEGORY,
        )
        for (node, device), keys in own.items()
        if (problem := _problem(keys, usual))
    ]


def _problem(keys: Keys, usual: Keys) -> str:
    if not keys:
        return "has no partition key beside the default"
    if _partitions(keys) != usual:
        return f"partition key {_text(keys)} differs from the rack's {_text(usual)}"
    if not _full(keys):
        return f"is only a limited member ({_text(keys)}): limited members cannot talk to each other"
    return ""


def _only_default(view: RackView, rails: Rails) -> Finding:
    """No partition of the rack's own. Full members of the default one reach each other, as on a fabric of one's own;
    Azure's tenants never are."""
    if all(_full(keys) for keys in rails.values()):
        text = f"all {len(rails)} rails are full members of the default partition, and of no other"
        return replace(_of_rack(view, "default-only", text, Action.INVESTIGATE), status=Status.WARN, health_category="")
    text = f"no rail of {len(rails)} has a partition key beside the default"
    return _of_rack(view, "default-only", text, Action.INVESTIGATE)


def _of_rack(view: RackView, what: str, message: str, action: Action) -> Finding:
    return Finding(
        check=f"{_ID}.{what}",
        status=Status.FAIL,
        subject=view.name,
        expected="one full-member key",
        source=_SOURCE,
        message=message,
        cause="the VMs are of several partition groups, or the partition was not configured",
        action=action,
        health_category=_CATEGORY,
    )


def _unread(node: str, device: str) -> Finding:
    return Finding(
        check=_ID,
        status=Status.UNKNOWN,
        subject=device,
        node=node,
        message="no partition key could be read",
        action=Action.INVESTIGATE,
        evidence=f"{node}/{commands.IB_SYSFS.id}",
    )


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="one full-member InfiniBand partition key on all rails of the rack",
    commands=(commands.IB_SYSFS,),
    judge_rack=_judge_rack,
)
