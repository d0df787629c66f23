"""InfiniBand links stay up: how often ports lost their link in this boot, by the kernel's log and by the carrier of
their network interfaces. Training at boot does not count, and what most ports lost at one moment is the fabric's."""

from __future__ import annotations

from collections import Counter

from ndctl.checks import commands
from ndctl.checks.base import Check, RackView
from ndctl.checks.catalogue.infiniband_counters import is_ours
from ndctl.checks.from_text import evidence, unusable
from ndctl.checks.port_losses import Loss, losses_of, most_within, together
from ndctl.checks.read_once import fabric_of, once
from ndctl.model.answers import NodeAnswer
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Group, Level, Status
from ndctl.parse import key_values
from ndctl.parse.fabric_map import FabricMap
from ndctl.parse.ib_link_log import LinkLog, parse
from ndctl.profiles.schema import Profile

_ID = "infiniband.flaps"
_CATEGORY = "Resource.Hpc.Unhealthy.IBPortFlapping"
_CAUSE = "a marginal link: cable, transceiver or switch port"
_RECENT_S = 24 * 3600.0  # older losses are history that nobody has to act on
_HOUR_S = 3600.0


@once
def _read(text: str) -> LinkLog:
    """A rack is judged more than once in a run, and its logs are long."""
    return parse(text)


def _judge_rack(view: RackView, profile: Profile) -> list[Finding]:
    findings: list[Finding] = []
    losses: dict[Node, list[Loss]] = {}
    ports: Counter[str] = Counter()
    logs: dict[Node, LinkLog] = {}
    for node, answer in view.answers.items():
        if not answer.results:
            continue
        fabric = fabric_of(_text(answer, commands.FABRIC_MAP.id))
        ours = [port for port in fabric.ports if is_ours(port.device, profile)]
        ports.update(port.device for port in ours)
        missing = unusable(_ID, answer, commands.KERNEL_LOG)
        if missing:
            findings.append(missing)
        else:
            log = logs[node] = _read(_text(answer, commands.KERNEL_LOG.id))
            losses[node] = [loss for loss in losses_of(node, log, fabric) if is_ours(loss.device, profile)]
        findings += _carrier(answer, fabric, losses.get(node, []), profile)
    events = together((loss for own in losses.values() for loss in own), ports)
    shared = {loss for event in events for loss in event}
    findings += [_of_fabric(view, event) for event in events]
    for node, own in losses.items():
        answer = view.answers[node]
        lost = [loss for loss in own if loss not in shared]
        by_port: dict[str, list[Loss]] = {}
        for loss in lost:
            by_port.setdefault(loss.device, []).append(loss)
        found = [f for device, those in by_port.items() if (f := _of_port(answer, device, those, logs[node], profile))]
        findings += found or [_quiet(answer, logs[node], len(lost), len(own) - len(lost))]
    return findings


def _text(answer: NodeAnswer, command: str) -> str:
    result = answer.results.get(command)
    return result.stdout if result is not None else ""


def _age(answer: NodeAnswer, log: LinkLog, at: float) -> float | None:
    """How long ago a moment of the log was, by the node's own uptime; None where that is not known."""
    told = key_values.parse(_text(answer, commands.IDENTITY.id)).get("uptime_s", "")
    try:
        return None if log.booted is None else max(0.0, float(told) - (at - log.booted))
    except ValueError:
        return None


