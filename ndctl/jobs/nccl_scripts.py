"""The shell scripts of one NCCL launch, as text: make ready, admit the key, run mpirun, clean up.

All of a launch is marked by its token: the directory, the key's comment, and NDCTL_JOB in the environment of every
process, so that the clean-up finds exactly what belongs to it, also where nodes share a home directory.
Facts: Open MPI 4.1's rsh launcher (`plm_rsh_*`, `orte_launch_agent`), sshd(8) on authorized_keys options.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ndctl.jobs.nccl import NcclLaunch

# What comes back of a log: its head has NCCL's transports, its tail the table. NCCL_DEBUG=INFO of 72 ranks is long.
LOG_HEAD_BYTES = 5_000_000
LOG_TAIL_BYTES = 2_000_000
JOB_MARK = "NDCTL_JOB="  # in the environment of all that a test starts on a node, with its token
_INTERFACES = re.compile(r"^=?([A-Za-z0-9_.-]+(?:,[A-Za-z0-9_.-]+)*)$")

# Edits of authorized_keys go through a new file that replaces the old one at once: a full disk or a killed script
# must not lock anybody out. The lock is for nodes that share a home; a lock on a directory does not work on NFS.
_KEYS = r"""
k="$HOME/.ssh/authorized_keys"; [ -L "$k" ] && k=$(readlink -f "$k"); s=${k%/*}
lock() {
  exec 9<"$s" && flock -w 8 9 2>/dev/null && return
  i=0; until mkdir "$s/.ndctl-lock" 2>/dev/null; do i=$((i + 1)); [ $i -lt 8 ] || break; sleep 1; done
  trap 'rmdir "$s/.ndctl-lock" 2>/dev/null' EXIT
}
renew() { t=$(mktemp "$k.XXXXXX") && { [ ! -e "$k" ] || cp -p "$k" "$t"; }; }
"""


def _quote(text: str) -> str:
    return shlex.quote(text)


def directory(token: str) -> str:
    return f'"$HOME/.ndctl-job-{token}"'


def mark(token: str) -> str:
    """The key's comment. The colon ends it, so that no other token begins like it."""
    return f"ndctl-job-{token}:"


def hostfile(launch: NcclLaunch) -> str:
    return "".join(f"{node.address} slots={launch.gpus_per_node}\n" for node in launch.nodes)


def ssh_config(launch: NcclLaunch) -> str:
    """What mpirun's ssh reads in place of the user's and the system's configuration; %s is the job's directory."""
    ports = "".join(f"Host {node.address}\n  Port {node.port}\n" for node in launch.nodes if node.port != 22)
    return (
        f"{ports}Host *\n"
        '  IdentityFile "%s/key"\n  IdentitiesOnly yes\n  IdentityAgent none\n'
        '  UserKnownHostsFile "%s/known_hosts"\n  GlobalKnownHostsFile /dev/null\n'
        "  StrictHostKeyChecking yes\n  UpdateHostKeys no\n  BatchMode yes\n  ConnectTimeout 10\n"
        "  ServerAliveInterval 20\n  LogLevel ERROR\n"
    )


def prepare_script(launch: NcclLaunch) -> str:
    """On the head: a private directory with a fresh key, the hostfile and the peers' host keys; prints the key."""
    known = "".join(f"{line}\n" for node in launch.nodes for line in launch.host_keys.get(node.name, ()))
    return (
        f"umask 077; mkdir -p {directory(launch.token)} && cd {directory(launch.token)} || exit 1; "
        f"printf %s {_quote(hostfile(launch))} > hostfile && printf %s {_quote(known)} > known_hosts && "
        f'printf {_quote(ssh_config(launch))} "$PWD" "$PWD" > ssh_config || exit 1; '
        f"rm -f key key.pub; ssh-keygen -q -t ed25519 -N '' -C {mark(launch.token)} -f key >&2 && cat key.pub"
    )


def peer_script(launch: NcclLaunch) -> str:
    """On the peers: the directory that ranks start in. While it is there, the key may be admitted."""
    return f"umask 077; mkdir -p {directory(launch.token)}"


def admit_script(launch: NcclLaunch, public_key: str) -> str:
    """On every node: admit the key for commands only, until some minutes after the run (by the node's own clock).

    After the clean-up, a script that comes late (its connection was cut) admits nothing.
    """
    minutes = launch.key_minutes
    return (
        f"umask 077; mkdir -p ~/.ssh; {_KEYS}lock; "
        f"[ -d {directory(launch.token)} ] || {{ echo 'the run is over' >&2; exit 1; }}; "
        # sshd reads the time in the system's zone, whatever the user's is. GNU's and busybox's date are tried.
        f"e=$(env -u TZ date -d '+{minutes} minutes' +%Y%m%d%H%M 2>/dev/null || "
        f"env -u TZ date -d @$(($(date +%s) + {minutes * 60})) +%Y%m%d%H%M) || exit 1; renew || exit 1; "
        # A file whose last line has no newline must not swallow ours.
        '{ [ ! -s "$t" ] || [ -z "$(tail -c 1 "$t")" ] || echo >> "$t"; } && '
        f'printf \'restrict,expiry-time="%s" %s\\n\' "$e" {_quote(public_key)} >> "$t" && mv "$t" "$k" || '
        '{ rm -f "$t"; exit 1; }'
    )


def cleanup_script(token: str) -> str:
    """On every node: end what still runs, forget the key, remove the directory. Says what it could not; repeatable."""
    return (
        f"{end_script(token)} {_KEYS}"
        f'if [ -d "$s" ]; then lock; if grep -qF {mark(token)} "$k" 2>/dev/null; then '
        f'renew && {{ grep -vF {mark(token)} "$k" > "$t"; [ $? -le 1 ]; }} && '
        # A file that holds nothing but our line was made by us.
        '{ if [ -s "$t" ]; then mv "$t" "$k"; else rm -f "$t" "$k"; fi; } || rm -f "$t"; fi; '
        f"rm -rf {directory(token)}; fi; "
        f'if grep -qF {mark(token)} "$k" 2>/dev/null; then left="$left its key"; fi; '
        f'rm -rf {directory(token)}; [ ! -e {directory(token)} ] || left="$left its directory"; '
        '[ -z "$left" ] || { echo "left:$left"; exit 1; }'
    )


def end_script(token: str) -> str:
    """End every process of the launch: first asked, then killed. Sets `left` when some remain."""
    return (
        f"running() {{ grep -lsF NDCTL_JOB={token}: /proc/[0-9]*/environ | tr -dc '0-9\\n'; }}; left=; p=$(running); "
        'if [ -n "$p" ]; then kill $p 2>/dev/null; for i in 1 2 3 4; do sleep 1; p=$(running); [ -n "$p" ] || break; '
        'done; fi; if [ -n "$p" ]; then kill -9 $p 2>/dev/null; sleep 1; p=$(running); fi; '
        '[ -z "$p" ] || left=" processes $(echo $p)";'
    )


