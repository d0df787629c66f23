"""Logging in with keys: each in turn until one is accepted, and why none was in words."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import paramiko

from ndctl.model.answers import OutcomeKind
from ndctl.ssh.deadlines import Watch
from ndctl.ssh.keys import Identity
from ndctl.ssh.target import Fault, Target

if TYPE_CHECKING:
    from ndctl.ssh.connection import Session


def authenticate(session: Session, target: Target, watch: Watch, clock: Callable[[], float] = time.monotonic) -> None:
    """Log in, all keys together within the login time. Sets `session.accepted`. Raises Fault."""
    identities = target.identities
    if not identities.offers:
        raise Fault(
            OutcomeKind.AUTH_FAILED,
            f"no usable private key for {target.user}@{target}{_all(identities.problems)}",
            hint="name one as ssh.private_key in the inventory, or add it to the agent: ssh-add",
        )
    until = clock() + target.auth_s
    watch.set("login", until)
    tried: list[Identity] = []
    wants_more: list[str] = []
    for identity in identities.offers:
        _offer(session, target, identity, until - clock())
        if session.is_authenticated():
            session.accepted = identity
            return
        if watch.expired:
            raise _too_late(target, identity)
        tried.append(identity)
        if not session.is_active():
            break
        # Asking for it also forgets this refusal before the next key.
        refusal = session.get_exception()
        if isinstance(refusal, paramiko.ssh_exception.PartialAuthentication):
            wants_more = list(refusal.allowed_types)
        elif isinstance(refusal, paramiko.BadAuthenticationType):
            raise Fault(
                OutcomeKind.AUTH_FAILED,
                f"{target} lets {target.user} in by no key, only by: {', '.join(refusal.allowed_types)}",
                hint="PubkeyAuthentication yes in the node's sshd_config",
            )
    raise _refused(session, target, tried, wants_more)


def _offer(session: Session, target: Target, identity: Identity, left_s: float) -> None:
    """Returns when the server has answered, the connection is gone, or the time is up."""
    answered = threading.Event()
    try:
        session.auth_publickey(target.user, identity.key, answered)
        answered.wait(max(0.0, left_s) + 1)
    except (paramiko.SSHException, OSError, EOFError):
        if session.is_active():
            raise


def _too_late(target: Target, identity: Identity) -> Fault:
    if identity.signing:
        return Fault(
            OutcomeKind.AUTH_FAILED,
            f"the SSH agent did not sign with {identity.label} within {target.auth_s:g} s",
            hint="does it wait for a confirmation or a touch? ssh-add -l; or name a key file as ssh.private_key",
        )
    return Fault(OutcomeKind.TIMED_OUT, f"{target} did not answer the login within {target.auth_s:g} s")


def _refused(session: Session, target: Target, tried: list[Identity], wants_more: list[str]) -> Fault:
    problems = _all(target.identities.problems) + _all(tuple(one.trouble for one in tried if one.trouble))
    labels = ", ".join(one.label for one in tried)
    hint = f"is the public key in ~{target.user}/.ssh/authorized_keys on the node? is '{target.user}' right?"
    if wants_more:
        return Fault(
            OutcomeKind.AUTH_FAILED,
            f"{target} takes {labels} of {target.user}, but wants more than a key: {', '.join(wants_more)}{problems}",
            hint="ndctl logs in by keys alone: see AuthenticationMethods in the node's sshd_config",
        )
    if session.is_active():
        return Fault(OutcomeKind.AUTH_FAILED, f"{target} refused {target.user} with {labels}{problems}", hint=hint)
    error = session.get_exception()
    if error is not None and not isinstance(error, (EOFError, OSError)):
        told = f"{tried[-1].label} could not be used for {target.user}@{target}: {error}{problems}"
        return Fault(OutcomeKind.AUTH_FAILED, told, hint=hint)
    if not session.farewell and len(tried) < 2:
        # A server that hangs up during the first key without a word says nothing of the key.
        return Fault(OutcomeKind.UNREACHABLE, f"{target} broke off the login: connection closed", passing=True)
    said = f" ({session.farewell})" if session.farewell else ""
    return Fault(
        OutcomeKind.AUTH_FAILED,
        f"{target} refused {target.user} with {labels}, then hung up{said}{problems}",
        hint=f"{hint} A server takes only a few tries (MaxAuthTries): name the right key as ssh.private_key",
    )


def _all(problems: tuple[str, ...]) -> str:
    return "".join(f"; {problem}" for problem in problems)
