"""Which racks and nodes a command means: `--rack 1,3-5`, `--nodes 'rack01-n[01-18]'`, `--exclude SET`, `--pick N`."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.places import Cluster, Rack, node_name
from ndctl.report.fold import natural, node_set
from ndctl.workflow.node_groups import ALL, GROUPS, LastRun, members, no_run, the_last_run

if TYPE_CHECKING:
    from ndctl.model.findings import Run

MOST_NODES = 200_000
_PART = re.compile(r"^(\d+)(?:-(\d+))?$")
_GROUP = re.compile(r"@([^,!&^\s]*)")
_LEFT_OPEN = re.compile(r"[@*?]")  # what stands for nodes that nobody spelled out


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for.

    racks:   rack numbers; None: all
    nodes:   a ClusterShell node set, in which @all, @failed and @incomplete may stand; "": all
    exclude: such a node set, to be left out
    pick:    as many, drawn by chance from what is left; None: all of it
    """

    racks: frozenset[int] | None = None
    nodes: str = ""
    exclude: str = ""
    pick: int | None = None

    @property
    def of_nodes(self) -> bool:
        """Whether it chooses among the nodes of a rack."""
        return bool(self.nodes or self.exclude or self.pick is not None)

    @property
    def as_json(self) -> dict[str, Any]:
        racks = None if self.racks is None else sorted(self.racks)
        return {"racks": racks, "nodes": self.nodes, "exclude": self.exclude, "pick": self.pick}


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Selected:
    """cluster: the part that was asked for; a rack of it expects only the nodes that were meant
    of:      nodes that there are in all
    absent:  names that were meant and are planned, and no node is there
    notes:   what a person should know: which run a group was read from
    """

    cluster: Cluster
    of: int
    absent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """ "17 of 1,152 nodes: rack07-n[01-10,12-18]"."""
        names = [node.name for node in self.cluster.nodes]
        line = f"{len(names):,} of {self.of:,} nodes" + (f": {node_set(names)}" if names else "")
        return line + (f"; not there: {node_set(self.absent)}" if self.absent else "")


def selection_of(
    rack: str | None = None, nodes: str | None = None, exclude: str | None = None, pick: int | None = None
) -> Selection:
    """The options as typed. Raises NdctlError exit 2 for what is no range or node set, before anything is asked."""
    for text in (nodes, exclude):
        if text is not None:
            parse_nodes(text, dict.fromkeys(GROUPS, ()))
    return Selection(parse_numbers(rack) if rack is not None else None, nodes or "", exclude or "", pick)


