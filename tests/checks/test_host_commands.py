"""What nodes are asked of the host, asked of the machine the tests run on: shell, tools and parsers fit together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ndctl.checks import host_commands as asked
from ndctl.model.answers import Command
from ndctl.parse import df, host_files, mounts, proc_tasks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel's own files")


def ask(command: Command, sysroot: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "NDCTL_SYSROOT": sysroot}
    return subprocess.run(
        ["sh", "-c", command.shell], capture_output=True, text=True, env=environment, timeout=command.timeout_s
    )


def test_files_of_this_machine_are_listed_to_the_end() -> None:
    done = ask(asked.HOST_FILES)
    facts = host_files.parse(done.stdout, done.stderr)
    assert facts.complete and facts.unknown_fields == ()
    online = host_files.number_set(facts.first(asked.CPUS_ONLINE))
    assert online and len(online) >= len(os.sched_getaffinity(0))
    assert facts.first(asked.COMMAND_LINE) == Path("/proc/cmdline").read_text().strip()
    assert "/" in {one.point for one in mounts.of_lines(facts.files[asked.MOUNTS]).mounts}
    assert asked.COMPONENTS in facts.absent or facts.text(asked.COMPONENTS)


def test_tasks_of_this_machine_are_counted_and_the_first_is_seen() -> None:
    facts = proc_tasks.parse(ask(asked.HOST_TASKS).stdout)
    assert facts.count and facts.count > 3 and facts.looks and facts.looks[0].uptime_s > 0
    assert facts.sees_all is os.access("/proc/1/stat", os.R_OK)


def test_a_dead_child_of_ours_is_seen_as_a_zombie() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        facts = proc_tasks.parse(ask(asked.HOST_TASKS).stdout)
        assert child in {task.pid for task in facts.zombies if task.parent == os.getpid()}
    finally:
        os.waitpid(child, 0)


def test_df_of_this_machine_lists_the_root_with_space_and_inodes() -> None:
    facts = df.parse(ask(asked.HOST_DISK).stdout)
    root = facts.file_systems["/"]
    assert root.size and root.available is not None and root.kind
    whole = os.statvfs("/")
    assert root.size == pytest.approx(whole.f_blocks * whole.f_frsize / 1024, rel=0.01)


def test_a_root_without_proc_is_no_answer(tmp_path: Path) -> None:
    assert ask(asked.HOST_TASKS, str(tmp_path)).returncode == 3
    assert ask(asked.HOST_FILES, str(tmp_path / "none")).returncode == 3
    facts = host_files.parse(ask(asked.HOST_FILES, str(tmp_path)).stdout)
    assert facts.files == {} and facts.complete


def test_no_command_of_the_host_names_a_path_outside_the_nodes_root() -> None:
    for command in (asked.HOST_FILES, asked.HOST_TASKS):
        assert '"$NDCTL_SYSROOT/' in command.shell
        assert not any(word.startswith(("/proc", "/sys", "/opt")) for word in command.shell.split())
