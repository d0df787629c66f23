"""Checks of the host: each fault is found and named, what is no fault is left alone, silence and cuts are unknown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ndctl.checks.base import Check
from ndctl.checks.registry import catalogue
from ndctl.model.answers import CommandResult
from ndctl.model.findings import Finding
from ndctl.model.places import Node
from ndctl.model.status import Action, Status, Verdict
from ndctl.profiles import load
from tests.checks.catalogue import host_texts as host
from tests.checks.catalogue.rack_texts import QUIET_LOG, answer, healthy, judged, node, result, standing

NODES = [node(number) for number in range(1, 7)]
CHECKS = {check.id: check for check in catalogue() if check.id.startswith("host.")}
NEW = tuple(sorted(set(CHECKS) - {"host.identity"}))
Texts = Mapping[str, str | CommandResult]


def findings(check: str, *changes: tuple[int, Texts], everywhere: Texts | None = None) -> list[Finding]:
    """The check's findings over six healthy nodes, some of which (by number, from 1) say other things."""
    texts = healthy(NODES)
    for one in texts.values():
        one.update(everywhere or {})
    for number, changed in changes:
        texts[NODES[number - 1]].update(changed)
    rack = judged([answer(one, said) for one, said in texts.items()], [CHECKS[check]])
    return [f for f in rack.findings if f.check.startswith(check)]


def said(found: list[Finding]) -> list[tuple[str, str, str, str]]:
    return [(f.status.value, f.check, f.node, f.subject) for f in standing(found)]


@pytest.mark.parametrize("check", NEW)
def test_a_healthy_rack_passes_and_says_what_was_seen(check: str) -> None:
    found = findings(check)
    assert found and {f.status for f in found} == {Status.PASS}
    assert all(f.message for f in found)


