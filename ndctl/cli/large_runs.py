"""How Python and the C library are set for a run over thousands of nodes, with dozens of threads and much text."""

from __future__ import annotations

import gc
import os
import sys

_M_ARENA_MAX = -8  # of glibc's malloc.h
_OBJECTS_BETWEEN = 50_000
_TURN_S = 0.05


def prepare() -> None:
    """All of it, before the first thread is started."""
    one_heap_for_all_threads()
    fewer_collections()
    longer_turns()


def one_heap_for_all_threads() -> None:
    """Let all threads share one heap of the C library, before any of them is started.

    glibc gives threads heaps of their own, so that they need not wait for each other; Python's threads take turns
    anyway. What one thread let go of, the texts of a rack that was judged, no thread with another heap could use again:
    a run over 432 nodes took 200 MB with many heaps and 124 MB with one, in the same CPU time. Nothing is done where
    the C library is another one, or the user has chosen a number by $MALLOC_ARENA_MAX.
    """
    try:
        glibc = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError, AttributeError):
        return
    if not glibc or "MALLOC_ARENA_MAX" in os.environ:
        return
    import ctypes

    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def fewer_collections() -> None:
    """Let Python look for cycles after every 50,000 new objects, not every 700.

    Texts that were read make millions of objects and next to no cycles; looking for them was a tenth of a run's CPU.
    """
    gc.set_threshold(max(_OBJECTS_BETWEEN, gc.get_threshold()[0]), 20, 20)


def longer_turns() -> None:
    """Let a thread that computes keep its turn for 50 ms, not 5.

    Every thread that waits for its turn wakes up that often to ask for it. While one rack is judged, a hundred threads
    that read from nodes wait; their waking cost more than what they read.
    """
    sys.setswitchinterval(max(_TURN_S, sys.getswitchinterval()))
