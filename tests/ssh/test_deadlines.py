"""The one thread that cuts what is too slow."""

from __future__ import annotations

import threading
import time

from ndctl.ssh.deadlines import DeadlineKeeper


def test_cuts_newest_first_and_names_the_phase() -> None:
    keeper, cut, done = DeadlineKeeper(), [], threading.Event()
    watch = keeper.watch()
    watch.on_expiry(lambda: (cut.append("outer"), done.set()))  # type: ignore[func-returns-value]
    watch.on_expiry(lambda: cut.append("inner"))
    watch.set("slow phase", time.monotonic() + 0.02)
    assert done.wait(10)
    assert cut == ["inner", "outer"]
    assert watch.expired == "slow phase"
    keeper.close()


def test_a_later_phase_moves_the_deadline_both_ways() -> None:
    keeper, done = DeadlineKeeper(), threading.Event()
    watch = keeper.watch()
    watch.on_expiry(done.set)
    watch.set("first", time.monotonic() + 0.05)
    watch.set("long", time.monotonic() + 3600)
    watch.set("short", time.monotonic() + 0.02)
    assert done.wait(10)
    assert watch.expired == "short"
    keeper.close()


def test_a_closed_watch_is_left_alone() -> None:
    keeper, cut, done = DeadlineKeeper(), [], threading.Event()
    closed, other = keeper.watch(), keeper.watch()
    closed.on_expiry(lambda: cut.append("closed"))
    closed.set("phase", time.monotonic() + 0.02)
    closed.close()
    other.on_expiry(done.set)
    other.set("phase", time.monotonic() + 0.05)
    assert done.wait(10)
    assert cut == []
    assert closed.expired == ""
    keeper.close()


def test_what_comes_after_expiry_is_cut_at_once() -> None:
    keeper, done, late = DeadlineKeeper(), threading.Event(), []
    watch = keeper.watch()
    watch.on_expiry(done.set)
    watch.set("phase", time.monotonic())
    assert done.wait(10)
    watch.on_expiry(lambda: late.append(1))
    assert late == [1]
    watch.set("next phase", time.monotonic() + 3600)
    assert watch.expired == "phase"
    keeper.close()


def test_cutting_all() -> None:
    keeper, done = DeadlineKeeper(), [threading.Event() for _ in range(3)]
    watches = [keeper.watch() for _ in done]
    for watch, event in zip(watches, done, strict=True):
        watch.on_expiry(event.set)
        watch.set("phase", time.monotonic() + 3600)
    keeper.cut_all_by(time.monotonic(), "interrupted")
    assert all(event.wait(10) for event in done)
    assert [watch.expired for watch in watches] == ["interrupted"] * 3
    keeper.close()
