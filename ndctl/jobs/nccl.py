"""A NCCL test over several nodes, launched by mpirun on the first of them.

The launch is built as data (`NcclLaunch`), then run by `run_nccl`: an ephemeral key pair is made on the head (its
private half never leaves it), its public half is admitted on the peers for the time of the run, and the peers' host
keys are handed to mpirun's ssh in a temporary known_hosts. All of it is removed afterwards, also when the run
fails; should this process be killed, the key's own expiry time ends it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ndctl.model.answers import Command, CommandResult
from ndctl.model.places import Node
from ndctl.model.runner import NodeRunner

_GB = 1 << 30


@dataclass(frozen=True, slots=True)
class NcclLaunch:
    """What to run.

    test:        nccl-tests name without `_perf`, e.g. "all_reduce"
    nodes:       in rank order; the first is the head
    environment: NCCL/UCX variables given to every rank
    host_keys:   node -> known_hosts lines ("[addr]:port type key")
    begin/end:   message sizes in bytes; factor 2 between them
    deadline_s:  of the mpirun itself
    """

    test: str
    nodes: tuple[Node, ...]
    gpus_per_node: int
    environment: Mapping[str, str]
    host_keys: Mapping[str, Sequence[str]]
    tests_dir: str
    token: str
    begin: int = 1 * _GB
    end: int = 16 * _GB
    iterations: int = 20
    warmup: int = 5
    check: bool = True
    deadline_s: float = 240.0
    modules: str = "mpi/hpcx"


@dataclass(frozen=True, slots=True)
class NcclRun:
    """`log` is None when mpirun was never started; `problem` then says why. `leftovers` names nodes whose
    clean-up could not be confirmed (their key ends by itself)."""

    launch: NcclLaunch
    log: CommandResult | None
    problem: str = ""
    leftovers: tuple[str, ...] = field(default=())


def _directory(token: str) -> str:
    return f'"${{HOME}}/.ndctl-job-{token}"'


def hostfile(launch: NcclLaunch) -> str:
    return "".join(f"{node.address} slots={launch.gpus_per_node}\n" for node in launch.nodes)


def mpirun_line(launch: NcclLaunch) -> str:
    """The mpirun command, with `$D` as the job's directory. Binding is left to NCCL; trees of ssh are not used, so
    that only the head needs the key."""
    port = launch.nodes[0].port
    ssh = (
        "-i $D/key -o IdentitiesOnly=yes -o UserKnownHostsFile=$D/known_hosts -o GlobalKnownHostsFile=/dev/null "
        f"-o StrictHostKeyChecking=yes -o BatchMode=yes -o ConnectTimeout=10 -o LogLevel=ERROR -p {port}"
    )
    exports = " ".join(f"-x {shlex.quote(f'{k}={v}')}" for k, v in sorted(launch.environment.items()))
    ranks = len(launch.nodes) * launch.gpus_per_node
    return (
        f"mpirun -np {ranks} --map-by ppr:{launch.gpus_per_node}:node -hostfile $D/hostfile "
        f'-mca plm_rsh_agent ssh -mca plm_rsh_args "{ssh}" -mca plm_rsh_no_tree_spawn 1 '
        "-mca plm_rsh_num_concurrent 8 -mca coll_hcoll_enable 0 --bind-to none "
        f"{exports} {launch.tests_dir}/{launch.test}_perf -b {launch.begin} -e {launch.end} -f 2 -g 1 "
        f"-n {launch.iterations} -w {launch.warmup} -c {int(launch.check)}"
    )


def prepare_script(launch: NcclLaunch) -> str:
    """On the head: a private directory with a fresh key, the hostfile and the peers' host keys."""
    known = "".join(f"{line}\n" for node in launch.nodes for line in launch.host_keys.get(node.name, ()))
    return (
        f"umask 077; D={_directory(launch.token)}; rm -rf $D; mkdir $D && cd $D || exit 1; "
        f"printf %s {shlex.quote(hostfile(launch))} > hostfile; printf %s {shlex.quote(known)} > known_hosts; "
        f"ssh-keygen -q -t ed25519 -N '' -C ndctl-job-{launch.token} -f key >&2 && cat key.pub"
    )


