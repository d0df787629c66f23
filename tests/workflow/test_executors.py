"""Racks on daemon threads, and what Ctrl-C does to the waiting for them."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Future

import pytest

from ndctl.workflow.executors import AtOnceExecutor, DaemonExecutor, LeaveNow, wait_for_all


def test_at_most_so_many_at_once_and_every_result() -> None:
    running, most, lock = 0, 0, threading.Lock()
    gate = threading.Barrier(3, timeout=30)

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        gate.wait()
        with lock:
            running -= 1
        return number * number

    with DaemonExecutor(3) as executor:
        futures = [executor.submit(work, number) for number in range(9)]
        assert [future.result(30) for future in futures] == [n * n for n in range(9)]
    assert most == 3


def test_its_threads_keep_no_program_alive() -> None:
    begun, end = threading.Event(), threading.Event()
    executor = DaemonExecutor(1)

    def hang() -> bool:
        begun.set()
        end.wait(60)
        return threading.current_thread().daemon

    first, second = executor.submit(hang), executor.submit(hang)
    assert begun.wait(30)
    executor.shutdown(wait=False, cancel_futures=True)
    assert second.cancelled()
    with pytest.raises(RuntimeError):
        executor.submit(hang)
    end.set()
    assert first.result(30) is True


def test_the_first_failure_stops_the_others_and_is_raised() -> None:
    stopped = threading.Event()
    with DaemonExecutor(2) as executor:

        def fail() -> None:
            raise ValueError("broken")

        futures: list[Future[object]] = [executor.submit(stopped.wait, 60), executor.submit(fail)]
        with pytest.raises(ValueError, match="broken"):
            wait_for_all(futures, stopped.set)
    assert stopped.is_set()
    assert futures[0].result(0) is True, "what ran was waited for"


def test_the_first_interruption_stops_and_waits_the_second_leaves() -> None:
    stops: list[str] = []
    end = threading.Event()

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def stop_then_interrupted_again() -> None:
        stops.append("stop")
        again.start()

    again = threading.Timer(0.2, interrupt)
    executor = DaemonExecutor(1)
    hanging: list[Future[object]] = [executor.submit(end.wait, 60)]
    threading.Timer(0.2, interrupt).start()
    try:
        with pytest.raises(LeaveNow):
            wait_for_all(hanging, stop_then_interrupted_again)
        assert stops == ["stop"]
        assert not hanging[0].done()
    finally:
        end.set()
        executor.shutdown()


def test_a_second_interruption_while_the_first_still_stops_leaves_too() -> None:
    end = threading.Event()

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def stop_that_takes_long() -> None:
        threading.Timer(0.2, interrupt).start()
        end.wait(60)

    executor = DaemonExecutor(1)
    hanging: list[Future[object]] = [executor.submit(end.wait, 60)]
    threading.Timer(0.2, interrupt).start()
    try:
        with pytest.raises(LeaveNow):
            wait_for_all(hanging, stop_that_takes_long)
        assert not hanging[0].done()
    finally:
        end.set()
        executor.shutdown()


def test_an_interruption_that_is_heeded_is_raised_when_all_have_ended() -> None:
    end = threading.Event()
    executor = DaemonExecutor(1)
    running: list[Future[object]] = [executor.submit(end.wait, 60)]
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt) as raised:
        wait_for_all(running, end.set)
    assert not isinstance(raised.value, LeaveNow)
    assert running[0].result(0) is True
    executor.shutdown()


def test_at_once_is_in_order_and_keeps_faults_for_the_asker() -> None:
    done: list[int] = []
    executor = AtOnceExecutor()
    futures = [executor.submit(done.append, number) for number in range(3)]
    assert done == [0, 1, 2] and all(future.done() for future in futures)
    failed = executor.submit(int, "x")
    with pytest.raises(ValueError):
        failed.result()
