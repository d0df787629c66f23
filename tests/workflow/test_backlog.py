"""Racks are held back while too many wait to be judged, and by nothing that stands still."""

from __future__ import annotations

import math
import threading

from ndctl.workflow.backlog import _AHEAD, UNJUDGED, Backlog


def begins(backlog: Backlog, nodes: int = 18) -> tuple[threading.Thread, threading.Event]:
    """A rack that would begin; the event is set when it may."""
    begun = threading.Event()

    def rack() -> None:
        backlog.begin(nodes)
        begun.set()

    thread = threading.Thread(target=rack, daemon=True)
    thread.start()
    return thread, begun


def test_no_more_racks_are_asked_than_nodes_side_by_side_need() -> None:
    backlog = Backlog(64)
    racks = 0
    while 18 * racks < 64 + _AHEAD:
        backlog.begin(18)
        racks += 1
    thread, begun = begins(backlog)
    assert not begun.wait(0.05)
    backlog.answered()
    assert not begun.wait(0.05), "one more than the bound is still awaited"
    backlog.answered(18 * racks - (64 + _AHEAD))
    thread.join(10)
    assert begun.is_set()


def test_silent_nodes_keep_back_no_rack() -> None:
    """64 racks, each with one node that never answers."""
    backlog = Backlog(64)
    for _ in range(64):
        backlog.begin(18)
        backlog.answered(17)


def test_racks_wait_for_those_that_are_not_judged_yet() -> None:
    backlog = Backlog(math.inf)
    for rack in range(UNJUDGED):
        backlog.begin(18)
        backlog.answered(18)
        backlog.to_judge(f"rack{rack}")
    thread, begun = begins(backlog)
    assert not begun.wait(0.05)
    backlog.judged("a rack that came from another machine")
    assert not begun.wait(0.05)
    backlog.judged("rack3")
    thread.join(10)
    assert begun.is_set()


def test_nobody_waits_when_the_run_is_left() -> None:
    backlog = Backlog(1)
    backlog.begin(1000)
    thread, begun = begins(backlog)
    assert not begun.wait(0.05)
    backlog.end()
    thread.join(10)
    assert begun.is_set()
    backlog.begin(1000)
