"""Bounded, ordered by index, and always left when asked."""

import threading

import pytest

from ndctl.workflow.side_by_side import side_by_side


def test_results_by_index_and_never_more_than_allowed_at_once() -> None:
    lock, at_once, most = threading.Lock(), 0, 0
    together = threading.Barrier(3, timeout=10)

    def work(number: int) -> int:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        together.wait()  # passes only when three are at work at the same time
        with lock:
            at_once -= 1
        return number * 2

    done = side_by_side(range(9), work, workers=3, stop=threading.Event())
    assert done.results == {n: n * 2 for n in range(9)}
    assert most == 3 and not done.interrupted


def test_nothing_to_do() -> None:
    assert side_by_side([], lambda one: one, workers=4, stop=threading.Event()).results == {}


def test_first_exception_is_raised_and_stops_the_rest() -> None:
    stop = threading.Event()
    with pytest.raises(KeyError):
        side_by_side([1, 2, 3], lambda one: {}[one], workers=1, stop=stop)
    assert stop.is_set()


def test_stop_leaves_hanging_work_behind() -> None:
    stop, never = threading.Event(), threading.Event()

    def work(number: int) -> int:
        if number == 0:
            return 0
        stop.set()
        never.wait(60)
        return number

    done = side_by_side([0, 1, 2], work, workers=1, stop=stop, grace_s=0.05)
    assert done.results == {0: 0}
    never.set()


def test_work_that_heeds_stop_still_counts() -> None:
    stop = threading.Event()

    def work(number: int) -> int:
        stop.set()
        return number

    done = side_by_side([7, 8], work, workers=1, stop=stop)
    assert done.results == {0: 7}
