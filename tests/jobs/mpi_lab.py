"""Loopback nodes behind a real OpenSSH server, each with a home of its own, for launches by a real mpirun.

`all_reduce_perf` is a stand-in that prints a plausible table from rank 0; what it does is set by NDCTL_STANDIN in the
launch's environment: "table" (default), "hang" (every rank waits), "fail" (rank 1 ends with an NCCL error).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ndctl.jobs.nccl import NcclLaunch
from ndctl.model.places import Node
from ndctl.ssh.engine import Engine
from tests.ssh import sshd

# Processes are ended and looked for by the token, so test runs that go on side by side must not share one.
OWN = f"mpi{os.getpid()}"
_STANDIN = r"""#!/bin/sh
# Every rank leaves its process id where the test finds it.
echo "$$ $OMPI_COMM_WORLD_RANK" >> "$HOME/ranks"
end=$(printf '%s\n' "$@" | sed -n '/^-e$/{n;p;}')
case $NDCTL_STANDIN in
hang) exec sleep 600 ;;
stubborn) trap '' TERM INT HUP; while :; do sleep 1; done ;;
fail) [ "$OMPI_COMM_WORLD_RANK" = 1 ] || exec sleep 600
  echo "node: Test NCCL failure common.cu:1204 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '"
  exit 3 ;;
esac
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0
n=$OMPI_COMM_WORLD_SIZE
echo "# nccl-tests version 2.18.5 nccl-headers=22907 nccl-library=22907"
echo "# Collective test starting: all_reduce_perf"
echo "# nThread 1 nGpus 1 minBytes $end maxBytes $end step: 2(factor) warmup iters: 5 iters: 20 validation: 1 graph: 0"
i=0
while [ $i -lt "$n" ]; do
  printf '#  Rank %2d Group  0 Pid %6d on node%d device %2d [0018:01:00] NVIDIA GB300\n' \
    $i $((1000 + i)) $((i / 2)) $((i % 2))
  i=$((i + 1))
done
echo "node0:1000:1000 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/MNNVL"
side='  time   algbw   busbw #wrong'
echo "#       size         count      type   redop    root   $side   $side"
printf '%12d  %12d     float     sum      -1  %7.1f  %6.2f  %6.2f      0  %7.1f  %6.2f  %6.2f      0\n' \
  "$end" $((end / 4)) 36171.1 474.96 890.55 36170.0 474.97 890.57
echo "# Out of bounds values : 0 OK"
echo "# Avg bus bandwidth    : 890.56"
echo "#"
"""


def require() -> None:
    """Skip with the reason where there is no mpirun; in CI that is an error, not a skip."""
    sshd.require()
    if shutil.which("mpirun") is None:
        if os.environ.get("CI") == "true":
            raise RuntimeError("mpirun is missing: apt-get install openmpi-bin")
        pytest.skip("no mpirun on this machine (apt-get install openmpi-bin)")


@dataclass(frozen=True, slots=True)
class MpiLab:
    """`homes`: node name -> its home, or one for all. The engine is a NodeRunner over real SSH."""

    server: sshd.Sshd
    homes: dict[str, Path]
    tests_dir: Path
    engine: Engine

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.server.nodes

    def launch(self, token: str, nodes: tuple[Node, ...] | None = None, **changes: object) -> NcclLaunch:
        kind, blob = self.server.host_public_key.split()[:2]
        plain = NcclLaunch(
            test="all_reduce",
            nodes=nodes or self.nodes,
            gpus_per_node=2,
            environment={},
            host_keys={node.name: (f"[{node.address}]:{node.port} {kind} {blob}",) for node in self.nodes},
            tests_dir=str(self.tests_dir),
            token=f"{OWN}-{token}",
            deadline_s=60.0,
        )
        return replace(plain, **changes)  # type: ignore[arg-type]

    def ranks(self) -> dict[str, list[int]]:
        """Node name -> process ids its ranks had."""
        found = {}
        for name, home in self.homes.items():
            path = home / "ranks"
            found[name] = [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []
        return found

    def forget_ranks(self) -> None:
        for home in self.homes.values():
            (home / "ranks").unlink(missing_ok=True)

    def leftovers(self) -> list[str]:
        """Keys, directories and processes of any launch that are still there."""
        found = []
        for name, home in self.homes.items():
            keys = home / ".ssh" / "authorized_keys"
            if keys.exists() and "ndctl-job" in keys.read_text():
                found.append(f"{name}: key")
            found += [f"{name}: {path.name}" for path in home.glob(".ndctl-job-*")]
            found += [f"{name}: {path.name}" for path in (home / ".ssh").iterdir() if path.name != "authorized_keys"]
        return found + marked()


def marked(token: str = OWN) -> list[str]:
    """Processes that carry the mark of a launch whose token begins so."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"NDCTL_JOB={token}".encode() in (entry / "environ").read_bytes():
                    found.append(f"process {entry.name}: {(entry / 'cmdline').read_bytes()!r}")
            except OSError:
                continue
    return found


@contextmanager
def lab(folder: Path, count: int = 4, *, second: int = 1, shared_home: bool = False) -> Iterator[MpiLab]:
    """`count` nodes; shared_home: one home directory for all, as over NFS."""
    require()
    addresses = [f"127.2.{second}.{number}" for number in range(1, count + 1)]
    homes = {}
    blocks = []
    client_key = sshd.make_key(folder / "client_ed25519")
    for number, address in enumerate(addresses, 1):
        home = folder / ("home" if shared_home else f"home{number:02d}")
        (home / ".ssh").mkdir(mode=0o700, parents=True, exist_ok=True)
        keys = home / ".ssh" / "authorized_keys"
        keys.write_text(f"# the user's own\n{client_key.with_suffix('.pub').read_text().strip()}")
        keys.chmod(0o600)
        homes[f"rack01-n{number:02d}"] = home
        # Open MPI's daemons keep their sessions here; daemons of several nodes in one place race for its folders.
        temporary = folder / f"tmp{number:02d}"
        temporary.mkdir()
        settings = f"HOME={home} TMPDIR={temporary}"
        blocks.append(f"Match LocalAddress {address}\n  AuthorizedKeysFile {keys}\n  SetEnv {settings}\n")
    matches = folder / "nodes.conf"
    matches.write_text("".join(blocks))
    tests_dir = folder / "nccl-tests"
    tests_dir.mkdir()
    program = tests_dir / "all_reduce_perf"
    program.write_text(_STANDIN)
    program.chmod(0o755)
    with (
        sshd.start(folder, addresses, options=[f"Include {matches}"]) as server,
        Engine(server.settings(fanout=16)) as engine,
    ):
        yield MpiLab(server, homes, tests_dir, engine)