def end_all_script(prefix: str) -> str:
    """End every process of all launches whose tokens begin so: of a run that was killed, its own token and a rack."""
    return end_script(prefix).replace(f"NDCTL_JOB={prefix}:", f"NDCTL_JOB={prefix}") + ' [ -z "$left" ]'


def mpirun_line(launch: NcclLaunch) -> str:
    """The arguments of mpirun, which runs in the job's directory. Open MPI 4.1, and HPC-X which is one.

    MPI itself only starts the ranks and goes over TCP, so that what is measured is NCCL's path alone. No tree of ssh:
    only the head has the key. Binding is left to NCCL.
    """
    exports = [f"-x {_quote(f'{key}={value}')}" for key, value in sorted(launch.environment.items())]
    arguments = [
        f"-np {len(launch.nodes) * launch.gpus_per_node} --map-by ppr:{launch.gpus_per_node}:node --bind-to none",
        '-hostfile hostfile -mca plm_rsh_agent ssh -mca plm_rsh_args "-F ssh_config" -mca plm_rsh_no_tree_spawn 1',
        f'-mca orte_launch_agent "env NDCTL_JOB={launch.token}: orted"',
        "-mca pml ob1 -mca btl self,vader,tcp -mca coll_hcoll_enable 0",
        *_interfaces(launch),
        "-x NDCTL_JOB ${LD_LIBRARY_PATH:+-x LD_LIBRARY_PATH}",
        *exports,
        launch.program or _nccl_test(launch),
    ]
    return " ".join(arguments)


