"""Work on many racks side by side, bounded, in a way that Ctrl-C can always leave.

Threads of `concurrent.futures` are waited for when the program ends, so one call that hangs would keep it alive;
these are daemons.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

GRACE_S = 5.0  # how long running work may take to notice `stop`


@dataclass
class SideBySide(Generic[Result]):
    """`results` by index of the item; what is missing was not finished. `interrupted`: Ctrl-C came."""

    results: dict[int, Result] = field(default_factory=dict)
    interrupted: bool = False


def side_by_side(
    items: Sequence[Item],
    work: Callable[[Item], Result],
    *,
    workers: int,
    stop: threading.Event,
    grace_s: float = GRACE_S,
) -> SideBySide[Result]:
    """Run `work` on every item, at most `workers` at once. The first exception of `work` stops all and is raised.

    On KeyboardInterrupt: `stop` is set, nothing new starts, running work has `grace_s` to end. Once `stop` is set, a
    KeyboardInterrupt is raised at once.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Result | None, BaseException | None]] = queue.SimpleQueue()
    for index in range(len(items)):
        todo.put(index)

    def run() -> None:
        while not stop.is_set():
            try:
                index = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((index, work(items[index]), None))
            except BaseException as error:  # handed to the waiting thread, which raises it
                done.put((index, None, error))

    threads = [threading.Thread(target=run, daemon=True) for _ in range(min(workers, len(items)))]
    for thread in threads:
        thread.start()
    outcome: SideBySide[Result] = SideBySide()
    deadline: float | None = None
    while len(outcome.results) < len(items):
        try:
            given_up = deadline is not None and (monotonic() > deadline or not any(t.is_alive() for t in threads))
            if given_up and done.empty():
                break
            index, result, error = done.get(timeout=0.1)
        except queue.Empty:
            if stop.is_set() and deadline is None:
                deadline = monotonic() + grace_s
            continue
        except KeyboardInterrupt:
            if outcome.interrupted or stop.is_set():
                raise
            outcome.interrupted = True
            stop.set()
            continue
        if error is not None:
            stop.set()
            raise error
        outcome.results[index] = result  # type: ignore[assignment]
    return outcome
