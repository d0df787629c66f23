"""Small conclusions drawn from the rows and ranks of an nccl-tests output; no judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ndctl.parse.nccl_log import NcclLog
from ndctl.parse.nccl_rows import Row


def once(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """The rows without those a launcher printed again, and how many those were. Equal sizes with other figures stay."""
    seen = dict.fromkeys(rows)
    return list(seen), len(rows) - len(seen)


def peak(rows: Iterable[Row]) -> dict[str, Any]:
    best = max(
        ((side.busbw, row.bytes) for row in rows for side in row.sides if side.busbw is not None), default=(None, None)
    )
    return {"peak_busbw": best[0], "peak_bytes": best[1]}


def checked(rows: Sequence[Row], validation: int | None) -> bool | None:
    """Whether results were compared with what they should be; None where nothing says so."""
    sides = [row.out_of_place or row.in_place for row in rows]
    if any(side is not None and side.checked for side in sides):
        return True
    if sides or validation == 0:
        return False
    return None


def collective(rows: Sequence[Row], ranks: int | None) -> str | None:
    """The operation, where the rows alone tell it: only all_reduce has a sum and busbw of at least algbw."""
    ratios = [
        side.busbw / side.algbw
        for row in rows
        for side in row.sides
        if side.busbw and side.algbw and side.algbw > 1 and row.redop not in (None, "none") and row.root in (None, -1)
    ]
    if not ratios:
        return None
    middle = sorted(ratios)[len(ratios) // 2]
    if middle >= 0.99 and ranks != 1:
        return "all_reduce"
    return "reduce_scatter" if 0.4 < middle < 0.999 else None


def placed(devices: Sequence[tuple[int, str, int]], log: NcclLog) -> dict[str, Any]:
    """Hosts and how many nodes. Two machines may bear one name: then one (host, GPU) is named by several ranks."""
    hosts = sorted({host for _, host, _ in devices}) or sorted(log.hosts)
    claims: dict[str, int] = {}
    for (host, _), number in Counter((host, device) for _, host, device in devices if device >= 0).items():
        claims[host] = max(claims.get(host, 1), number)
    nodes: int | None = sum(claims.get(host, 1) for host in hosts) or None
    if not devices:
        # with MNNVL, NCCL counts the whole domain as one node; hosts count only where every rank was heard
        heard_all = log.ranks is not None and len(log.speakers) >= log.ranks
        nodes = log.nodes if log.nodes and not log.mnnvl else nodes if heard_all else None
    return {"hosts": tuple(hosts), "nodes": nodes}


def of_log(log: NcclLog) -> dict[str, Any]:
    return {
        "transport": log.transport,
        "paths": dict(sorted(log.paths.items())),
        "network": log.network,
        "rails": tuple(sorted(log.rails)),
        "ib_devices": tuple(sorted(log.ib_devices)),
        "ib_devices_of": {host: tuple(sorted(found.values())) for host, found in sorted(log.ib_numbers.items())},
        "rail_devices": _rail_devices(log),
        "gdr": None if not log.gdr else any(log.gdr),
        "nvls": log.nvls,
        "without_nvls": tuple(sorted(filter(None, log.without_nvls))),
        "mnnvl": log.mnnvl,
        "fabric": tuple(log.fabric[key] for key in sorted(log.fabric)),
        "env": dict(sorted(log.env.items())),
        "warnings": tuple(log.warnings),
    }


def _rail_devices(log: NcclLog) -> tuple[str, ...]:
    """The devices that channels use, by name. Each host numbers its own; a number without a name is left out."""
    named: set[str] = set()
    for host, numbers in log.rails_of.items():
        names = {**log.ib_numbers.get(host, {}), **log.ib_merged.get(host, {})}
        named.update(part for number in numbers if number in names for part in names[number].split("+"))
    return tuple(sorted(named))
