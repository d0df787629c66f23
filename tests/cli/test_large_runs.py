"""Threads share one heap: what one thread let go of, another one uses."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Eight threads, one after the other, each take 40 MB in small pieces and let go of them.
_PROGRAM = """
import sys, threading
if sys.argv[1] == "one":
    from ndctl.cli.large_runs import one_heap_for_all_threads
    one_heap_for_all_threads()
begin, turns = threading.Barrier(8), threading.Lock()
def work():
    begin.wait()
    with turns:
        kept = [bytes(4096) for _ in range(10_000)]
        del kept[::2]
        left.append(kept[::64])
left = []
threads = [threading.Thread(target=work) for _ in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
# Not ru_maxrss: a process begins with its parent's.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def _is_glibc() -> bool:
    return "CS_GNU_LIBC_VERSION" in os.confstr_names and bool(os.confstr("CS_GNU_LIBC_VERSION"))


@pytest.mark.skipif(not _is_glibc(), reason="the C library is not glibc")
def test_peak_memory_is_smaller_with_one_heap() -> None:
    def peak(heaps: str, **more: str) -> int:
        env = {key: value for key, value in os.environ.items() if key != "MALLOC_ARENA_MAX"} | more
        ran = subprocess.run(
            [sys.executable, "-c", _PROGRAM, heaps], env=env, capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran.stderr
        return int(ran.stdout)

    assert peak("one") < 0.7 * peak("many")
    assert peak("one", MALLOC_ARENA_MAX="8") > 1.3 * peak("one")  # the user's choice stands


def test_threads_keep_their_turn_and_cycles_are_looked_for_less_often() -> None:
    text = (
        "import gc, sys; from ndctl.cli.large_runs import prepare; prepare(); prepare(); "
        "print(round(sys.getswitchinterval(), 3), gc.get_threshold()[0], gc.isenabled()); "
        "sys.setswitchinterval(1); gc.set_threshold(90_000); gc.disable(); prepare(); "
        "print(round(sys.getswitchinterval(), 3), gc.get_threshold()[0], gc.isenabled())"
    )
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines() == ["0.05 50000 True", "1.0 90000 False"]  # what asks for more stands
