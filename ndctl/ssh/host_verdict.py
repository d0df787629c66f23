"""Whether a host showed the key it is known by. If not: a Fault with both fingerprints and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndctl.model.answers import OutcomeKind
from ndctl.ssh.known_hosts import Trust, fingerprint, host_name
from ndctl.ssh.target import Fault, Target

if TYPE_CHECKING:
    from ndctl.ssh.connection import Session


def verify_host(session: Session, target: Target) -> None:
    """Raises Fault unless the key is known and not revoked. Nothing is ever added to known_hosts."""
    key = session.get_remote_server_key()
    kind, blob = key.get_name(), key.asbytes()
    trust, expected = target.known_hosts.judge(target.known_as, target.port, kind, blob)
    if trust is Trust.KNOWN:
        return
    shown = f"{kind} {fingerprint(blob)}"
    name = host_name(target.known_as, target.port)
    file = str(target.known_hosts.files[0]) if target.known_hosts.files else "a known_hosts file"
    if trust is Trust.CHANGED:
        was = ", ".join(f"{key.kind} {key.fingerprint} ({key.where})" for key in expected)
        relearn = target.learn_hint or f"ssh-keygen -R '{name}' -f {file}, then add the key its console shows"
        raise Fault(
            OutcomeKind.HOST_KEY_CHANGED,
            f"{name} shows {shown}; known is {was}",
            hint=f"was it reimaged or replaced? learn its key again: {relearn}. If not, somebody may be in between",
        )
    if trust is Trust.REVOKED:
        raise Fault(
            OutcomeKind.HOST_KEY_CHANGED,
            f"{name} shows {shown}, which known_hosts marks @revoked",
            hint="this key must not be trusted any more: give the node new host keys, then learn them",
        )
    learn = target.learn_hint or (
        f"ssh-keyscan -p {target.port} {target.host}, compare the fingerprint with the node's console, add it to {file}"
    )
    if trust is Trust.AUTHORITY_ONLY:
        raise Fault(
            OutcomeKind.HOST_KEY_UNKNOWN,
            f"{name} shows {shown}, which no known_hosts file has; {_of_authority(session)}",
            hint=f"add the node's own key: {learn}",
        )
    raise Fault(OutcomeKind.HOST_KEY_UNKNOWN, f"{name} shows {shown}, which no known_hosts file has", hint=learn)


def _of_authority(session: Session) -> str:
    if any("-cert-v01@" in name for name in session.host_key_algorithms):
        return "it also has a host certificate for the @cert-authority line, but host certificates are not supported"
    return "there is a @cert-authority line for it, but it has no host certificate to show"
