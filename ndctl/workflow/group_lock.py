"""One writer per cluster across machines: a claim with an end, kept as a tag on the resource group.

The file lock keeps two processes of one machine apart; this keeps two machines apart. Tags have no compare-and-swap, so
a claim is written, left to settle, and holds if it is still there: of two claims written together the last one stays
and both see it. What ARM itself guards (one running deployment of a name) stands behind it. A claim ends by itself
LEASE_S after its holder last renewed it; it is taken over earlier when its holder ran on this very machine and is gone,
or when a person breaks it by name.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from azure.core.exceptions import AzureError

from ndctl.azure.clients import AzureClients
from ndctl.azure.faults import fault_from_exception
from ndctl.azure.group_tags import drop_tags, merge_tags, read_tags
from ndctl.jobs.lease_process import machine_mark
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.workflow.lock_holder import Holder, read
from ndctl.workflow.locks import this_holder

LEASE_S = 900.0
_SETTLE_OF_A_POLL = 0.2  # on Azure 2 s: longer than a read and a write of a tag may lie apart
_RENEWAL_ENDS_S = 10.0


def lock_tag(cluster: str) -> str:
    return f"ndctl-lock-{cluster}".casefold()


class GroupLock:
    """`with GroupLock(...) as lock:` claims the cluster, or at `acquire()` once its resource group exists.

    stop:    set when somebody else has taken the lock meanwhile; then `lost_to` says who
    problem: why the group could not be marked, "" otherwise; the lock then keeps no other machine out
    """

    def __init__(
        self,
        clients: AzureClients,
        cluster: str,
        doing: str,
        *,
        break_lock: str = "",
        lease_s: float = LEASE_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clients, self._cluster, self._doing, self._break = clients, cluster, doing, break_lock
        self._lease_s, self._sleep = lease_s, sleep
        self._tag = lock_tag(cluster)
        self._mine: Holder | None = None
        self._ended = threading.Event()
        self._renewer: threading.Thread | None = None
        self.stop = threading.Event()
        self.lost_to = ""
        self.problem = ""

    def __enter__(self) -> GroupLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever presses Ctrl-C again wants to leave now; the claim is taken over when this process is gone.
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            self.release()

    def acquire(self) -> None:
        """Claim it. Does nothing where the group does not exist, or the claim is made already.

        Raises NdctlError: exit 10 that names the holder, 3 or 4 when Azure cannot be asked.
        """
        if self._mine is not None:
            return
        with self._clients.telling(f"looking for a lock on resource group {self._clients.resource_group}"):
            tags = read_tags(self._clients)
        if tags is None:
            return
        now = self._clients.clock.now()
        self._refuse(tags.get(self._tag, ""), now)
        mine = Holder(self._doing, this_holder(), os.getpid(), now, now + self._lease_s, _mark(), secrets.token_hex(6))
        try:
            merge_tags(self._clients, {self._tag: mine.text()})
            self._sleep(self._clients.cloud.poll_s * _SETTLE_OF_A_POLL)
            tags = read_tags(self._clients)
        except AzureError as error:
            self.problem = fault_from_exception(error).summary
            return
        if tags is None:
            return  # the group went meanwhile; whatever is sent will say so
        now_there = read(tags.get(self._tag, ""))
        if now_there is None or now_there.nonce != mine.nonce:
            raise _held(self._cluster, now_there, tags.get(self._tag, ""))
        self._mine = mine
        self._renewer = threading.Thread(target=self._renew, name="lock", daemon=True)
        self._renewer.start()

    def release(self) -> None:
        """Give it back. What fails here only means that the claim ends by itself later."""
        self._ended.set()
        if self._renewer is not None:
            self._renewer.join(_RENEWAL_ENDS_S)  # a renewal under way must not bring the tag back
        mine, self._mine = self._mine, None
        if mine is None or self.lost_to:
            return
        try:
            tags = read_tags(self._clients)
            there = read((tags or {}).get(self._tag, ""))
            if tags and there is not None and there.nonce == mine.nonce:
                drop_tags(self._clients, {self._tag: tags[self._tag]})
        except (AzureError, NdctlError) as error:
            self.problem = f"the lock could not be given back and ends at {mine.ends} ({type(error).__name__})"

    def _refuse(self, text: str, now: float) -> None:
        holder = read(text)
        if self._break and holder is not None and holder.name != self._break:
            raise NdctlError(
                "lock.other-holder",
                f"{self._cluster} is not locked by {self._break} but by {holder.name} ({holder.who})",
                hint=f"if {holder.name} is gone: --break-lock {holder.name}",
                exit_code=ExitCode.LOCKED_OR_STALE,
            )
        if holder is None or holder.until <= now or self._break == holder.name or _is_gone(holder):
            return
        raise _held(self._cluster, holder, text)

    def _renew(self) -> None:
        while not self._ended.wait(self._lease_s / 3):
            mine = self._mine
            if mine is None:
                return
            try:
                tags = read_tags(self._clients)
                if tags is None:
                    continue  # the group is being deleted
                there = read(tags.get(self._tag, ""))
                if there is None or there.nonce != mine.nonce:
                    if self._ended.is_set():
                        return
                    self.lost_to = there.who if there else "somebody who removed the tag"
                    self.stop.set()
                    return
                self._mine = replace(mine, until=self._clients.clock.now() + self._lease_s)
                if not self._ended.is_set():
                    merge_tags(self._clients, {self._tag: self._mine.text()})
            except (AzureError, NdctlError):
                continue  # tried again well before the claim ends


def _held(cluster: str, holder: Holder | None, text: str) -> NdctlError:
    if holder is None:
        return NdctlError(
            "lock.held",
            f"{cluster} is locked on its resource group: {text or 'the claim was removed while it was made'}",
            hint="run the same command again",
            exit_code=ExitCode.LOCKED_OR_STALE,
        )
    return NdctlError(
        "lock.held",
        f"{cluster} is locked on its resource group: {holder.who}; the lock ends by itself at {holder.ends}",
        hint=f"wait until it has ended; if {holder.name} is gone for good: --break-lock {holder.name}",
        exit_code=ExitCode.LOCKED_OR_STALE,
    )


def _is_gone(holder: Holder) -> bool:
    """Whether the holder was a process of this machine that has ended. Of another machine nothing is known.

    A claim of this very process is an earlier one: the file lock, which is held, keeps two of them apart.
    """
    return process_is_gone(holder) or (_is_here(holder) and holder.pid == os.getpid())


def process_is_gone(holder: Holder) -> bool:
    """Whether no process of the holder's number runs here any more. False for a holder of another machine."""
    if not _is_here(holder):
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _is_here(holder: Holder) -> bool:
    return holder.mark == _mark() and bool(holder.mark.strip("0"))


def _mark() -> str:
    """Eight digits of `machine_mark`, as much as a tag has room for; zeros where it cannot be told."""
    return machine_mark()[:8] or "0" * 8
