"""The contestants that are programs of their own: pdsh, clush and ansible, each with ssh processes below it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAMS = {"pdsh": "pdsh", "clush": "clush", "ansible": "ansible"}
_VERSION = {"pdsh": "-V", "clush": "--version", "ansible": "--version"}
_LIMIT_S = 600

Sizes = dict[str, int]


def where(client: str) -> str | None:
    """The program beside this interpreter, or else on the PATH."""
    beside = Path(sys.executable).parent / PROGRAMS[client]
    return str(beside) if beside.exists() else shutil.which(PROGRAMS[client])


def version(client: str) -> str:
    said = subprocess.run(_start(client), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return next((line.strip() for line in (said.stdout + said.stderr).splitlines() if line.strip()), "?")


def start_up(client: str) -> None:
    """The program with nothing to do: what it costs is its start-up, as imports are that of a library."""
    subprocess.run(
        _start(client), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60
    )


def ask(client: str, job: dict[str, Any], script: str) -> Sizes:
    """Ask all nodes; address -> bytes that came back."""
    return _CALLS[client](job, script)


def _start(client: str) -> list[str]:
    return [where(client) or client, _VERSION[client]]


def _pdsh(job: dict[str, Any], script: str) -> Sizes:
    hosts = ",".join(job["addresses"])
    arguments = [where("pdsh") or "pdsh", "-R", "ssh", "-f", str(job["fanout"]), "-w", hosts, script]
    return _named_lines(_said(arguments, {"PDSH_SSH_ARGS": f"{_ssh_options(job)} -l {job['user']} %h"}))


def _clush(job: dict[str, Any], script: str) -> Sizes:
    hosts = ",".join(job["addresses"])
    options = f"{_ssh_options(job)} -l {job['user']}"
    arguments = [where("clush") or "clush", "-f", str(job["fanout"]), "-o", options, "-w", hosts, script]
    return _named_lines(_said(arguments, {}))


def _ansible(job: dict[str, Any], script: str) -> Sizes:
    """`-m raw`: no Python on the node, nothing copied there; without a master connection that would outlive it."""
    inventory = "".join(f"{address}," for address in job["addresses"])
    arguments = [where("ansible") or "ansible", "all", "-i", inventory, "-m", "raw", "-f", str(job["fanout"])]
    environment = {
        "ANSIBLE_SSH_ARGS": f"{_ssh_options(job)} -oControlMaster=no -oLogLevel=ERROR",
        "ANSIBLE_REMOTE_USER": job["user"],
        "ANSIBLE_REMOTE_PORT": str(job["port"]),
        "ANSIBLE_PRIVATE_KEY_FILE": job["client_key"],
        "ANSIBLE_HOME": job["folder"],
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
    }
    sizes: Sizes = {}
    name = ""
    for line in _said([*arguments, "-a", script], environment).split(b"\n"):
        words = line.split(b" | ")
        if len(words) >= 3 and words[0].decode("ascii", "replace") in job["known"]:
            name = words[0].decode()
            sizes[name] = 0
        elif name and line:
            # sshd gives `raw` a terminal: its lines end in CR LF, which ansible keeps as LF
            sizes[name] += len(line.rstrip(b"\r")) + 1
    return sizes


_CALLS: dict[str, Callable[[dict[str, Any], str], Sizes]] = {"pdsh": _pdsh, "clush": _clush, "ansible": _ansible}


def _said(arguments: list[str], environment: dict[str, str]) -> bytes:
    return subprocess.run(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_LIMIT_S,
        env={**os.environ, **environment},
    ).stdout


def _named_lines(said: bytes) -> Sizes:
    """Every line begins with "ADDRESS: "."""
    sizes: Sizes = {}
    for line in said.split(b"\n"):
        name, colon, rest = line.partition(b": ")
        if colon:
            key = name.decode("ascii", "replace")
            sizes[key] = sizes.get(key, 0) + len(rest) + 1
    return sizes


def _ssh_options(job: dict[str, Any]) -> str:
    """OpenSSH's default key exchange (sntrup761) costs seven times the one the other clients agree on: all use that."""
    return (
        f"-p {job['port']} -i {job['client_key']} -F /dev/null -oIdentitiesOnly=yes "
        "-oKexAlgorithms=curve25519-sha256 "
        f"-oUserKnownHostsFile={job['known_hosts']} -oStrictHostKeyChecking=yes -oBatchMode=yes"
    )
