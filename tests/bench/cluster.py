"""64 racks that answer from files: what the embedded region's nodes print, written down once, behind one real sshd.

One rack is asked the quick level's script through its stand-in tools; every other rack gets the same texts with the
names, addresses, serials, UUIDs and GUIDs that its own machines have in the model, and with counters of its own, so
that no two nodes say the same. A login then costs the server one `sed`, and the client cannot tell the difference.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ndctl.model.answers import Command, CommandResult
from ndctl.model.places import Node
from ndctl.sim.nodes.server import serve
from ndctl.sim.world import World
from ndctl.ssh.engine import Engine
from ndctl.ssh.settings import SshSettings
from tests.ssh import sshd as openssh

PER_RACK = 18
_NONCE = "NdctlBenchNonce0"  # as long as a nonce; the forced command puts the real one in its place
_MOMENT = 1_790_000_000.0
_UP_S = 40 * 86_400.0  # a rack that came up lately might be asked again
# What tells machines apart: addresses, host names, UUIDs, GUIDs, serials of GPUs and disks, physical hosts.
_NAMES = re.compile(
    r"(\b127\.1\.1\.\d+\b|\brack01-?n\d+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|0015:5dff:fe[0-9a-f]{2}:[0-9a-f]{4}|(?:0x)?00155dfffe[0-9a-f]{6}|\b165\d{10}\b|\bGAZ[0-9A-F]{9}\b|\b[0-9A-F]{12}\b)"
)
_SAME_DIGITS = 8
_BIG_NUMBER = re.compile(r"(?<![\w.:-])\d{5,12}(?![\w.:-])")
_OF_COUNTERS = ("ib-counters", "nvlink-errors")

_FORCED = """#!/bin/sh
set -f
nonce=${SSH_ORIGINAL_COMMAND##* }
set -- $SSH_CONNECTION
exec sed "s/@MARK@/$nonce/" '@FOLDER@'/"$3"
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running one. inventory: the file for `ndctl validate`; sizes: address -> bytes a login to it gives."""

    inventory: Path
    server: openssh.Sshd
    sizes: Mapping[str, int]


@contextmanager
def standing(folder: Path, racks: int, commands: tuple[Command, ...]) -> Iterator[Cluster]:
    """A cluster of so many full racks, until the block ends. commands: in the order of the script."""
    answers = folder / "answers"
    answers.mkdir(parents=True)
    forced = folder / "answer"
    forced.write_text(_FORCED.replace("@MARK@", _NONCE).replace("@FOLDER@", str(answers)))
    forced.chmod(0o755)
    sizes = _write_answers(folder, answers, racks, commands)
    with openssh.start(
        folder / "sshd", nodes=racks * PER_RACK, force_command=str(forced), options=["LogLevel ERROR"]
    ) as server:
        inventory = folder / "racks.yaml"
        inventory.write_text(_inventory(server, racks))
        yield Cluster(inventory, server, sizes)


def _inventory(server: openssh.Sshd, racks: int) -> str:
    lines = [
        "cluster: bench",
        "profile: gb300",
        f"ssh: {{user: {server.user}, port: {server.port}, private_key: {server.client_key}, "
        f"known_hosts: {server.known_hosts}}}",
        "static:",
    ]
    for rack in range(1, racks + 1):
        addresses = ", ".join(node.address for node in server.nodes[(rack - 1) * PER_RACK : rack * PER_RACK])
        lines.append(f"  - {{rack: {rack}, nodes: [{addresses}]}}")
    return "\n".join(lines) + "\n"


def _write_answers(folder: Path, answers: Path, racks: int, commands: tuple[Command, ...]) -> dict[str, int]:
    """Address -> bytes of the file that answers for it."""
    key = openssh.make_key(folder / "first_ed25519")
    now = [_MOMENT]
    world = World(folder / "first", seed="bench", clock=lambda: now[0])
    for index in range(1, PER_RACK + 1):
        world.add_vm(
            "bench", 1, index, vmss="bench-rack01", instance_id=str(index), address=f"127.1.1.{index}",
            admin_user="azureuser", admin_key=key.with_suffix(".pub").read_text().strip(),
        )  # fmt: skip
    now[0] += _UP_S
    said = _asked(world, key, folder, commands)
    sizes = {}
    for place, results in said.items():
        pieces = {one.id: _NAMES.split(results[one.id].stdout) for one in commands}
        for rack in range(1, racks + 1):
            address = renamed(place, rack)
            stream = _stream(commands, results, pieces, rack)
            (answers / address).write_bytes(stream)
            sizes[address] = len(stream)
    return sizes


def renamed(word: str, rack: int) -> str:
    """What a name, address, serial, UUID or GUID of rack 1 is in another rack: always the same, of the same shape."""
    if rack == 1:
        return word
    if word.startswith("127.1.1."):
        return f"127.1.{rack}.{word[8:]}"
    if word.startswith("rack01"):
        return f"rack{rack:02d}{word[6:]}"
    # Hexadecimal digits from the eighth on are shifted, so that a GUID stays the same with colons and without.
    seen = 0
    letters = []
    for letter in word:
        if letter in "0123456789abcdefABCDEF":
            seen += 1
            if seen > _SAME_DIGITS and letter.isdigit():
                letter = str((int(letter) + rack + rack // 10 * seen) % 10)
        letters.append(letter)
    return "".join(letters)


def _counted(text: str, rack: int) -> str:
    """Counters of another rack: the same growth between two readings, other values."""
    return _BIG_NUMBER.sub(lambda match: str(int(match[0]) + 977 * (rack - 1)), text)


def _stream(
    commands: tuple[Command, ...], results: Mapping[str, CommandResult], pieces: Mapping[str, list[str]], rack: int
) -> bytes:
    """What the combined script would send (see `ndctl.ssh.stream`), with a stand-in for the nonce."""
    sent = [f"{_NONCE} begin\n".encode()]
    for index, command in enumerate(commands):
        result = results[command.id]
        parts = pieces[command.id]
        text = "".join(renamed(part, rack) if at % 2 else part for at, part in enumerate(parts))
        if command.id.startswith(_OF_COUNTERS):
            text = _counted(text, rack)
        out, err = text.encode(), result.stderr.encode()
        code = result.exit_code if result.exit_code is not None else 124
        head = f"{_NONCE} {index} {code} 100.0 {100 + result.seconds:.2f} {len(out)} {len(out)} {len(err)} {len(err)}\n"
        sent += [head.encode(), out, err]
    sent.append(f"{_NONCE} end\n".encode())
    return b"".join(sent)


def _asked(
    world: World, key: Path, folder: Path, commands: tuple[Command, ...]
) -> dict[str, Mapping[str, CommandResult]]:
    """Address -> what the stand-in tools of the one rack answer."""
    port = openssh.free_port()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(serve(world, port), loop).result(60)
    known = folder / "known_first"
    known.write_text(
        "".join(
            f"[{vm.address}]:{port} {' '.join(line.split()[:2])}\n"
            for vm in world.vms()
            for line in vm.host_public_keys
        )
    )
    settings = SshSettings(
        user="azureuser", port=port, private_keys=(key,), known_hosts=(known,), agent=False, fanout=4
    )
    nodes = {Node(vm.hostname, "rack01", address=vm.address): commands for vm in world.vms()}
    try:
        with Engine(settings) as engine:
            answers = engine.ask(nodes)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
    for node, answer in answers.items():
        if not answer.outcome.ok or len(answer.results) != len(commands):
            raise RuntimeError(f"{node.name}: {answer.outcome.kind} {answer.outcome.detail}")
    return {node.address: answer.results for node, answer in answers.items()}