CASES = [
    ("host.numa", {"host-files": host.files(online="0-125")}, [("fail", "host.numa.cpus-offline", "CPUs")]),
    ("host.numa", {"host-files": host.files(numa="0-25")}, [("warn", "host.numa.nodes", "NUMA nodes")]),
    ("host.nvme", {"host-files": host.files(disks=3)}, [("fail", "host.nvme.missing", "NVMe data disks")]),
    ("host.nvme", {"host-files": host.files(disks=0)}, [("fail", "host.nvme.missing", "NVMe data disks")]),
    ("host.nvme", {"host-files": host.files(states={2: "dead"})}, [("fail", "host.nvme.not-live", "nvme2")]),
    ("host.nvme", {"host-files": host.files(sizes={4: 1000})}, [("warn", "host.nvme.size", "nvme4")]),
    ("host.smart", {"host-smart": host.smarts(media_errors=7)}, [("warn", "host.smart.media-errors", "nvme2")]),
    ("host.smart", {"host-smart": host.smarts(critical_warning=8)}, [("fail", "host.smart.critical-warning", "nvme2")]),
    ("host.smart", {"host-smart": host.smarts(critical_warning=2)}, [("warn", "host.smart.critical-warning", "nvme2")]),
    ("host.smart", {"host-smart": host.smarts(percent_used=131)}, [("warn", "host.smart.worn", "nvme2")]),
    (
        "host.disk",
        {"host-disk": host.DF.replace("31207412    33672160", "64879572           0")},
        [("fail", "host.disk.full", "/")],
    ),
    (
        "host.disk",
        {"host-disk": host.DF.replace("31207412    33672160", "62207412     2672160")},
        [("warn", "host.disk.nearly-full", "/")],
    ),
    (
        "host.disk",
        {"host-disk": host.DF.replace("512233    7679767", "8192000    0")},
        [("fail", "host.disk.inodes", "/")],
    ),
    (
        "host.disk",
        {"host-disk": result("host-disk", host.DF, "df: /mnt/b: Input/output error\n", 1)},
        [("fail", "host.disk.unreadable", "/mnt/b")],
    ),
    (
        "host.clock",
        {"host-clock": host.CHRONY.replace("0.000001404", "4.200000000")},
        [("warn", "host.clock.offset", "clock")],
    ),
    (
        "host.clock",
        {"host-clock": host.CHRONY.replace("0.000001404", "400.5")},
        [("fail", "host.clock.offset", "clock")],
    ),
    (
        "host.clock",
        {"host-clock": host.CHRONY.replace(": Normal", ": Not synchronised")},
        [("warn", "host.clock.not-synchronised", "clock")],
    ),
    (
        "host.clock",
        {"host-clock": result("host-clock", "NTP=no\nNTPSynchronized=no\n", "sh: 1: chronyc: not found\n")},
        [("warn", "host.clock.not-synchronised", "clock")],
    ),
    (
        "host.units",
        {"host-units": "apt-daily.service loaded failed failed Daily apt\nstate=degraded\n"},
        [("warn", "host.units.failed", "apt-daily.service")],
    ),
    (
        "host.units",
        {"host-units": "nvidia-persistenced.service loaded failed failed P\nstate=degraded\n"},
        [("fail", "host.units.failed", "nvidia-persistenced.service")],
    ),
    (
        "host.units",
        {"host-units": "nvidia-imex.service loaded activating auto-restart I\nstate=running\n"},
        [("warn", "host.units.restarting", "nvidia-imex.service")],
    ),
    (
        "host.kernel",
        {"kernel-log": QUIET_LOG + "2026-12-02T02:00:00.1+0000 h kernel: EDAC MC0: 1 UE on DIMM0\n"},
        [("fail", "host.kernel.memory-uncorrected", "host memory MC0")],
    ),
    (
        "host.kernel",
        {
            "kernel-log": QUIET_LOG
            + "2026-12-02T02:00:00.1+0000 h kernel: INFO: task x:9 blocked for more than 122 seconds.\n"
        },
        [("warn", "host.kernel.hung-task", "task x")],
    ),
    (
        "host.settings",
        {"host-files": host.files(command_line=host.COMMAND_LINE + " nosmt")},
        [("warn", "host.settings.command-line.differs", "kernel nosmt")],
    ),
    (
        "host.settings",
        {"host-files": host.files(driver={**host.DRIVER, "CreateImexChannel0": "0"})},
        [("warn", "host.settings.driver.differs", "NVreg_CreateImexChannel0")],
    ),
    (
        "host.components",
        {"host-files": host.files(components='{"NVIDIA": "580.95.05", "CUDA": "13.0.88", "NCCL": "2.27.3-1"}')},
        [("warn", "host.components.differs", "components")],
    ),
    (
        "host.components",
        {"host-files": host.files(components="")},
        [("warn", "host.components.absent", "/opt/azurehpc/component_versions.txt")],
    ),
    (
        "host.components",
        {"host-files": host.files(components='{"NVIDIA": "58')},
        [("warn", "host.components.damaged", "/opt/azurehpc/component_versions.txt")],
    ),
]


@pytest.mark.parametrize(("check", "changed", "expected"), CASES, ids=[f"{c[0]}-{c[2][0][1]}" for c in CASES])
def test_a_fault_is_found_on_its_node_with_cause_and_action(
    check: str, changed: Texts, expected: list[tuple[str, str, str]]
) -> None:
    found = findings(check, (3, changed))
    assert said(found) == [(status, name, "rack01-n03", subject) for status, name, subject in expected]
    for one in standing(found):
        assert one.cause and one.evidence.startswith("rack01-n03/") and one.source
        assert one.status is not Status.FAIL or one.action is not Action.NONE