def admit_script(launch: NcclLaunch, public_key: str) -> str:
    """On every node: admit the key for commands only, until some minutes after the run (by the node's own clock)."""
    minutes = int(launch.deadline_s // 60) + 3
    return (
        "umask 077; mkdir -p ~/.ssh; "
        # Both forms of date are tried: GNU's and busybox's.
        f"e=$(date -d '+{minutes} minutes' +%Y%m%d%H%M 2>/dev/null || date -d @$(($(date +%s) + {minutes * 60})) "
        "+%Y%m%d%H%M) || exit 1; f=~/.ssh/authorized_keys; "
        # A file whose last line has no newline must not swallow ours.
        '[ ! -s "$f" ] || [ -z "$(tail -c 1 "$f")" ] || echo >> "$f"; '
        f'printf \'restrict,expiry-time="%s" %s\\n\' "$e" {shlex.quote(public_key)} >> "$f"'
    )


def cleanup_script(launch: NcclLaunch) -> str:
    """On every node: end what still runs, forget the key, remove the directory. Safe to repeat."""
    marker = f"ndctl-job-{launch.token}"
    return (
        f"D={_directory(launch.token)}; f=~/.ssh/authorized_keys; "
        'if [ -f $D/pid ]; then p=$(cat $D/pid); kill "$p" 2>/dev/null && sleep 1; kill -9 "$p" 2>/dev/null; fi; '
        f'if grep -q {marker} "$f" 2>/dev/null; then t=$(mktemp "$f.XXXXXX") && {{ grep -v {marker} "$f" > "$t"; '
        'cat "$t" > "$f"; rm -f "$t"; }; fi; '
        f'rm -rf $D; ! grep -q {marker} "$f" 2>/dev/null && [ ! -e $D ]'
    )


def run_script(launch: NcclLaunch) -> str:
    """On the head: mpirun under its own deadline, its process id kept for the clean-up."""
    return (
        f"D={_directory(launch.token)}; cd $D || exit 1; "
        f"if [ -f /usr/share/modules/init/sh ]; then . /usr/share/modules/init/sh; module load {launch.modules}; fi; "
        f"timeout -k 5 {launch.deadline_s:.0f} {mpirun_line(launch)} 2>&1 & "
        "echo $! > pid; wait $!"
    )


def run_nccl(runner: NodeRunner, launch: NcclLaunch) -> NcclRun:
    """Prepare, run, and always clean up. Raises only what the runner itself raises (Ctrl-C), after the clean-up."""
    head = launch.nodes[0]
    leftovers: list[str] = []
    log: CommandResult | None = None
    problem = ""
    try:
        log, problem = _run(runner, launch, head)
    finally:
        cleanup = Command("nccl-cleanup", cleanup_script(launch), timeout_s=15, cap_bytes=4_000)
        answers = runner.ask({node: [cleanup] for node in launch.nodes})
        for node, answer in answers.items():
            done = answer.results.get("nccl-cleanup")
            if done is None or done.exit_code != 0:
                leftovers.append(node.name)
    return NcclRun(launch, log, problem, tuple(sorted(leftovers)))


def _run(runner: NodeRunner, launch: NcclLaunch, head: Node) -> tuple[CommandResult | None, str]:
    without = [node.name for node in launch.nodes if node != head and not launch.host_keys.get(node.name)]
    if without:
        return None, f"no host key is known for {', '.join(without)}, so mpirun's ssh could not verify them"
    prepared = _one(runner, head, Command("nccl-prepare", prepare_script(launch), timeout_s=20, cap_bytes=10_000))
    if prepared.exit_code != 0 or not prepared.stdout.startswith("ssh-"):
        return None, f"{head.name}: preparing the launch failed: {prepared.stderr.strip()[:300]}"
    admit = Command("nccl-admit", admit_script(launch, prepared.stdout.strip()), timeout_s=15, cap_bytes=4_000)
    for node, answer in runner.ask({node: [admit] for node in launch.nodes}).items():
        result = answer.results.get("nccl-admit")
        if result is None or result.exit_code != 0:
            said = answer.outcome.detail if result is None else result.stderr.strip()
            return None, f"{node.name}: the key for this run could not be admitted: {said[:300]}"
    run = Command(f"nccl-{launch.test}", run_script(launch), timeout_s=launch.deadline_s + 20, cap_bytes=8_000_000)
    return _one(runner, head, run), ""


def _one(runner: NodeRunner, node: Node, command: Command) -> CommandResult:
    answer = runner.ask({node: [command]})[node]
    result = answer.results.get(command.id)
    if result is not None:
        return result
    text = f"{answer.outcome.kind.value}: {answer.outcome.detail}"
    return CommandResult(command.id, None, "", text, answer.outcome.seconds, timed_out=False)