def _nccl_test(launch: NcclLaunch) -> str:
    return (
        f"{_quote(launch.tests_dir)}/{launch.test}_perf -b {launch.begin} -e {launch.end} -f 2 -g 1 "
        f"-n {launch.iterations} -w {launch.warmup} -c {int(launch.check)}"
    )


def _interfaces(launch: NcclLaunch) -> list[str]:
    """Open MPI tries every address of a host, Docker's too; it gets the interface that NCCL is told."""
    match = _INTERFACES.match(launch.environment.get("NCCL_SOCKET_IFNAME", ""))
    return [f"-mca oob_tcp_if_include {match[1]} -mca btl_tcp_if_include {match[1]}"] if match else []


def _find_mpirun(modules: str) -> str:
    """The image's module first, then PATH, then an HPC-X that nobody loaded."""
    return (
        'for i in "$NDCTL_SYSROOT"/usr/share/modules/init/sh "$NDCTL_SYSROOT"/usr/share/Modules/init/sh '
        '"$NDCTL_SYSROOT"/usr/share/lmod/lmod/init/sh; do '
        f'if [ -f "$i" ]; then . "$i" >/dev/null 2>&1; module load {_quote(modules)} >/dev/null 2>&1; break; fi; done; '
        'command -v mpirun >/dev/null || for h in "$NDCTL_SYSROOT"/opt/hpcx*; do [ -f "$h/hpcx-init.sh" ] || continue; '
        'e=$(bash -c \'. "$0/hpcx-init.sh" >/dev/null 2>&1; hpcx_load >/dev/null 2>&1; '
        'printf "PATH=%q LD_LIBRARY_PATH=%q OPAL_PREFIX=%q" "$PATH" "$LD_LIBRARY_PATH" "$OPAL_PREFIX"\' "$h") && '
        'eval "export $e"; break; done; '
        "command -v mpirun >/dev/null || { echo 'mpirun: not found: neither in PATH, nor as module "
        f"{modules}, nor in /opt/hpcx*'; exit 127; }}; "
    )


def run_script(launch: NcclLaunch) -> str:
    """On the head: mpirun under its own deadline; of a long log the head and the tail."""
    whole = LOG_HEAD_BYTES + LOG_TAIL_BYTES
    return (
        f"cd {directory(launch.token)} || exit 1; {launch.setup}{_find_mpirun(launch.modules)}"
        f"export NDCTL_JOB={launch.token}:; "
        '[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; '
        f"timeout -k 5 {launch.deadline_s:.0f} mpirun {mpirun_line(launch)} > log 2>&1; r=$?; "
        # The clean-up may have taken the directory while mpirun ran.
        '[ -f log ] || { echo "the run was ended" >&2; exit $r; }; '
        f'n=$(wc -c < log); if [ "$n" -le {whole} ]; then cat log; else head -c {LOG_HEAD_BYTES} log; '
        f'printf "\\n[ndctl: %s bytes of this log are left out]\\n" $((n - {whole})); '
        f"tail -c {LOG_TAIL_BYTES} log; fi; exit $r"
    )
