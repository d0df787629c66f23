"""A run as a folder to hand on: everything it is judged by, as files that people can read.

    manifest.json                        what was asked, of whom, and how it is judged (schema ndctl.bundle/1)
    run.json                             the run as it was judged, where it was
    nodes/<node>/meta.json               how each asking of the node ended
    nodes/<node>/<command>.<turn>.out    what the command printed, and .err where it printed any

Where a run has several clusters, nodes lie in nodes/<cluster>/<node>. Secrets are taken out (`record.redact`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndctl import __version__
from ndctl.model.answers import CommandResult, Outcome, OutcomeKind
from ndctl.model.codec import run_from_json, run_to_json
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.findings import Run
from ndctl.model.jsonable import dumps
from ndctl.record.answers import Kept, NodeHistory, histories
from ndctl.record.folder import broken, file_name, make_empty, read_object, read_text, write_text
from ndctl.record.redact import redacted
from ndctl.record.store import Store

BUNDLE_SCHEMA = "ndctl.bundle/1"
MANIFEST = "manifest.json"
_RUN = "run.json"
_META = "meta.json"
_KINDS = {kind.value: kind for kind in OutcomeKind}


@dataclass(frozen=True, slots=True)
class Manifest:
    """plan: the run's own part of what it was asked; clusters: name -> its part, in order."""

    run_id: str
    started: str
    plan: Mapping[str, Any]
    clusters: Mapping[str, Mapping[str, Any]]
    nodes: frozenset[tuple[str, str]]


def write_bundle(store: Store, run: str, folder: Path) -> int:
    """Write a recorded run into an empty folder; how many nodes. Raises NdctlError (exit 2)."""
    run_id = store.resolve(run)
    plans = store.plans(run_id)
    if "" not in plans:
        raise NdctlError(
            "bundle.too-old",
            f"run {run_id} was recorded by an ndctl that did not keep what a bundle needs",
            hint=f"its texts can be read one by one: ndctl report {run_id} --raw NODE/COMMAND",
            exit_code=ExitCode.USAGE,
        )
    line = store.line(run_id)
    make_empty(folder)
    nodes = []
    try:
        several = len(line.clusters) > 1
        for history in histories(store.answers, run_id):
            nodes.append({"cluster": history.cluster, "node": history.node})
            _write_node(folder.joinpath(*_place(history.cluster, history.node, several)), history)
        if line.finished is not None:
            write_text(folder / _RUN, dumps(run_to_json(store.load(run_id))) + "\n")
        manifest = {
            "schema": BUNDLE_SCHEMA,
            "ndctl": __version__,
            "run": run_id,
            "started": line.started,
            "plan": {key: value for key, value in plans[""].items() if key != "process"},
            "clusters": [{"name": name, **plans[name]} for name in line.clusters if name in plans],
            "nodes": nodes,
        }
        # Last, so that a folder that was not finished is known for what it is.
        write_text(folder / MANIFEST, redacted(dumps(manifest)) + "\n")
    except OSError as error:
        raise NdctlError(
            "bundle.folder",
            f"{error.filename or folder} cannot be written: {error.strerror or error}",
            hint="name a folder with space, on another disk",
            exit_code=ExitCode.USAGE,
        ) from error
    return len(nodes)


def read_manifest(folder: Path) -> Manifest:
    """Raises NdctlError (exit 2) for what is no bundle of this version."""
    told = read_object(folder, MANIFEST)
    path = folder / MANIFEST
    schema = told.get("schema")
    if schema != BUNDLE_SCHEMA:
        newer = isinstance(schema, str) and schema.startswith("ndctl.bundle/")
        hint = "update ndctl: it was written by a newer one" if newer else "is it a bundle that ndctl report wrote?"
        raise broken(path, f"schema {schema!r} is not {BUNDLE_SCHEMA!r}", hint)
    shape: dict[str, type] = {"run": str, "started": str, "plan": dict, "clusters": list, "nodes": list}
    for key, kind in shape.items():
        if not isinstance(told.get(key), kind):
            raise broken(path, f"{key!r} is missing, or no {kind.__name__}")
    try:
        clusters = {one["name"]: {key: part for key, part in one.items() if key != "name"} for one in told["clusters"]}
        nodes = frozenset((one["cluster"], one["node"]) for one in told["nodes"])
        names = [*clusters, *(name for pair in nodes for name in pair)]
    except (KeyError, TypeError, AttributeError) as error:
        raise broken(path, f"clusters or nodes are not as they should be: {error}") from error
    if not all(isinstance(name, str) and name for name in names):
        raise broken(path, "a cluster or node has no name")
    return Manifest(told["run"], told["started"], told["plan"], clusters, nodes)


