"""A node that is not there: scripts out of cloud-init, run with stand-in commands first on PATH.

The stand-ins read what they answer from files in `world/` and write what they were asked to `calls`, so a test states
the world, runs the script, and looks at the files it left. `date` and `sleep` share a clock that only `sleep` moves.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from ndctl.render.rendered import Rendered

STAND_INS = {
    "date": 'cat "$WORLD/clock"',
    "sleep": 'echo $(($(cat "$WORLD/clock") + ${SLEEP_STEP:-$1})) >"$WORLD/clock"\n'
    'if [ -x "$WORLD/while-asleep" ]; then "$WORLD/while-asleep"; fi',
    "hostname": 'cat "$WORLD/hostname"',
    "ip": 'echo "168.63.129.16 via 10.40.0.1 dev eth0 src $(cat "$WORLD/address") uid 0 \\    cache"',
    # Like glibc: three lines a name found, exit 2 when one of the names is unknown.
    "getent": 'shift\nprintf "%s\\n" "$@" | awk -v dns="$WORLD/dns" \'\n'
    'BEGIN { while ((getline line < dns) > 0) { split(line, part, " "); known[part[1]] = part[2] } }\n'
    '{ if ($1 in known) { print known[$1], "    STREAM", $1; print known[$1], "    DGRAM"; '
    'print known[$1], "    RAW" } else missing = 1 }\nEND { exit missing ? 2 : 0 }\'',
    "curl": 'headers=\nfor word; do url=$word; done\ncase "$*" in *"-H @-"*) headers=$(cat) ;; esac\n'
    'echo "curl $* <$headers>" >>"$WORLD/calls"\n'
    'answer=$(awk -v url="$url" \'index(url, $1) { sub(/^[^ ]* /, ""); print; exit }\' "$WORLD/http")\n'
    '[ -n "$answer" ] || exit 22\nprintf "%s" "$answer"',
    "nvidia-smi": 'echo "nvidia-smi $*" >>"$WORLD/calls"\n[ -e "$WORLD/no-driver" ] && exit 9\n'
    'cat "$WORLD/gpu-processes" 2>/dev/null || true',
    "systemctl": 'echo "systemctl $*" >>"$WORLD/calls"\n! [ -e "$WORLD/systemctl-fails" ]',
    "mknod": 'echo "mknod $*" >>"$WORLD/calls"',
    "mountpoint": '[ -e "$WORLD/mounted" ]',
    "blkid": 'cat "$WORLD/labelled" 2>/dev/null || exit 2',
    "mdadm": 'echo "mdadm $*" >>"$WORLD/calls"\n'
    'case "$1" in --assemble) [ -e "$WORLD/array" ] && cp "$WORLD/array" "$WORLD/labelled" ;; esac\n'
    '! [ -e "$WORLD/mdadm-fails" ]',
    "udevadm": "exit 0",
    "wipefs": 'grep -s "^$2 " "$WORLD/signatures" || true',
    "findmnt": "echo /dev/nvme0n1p1",
    "lsblk": 'cat "$WORLD/system-disks" 2>/dev/null',
    "mkfs.xfs": 'echo "mkfs.xfs $*" >>"$WORLD/calls"',
    "mount": 'echo "mount $*" >>"$WORLD/calls"',
}


@dataclass(frozen=True)
class FakeNode:
    root: Path
    world: Path
    commands: Path
    script: Path

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(self.script)],
            env={
                "PATH": f"{self.commands}:/usr/bin:/bin",
                "NDCTL_SYSROOT": str(self.root),
                "WORLD": str(self.world),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def state(self, name: str, text: str) -> None:
        (self.world / name).write_text(text)

    def calls(self, command: str) -> list[str]:
        """What `command` was called with so far, in order."""
        try:
            lines = (self.world / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.removeprefix(command + " ") for line in lines if line.startswith(command + " ")]

    def file(self, path: str) -> str:
        return (self.root / path).read_text()


def scripts(rendered: Rendered) -> dict[str, str]:
    """Name → text of every program cloud-init installs."""
    entries = yaml.safe_load(rendered.cloud_init)["write_files"]
    return {Path(entry["path"]).name: entry["content"] for entry in entries if entry["permissions"] == "0755"}


def fake_node(folder: Path, rendered: Rendered, script: str) -> FakeNode:
    """A node with its clock at 1000 and nothing else in its world."""
    node = FakeNode(folder / "root", folder / "world", folder / "bin", folder / script)
    for path in (node.root, node.world, node.commands):
        path.mkdir(parents=True)
    for name, body in STAND_INS.items():
        program = node.commands / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    node.script.write_text(scripts(rendered)[script])
    node.state("clock", "1000\n")
    return node


def shells() -> list[str]:
    return [shell for shell in ("/bin/sh", "/bin/bash", "/usr/bin/dash") if os.access(shell, os.X_OK)]
