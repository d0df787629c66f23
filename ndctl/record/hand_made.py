"""A folder of texts somebody gathered by hand: one folder a node, one file a command, named by the command's id.

rack01-n03/nvidia-smi-xml.txt        what the command printed; any ending, or none
rack01-n03/nvidia-smi-xml.err        its stderr
rack01-n03/nvidia-smi-xml.code       its exit status, 0 where there is no such file
"""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

from ndctl.model.answers import CommandResult, Outcome, OutcomeKind
from ndctl.model.errors import ExitCode, NdctlError, Where
from ndctl.parse.pasted import NotText, decode
from ndctl.record.answers import Kept, NodeHistory
from ndctl.record.folder import broken, read_bytes

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TURN = re.compile(r"\.(\d{1,6})(?=\.|$)")
_LAYOUT = "one folder a node, and in it files named by command, e.g. rack01-n03/nvidia-smi-xml.txt (ndctl checks)"


class HandMade:
    """nodes: names, sorted; unread: files nobody asks for, each with the reason. Raises NdctlError (exit 2)."""

    def __init__(self, folder: Path, commands: Collection[str]) -> None:
        self._folder = folder
        self._commands = sorted(commands, key=len, reverse=True)
        self._found: dict[str, dict[str, CommandResult]] = {}
        self.unread: list[str] = []
        try:
            inside = sorted(folder.iterdir())
        except OSError as error:
            raise NdctlError(
                "bundle.folder",
                f"cannot be read: {error.strerror or error}",
                hint=_LAYOUT,
                where=Where(folder),
                exit_code=ExitCode.USAGE,
            ) from error
        for place in inside:
            if place.is_dir() and not place.is_symlink() and _NODE.fullmatch(place.name):
                self._found[place.name] = self._node(place)
            else:
                self.unread.append(f"{place.name}: no folder of a node")
        if not any(self._found.values()):
            raise broken(folder, "no text of any node is in it", _LAYOUT)
        self.nodes = tuple(self._found)

    def of_node(self, cluster: str, node: str) -> NodeHistory:
        """As if the node had been asked once for everything that is here."""
        results = self._found.get(node, {})
        kept = tuple(Kept(one.id, 1, 1, None, True, one) for one in results.values())
        return NodeHistory(cluster, node, {1: Outcome(OutcomeKind.OK)} if kept else {}, kept)

    def one(self, cluster: str, node: str, command: str, turn: int) -> CommandResult | None:
        return self._found.get(node, {}).get(command) if turn == 1 else None

    def _node(self, place: Path) -> dict[str, CommandResult]:
        parts: dict[str, dict[str, str]] = {}
        # Of several turns the last one counts: files come in the order of their turns.
        for file in sorted(place.iterdir(), key=lambda one: (_turn(one.name), one.name)):
            command = next((one for one in self._commands if file.name == one or file.name.startswith(f"{one}.")), None)
            if command is None:
                near = get_close_matches(file.name.partition(".")[0], self._commands, n=1)
                meant = f"; did you mean {near[0]}?" if near else ""
                self.unread.append(f"{place.name}/{file.name}: no check asks for it{meant}")
                continue
            ending = file.name[len(command) :].rpartition(".")[2]
            kind = ending if ending in ("err", "code") else "out"
            parts.setdefault(command, {})[kind] = self._text(place.name, file.name)
        return {command: self._result(place, command, one) for command, one in sorted(parts.items())}

    def _text(self, node: str, name: str) -> str:
        try:
            return decode(read_bytes(self._folder, node, name))
        except NotText as error:
            raise broken(self._folder / node / name, str(error), "give the text as the tool printed it") from error

    def _result(self, place: Path, command: str, parts: dict[str, str]) -> CommandResult:
        code = parts.get("code", "0").strip()
        if not re.fullmatch(r"\d{1,3}", code):
            raise broken(place / f"{command}.code", f"{code[:40]!r} is no exit status", "a number of 0 to 255")
        return CommandResult(command, int(code), parts.get("out", ""), parts.get("err", ""))


def _turn(name: str) -> int:
    match = _TURN.search(name)
    return int(match[1]) if match else 0