def mounts(*changes: tuple[str, str]) -> dict[str, str]:
    lines = list(host.MOUNTS)
    for old, new in changes:
        lines = [line.replace(old, new) for line in lines]
    return {"host-files": host.files(mounts=[line for line in lines if line])}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # ext4 on the kernels of these nodes says so in a word of its own, and "rw" still stands there
        (mounts(("errors=remount-ro 0 0", "errors=remount-ro,emergency_ro 0 0")), ["/", "/boot/efi"]),
        (mounts(("xfs rw,", "xfs ro,")), ["/mnt/nvme"]),
        (mounts(("/ ext4 rw,", "/ ext4 ro,")), ["/"]),
        (mounts(("vfat rw,", "vfat ro,")), ["/boot/efi"]),
        # a view of a device that is mounted for writing elsewhere, containers' mounts, what is read-only by design
        ({"host-files": host.files(mounts=[*host.MOUNTS, "/dev/md127 /srv/ro xfs ro 0 0"])}, []),
        ({"host-files": host.files(mounts=[*host.MOUNTS, "/dev/sdz /var/lib/kubelet/pods/x ext4 ro 0 0"])}, []),
        ({"host-files": host.files(mounts=[*host.MOUNTS, "/dev/sr0 /mnt/cd iso9660 ro 0 0"])}, []),
        ({"host-files": host.files(mounts=["/dev/x / ext4 ro 0 0", *host.MOUNTS])}, []),  # covered by a later mount
    ],
)
def test_a_read_only_mount_is_told_from_one_that_is_meant_so(changed: Texts, expected: list[str]) -> None:
    found = standing(findings("host.mounts", (3, changed)))
    assert [one.subject for one in found] == expected
    assert all(one.node == "rack01-n03" and one.check == "host.mounts.read-only" for one in found)


def test_what_most_nodes_mount_read_only_is_meant_but_never_the_root() -> None:
    data = mounts(("xfs rw,", "xfs ro,"))
    found = findings("host.mounts", everywhere=data)
    assert {f.status for f in found} == {Status.PASS} and "read-only as on most nodes" in found[0].message
    assert len(standing(findings("host.mounts", everywhere=mounts(("/ ext4 rw,", "/ ext4 ro,"))))) == 6


def test_a_mount_that_only_one_node_lacks_is_told_and_one_that_only_one_has_is_not() -> None:
    lacking = {"host-files": host.files(mounts=host.MOUNTS[:-2])}
    assert said(findings("host.mounts", (2, lacking))) == [("warn", "host.mounts.missing", "rack01-n02", "/mnt/nvme")]
    more = {"host-files": host.files(mounts=[*host.MOUNTS, "/dev/sdb1 /mnt/own ext4 rw 0 0"])}
    assert said(findings("host.mounts", (2, more))) == []


def test_another_number_of_numa_nodes_everywhere_blames_no_node() -> None:
    found = findings("host.numa", everywhere={"host-files": host.files(numa="0-1")})
    assert said(found) == [("warn", "host.numa.nodes", "", "rack01")]


def test_disks_numbered_by_subsystem_are_matched_by_their_path() -> None:
    text = host.files()
    for index in range(1, 5):
        text = text.replace(f"block/nvme{index}n1/", f"block/nvme{5 - index}c{index}n1/")
    assert said(findings("host.nvme", (1, {"host-files": text}))) == []


STUCK = (
    "at {up}\n{pid} ({name}) D {parent} 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 77 0\n"
    "{pid}/status:voluntary_ctxt_switches:\t{switches}\n{pid}/wchan:nv_wait\n"
)


def tasks(name: str = "python3", parent: int = 1, flags: int = 4194304, later: int = 5) -> dict[str, str]:
    looks = [
        STUCK.format(up=f"{up}.5", pid=99, name=name, parent=parent, flags=flags, switches=count)
        for up, count in ((100, 5), (105, later))
    ]
    return {"host-tasks": "tasks 900\ninit seen\n" + "".join(looks)}


def test_a_stuck_task_is_named_with_where_it_waits_and_a_busy_one_is_not() -> None:
    (one,) = standing(findings("host.tasks", (3, tasks())))
    assert (one.status, one.node, one.subject, one.value) == (Status.WARN, "rack01-n03", "python3 (99)", 5.0)
    assert "nv_wait" in one.message
    assert standing(findings("host.tasks", (3, tasks(later=9)))) == []


