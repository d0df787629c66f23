"""The one bounded POSIX sh script a node is asked to run.

What the script promises, on the node:
- every command has its own `timeout -k 2` and no stdin; its stdout and stderr go to files of a private directory
  (on tmpfs where there is one, so that a full or read-only disk does not silence a node), never to the connection:
  a background child that keeps them open holds nobody;
- a result is a header line with the lengths, then exactly that many bytes: no output can forge a boundary. The nonce
  in the header tells the script's own words from what start-up files print;
- commands run one after the other; one that hangs costs its own answer only. `timeout` looks at its own child alone,
  so after a deadline the whole process group is killed: a grandchild that ignores TERM does not live on;
- the directory is gone at the end, also when the connection dies.
How it is read back: `ndctl.ssh.stream`.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

from ndctl.model.answers import HUNG_TOOL_S, Command

# Linux refuses a single argument of 128 KiB; longer scripts go to the shell's stdin.
ARGUMENT_LIMIT = 100_000
# Seconds `timeout` waits between TERM and KILL.
KILL_AFTER_S = 2
# A runaway command may not fill the node's memory: its files stop growing here (1 GiB in 512-byte blocks).
_FILE_BLOCKS = 2_097_152

NO_TIMEOUT = "no-timeout"
NO_DIRECTORY = "no-directory"
SUDO_REFUSED = 126

_PROLOGUE = r"""
n=$1
exec 2>/dev/null
: "${NDCTL_SYSROOT:=}"
LC_ALL=C
PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export NDCTL_SYSROOT LC_ALL PATH
printf '%s begin\n' "$n"
timeout -k 1 5 true
# On a node too busy to run `true` in five seconds there is one all the same: 124 and its kin are its own words.
case $? in 0 | 124 | 137 | 143) ;; *) printf '%s no-timeout\n' "$n"; exit 0 ;; esac
d=
for t in /dev/shm "${TMPDIR:-/tmp}" /tmp "$HOME"; do
  d=$(mktemp -d "$t/ndctl.XXXXXX") && break
done
[ -n "$d" ] && [ -d "$d" ] || { printf '%s no-directory\n' "$n"; exit 0; }
trap 'rm -rf "$d"' EXIT
trap 'exit 129' HUP INT TERM PIPE
clock() { now=0; read -r now rest </proc/uptime; }
send() {
  set -- "$@" $(cd "$d" && wc -c "$1.o" "$1.e")
  o=$6; e=$8
  [ "$o" -gt "$5" ] && o=$5
  [ "$e" -gt "$5" ] && e=$5
  printf '%s %s %s %s %s %s %s %s %s\n' "$n" "$1" "$2" "$3" "$4" "$o" "$6" "$e" "$8"
  [ "$o" = 0 ] || head -c "$o" "$d/$1.o"
  [ "$e" = 0 ] || head -c "$e" "$d/$1.e"
  : >"$d/$1.o"; : >"$d/$1.e"
}
ask() {
  clock; s=$now
  (
    read -r pid rest </proc/self/stat; echo "$pid" >"$d/pid"
    ulimit -f BLOCKS; exec timeout -k KILL "$2" sh -c "$4"
  ) </dev/null >>"$d/$1.o" 2>>"$d/$1.e"
  c=$?; clock
  case $c in 124 | 137 | 143) read -r pid <"$d/pid" && kill -9 -"$pid" ;; esac
  send "$1" "$c" "$s" "$now" "$3"
}
""".replace("BLOCKS", str(_FILE_BLOCKS)).replace("KILL", str(KILL_AFTER_S))

# Root: as it is when the login user is root, else through sudo, whose refusal is probed once and told apart.
_ROOT = r"""
if [ "$(id -u)" = 0 ]; then
  root() { ask "$@"; }
else
  as_root='timeout -k KILL "$1" sh -c "$2" & p=$!; wait "$p"; c=$?
    case $c in 124 | 137 | 143) kill -9 -"$p" ;; esac; exit "$c"'
  sudo_error=$(timeout -k 1 10 sudo -n true 2>&1 </dev/null) && sudo_ok=1 || sudo_ok=
  root() {
    if [ -z "$sudo_ok" ]; then
      : >"$d/$1.o"
      printf 'ndctl: no right to run this as root: %s\n' "${sudo_error:-sudo did not answer}" >"$d/$1.e"
      send "$1" 126 0 0 "$3"
      return
    fi
    clock; s=$now
    (ulimit -f BLOCKS; exec timeout -k 2 "$((${2%.*} + 4))" sudo -n env NDCTL_SYSROOT="$NDCTL_SYSROOT" LC_ALL=C \
      sh -c "$as_root" ndctl "$2" "$4") </dev/null >>"$d/$1.o" 2>>"$d/$1.e"
    c=$?; clock
    send "$1" "$c" "$s" "$now" "$3"
  }
fi
""".replace("BLOCKS", str(_FILE_BLOCKS)).replace("KILL", str(KILL_AFTER_S))

_EPILOGUE = r"""
rm -rf "$d"
trap - EXIT
printf '%s end\n' "$n"
"""


def in_order(commands: Sequence[Command]) -> tuple[Command, ...]:
    """The order commands run in: ascending `order`, and as given within it."""
    return tuple(sorted(commands, key=lambda command: command.order))


def new_nonce() -> str:
    return secrets.token_hex(8)


def _seconds(value: float) -> str:
    """Whole numbers stay whole: not every `timeout` knows fractions."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


@lru_cache(maxsize=64)
def script_text(commands: tuple[Command, ...]) -> str:
    """The script for these commands (already in order); it takes the nonce as its first argument."""
    parts = [_PROLOGUE]
    if any(command.root for command in commands):
        parts.append(_ROOT)
    for index, command in enumerate(commands):
        verb = "root" if command.root else "ask"
        line = f"{command.cap_bytes} {shlex.quote(command.shell)}"
        if command.tool:
            # `c` is the last command's exit code; `timeout` ends with 124, or 137 where KILL was needed.
            mark = f'"$d/hung-{sha256(command.tool.encode()).hexdigest()[:12]}"'
            short = _seconds(min(HUNG_TOOL_S, command.timeout_s))
            parts.append(f"t={_seconds(command.timeout_s)}; [ -e {mark} ] && t={short}\n")
            parts.append(f'{verb} {index} "$t" {line}\ncase $c in 124|137) : >{mark};; esac\n')
        else:
            parts.append(f"{verb} {index} {_seconds(command.timeout_s)} {line}\n")
    parts.append(_EPILOGUE)
    return "".join(parts)


@lru_cache(maxsize=64)
def _quoted(commands: tuple[Command, ...]) -> str:
    return shlex.quote(script_text(commands))


def exec_line(commands: tuple[Command, ...], nonce: str) -> tuple[str, bytes]:
    """(command line for the SSH exec request, what to write to its stdin).

    No login shell and no interactive one, so no start-up file is read by this `sh`.
    """
    quoted = _quoted(commands)
    if len(quoted) <= ARGUMENT_LIMIT:
        return f"exec sh -c {quoted} ndctl {nonce}", b""
    return f"exec sh -s {nonce}", script_text(commands).encode()
