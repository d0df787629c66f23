"""Ctrl-C in two steps, and SIGTERM as one."""

from __future__ import annotations

import signal
import threading

import pytest

from ndctl.cli.interrupts import Interrupts, terminate_as_interrupt


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


@pytest.mark.parametrize(
    ("first", "second"),
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)],
)
def test_sigterm_counts_as_a_ctrl_c(first: signal.Signals, second: signal.Signals) -> None:
    stops: list[int] = []
    interrupts = Interrupts(lambda _: None)
    with terminate_as_interrupt():
        with pytest.raises(KeyboardInterrupt), interrupts.first(lambda: stops.append(1), ""):
            signal.raise_signal(first)
            assert stops == [1] and interrupts.happened
            signal.raise_signal(second)
        with pytest.raises(KeyboardInterrupt):  # where nothing is to be ended first
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_sigterm_is_heard_in_the_background_of_a_script_and_not_where_it_is_to_be_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with terminate_as_interrupt(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with terminate_as_interrupt():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
