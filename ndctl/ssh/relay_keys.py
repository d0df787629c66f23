"""The ephemeral key of a relay: where it lies on the head, and its marked line in the peers' authorized_keys.

The line is `restrict`ed to commands, from the head's address only, until an expiry time by the peer's own clock; its
comment names the run. Active tests put a key of their own on nodes in the same way (`jobs.nccl_scripts`): the editing
is the same text, and so is the lock, so that the two never edit a file at once. Facts: sshd(8) on authorized_keys.
"""

from __future__ import annotations

import shlex

# Edits go through a new file that replaces the old one at once: a full disk or a killed script must not lock anybody
# out. The lock is for nodes that share a home; a lock on a directory does not work on NFS.
EDITING = r"""
k="$HOME/.ssh/authorized_keys"; [ -L "$k" ] && k=$(readlink -f "$k"); s=${k%/*}
lock() {
  exec 9<"$s" && flock -w 8 9 2>/dev/null && return
  i=0; until mkdir "$s/.ndctl-lock" 2>/dev/null; do i=$((i + 1)); [ $i -lt 8 ] || break; sleep 1; done
  trap 'rmdir "$s/.ndctl-lock" 2>/dev/null' EXIT
}
renew() { t=$(mktemp "$k.XXXXXX") && { [ ! -e "$k" ] || cp -p "$k" "$t"; }; }
"""
# Lines of runs that are over, which a client that was killed has left: the time they held is past, or they let in from
# this very head, which has their key no more. What is not to the letter as we write it stays. Of two runs that begin on
# a head at the same moment one may take out the other's line; that one goes on with the client's agent.
_STALE = r"""
  /^restrict,expiry-time="[0-9]+",from="[^"]*" ssh-ed25519 [A-Za-z0-9+\/=]+ ndctl-relay-[0-9a-z]+:$/ {
    split($0, part, "\""); token = $0; sub(/^.*ndctl-relay-/, "", token); sub(/:$/, "", token)
    if (part[2] "" < now "" || part[4] == head && !index(" " kept " ", " " token " ")) next
  }
  { print }
"""
ADMIT_S = 20
_ADMITS = "ndctl-admits"
ADMITTED = "admitted"


def mark(token: str) -> str:
    """The key's comment. The colon ends it, so that no other token begins like it."""
    return f"ndctl-relay-{token}:"


def admission(token: str) -> str:
    """An argument of every process on a peer that may still admit the key."""
    return f"{_ADMITS}-{token}:"


def key_directory(token: str) -> str:
    """On the head, on tmpfs only: a private key is never written to a disk. The token cannot be guessed."""
    return f"/dev/shm/ndctl-key.{token}"


def key_text(token: str, minutes: int) -> str:
    """On the head, with `$k` the key's directory: make the key where there is none; sets `$public` and `$kept`.

    Keys that no peer admits any more are removed: a client that was killed between two askings leaves its own.
    """
    return (
        '[ -d "$k" ] && touch "$k" || mkdir -m 700 "$k"\n'
        f'[ -s "$k/key" ] || ssh-keygen -q -t ed25519 -N "" -C {mark(token)} -f "$k/key" </dev/null >/dev/null\n'
        f'find /dev/shm -maxdepth 1 -type d -name "ndctl-key.*" -user "$(id -u)" -mmin +{minutes + 5} '
        "-exec rm -rf {} \\;\n"
        'public=; read -r public <"$k/key.pub"\n'
        # Anybody may make a directory there, of any name.
        "kept=; for o in /dev/shm/ndctl-key.*; do\n"
        '  case ${o##*.} in *[!0-9a-f]*) ;; *) kept="$kept ${o##*.}" ;; esac\ndone\n'
    )


def admit_text(token: str, minutes: int) -> str:
    """Before a peer's script, in the same sh: admit the key `$public`; `$kept` are the tokens of the head's keys. Says
    `<nonce> admitted` where that worked; where it did not, the script runs all the same."""
    return (
        f'timeout -k 2 {ADMIT_S} sh -c {shlex.quote(_admit(token, minutes))} {admission(token)} "$public" "$kept" '
        f"</dev/null >/dev/null 2>&1 && printf '%s {ADMITTED}\\n' \"$1\"\n"
    )


def _admit(token: str, minutes: int) -> str:
    """`$1` is the public key, `$2` the tokens of the head's keys. An older line of the same run is replaced; lines of
    runs that are over are taken out, where there is an awk."""
    return (
        'f=${SSH_CONNECTION%% *}; [ -n "$f" ] || exit 1; '
        f'umask 077; mkdir -p "$HOME/.ssh" || exit 1; {EDITING}lock; '
        # sshd reads the time in the system's zone, whatever the user's is. GNU's and busybox's date are tried.
        f"e=$(env -u TZ date -d '+{minutes} minutes' +%Y%m%d%H%M 2>/dev/null || "
        f"env -u TZ date -d @$(($(date +%s) + {minutes * 60})) +%Y%m%d%H%M) || exit 1; renew || exit 1; "
        f'if grep -qF {mark(token)} "$t"; then grep -vF {mark(token)} "$k" > "$t"; '
        '[ $? -le 1 ] || { rm -f "$t"; exit 1; }; fi; '
        'if grep -qF ndctl-relay- "$t" && command -v awk >/dev/null; then '
        'awk -v now="$(env -u TZ date +%Y%m%d%H%M)" -v head="$f" -v kept="$2" '
        f'{shlex.quote(_STALE)} "$t" > "$t.new" && '
        'cat "$t.new" > "$t" || { rm -f "$t" "$t.new"; exit 1; }; rm -f "$t.new"; fi; '
        # A file whose last line has no newline must not swallow ours.
        '{ [ ! -s "$t" ] || [ -z "$(tail -c 1 "$t")" ] || echo >> "$t"; } && '
        'printf \'restrict,expiry-time="%s",from="%s" %s\\n\' "$e" "$f" "$1" >> "$t" && mv "$t" "$k" || '
        '{ rm -f "$t"; exit 1; }'
    )


def forget_text(token: str) -> str:
    """On a peer: take the line out. Exit 1 when it could not be taken out; may be run again.

    A script whose connection was cut may be about to admit the key: it is ended first.
    """
    return (
        # The bracket keeps the search from finding itself.
        f'i=0; while p=$(grep -ls "[{_ADMITS[0]}]{_ADMITS[1:]}-{token}:" /proc/[0-9]*/cmdline | tr -dc "0-9\\n"); '
        '[ -n "$p" ] && [ $i -lt 4 ]; do kill $p 2>/dev/null; i=$((i + 1)); sleep 1; done; '
        f'{EDITING}if [ -d "$s" ]; then lock; if grep -qF {mark(token)} "$k" 2>/dev/null; then '
        f'renew && {{ grep -vF {mark(token)} "$k" > "$t"; [ $? -le 1 ]; }} && '
        # A file that holds nothing but our line was made by us.
        '{ if [ -s "$t" ]; then mv "$t" "$k"; else rm -f "$t" "$k"; fi; } || rm -f "$t"; fi; fi; '
        f'if grep -qF {mark(token)} "$k" 2>/dev/null; then echo "its key is still admitted" >&2; exit 1; fi'
    )


def forget_key_text(token: str) -> str:
    """On the head: remove the key itself."""
    return f"rm -rf {key_directory(token)}; [ ! -e {key_directory(token)} ]"
