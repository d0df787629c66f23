"""What racks are worked on by: a `concurrent.futures.Executor` whose threads keep no program alive.

The standard library's thread pool is joined when the program ends, so that one call that hangs would hold back a second
Ctrl-C; these threads are daemons.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any, ParamSpec, TypeVar

_LOOK_AGAIN_S = 1.0  # a signal that another thread got is noticed then
Result = TypeVar("Result")
Given = ParamSpec("Given")


class LeaveNow(KeyboardInterrupt):
    """The second Ctrl-C: nothing more is waited for."""


class DaemonExecutor(Executor):
    """Runs what is submitted on at most `workers` daemon threads, first come first served."""

    def __init__(self, workers: int) -> None:
        self._most = workers
        self._todo: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._waiting = 0
        self._over = False

    def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
        future: Future[Result] = Future()
        with self._lock:
            if self._over:
                raise RuntimeError("submitted after shutdown")
            self._todo.put((future, lambda: fn(*args, **kwargs)))
            self._waiting += 1
            if self._waiting > 0 and len(self._threads) < self._most:
                thread = threading.Thread(target=self._run, name="ndctl-rack", daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more is taken; with `cancel_futures` what has not begun is cancelled. Waiting can be left by Ctrl-C."""
        with self._lock:
            self._over = True
            threads = list(self._threads)
        while cancel_futures:
            try:
                left = self._todo.get_nowait()
            except queue.Empty:
                break
            if left is not None:
                left[0].cancel()
        for _ in threads:
            self._todo.put(None)
        for thread in threads if wait else ():
            thread.join()

    def _run(self) -> None:
        while (task := self._todo.get()) is not None:
            future, work = task
            with self._lock:
                self._waiting -= 1
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # whoever asks for the result gets it
                future.set_exception(error)


class AtOnceExecutor(Executor):
    """Does what is submitted at once, in the thread that submits it: one after the other, in a fixed order."""

    def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # whoever asks for the result gets it
            future.set_exception(error)
        return future


def wait_for_all(futures: list[Future[Any]], stop: Callable[[], None]) -> None:
    """Wait until all have ended. The first that fails, and the first Ctrl-C, call `stop`; what runs is waited for, and
    then it is raised. A second Ctrl-C raises LeaveNow at once."""
    pending = set(futures)
    reason: BaseException | None = None
    while pending:
        try:
            done, pending = wait(pending, _LOOK_AGAIN_S, return_when=FIRST_COMPLETED)
            for future in done:
                error = None if future.cancelled() else future.exception()
                if error is not None and reason is None:
                    reason = error
                    stop()
        except KeyboardInterrupt as interrupt:
            if isinstance(reason, KeyboardInterrupt):
                raise LeaveNow from interrupt
            reason = interrupt
            try:
                stop()
            except KeyboardInterrupt as again:
                # To stop may take a while: what runs on nodes is ended by asking them.
                raise LeaveNow from again
    if reason is not None:
        raise reason
