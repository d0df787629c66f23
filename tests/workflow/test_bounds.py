"""Racks wait for each other so that at most so many nodes are under test."""

from __future__ import annotations

import random
import threading

import pytest

from ndctl.workflow.bounds import NodeBound


def never() -> bool:
    return False


def test_no_limit_gives_what_is_asked() -> None:
    bound = NodeBound()
    assert [bound.take(18, never) for _ in range(3)] == [18, 18, 18]
    bound.give_back(18)


def test_a_limit_below_a_rack_gives_that_many() -> None:
    assert NodeBound(4).take(18, never) == 4


@pytest.mark.parametrize("limit", [1, 7, 18, 20, 36, 1000])
def test_never_more_than_the_limit_and_everybody_has_a_turn(limit: int) -> None:
    bound = NodeBound(limit)
    lock, seen = threading.Lock(), {"now": 0, "most": 0, "done": 0}
    start = threading.Barrier(24)

    def rack(number: int) -> None:
        dice = random.Random(number)
        start.wait()
        for _ in range(20):
            held = bound.take(dice.randint(1, 18), never)
            with lock:
                seen["now"] += held
                seen["most"] = max(seen["most"], seen["now"])
            part = dice.randint(0, held)
            for some in (part, held - part):
                with lock:
                    seen["now"] -= some
                bound.give_back(some)
        with lock:
            seen["done"] += 1

    threads = [threading.Thread(target=rack, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen["done"] == 24 and seen["now"] == 0
    assert 0 < seen["most"] <= limit


def test_who_waits_for_many_is_not_overtaken() -> None:
    bound, order = NodeBound(18), []
    assert bound.take(10, never) == 10
    waiting = threading.Semaphore(0)

    def rack(name: str, nodes: int) -> None:
        bound.take(nodes, never, waiting.release)
        order.append(name)
        bound.give_back(nodes)

    first = threading.Thread(target=rack, args=("whole rack", 18))
    first.start()
    assert waiting.acquire(timeout=30)
    second = threading.Thread(target=rack, args=("few", 2))  # would fit at once
    second.start()
    assert waiting.acquire(timeout=30)
    assert order == []
    bound.give_back(10)
    first.join(30)
    second.join(30)
    assert order == ["whole rack", "few"]


def test_an_interruption_ends_the_wait_and_blocks_nobody() -> None:
    bound, stop = NodeBound(4), threading.Event()
    bound.take(4, never)
    waiting, given = threading.Event(), []
    thread = threading.Thread(target=lambda: given.append(bound.take(2, stop.is_set, waiting.set)))
    thread.start()
    assert waiting.wait(30)
    stop.set()
    thread.join(30)
    assert given == [0]
    bound.give_back(4)
    assert bound.take(4, never) == 4


def test_mistakes_are_told() -> None:
    with pytest.raises(ValueError, match="below one"):
        NodeBound(0)
    with pytest.raises(ValueError, match="given back"):
        NodeBound(3).give_back(1)