def test_kernel_threads_that_wait_in_d_on_most_nodes_are_by_design() -> None:
    thread = tasks("drv_wait", parent=2, flags=0x200040)
    assert standing(findings("host.tasks", everywhere=thread)) == []
    assert len(standing(findings("host.tasks", (3, thread)))) == 1
    assert len(standing(findings("host.tasks", everywhere=tasks("rsync")))) == 6


def test_zombies_count_only_in_numbers() -> None:
    def dead(number: int) -> dict[str, str]:
        lines = [f"{pid} (sh) Z 31 1 1 0 -1 0 0\n" for pid in range(1000, 1000 + number)]
        return {"host-tasks": host.TASKS + "".join(lines)}

    assert standing(findings("host.tasks", (3, dead(12)))) == []
    (one,) = standing(findings("host.tasks", (3, dead(400))))
    assert one.check == "host.tasks.zombies" and one.value == 400 and "31" in one.cause


@pytest.mark.parametrize(
    ("check", "changed", "word"),
    [
        ("host.tasks", {"host-tasks": host.TASKS.replace("init seen\n", "")}, "hidepid"),
        ("host.tasks", {"host-tasks": "tasks 5\ninit seen\n"}, "lists none"),
        ("host.tasks", {"host-tasks": tasks()["host-tasks"].partition("at 105")[0]}, "second look"),
        ("host.units", {"host-units": "state=degraded\n"}, "lists no failed unit"),
        ("host.clock", {"host-clock": host.CHRONY.replace("Normal", "Strange")}, "does not say"),
        ("host.disk", {"host-disk": host.DF.partition("Filesystem        Inodes")[0]}, "df -i"),
        ("host.disk", {"host-disk": "Filesystem Type 1024-blocks Used Available Capacity Mounted on\n"}, "df does not"),
        ("host.smart", {"host-smart": host.smarts().replace("== end\n", "")}, "broke off"),
        (
            "host.smart",
            {"host-smart": host.smarts().replace('"media_errors":0', '"other":0', 1)},
            "as the other disks do",
        ),
        (
            "host.kernel",
            {"kernel-log": "Hint: You are currently not seeing messages from other users\n"},
            "proves nothing",
        ),
        ("host.kernel", {"kernel-log": result("kernel-log", QUIET_LOG, truncated=True)}, "were taken"),
        ("host.mounts", {"host-files": host.files(mounts=())}, "/proc/mounts"),
        ("host.numa", {"host-files": host.files().replace("cpu/present:0-127", "cpu/present:")}, "CPUs are present"),
        ("host.settings", {"host-files": host.files().removesuffix("end\n")}, "broke off"),
    ],
)
def test_what_could_not_be_seen_is_unknown_and_says_why(check: str, changed: Texts, word: str) -> None:
    about = [f for f in findings(check, (3, changed)) if f.node == "rack01-n03"]
    assert Status.UNKNOWN in {f.status for f in about} and not {Status.PASS, Status.FAIL} & {f.status for f in about}
    assert any(word in f.message for f in about), [f.message for f in about]


@pytest.mark.parametrize(
    ("check", "changed"),
    [
        ("host.smart", {"host-smart": result("host-smart", code=127)}),
        ("host.smart", {"host-smart": host.REFUSED + "== end\n"}),
        ("host.smart", {"host-smart": result("host-smart", "", "ndctl: no right to run this as root: no", 126)}),
        ("host.clock", {"host-clock": result("host-clock", "", "sh: 1: timedatectl: not found", 127)}),
        ("host.clock", {"host-clock": result("host-clock", "", "Failed to connect to bus: Host is down", 1)}),
        (
            "host.units",
            {"host-units": result("host-units", "state=offline\n", "System has not been booted with systemd")},
        ),
    ],
)
def test_what_an_image_need_not_have_is_skipped_and_costs_no_acceptance(check: str, changed: Texts) -> None:
    found = findings(check, everywhere=changed)
    assert {f.status for f in found} == {Status.SKIP} and all(f.message for f in found)
    texts = healthy(NODES)
    for one in texts.values():
        one.update(changed)
    assert judged([answer(n, t) for n, t in texts.items()], list(CHECKS.values())).verdict is Verdict.ACCEPTED


