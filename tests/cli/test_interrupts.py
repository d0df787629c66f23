"""Ctrl-C in two steps."""

from __future__ import annotations

import signal
import threading

import pytest

from ndctl.cli.interrupts import Interrupts


def test_the_first_stops_and_the_second_leaves() -> None:
    said: list[str] = []
    stops: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    interrupts = Interrupts(said.append)
    with pytest.raises(KeyboardInterrupt), interrupts.first(lambda: stops.append(1), "what runs may end"):
        signal.raise_signal(signal.SIGINT)
        assert (stops, interrupts.happened) == ([1], True)
        signal.raise_signal(signal.SIGINT)
    assert said == ["interrupted: what runs may end; again to leave at once"]
    assert stops == [1]
    assert signal.getsignal(signal.SIGINT) is before


def test_without_one_nothing_is_said() -> None:
    said: list[str] = []
    interrupts = Interrupts(said.append)
    with interrupts.first(lambda: said.append("stopped"), ""):
        pass
    assert said == [] and not interrupts.happened


def test_in_another_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def work() -> None:
        with Interrupts(lambda _: None).first(lambda: None, ""):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert seen == [before]
