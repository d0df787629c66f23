"""When ports lost their link: told by the kernel's log, counted from the first time each was Active in this boot.

Losses of many ports at one moment are one event of the fabric, not a fault of each cable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ndctl.model.places import Node
from ndctl.parse.fabric_map import FabricMap
from ndctl.parse.ib_link_log import LinkLog

BOOT_GRACE_S = 300.0  # links are trained and configured in the first minutes, and may go down once more in that
TOGETHER_S = 60.0  # losses this close are one event; clocks of nodes differ by less
MOST_OF = 0.5  # of a rack's ports, or of one rail's: more than this together is the fabric's


@dataclass(frozen=True, slots=True, order=True)
class Loss:
    """seconds: of the log's clock, None where its lines have no time."""

    at: float
    node: str
    device: str
    time: str
    timed: bool = True


def losses_of(node: Node, log: LinkLog, fabric: FabricMap) -> list[Loss]:
    """Each change from Active to down of this boot, after the first minutes."""
    names = {port.pci: port.device for port in fabric.ports if port.pci}
    up: dict[str, bool] = {}
    found = []
    for change in log.changes:
        device = change.device or names.get(change.pci, change.pci)
        was = up.get(device)
        up[device] = change.active
        if change.active or change.state != "DOWN" or was is False:
            continue
        at = change.seconds
        if at is not None and log.booted is not None and at - log.booted < BOOT_GRACE_S:
            continue
        # Without a line of its becoming Active in a log that begins with the boot, the port never was up.
        if was is None and log.booted is not None:
            continue
        found.append(Loss(at if at is not None else 0.0, node.name, device, change.time, at is not None))
    return found


def together(losses: Iterable[Loss], ports: Mapping[str, int]) -> list[list[Loss]]:
    """Events that took more than half of the rack's ports, or of one rail over at least four nodes, at one moment.

    ports: device -> on how many nodes of the rack it was looked at
    """
    events = []
    for group in _groups(sorted(loss for loss in losses if loss.timed)):
        lost = {(loss.node, loss.device) for loss in group}
        rails = {device: sum(1 for _, one in lost if one == device) for _, device in lost}
        whole = len(lost) > MOST_OF * sum(ports.values()) and len({node for node, _ in lost}) > 1
        rail = {
            device for device, count in rails.items() if ports.get(device, 0) >= 4 and count > MOST_OF * ports[device]
        }
        if whole:
            events.append(group)
        elif rail:
            events.append([loss for loss in group if loss.device in rail])
    return events


def _groups(losses: list[Loss]) -> list[list[Loss]]:
    """Cut where more than TOGETHER_S lie between one loss and the first of its group."""
    groups: list[list[Loss]] = []
    for loss in losses:
        if groups and loss.at - groups[-1][0].at <= TOGETHER_S:
            groups[-1].append(loss)
        else:
            groups.append([loss])
    return groups


def most_within(times: list[float], window_s: float) -> int:
    """The most of these moments that lie within one window."""
    ordered = sorted(times)
    most = start = 0
    for end, at in enumerate(ordered):
        while at - ordered[start] > window_s:
            start += 1
        most = max(most, end - start + 1)
    return most