def _of_port(answer: NodeAnswer, device: str, losses: list[Loss], log: LinkLog, profile: Profile) -> Finding | None:
    last = max(losses)
    age = _age(answer, log, last.at) if last.timed else None
    if age is not None and age > _RECENT_S:
        return None
    limit, window = profile.infiniband.link_losses, profile.infiniband.link_loss_window_s
    hours = window.value / _HOUR_S if window else 0.0
    timed = [loss.at for loss in losses if loss.timed]
    most = most_within(timed, window.value) if window else 0
    flaps = limit is not None and most >= limit.value
    said = f"lost its link {len(losses)} times in this boot" if len(losses) > 1 else "lost its link once in this boot"
    if flaps and most < len(losses):
        said += f", {most} of them within {hours:g} h"
    return Finding(
        check=_ID if flaps else f"{_ID}.lost",
        status=Status.FAIL if flaps else Status.WARN,
        subject=device,
        node=answer.node.name,
        value=most if flaps else len(losses),
        unit="link losses",
        expected=f"fewer than {limit.value} within {hours:g} h" if limit else "none",
        source=limit.origin if limit else "the kernel's log",
        message=f"{said}, last at {last.time}" + (f" ({_ago(age)} ago)" if age is not None else ""),
        cause=_CAUSE,
        action=Action.REPLACE_AND_REPORT if flaps else Action.WATCH,
        evidence=evidence(answer, commands.KERNEL_LOG),
        health_category=_CATEGORY if flaps else "",
    )


def _ago(seconds: float) -> str:
    return f"{seconds / _HOUR_S:.1f} h" if seconds >= _HOUR_S else f"{seconds / 60:.0f} min"


def _of_fabric(view: RackView, event: list[Loss]) -> Finding:
    nodes = sorted({loss.node for loss in event})
    rails = sorted({loss.device for loss in event})
    return Finding(
        check=f"{_ID}.fabric",
        status=Status.WARN,
        subject=f"{view.name} {', '.join(rails)}",
        value=len({(loss.node, loss.device) for loss in event}),
        unit="ports",
        expected="no common loss of links",
        source="the kernel's logs of all nodes",
        message=f"{len(event)} losses on {len(nodes)} nodes within a minute of {event[0].time}: no single cable's",
        cause="a switch that restarted, maintenance of the fabric, or its subnet manager",
        action=Action.WATCH,
    )


def _carrier(answer: NodeAnswer, fabric: FabricMap, losses: list[Loss], profile: Profile) -> list[Finding]:
    """Where the kernel's log tells of no loss the carrier's count may: it has no times, so it only warns."""
    limit = profile.infiniband.carrier_losses
    logged = {loss.device for loss in losses}
    return [
        Finding(
            check=f"{_ID}.carrier",
            status=Status.WARN,
            subject=port.device,
            node=answer.node.name,
            value=port.losses,
            unit="carrier losses",
            expected=f"at most {limit.value} since boot",
            source=limit.origin,
            message=f"{port.netdev or 'its interface'} lost its carrier {port.losses} times since it was made",
            cause=f"{_CAUSE}; or the interface was set down and up, or its partition changed",
            action=Action.WATCH,
            evidence=evidence(answer, commands.FABRIC_MAP),
        )
        for port in fabric.ports
        if limit is not None
        and is_ours(port.device, profile)
        and port.device not in logged
        and port.losses is not None
        and port.losses > limit.value
    ]


def _quiet(answer: NodeAnswer, log: LinkLog, old: int, shared: int) -> Finding:
    """Only a log that tells of ports at all can say that none was lost."""
    if log.changes:
        others = [f"{old} more than a day ago"] if old else []
        others += [f"{shared} with most of the rack's"] if shared else []
        beside = f", beside {' and '.join(others)}" if others else ""
        return Finding(
            check=_ID,
            status=Status.PASS,
            subject="links",
            node=answer.node.name,
            value=len(log.changes),
            unit="changes of state",
            message=f"no port lost its link{beside}; the log has {len(log.changes)} changes of ports' states",
            evidence=evidence(answer, commands.KERNEL_LOG),
        )
    return Finding(
        check=_ID,
        status=Status.SKIP,
        subject="links",
        node=answer.node.name,
        message="the log tells of no port's state: kernels before 6.15 do not, or the log is cut",
        evidence=evidence(answer, commands.KERNEL_LOG),
    )


CHECK = Check(
    id=_ID,
    group=Group.INFINIBAND,
    level=Level.QUICK,
    title="InfiniBand links stay up",
    commands=(commands.KERNEL_LOG, commands.FABRIC_MAP, commands.IDENTITY),
    judge_rack=_judge_rack,
    required=False,
)
