"""The contestants: each a fresh process that asks N loopback nodes the same thing and tells what it cost.

`python -m tests.bench.clients NAME JOB.json` prints one JSON line:
{"cpu_s": …, "start_cpu_s": …, "rss_mb": …, "wall_s": …, "answers": …, "bytes": …}
cpu_s is user + system time of the process and of its children; start_cpu_s is what had been used when the fan-out
began (interpreter, imports). `answers` are nodes whose whole output came back: a client that loses nodes is no rival.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Result = tuple[int, int]


def job_script(job: dict[str, Any]) -> str:
    """What every node runs, whoever asks: a pause, then `bytes` in lines of 100 (pdsh cuts long lines)."""
    return f"sleep {job['sleep_s']}; yes {'x' * 99} | head -n {job['bytes'] // 100}"


def ndctl(job: dict[str, Any]) -> Callable[[], Result]:
    from ndctl.model.answers import Command
    from ndctl.model.places import Node
    from ndctl.ssh import visit  # noqa: F401  counted as start-up, as asyncssh's import is
    from ndctl.ssh.engine import Engine
    from ndctl.ssh.settings import SshSettings

    settings = SshSettings(
        user=job["user"],
        port=job["port"],
        private_keys=(Path(job["client_key"]),),
        known_hosts=(Path(job["known_hosts"]),),
        agent=False,
        fanout=job["fanout"],
        # All nodes are one server here, busy with all of them: what counts is that none is lost.
        connect_s=60,
        banner_s=60,
        auth_s=60,
        channel_s=60,
        command_grace_s=60,
    )
    command = Command("bench", job_script(job), timeout_s=60)
    nodes = [Node(f"n{at}", "bench", address=address) for at, address in enumerate(job["addresses"])]

    def run() -> Result:
        whole = size = 0
        with Engine(settings) as engine:
            for answer in engine.collect({node: [command] for node in nodes}):
                got = len(answer.results["bench"].stdout) if answer.outcome.ok else 0
                whole += got == job["bytes"]
                size += got
        return whole, size

    return run


def asyncssh(job: dict[str, Any]) -> Callable[[], Result]:
    import asyncio

    import asyncssh

    async def ask(address: str, gate: asyncio.Semaphore, options: Any) -> int:
        async with gate:
            try:
                async with asyncssh.connect(address, options=options) as connection:
                    done = await asyncio.wait_for(connection.run(job_script(job)), 120)
                    return len(str(done.stdout or ""))
            except (OSError, asyncssh.Error, TimeoutError) as error:
                print(f"{address}: {error!r}", file=sys.stderr)
                return 0

    async def everything() -> Result:
        gate = asyncio.Semaphore(job["fanout"])
        options = asyncssh.SSHClientConnectionOptions(
            username=job["user"],
            port=job["port"],
            client_keys=[asyncssh.read_private_key(job["client_key"])],
            known_hosts=asyncssh.read_known_hosts(job["known_hosts"]),
            agent_path=None,
            config=None,
            connect_timeout=60,
            login_timeout=60,
        )
        sizes = await asyncio.gather(*(ask(address, gate, options) for address in job["addresses"]))
        return sum(size == job["bytes"] for size in sizes), sum(sizes)

    return lambda: asyncio.run(everything())


def parallel_ssh(job: dict[str, Any]) -> Callable[[], Result]:
    from pssh.clients import ParallelSSHClient

    def run() -> Result:
        client = ParallelSSHClient(
            job["addresses"],
            user=job["user"],
            port=job["port"],
            pkey=job["client_key"],
            pool_size=job["fanout"],
            timeout=60,
            num_retries=3,
        )
        sizes = []
        for output in client.run_command(job_script(job), stop_on_errors=False):
            sizes.append(sum(len(line) + 1 for line in output.stdout) if output.stdout is not None else 0)
        return sum(size == job["bytes"] for size in sizes), sum(sizes)

    return run


def _processes(arguments: list[str], job: dict[str, Any], environment: dict[str, str]) -> Result:
    """A client that is a program of its own: every node's line begins with "ADDRESS: "."""
    done = subprocess.run(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=600, env={**os.environ, **environment}
    )
    sizes: dict[bytes, int] = {}
    for line in done.stdout.split(b"\n"):
        name, colon, rest = line.partition(b": ")
        if colon:
            sizes[name] = sizes.get(name, 0) + len(rest) + 1
    return sum(size == job["bytes"] for size in sizes.values()), sum(sizes.values())


def _ssh_options(job: dict[str, Any]) -> str:
    """OpenSSH's default key exchange (sntrup761) costs seven times the one the other clients agree on: all use that."""
    return (
        f"-p {job['port']} -l {job['user']} -i {job['client_key']} -F /dev/null -oIdentitiesOnly=yes "
        "-oKexAlgorithms=curve25519-sha256 "
        f"-oUserKnownHostsFile={job['known_hosts']} -oStrictHostKeyChecking=yes -oBatchMode=yes"
    )


def pdsh(job: dict[str, Any]) -> Callable[[], Result]:
    hosts = ",".join(job["addresses"])
    arguments = ["pdsh", "-R", "ssh", "-f", str(job["fanout"]), "-w", hosts, job_script(job)]
    return lambda: _processes(arguments, job, {"PDSH_SSH_ARGS": _ssh_options(job) + " %h"})


def clush(job: dict[str, Any]) -> Callable[[], Result]:
    hosts = ",".join(job["addresses"])
    arguments = ["clush", "-f", str(job["fanout"]), "-o", _ssh_options(job), "-w", hosts, job_script(job)]
    return lambda: _processes(arguments, job, {})


CLIENTS: dict[str, Callable[[dict[str, Any]], Callable[[], Result]]] = {
    "ndctl": ndctl,
    "asyncssh": asyncssh,
    "parallel-ssh": parallel_ssh,
    "pdsh": pdsh,
    "clush": clush,
}


def _cpu_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class _TreeMemory(threading.Thread):
    """Peak of the memory of all children together, for clients that are many processes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_kb = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.25):
            self.peak_kb = max(self.peak_kb, _tree_kb(os.getpid()))


def _tree_kb(pid: int) -> int:
    total = 0
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{tid}/children").read_text().split():
                total += _tree_kb(int(child))
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    except (OSError, ValueError):
        return total
    return total


def main() -> None:
    name, job_file = sys.argv[1:]
    job = json.loads(Path(job_file).read_text())
    run = CLIENTS[name](job)
    memory = _TreeMemory()
    # Watching children costs CPU of this process, so only clients that are programs of their own are watched, in a
    # round that is not timed.
    watch_memory = bool(job.get("watch_memory")) and name in ("pdsh", "clush")
    if watch_memory:
        memory.start()
    start_cpu, start = _cpu_s(), time.monotonic()
    whole, size = run()
    wall, cpu = time.monotonic() - start, _cpu_s()
    memory.over.set()
    own_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps(
            {
                "cpu_s": round(cpu - start_cpu, 4),
                "start_cpu_s": round(start_cpu, 4),
                "rss_mb": round(max(own_kb, memory.peak_kb) / 1024, 1),
                "wall_s": round(wall, 2),
                "answers": whole,
                "bytes": size,
            }
        )
    )


if __name__ == "__main__":
    main()
