"""Whom to look at first when a collective hangs or fails: what the ranks' last words say. Hints, never blame."""

from __future__ import annotations

import re

from ndctl.jobs.nccl import NcclRun
from ndctl.model.places import Node

_RANK_ON = re.compile(r"Rank\s+(\d{1,6})\b.{0,60}?\bon\s+(\S{1,200})\s+device")
_INIT = re.compile(r"ncclCommInitRank\w{0,12} comm \S{1,40} rank (\d{1,6}) .{0,200}? - Init (START|COMPLETE)")
_WARN = re.compile(r"([\w.{}-]{1,100}):\d{1,10}:\d{1,10} \[-?\d{1,4}\].{0,100}? NCCL (?:WARN|ERROR) (.*)")
_FAILURE = re.compile(r"^\s*([\w.-]{1,100}): Test (?:NCCL|CUDA) failure (.*)")
# What a healthy rank says when another one is gone.
_SYMPATHY = re.compile(
    r"remote process exited|remote process has terminated|Connection (?:closed|reset)|closed by", re.I
)


def hints(run: NcclRun) -> tuple[Node, ...]:
    """Nodes in rank order; empty when the log points at nobody, or at everybody."""
    if run.log is None:
        return ()
    text = f"{run.log.stdout}\n{run.log.stderr}"
    found = _first_to_fail(run, text) or _never_ready(run, text)
    return () if len(found) * 2 > len(run.launch.nodes) else found


def nodes_by_host(run: NcclRun) -> dict[str, frozenset[Node]]:
    """Host name -> the nodes that bear it, from the list of ranks: mpirun and NCCL speak of hosts, people of nodes."""
    text = f"{run.log.stdout}\n{run.log.stderr}" if run.log is not None else ""
    return {host: frozenset(nodes) for host, nodes in _hosts(run, text).items()}


def _hosts(run: NcclRun, text: str) -> dict[str, set[Node]]:
    hosts: dict[str, set[Node]] = {}
    for rank, host in _RANK_ON.findall(text):
        node = _node_of(run, int(rank))
        if node is not None:
            hosts.setdefault(host, set()).add(node)
    return hosts


def _node_of(run: NcclRun, rank: int) -> Node | None:
    """mpirun fills node after node."""
    place = rank // run.launch.gpus_per_node
    return run.launch.nodes[place] if place < len(run.launch.nodes) else None


def _first_to_fail(run: NcclRun, text: str) -> tuple[Node, ...]:
    """The node that printed the first error of its own, as far as its host name is known from the list of ranks."""
    hosts = _hosts(run, text)
    for line in text.splitlines():
        match = _FAILURE.search(line) or _WARN.search(line)
        if match and not _SYMPATHY.search(match[2]):
            nodes = hosts.get(match[1], set())
            if len(nodes) == 1:
                return tuple(nodes)
    return ()


def _never_ready(run: NcclRun, text: str) -> tuple[Node, ...]:
    """Nodes of ranks that did not begin, or did not finish, to initialise, while others did."""
    reached: dict[str, set[int]] = {"START": set(), "COMPLETE": set()}
    for rank, step in _INIT.findall(text):
        reached[step].add(int(rank))
    everyone = range(len(run.launch.nodes) * run.launch.gpus_per_node)
    for step in ("START", "COMPLETE"):
        missing = [rank for rank in everyone if rank not in reached[step]]
        if reached[step] and missing:
            nodes = {node.name: node for rank in missing if (node := _node_of(run, rank)) is not None}
            return tuple(nodes.values())
    return ()
