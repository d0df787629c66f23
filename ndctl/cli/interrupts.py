"""Ctrl-C in two steps: the first asks the work to end soon, the second leaves at once. SIGTERM counts as a Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Within it SIGTERM, which pipelines' runners, systemd and containers send, does what a Ctrl-C would do just then.

    That holds too where Ctrl-C itself is ignored, as in the background of a script. Who started the program so that it
    ignores SIGTERM gets that.
    """
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def on_terminate(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise KeyboardInterrupt
        handler(number, frame)

    signal.signal(signal.SIGTERM, on_terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Interrupts:
    """`with interrupts.first(stop, "what that means"):`; `happened` tells afterwards whether there was one."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.happened = False
        self._say = say

    @contextmanager
    def first(self, stop: Callable[[], None], meaning: str) -> Iterator[None]:
        """Within it the first Ctrl-C calls `stop` and says what it means; the second raises KeyboardInterrupt."""
        if threading.current_thread() is not threading.main_thread():
            yield  # signals are the main thread's
            return
        before = signal.getsignal(signal.SIGINT)

        def on_interrupt(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.happened = True
            self._say(f"interrupted: {meaning}; again to leave at once")
            stop()

        signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