def parse_numbers(text: str) -> frozenset[int]:
    """ "1,3-5" -> {1, 3, 4, 5}. Raises NdctlError exit 2."""
    numbers: set[int] = set()
    for part in text.replace(" ", "").split(","):
        match = _PART.match(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first > 10_000:
            raise NdctlError(
                "select.racks",
                f"{part!r} is no rack number or range",
                hint="e.g. --rack 1,3-5",
                exit_code=ExitCode.USAGE,
            )
        numbers.update(range(first, last + 1))
    return frozenset(numbers)


def groups_in(text: str) -> tuple[str, ...]:
    """The names of the @groups of a node set, each once. Raises NdctlError exit 2 for one that there is not."""
    names = tuple(dict.fromkeys(_GROUP.findall(text)))
    for name in names:
        if name not in GROUPS:
            known = ", ".join(f"@{group}" for group in GROUPS)
            raise _no_node_set(text, f"there is no group @{name}; there are {known}")
    return names


def parse_nodes(text: str, groups: Mapping[str, Collection[str]]) -> frozenset[str]:
    """A ClusterShell node set, with its operators , ! & ^ and wildcards -> node names. Raises NdctlError exit 2.

    groups: what its @names stand for; wildcards look among those of @all
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolver, GroupResolverError, GroupSource, GroupSourceError

    groups_in(text)
    listed = {name: node_set(nodes) for name, nodes in groups.items() if name == ALL or f"@{name}" in text}
    # Not the resolver of this host: its groups would run commands that its ClusterShell is configured with.
    own = GroupResolver(GroupSource("ndctl", groups=listed, allgroups=listed.get(ALL, "")))
    try:
        chosen = NodeSet(text, resolver=own)
    except (NodeSetException, GroupResolverError, GroupSourceError, ValueError) as error:
        raise _no_node_set(text, str(error)) from error
    if not chosen and not _LEFT_OPEN.search(text):
        raise _no_node_set(text, "it names no node")
    if len(chosen) > MOST_NODES:
        raise _no_node_set(text, f"{len(chosen)} nodes, more than {MOST_NODES}")
    return frozenset(chosen)


def _no_node_set(text: str, why: str) -> NdctlError:
    hint = "e.g. --nodes 'rack01-n[01-18]', --exclude @failed"
    if "padding" in why:
        hint = "numbers of one range have one length: rack[01-99,100-120]; or a wildcard: 'rack*-n01'"
    return NdctlError(
        "select.nodes",
        f"{text!r} is no node set: {why}",
        hint=hint,
        exit_code=ExitCode.USAGE,
    )


def select(
    cluster: Cluster, selection: Selection, *, last: LastRun = no_run, chance: random.Random | None = None
) -> Selected:
    """The part of `cluster` that was asked for; with no node in it where a group or an exclusion left none.

    last: where @failed and @incomplete are read from; chance: what --pick draws with.
    Raises NdctlError exit 2 when a named rack or node does not exist, or a group has no run to be read from.
    """
    racks = _racks(cluster, selection)
    of = len(cluster.nodes)
    if not selection.of_nodes:
        return Selected(replace(cluster, racks=racks), of)
    names_of = {rack.name: frozenset(_names(rack)) for rack in cluster.racks}
    everything = frozenset(name for names in names_of.values() for name in names)
    groups, notes = _groups(cluster.name, selection, names_of, everything, last)
    chosen = frozenset(name for rack in racks for name in names_of[rack.name])
    if selection.nodes:
        wanted = parse_nodes(selection.nodes, groups)
        _all_there(cluster, wanted - everything)
        if not _LEFT_OPEN.search(selection.nodes):
            _all_chosen(wanted - chosen)
        chosen &= wanted
    if selection.exclude:
        excluded = parse_nodes(selection.exclude, groups)
        _all_there(cluster, excluded - everything)
        chosen -= excluded
    if selection.pick is not None:
        there = sorted((node.name for rack in racks for node in rack.nodes if node.name in chosen), key=natural)
        draw = chance or random.Random()
        chosen = frozenset(draw.sample(there, min(selection.pick, len(there))))
    narrowed = [_narrowed(rack, chosen) for rack in racks]
    kept = replace(cluster, racks=tuple(rack for rack in narrowed if rack.expected_nodes))
    absent = tuple(sorted(chosen - {node.name for node in kept.nodes}, key=natural))
    return Selected(kept, of, absent, notes)


def nothing_selected(selection: Selection, notes: Collection[str] = ()) -> NdctlError:
    """For a selection that came to no node: it is told, since having asked nobody must not look like an answer."""
    options = {"--nodes": selection.nodes, "--exclude": selection.exclude}
    given = " ".join(f"{name} {text}" for name, text in options.items() if text)
    told = "; ".join(notes)
    return NdctlError(
        "select.nothing",
        f"nothing to do: {given or 'the selection'} leaves no node" + (f" ({told})" if told else ""),
        hint="ndctl nodes INVENTORY lists the nodes, ndctl report the last run",
        exit_code=ExitCode.USAGE,
    )


def _racks(cluster: Cluster, selection: Selection) -> tuple[Rack, ...]:
    wanted = selection.racks
    if wanted is None:
        return cluster.racks
    absent = wanted - {rack.number for rack in cluster.racks}
    if absent:
        raise _absent(cluster, "rack", ", ".join(map(str, sorted(absent))))
    return tuple(rack for rack in cluster.racks if rack.number in wanted)


def _names(rack: Rack) -> list[str]:
    """Of its nodes, and of those that are planned and not there: they would take the lowest names that are free."""
    there = [node.name for node in rack.nodes]
    missing = max(0, rack.expected_nodes - len(there))
    planned = (node_name(rack.number, place) for place in range(1, rack.expected_nodes + 1))
    return [*there, *[name for name in planned if name not in there][:missing]]


def _groups(
    cluster: str,
    selection: Selection,
    names_of: Mapping[str, frozenset[str]],
    everything: frozenset[str],
    last: LastRun,
) -> tuple[dict[str, frozenset[str]], tuple[str, ...]]:
    groups = {ALL: everything}
    notes: list[str] = []
    run: Run | None = None
    for name in (*groups_in(selection.nodes), *groups_in(selection.exclude)):
        if name in groups:
            continue
        run = run or the_last_run(cluster, last, name)
        named = members(name, run, cluster, names_of)
        groups[name] = named & everything
        gone = len(named - everything)
        notes.append(
            f"@{name}: {_count(len(groups[name]))} by run {run.id}"
            + (f", and {gone:,} that are no longer there" if gone else "")
        )
    return groups, tuple(notes)


def _count(nodes: int) -> str:
    return f"{nodes:,} node{'' if nodes == 1 else 's'}"


def _narrowed(rack: Rack, chosen: frozenset[str]) -> Rack:
    kept = tuple(node for node in rack.nodes if node.name in chosen)
    return replace(rack, nodes=kept, expected_nodes=sum(name in chosen for name in _names(rack)))


def _all_there(cluster: Cluster, unknown: frozenset[str]) -> None:
    if unknown:
        raise _absent(cluster, "node", _some(unknown))


def _all_chosen(outside: frozenset[str]) -> None:
    if outside:
        raise NdctlError(
            "select.outside",
            f"{_some(outside)}: of no rack that was chosen",
            hint="leave --rack out, or name racks and nodes that go together",
            exit_code=ExitCode.USAGE,
        )


def _some(names: Collection[str]) -> str:
    ordered = sorted(names, key=natural)
    more = f" and {len(ordered) - 5:,} more" if len(ordered) > 5 else ""
    return ", ".join(ordered[:5]) + more


def _absent(cluster: Cluster, kind: str, names: str) -> NdctlError:
    return NdctlError(
        "select.absent",
        f"{cluster.name} has no {kind} {names}",
        hint="ndctl nodes INVENTORY lists what is there",
        exit_code=ExitCode.USAGE,
    )
