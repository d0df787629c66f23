"""The host's files and tools: what they say is read, and whatever is done to a text, nothing raises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndctl.parse import clock, component_versions, df, host_files, mounts, nvme_smart, proc_tasks, systemd_units
from tests.checks.catalogue import host_texts

CAPTURES = Path(__file__).parents[1] / "captures" / "host"


def capture(name: str) -> str:
    return (CAPTURES / name).read_text()


STUCK = (
    "tasks 2104\ninit seen\nat 5000.10\n"
    "31337 (python3 -m x) D 1 31337 31337 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 90000 0\n"
    "31338 (kworker/u9:1) D 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 17 0\n"
    "40 (sh) Z 31 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 17 0\n"
    "31337/status:voluntary_ctxt_switches:\t12\n31337/status:nonvoluntary_ctxt_switches:\t3\n31337/wchan:nv_lock\n"
    "31338/status:voluntary_ctxt_switches:\t5\n31338/status:nonvoluntary_ctxt_switches:\t0\n31338/wchan:0\n"
    "at 5005.20\n"
    "31337 (python3 -m x) D 1 31337 31337 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 90000 0\n"
    "31338 (kworker/u9:1) D 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 17 0\n"
    "40 (sh) Z 31 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 17 0\n"
    "31337/status:voluntary_ctxt_switches:\t12\n31337/status:nonvoluntary_ctxt_switches:\t3\n31337/wchan:nv_lock\n"
    "31338/status:voluntary_ctxt_switches:\t6\n31338/status:nonvoluntary_ctxt_switches:\t0\n31338/wchan:0\n"
)


def test_a_listing_of_files_tells_absent_from_refused() -> None:
    text = "proc/cmdline:a b\nopt/azurehpc/component_versions.txt:{\nopt/azurehpc/component_versions.txt:}\nend\n"
    errors = "grep: sys/class/nvme/nvme*/model: No such file or directory\ngrep: proc/x: Permission denied\n"
    facts = host_files.parse(text, errors)
    assert facts.first("proc/cmdline") == "a b" and facts.text("opt/azurehpc/component_versions.txt") == "{\n}"
    assert facts.complete and facts.absent == {"sys/class/nvme/nvme*/model"}
    assert facts.refused == {"proc/x": "Permission denied"}
    assert not host_files.parse(text[:-2]).complete


@pytest.mark.parametrize(
    ("text", "count"), [("0-33", 34), ("0,2-5\n", 5), ("", 0), ("0-", None), ("5-2", None), ("0-99999999", None)]
)
def test_number_lists(text: str, count: int | None) -> None:
    numbers = host_files.number_set(text)
    assert (None if numbers is None else len(numbers)) == count


def test_mounts_with_escaped_names_and_a_line_cut_off() -> None:
    facts = mounts.parse("/dev/sdb1 /mnt/my\\040data ext4 ro,noatime 0 0\n/dev/sdc1 /mnt/x ext4 rw,noa")
    assert [(one.point, one.options) for one in facts.mounts] == [("/mnt/my data", ("ro", "noatime"))]
    assert facts.unknown_fields == ("/dev/sdc1 /mnt/x ext4 rw,noa",)


def test_df_reads_space_and_inodes_of_one_text() -> None:
    facts = df.parse(capture("df-space-and-inodes.txt"))
    root = facts.file_systems["/"]
    assert (root.kind, root.size, root.used, root.available) == ("ext4", 264212084, 24257500, 82133412)
    assert (root.inodes, root.inodes_used, root.inodes_free) == (16777216, 556426, 16220790)
    assert list(facts.file_systems) == ["/dev/shm", "/"] and facts.unknown_fields == ()


def test_df_without_types_with_blanks_and_with_complaints() -> None:
    text = (
        "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
        "//server/a share 100 90 10 90% /mnt/a b\nmap auto_home 0 0 0 - /home\nnonsense\n"
    )
    facts = df.parse(text, "df: /mnt/bad: Input/output error\ndf: '/mnt/o d': Structure needs cleaning\n")
    assert facts.file_systems["/mnt/a b"].device == "//server/a share"
    assert facts.file_systems["/home"].available == 0
    assert facts.complaints == {"/mnt/bad": "Input/output error", "/mnt/o d": "Structure needs cleaning"}
    assert facts.unknown_fields == ("nonsense",)
    assert df.parse("/dev/sda1 ext4 1 2 3 4% /\n").file_systems == {}


def test_chrony_tells_offset_source_and_health() -> None:
    facts = clock.parse(capture("chronyc-tracking-pps.txt"))
    assert (facts.tool, facts.synced, facts.reference, facts.stratum) == ("chrony", True, "PPS", 1)
    assert facts.offset_s == pytest.approx(7.2e-8) and facts.dispersion_s == pytest.approx(1.1804e-5)
    assert facts.unknown_fields == ()


@pytest.mark.parametrize(
    ("reference", "leap", "synced"),
    [
        ("00000000 ()", "Not synchronised", False),
        ("7F7F0101 ()", "Normal", False),
        ("127.127.1.1 ()", "Normal", False),
        ("1.2.3.4 (a.b.c)", "Insert second", True),
        ("50484330 (PHC0)", "Something new", None),
    ],
)
def test_a_clock_without_a_source_is_not_synchronised(reference: str, leap: str, synced: bool | None) -> None:
    text = capture("chronyc-tracking-pps.txt").replace("50505300 (PPS)", reference).replace(": Normal", f": {leap}")
    assert clock.parse(text).synced is synced


@pytest.mark.parametrize(
    ("text", "synced", "service"),
    [
        ("Timezone=Etc/UTC\nNTP=yes\nNTPSynchronized=yes\n", True, True),
        ("System clock synchronized: no\n              NTP service: inactive\n", False, False),
        ("       NTP enabled: yes\nNTP synchronized: yes\n", True, None),
    ],
)
def test_timedatectl_in_its_forms(text: str, synced: bool, service: bool | None) -> None:
    facts = clock.parse("506 Cannot talk to daemon\n" + text)
    assert (facts.tool, facts.synced, facts.service, facts.offset_s) == ("timedatectl", synced, service, None)
    assert facts.problems == ("506 Cannot talk to daemon",)


def test_units_with_and_without_a_mark_and_state() -> None:
    text = (
        "nvidia-dcgm.service loaded failed failed NVIDIA DCGM service\n"
        "● mnt-data.mount loaded failed failed /mnt/data\nx.service loaded activating auto-restart X\nstate=degraded\n"
    )
    facts = systemd_units.parse(text)
    assert [(one.name, one.active, one.sub) for one in facts.units] == [
        ("nvidia-dcgm.service", "failed", "failed"),
        ("mnt-data.mount", "failed", "failed"),
        ("x.service", "activating", "auto-restart"),
    ]
    assert facts.state == "degraded" and facts.units[0].description == "NVIDIA DCGM service"
    silent = systemd_units.parse("state=offline\n", capture("systemctl-outside-systemd.txt"))
    assert silent.units == () and silent.state == "offline" and "not been booted" in silent.problems[0]


def test_smart_logs_of_several_disks() -> None:
    real = capture("nvme-smart-log.json")
    text = (
        f"{host_texts.REFUSED}== nvme1 A\n{real}== nvme2 B\n"
        + real.replace('"media_errors" : 0', '"media_errors" : "340282366920938463463374607431768211455"').replace(
            '"critical_warning" : 0', '"critical_warning" : {"value": 4, "available_spare": 0}'
        )
        + "== nvme3 C\nSmart Log for NVME device:nvme3n1 namespace-id:ffffffff\n"
        "critical_warning                    : 0x00\npercentage_used                     : 112%\n"
        "media_errors                        : 1,204\n== end\n"
    )
    facts = nvme_smart.parse(text)
    refused, first, second, third = facts.disks
    assert refused.name == "nvme0" and not refused.answered and refused.refusal.startswith("NVMe status")
    assert (first.critical_warning, first.media_errors, first.percent_used, first.spare_threshold) == (0, 0, 15, 5)
    assert (second.critical_warning, second.media_errors) == (4, 2**128 - 1)
    assert (third.media_errors, third.percent_used, third.model) == (1204, 112, "C")
    assert facts.complete and not nvme_smart.parse(text[:-4]).complete


def test_a_task_is_stuck_only_where_it_was_never_scheduled_between_two_looks() -> None:
    facts = proc_tasks.parse(STUCK)
    assert [(task.name, task.waits_in, task.kernel_thread) for task in facts.stuck] == [
        ("python3 -m x", "nv_lock", False)
    ]
    assert facts.between_s == pytest.approx(5.1) and len(facts.zombies) == 1 and facts.count == 2104
    once = proc_tasks.parse(STUCK.partition("at 5005")[0])
    assert once.stuck == () and len(once.looks) == 1
    another = STUCK.replace("90000", "90001", 1)  # the pid was given to a new process in between
    assert proc_tasks.parse(another).stuck == ()


def test_one_task_of_the_real_kernel() -> None:
    task = proc_tasks.parse("at 1.0\n" + capture("proc-pid-stat.txt")).looks[0].tasks[0]
    assert (task.pid, task.state, task.parent, task.kernel_thread, task.started) == (1, "S", 0, False, 26)


def test_component_versions_whole_broken_and_strange() -> None:
    whole = component_versions.parse('{\n  "CUDA": "13.0.88",\n  "N": 5,\n  "X": {"a": 1},\n  "E": ""\n}\n')
    assert whole.versions == {"CUDA": "13.0.88", "N": "5"} and whole.complete and whole.unknown_fields == ("X",)
    assert not component_versions.parse('{\n  "CUDA": "13.0.88",\n  "NCC').complete
    assert component_versions.parse("CUDA=13").versions == {}


PARSERS: dict[str, tuple[Callable[[str], object], str]] = {
    "host_files": (host_files.parse, host_texts.files()),
    "mounts": (mounts.parse, "\n".join(host_texts.MOUNTS)),
    "df": (df.parse, host_texts.DF),
    "clock": (clock.parse, host_texts.CHRONY),
    "systemd_units": (systemd_units.parse, "a.service loaded failed failed A\nstate=degraded\n"),
    "nvme_smart": (nvme_smart.parse, host_texts.smarts()),
    "proc_tasks": (proc_tasks.parse, STUCK),
    "component_versions": (component_versions.parse, '{"CUDA": "13.0", "NCCL": "2.29"}'),
}


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_parser_raises_whatever_is_done_to_its_text(name: str, data: st.DataObject) -> None:
    parse, text = PARSERS[name]
    begin, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    noise = data.draw(st.text(max_size=40) | st.sampled_from(["\x1b[31m", "9" * 400, "\r\n", "\x00", "N/A", "-1"]))
    parse(text[:begin] + noise + text[end:])
    parse(text.replace("\n", "\r\n"))
    parse(noise)
