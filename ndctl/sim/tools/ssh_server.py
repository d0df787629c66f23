"""What a node's own tools say of its SSH server: sshd -t, ss, ssh-keyscan, getent. Forms of OpenSSH 9.6 and
iproute2 6.1.
"""

from __future__ import annotations

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world.view import NodeView

_NOT_LISTENING = ("inactive", "config", "disk-full")


def sshd(view: NodeView, arguments: list[str]) -> Answer:
    if "-t" not in arguments:
        return Answer(err="sshd re-exec requires execution with an absolute path\n", code=255)
    if view.sshd == "config":
        return Answer(
            err="/etc/ssh/sshd_config.d/60-local.conf line 3: Bad configuration option: PermitRootLogon\n"
            "/etc/ssh/sshd_config.d/60-local.conf: terminating, 1 bad configuration options\n",
            code=255,
        )
    return Answer()


def ss(view: NodeView, arguments: list[str]) -> Answer:
    """ss -H -ltn: no head line, so nothing at all where nobody listens."""
    if view.sshd in _NOT_LISTENING:
        return Answer()
    return Answer("LISTEN 0      4096         0.0.0.0:22        0.0.0.0:*          \n")


def ssh_keyscan(view: NodeView, arguments: list[str]) -> Answer:
    if view.sshd in _NOT_LISTENING:
        return Answer(code=1)
    banner = "# 127.0.0.1:22 SSH-2.0-OpenSSH_9.6p1 Ubuntu-3ubuntu13.14\n"
    key = " ".join(view.vm.host_public_keys[0].split()[:2])
    return Answer(f"127.0.0.1 {key}\n", err=banner)


def getent(view: NodeView, arguments: list[str]) -> Answer:
    user = view.vm.admin_user
    if arguments == ["passwd", user]:
        return Answer(f"{user}:x:1000:1000:Ubuntu:/home/{user}:/bin/bash\n")
    return Answer(code=2)
