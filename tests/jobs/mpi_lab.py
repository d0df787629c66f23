"""Loopback nodes behind a real OpenSSH server, each with a home of its own, for launches by a real mpirun.

The programs of nccl-tests are stand-ins that make a real MPI collective and take speed, paths and faults from the model
of the racks (`mpi_standin`). How their processes behave is set by NDCTL_STANDIN in the launch's environment: "hang"
(every rank waits), "stubborn" (and cannot be asked to end), "fail" (rank 1 ends with an NCCL error).
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ndctl.jobs.nccl import NcclLaunch
from ndctl.model.places import Node
from ndctl.sim.world import World
from ndctl.ssh.engine import Engine
from tests.ssh import sshd

# Processes are ended and looked for by the token, so test runs that go on side by side must not share one.
OWN = f"mpi{os.getpid()}"
TESTS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv")
_STANDIN = r"""#!/bin/sh
# Every rank leaves its process id where the test finds it.
echo "$$ $OMPI_COMM_WORLD_RANK" >> "$HOME/ranks"
case $NDCTL_STANDIN in
hang) exec sleep 600 ;;
stubborn) trap '' TERM INT HUP; while :; do sleep 1; done ;;
fail) [ "$OMPI_COMM_WORLD_RANK" = 1 ] || exec sleep 600
  echo "node: Test NCCL failure common.cu:1204 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '"
  exit 3 ;;
esac
# Nodes of one machine must not share segments in /dev/shm, whose names hold its host name, and reach each other by lo.
export OMPI_MCA_btl_vader_backing_directory="$TMPDIR" OMPI_MCA_btl_tcp_if_include=lo
exec {python} {standin} {world} "${{0##*/}}" "$@"
"""


def require() -> None:
    """Skip with the reason where there is no mpirun; in CI that is an error, not a skip."""
    sshd.require()
    if shutil.which("mpirun") is None:
        if os.environ.get("CI") == "true":
            raise RuntimeError("mpirun is missing: apt-get install openmpi-bin")
        pytest.skip("no mpirun on this machine (apt-get install openmpi-bin)")
    try:
        ctypes.CDLL("libmpi.so.40")  # Open MPI 3 to 5; it comes with mpirun
    except OSError as error:
        if os.environ.get("CI") == "true":
            raise RuntimeError(f"Open MPI's library is missing: {error}") from error
        pytest.skip(f"Open MPI's library is missing: {error}")


@dataclass(frozen=True, slots=True)
class MpiLab:
    """`homes`: node name -> its home, or one for all. The engine is a NodeRunner over real SSH. `world`: the model of
    the racks that the stand-ins answer from; faults are planted there."""

    server: sshd.Sshd
    homes: dict[str, Path]
    tests_dir: Path
    engine: Engine
    world: World

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.server.nodes

    def launch(self, token: str, nodes: tuple[Node, ...] | None = None, **changes: object) -> NcclLaunch:
        kind, blob = self.server.host_public_key.split()[:2]
        plain = NcclLaunch(
            test="all_reduce",
            nodes=nodes or self.nodes,
            gpus_per_node=2,
            environment={"NCCL_DEBUG": "INFO"},
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
        settings = f"SHLVL=1 HOME={home} TMPDIR={temporary} NDCTL_NODE=rack01-n{number:02d}"
        blocks.append(f"Match LocalAddress {address}\n  AuthorizedKeysFile {keys}\n  SetEnv {settings}\n")
    matches = folder / "nodes.conf"
    matches.write_text("".join(blocks))
    tests_dir = folder / "nccl-tests"
    tests_dir.mkdir()
    world = World(folder / "world")
    for number, address in enumerate(addresses, 1):
        world.add_vm(
            "lab", 1, number, vmss="lab", instance_id=str(number), address=address, admin_user="user", admin_key=""
        )  # fmt: skip
    paths = {"python": sys.executable, "standin": Path(__file__).with_name("mpi_standin.py"), "world": world.directory}
    for test in TESTS:
        program = tests_dir / f"{test}_perf"
        program.write_text(_STANDIN.format(**{name: shlex.quote(str(path)) for name, path in paths.items()}))
        program.chmod(0o755)
    with (
        sshd.start(folder, addresses, options=[f"Include {matches}"]) as server,
        Engine(server.settings(fanout=16)) as engine,
    ):
        yield MpiLab(server, homes, tests_dir, engine, world)