def test_a_split_rack_and_a_pair_blame_nobody() -> None:
    other = {"host-files": host.files(components='{"NCCL": "2.27.3-1"}', settings={"proc/sys/vm/swappiness": "1"})}
    for check in ("host.components", "host.settings"):
        found = standing(findings(check, *[(number, other) for number in (1, 2, 3)]))
        assert found and all(f.node == "" and f.check.endswith(".split") for f in found), check


def test_one_node_alone_has_nothing_to_be_compared_with() -> None:
    texts = healthy(NODES[:1])
    rack = judged([answer(n, t) for n, t in texts.items()], [CHECKS["host.components"], CHECKS["host.settings"]])
    assert {f.status for f in rack.findings if f.check in ("host.components", "host.settings")} == {Status.SKIP}


def test_what_is_of_one_node_alone_is_not_compared() -> None:
    own = host.COMMAND_LINE.replace("0b2c6d5e", "ffffffff").replace("6.17.0-1005", "6.17.0-1006")
    assert findings("host.settings", (2, {"host-files": host.files(command_line=own)}))[0].status is Status.PASS


def test_many_killed_processes_are_one_finding() -> None:
    lines = "".join(
        f"2026-12-02T02:00:{n:02d}.1+0000 h kernel: Out of memory: Killed process {n} (rank{n}) total-vm:1kB\n"
        for n in range(30)
    )
    (one,) = standing(findings("host.kernel", (3, {"kernel-log": QUIET_LOG + lines})))
    assert one.value == 30 and "and 26 more" in one.subject and one.status is Status.WARN


def test_a_process_killed_at_its_own_jobs_limit_says_nothing_of_the_machine() -> None:
    lines = (
        "2026-12-02T02:00:01.1+0000 h kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=a,pid=9,uid=0\n"
        "2026-12-02T02:00:01.1+0000 h kernel: Memory cgroup out of memory: Killed process 9 (a) total-vm:1kB\n"
    )
    found = findings("host.kernel", (3, {"kernel-log": QUIET_LOG + lines}))
    assert standing(found) == [] and any("memory limit" in f.message for f in found)
    both = lines + "2026-12-02T02:00:09.1+0000 h kernel: Out of memory: Killed process 10 (a) total-vm:1kB\n"
    assert len(standing(findings("host.kernel", (3, {"kernel-log": QUIET_LOG + both})))) == 1


@pytest.mark.parametrize("check", NEW)
def test_a_text_cut_anywhere_blames_nothing(check: str) -> None:
    """Only the end of a text is lost where a command dies; what is then not there was not seen."""
    for command in CHECKS[check].commands:
        text = healthy(NODES)[NODES[2]].get(command.id, "")
        assert isinstance(text, str)
        for end in range(0, len(text), max(1, len(text) // 60)):
            found = findings(check, (3, {command.id: text[:end]}))
            assert not [f for f in found if f.status in (Status.FAIL, Status.WARN)], (command.id, text[:end][-80:])


def test_limits_are_the_profiles_own_and_a_profile_without_them_judges_less() -> None:
    profile = load("gb300")
    bare = profile.model_copy(
        update={
            "host": profile.host.model_copy(update={"free_fraction": None, "clock_offset_s": None, "zombies": None})
        }
    )
    texts = healthy(NODES[:1])
    where: Node = NODES[0]
    texts[where].update(
        {
            "host-clock": host.CHRONY.replace("0.000001404", "4.2"),
            "host-disk": host.DF.replace("31207412    33672160", "62207412     2672160"),
        }
    )
    checks: list[Check] = [CHECKS["host.clock"], CHECKS["host.disk"]]
    assert standing(judged([answer(where, texts[where])], checks, profile=bare).findings) == []
    assert len(standing(judged([answer(where, texts[where])], checks).findings)) == 2
