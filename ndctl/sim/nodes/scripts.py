"""The stand-in tools as tiny sh scripts: one for all answers from the model, and a few with work of their own."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from ndctl.sim.tools.registry import TOOLS

# Asked once, an answer lies in a file until the model changes; showing it costs one sh and one cat. Every call also
# lets a little time pass for the node's port counters (`tick`), so that two reads in one script differ.
_TOOL = """#!/bin/sh
tool=${0##*/}
node=$NDCTL_SIM_NODE
[ -e "$node/hang/$tool" ] && { trap '' TERM INT HUP; exec sleep 86400; }
[ -r "$node/tick" ] && . "$node/tick"
key="$tool $*"
case $key in
*/*) plain= ;;
*) plain=1; [ ${#key} -gt 200 ] && plain= ;;
esac
if [ -z "$plain" ]; then
    sum=$(printf %s "$key" | cksum)
    key="$tool.${sum% *}"
fi
[ -r "$node/answers/$key" ] && exec cat "$node/answers/$key"
NDCTL_SIM_KEY=$key exec @PYTHON@ -S -E -I @CLIENT@ "$tool" "$@"
"""

_SUDO = """#!/bin/sh
# Already root as far as the node is concerned.
while :; do
    case $1 in
    -u | -g | --user | --group) shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *=*) export "$1"; shift ;;
    *) break ;;
    esac
done
[ $# -eq 0 ] && exit 0
exec "$@"
"""

_TASKS = ("mpirun", "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "dcgmproftester13")


def install(folder: Path, client: Path, launcher: Path) -> Path:
    """Write the tools' directory, the first on a node's PATH; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    python = shlex.quote(sys.executable)
    script = folder / "_tool"
    _write(script, _TOOL.replace("@PYTHON@", python).replace("@CLIENT@", shlex.quote(str(client))))
    for name in (*TOOLS, *(task for task in _TASKS if task != "mpirun")):
        _link(folder / name)
    _write(folder / "sudo", _SUDO)
    _write(folder / "mpirun", f'#!/bin/sh\nexec {python} -S -E -I {shlex.quote(str(launcher))} "$@"\n')
    return folder


def link_tool(bin_folder: Path, path: Path) -> None:
    """Let `path` be one more name of the stand-in tool (the nccl-tests programs have their own folder)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_symlink():
        path.symlink_to(bin_folder / "_tool")


def _link(path: Path) -> None:
    if not path.is_symlink():
        path.symlink_to("_tool")


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(0o755)
    temporary.replace(path)