def read_run(folder: Path) -> Run | None:
    """The run as it was judged, None where the bundle has none."""
    if not (folder / _RUN).exists() and not (folder / _RUN).is_symlink():
        return None
    try:
        return run_from_json(read_object(folder, _RUN))
    except ValueError as error:
        raise broken(folder / _RUN, f"is no run: {error}") from error


class BundleShelf:
    """The answers of a bundle, read when they are asked for."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._nodes = manifest.nodes
        self._several = len(manifest.clusters) > 1
        self._read: dict[tuple[str, str], dict[tuple[str, int], Kept]] = {}

    def of_node(self, cluster: str, node: str) -> NodeHistory:
        """Everything a node was asked, without the texts. Raises NdctlError (exit 2)."""
        if (cluster, node) not in self._nodes:
            return NodeHistory(cluster, node)
        place = (*_place(cluster, node, self._several), _META)
        told = read_object(self._folder, *place)
        try:
            askings = {
                _whole(one["number"]): Outcome(_KINDS[one["kind"]], str(one["detail"]), str(one["hint"]))
                for one in told["askings"]
            }
            kept = tuple(_kept(one) for one in told["answers"])
        except (KeyError, TypeError, ValueError) as error:
            raise broken(self._folder.joinpath(*place), f"is not as it should be: {error!r}") from error
        self._read[cluster, node] = {(one.command, one.turn): one for one in kept}
        return NodeHistory(cluster, node, askings, kept)

    def one(self, cluster: str, node: str, command: str, turn: int) -> CommandResult | None:
        """What one command gave at that turn, with its texts. Raises NdctlError (exit 2)."""
        if (cluster, node) not in self._read:
            self.of_node(cluster, node)
        kept = self._read.get((cluster, node), {}).get((command, turn))
        if kept is None or not kept.answered:
            return None
        place = _place(cluster, node, self._several)
        # The texts of `kept.result` only say whether there is a file.
        stdout, stderr = (
            read_text(self._folder, *place, f"{file_name(command)}.{turn}.{end}") if there else ""
            for end, there in (("out", kept.result.stdout), ("err", kept.result.stderr))
        )
        result = kept.result
        return CommandResult(
            command, result.exit_code, stdout, stderr, result.seconds, result.timed_out, result.truncated
        )


def _place(cluster: str, node: str, several: bool) -> tuple[str, ...]:
    return ("nodes", *((file_name(cluster),) if several else ()), file_name(node))


def _write_node(folder: Path, history: NodeHistory) -> None:
    folder.mkdir(mode=0o700, parents=True)
    answers = []
    for one in history.kept:
        stem = f"{file_name(one.command)}.{one.turn}"
        result = one.result
        for end, text in (("out", result.stdout), ("err", result.stderr)):
            if text:
                write_text(folder / f"{stem}.{end}", redacted(text))
        answers.append(
            {
                "command": one.command,
                "turn": one.turn,
                "asking": one.asking,
                "question": one.question.hex() if one.question else None,
                "answered": one.answered,
                "exit_code": result.exit_code,
                "seconds": result.seconds,
                "timed_out": result.timed_out,
                "truncated": result.truncated,
                "out": bool(result.stdout),
                "err": bool(result.stderr),
            }
        )
    askings = [
        {"number": number, "kind": outcome.kind.value, "detail": outcome.detail, "hint": outcome.hint}
        for number, outcome in sorted(history.askings.items())
    ]
    write_text(folder / _META, redacted(dumps({"node": history.node, "askings": askings, "answers": answers})) + "\n")


def _kept(told: Mapping[str, Any]) -> Kept:
    asking, asked, code = told["asking"], told["question"], told["exit_code"]
    return Kept(
        command=str(told["command"]),
        turn=_whole(told["turn"]),
        asking=None if asking is None else _whole(asking),
        question=None if asked is None else bytes.fromhex(asked),
        answered=told["answered"] is True,
        result=CommandResult(
            str(told["command"]),
            None if code is None else _whole(code),
            "there" if told["out"] else "",
            "there" if told["err"] else "",
            float(told["seconds"]),
            told["timed_out"] is True,
            told["truncated"] is True,
        ),
    )


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{value!r} is no whole number")
