"""What a VM is asked by Run Command about its SSH server, and what of the answer is wrong. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ndctl.model.answers import OutcomeKind

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

# Ubuntu 24.04 listens by ssh.socket, and ssh.service starts with the first connection: any of them is enough.
_UNITS = ("ssh.socket", "ssh.service", "sshd.service")
_FULL = 100  # percent, as df rounds it up


def login_key(loaded: Loaded) -> str:
    """The base64 part of the public key that logs in, "" where it is not known here."""
    from ndctl.model.errors import NdctlError
    from ndctl.render.keys import public_key

    ssh = loaded.inventory.ssh
    try:
        text = public_key(ssh.public_key, loaded.path_of, loaded.where("ssh.public_key")).text
    except NdctlError:
        return ""
    words = (text or "").split()
    return words[1] if len(words) > 1 else ""


def probe_script(user: str, port: int, key: str) -> str:
    """key=value lines, far below the 4 KB that Run Command gives back; the last is end=1."""
    quoted, known = shlex.quote(user), shlex.quote(key or "no key is known")
    return f"""PATH=$PATH:/usr/sbin:/sbin
one() {{ printf '%s=%s\\n' "$1" "$(printf %s "$2" | tr '\\n' ' ' | cut -c1-300)"; }}
for u in {" ".join(_UNITS)}; do one "$u" "$(systemctl is-active "$u" 2>&1)"; done
one listens "$(timeout 5 ss -H -ltn 'sport = :{port}' 2>&1 | head -n 1)"
t=$(timeout 10 sshd -t 2>&1); one config-exit $?; one config "$t"
one answers "$(timeout 10 ssh-keyscan -T 5 -p {port} 127.0.0.1 2>/dev/null | head -n 1 | cut -d' ' -f2)"
one disk "$(timeout 5 df -P / | tail -n 1 | tr -s ' ' | cut -d' ' -f5)"
one inodes "$(timeout 5 df -Pi / | tail -n 1 | tr -s ' ' | cut -d' ' -f5)"
h=$(getent passwd {quoted} | cut -d: -f6); one home "$h"; f="$NDCTL_SYSROOT$h/.ssh/authorized_keys"
if [ ! -s "$f" ]; then one key missing; elif grep -qF {known} "$f"; then one key there
else one key other; fi
[ ! -e "$NDCTL_SYSROOT/run/nologin" ] || one nologin there
one end 1
"""


def troubles(told: Mapping[str, str], kind: OutcomeKind, key_known: bool = True) -> tuple[str, ...]:
    """What is wrong with the SSH server, the most telling first; () where it works as far as can be seen.

    `kind`: what became of the connection from here: a login that fails is no reason for a silent port, nor is a stopped
    unit the reason for a refused login.
    """
    stopped, login, both = [], [], []
    config = told.get("config", "")
    # sshd -t wants this folder, which systemd makes at the first start: says nothing of the configuration.
    if told.get("config-exit", "0") not in ("0", "124", "127") and "privilege separation directory" not in config:
        stopped.append(f"its configuration does not pass sshd -t: {config}")
    states = {unit: told[unit] for unit in _UNITS if unit in told}
    listens, answers = bool(told.get("listens")), bool(told.get("answers"))
    if not listens and not answers:
        down = ", ".join(f"{unit} {state}" for unit, state in states.items())
        stopped.append(f"nobody listens on its SSH port ({down or 'systemd tells nothing'})")
    elif not answers:
        both.append("its port listens, and no SSH server answers on it, also not from the VM itself")
    for what, word in (("disk", "space"), ("inodes", "inodes")):
        used = told.get(what, "").rstrip("%")
        if used.isdigit() and int(used) >= _FULL:
            both.append(f"/ is full ({word} used: {used}%)")
    if not told.get("home"):
        login.append("the login user does not exist")
    elif told.get("key") == "missing":
        login.append(f"{told['home']}/.ssh/authorized_keys is missing or empty")
    elif told.get("key") == "other" and key_known:
        login.append(f"the login key is not in {told['home']}/.ssh/authorized_keys")
    if told.get("nologin"):
        login.append("/run/nologin is there: logins are refused")
    if kind is OutcomeKind.AUTH_FAILED:
        return (*login, *both)
    # A server that answers on the VM itself is not what keeps a connection away.
    return () if answers else (*stopped, *both)
