"""The contestants: each a fresh process that asks N loopback nodes the same thing and tells what it cost.

`python -m tests.bench.clients NAME JOB.json` prints one JSON line:
{"cpu_s": …, "start_cpu_s": …, "rss_mb": …, "wall_s": …, "answers": …, "bytes": …}
cpu_s is user + system time of the process and of its children, less start_cpu_s: what had been used when the fan-out
began (interpreter, imports), and for a program of its own what it uses with nothing to do.
`answers` are nodes whose whole output came back: a client that loses nodes is no rival.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import programs
from tests.bench.cost import children_cpu_s, cpu_s, own_peak_mb
from tests.bench.sections import Clocks, wrap_everything

# Address -> bytes that came back.
Sizes = dict[str, int]
Run = Callable[[], Sizes]


def job_script(job: dict[str, Any]) -> str:
    """What every node runs, whoever asks: a pause, then `bytes` in lines of 100 (pdsh cuts long lines)."""
    given: str | None = job.get("script")
    return given or f"sleep {job['sleep_s']}; yes {'x' * 99} | head -n {job['bytes'] // 100}"


def ndctl_settings(job: dict[str, Any]) -> Any:
    from ndctl.ssh.settings import SshSettings

    return SshSettings(
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


def ndctl(job: dict[str, Any], *, relayed: bool = False) -> Run:
    """relayed: each rack through one of its nodes, every login signed by the client's agent."""
    from ndctl.model.answers import Command
    from ndctl.model.places import Node
    from ndctl.ssh import visit  # noqa: F401  counted as start-up, as asyncssh's import is
    from ndctl.ssh.engine import Engine

    settings = ndctl_settings(job)
    command = Command("bench", job_script(job), timeout_s=60)
    nodes = [
        Node(f"{rack}-n{at}", rack, address=address, port=job["port"])
        for at, (rack, address) in enumerate(zip(job["racks"], job["addresses"], strict=True))
    ]
    make: Callable[[], Any] = partial(Engine, settings)
    if relayed:
        from ndctl.ssh.relay import RelayEngine

        make = partial(RelayEngine, settings, single=True)

    def run() -> Sizes:
        sizes: Sizes = {}
        with make() as engine:
            for answer in engine.collect({node: [command] for node in nodes}):
                if answer.outcome.ok:
                    sizes[answer.node.address] = len(answer.results["bench"].stdout)
        return sizes

    return run


def ndctl_whole(job: dict[str, Any]) -> Run:
    """`ndctl validate --level quick` as it is typed: asked, parsed, judged, recorded and shown."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    clocks = Clocks() if job.get("where") else None
    if clocks is not None:
        wrap_everything(clocks)
    from ndctl.checks.registry import catalogue
    from ndctl.cli import validate  # noqa: F401
    from ndctl.cli.main import run as typed
    from ndctl.record.store import Store
    from ndctl.report import json_text, table  # noqa: F401
    from ndctl.ssh import engine, visit  # noqa: F401
    from ndctl.workflow import executors, transport  # noqa: F401
    from ndctl.workflow import validate as workflow  # noqa: F401

    catalogue()
    record = Path(job["folder"]) / f"record-{time.monotonic_ns()}.db"
    arguments = [
        "validate",
        job["inventory"],
        "--level",
        "quick",
        "--record",
        str(record),
        "--fanout",
        str(job["fanout"]),
    ]

    def run() -> Sizes:
        shown, told = io.StringIO(), io.StringIO()
        before = cpu_s()
        with redirect_stdout(shown), redirect_stderr(told):
            try:
                typed(arguments)
            except SystemExit as ended:
                code = ended.code
        spent = cpu_s() - before
        if code != 0:
            print(told.getvalue()[-2000:], shown.getvalue()[-2000:], file=sys.stderr)
            return {}
        if clocks is not None:
            Path(job["where"]).write_text(json.dumps({"cpu_s": spent, "spent": clocks.spent, "calls": clocks.calls}))
        return dict.fromkeys(_usable(record), 1)

    def _usable(record: Path) -> list[str]:
        with Store(record, create=False) as store:
            kept = store.load("last")
        record.unlink()
        return [node.address for rack in kept.racks for node in rack.nodes if node.status.value in ("pass", "warn")]

    return run


def asyncssh(job: dict[str, Any]) -> Run:
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

    async def everything() -> Sizes:
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
        return dict(zip(job["addresses"], sizes, strict=True))

    return lambda: asyncio.run(everything())


def parallel_ssh(job: dict[str, Any]) -> Run:
    """It verifies no host keys, which is to its advantage here."""
    from pssh.clients import ParallelSSHClient

    def run() -> Sizes:
        client = ParallelSSHClient(
            job["addresses"],
            user=job["user"],
            port=job["port"],
            pkey=job["client_key"],
            pool_size=job["fanout"],
            timeout=60,
            num_retries=3,
        )
        sizes: Sizes = {}
        for output in client.run_command(job_script(job), stop_on_errors=False):
            if output.stdout is not None:
                sizes[output.host] = sum(len(line) + 1 for line in output.stdout)
        return sizes

    return run


def _program(name: str, job: dict[str, Any]) -> Run:
    return lambda: programs.ask(name, job, job_script(job))


CLIENTS: dict[str, Callable[[dict[str, Any]], Run]] = {
    "ndctl": ndctl,
    "ndctl-relay": partial(ndctl, relayed=True),
    "ndctl-whole": ndctl_whole,
    "asyncssh": asyncssh,
    "parallel-ssh": parallel_ssh,
    **{name: partial(_program, name) for name in programs.PROGRAMS},
}


def main() -> None:
    name, job_file = sys.argv[1:]
    job = json.loads(Path(job_file).read_text())
    job["known"] = set(job["addresses"])
    run = CLIENTS[name](job)
    used, nothing_s = cpu_s, 0.0
    if name in programs.PROGRAMS:
        used = children_cpu_s  # not what this process needs to count what they print
        programs.start_up(name)  # the first start reads from a cold disk, those of the fan-out do not
        before = used()
        programs.start_up(name)
        nothing_s = used() - before
    start_cpu, start = used(), time.monotonic()
    sizes = run()
    wall, cpu = time.monotonic() - start, used()
    wanted = job["bytes"]
    print(
        json.dumps(
            {
                "cpu_s": round(cpu - start_cpu - nothing_s, 4),
                "start_cpu_s": round(nothing_s or start_cpu, 4),
                "rss_mb": round(own_peak_mb(), 1),
                "wall_s": round(wall, 2),
                "answers": sum(size == wanted if wanted else size > 0 for size in sizes.values()),
                "bytes": sum(sizes.values()),
            }
        )
    )


if __name__ == "__main__":
    main()
