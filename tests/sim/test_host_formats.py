"""The stand-in node's host files and tools, held to what real machines print."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from ndctl.sim.nodes.host_files import host_files
from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import World

Run = Callable[..., Answer]
Capture = Callable[[str], str]
NODE = "rack01-n01"


def files(world: World, name: str = NODE) -> dict[str, str]:
    vm = world.named(name)
    assert vm is not None
    return dict(host_files(world.node(vm)))


@pytest.mark.parametrize("arguments", [("-lPTk",), ("-lPi",), ("-P", "/")])
def test_df_has_the_real_headers_and_columns(run: Run, capture: Capture, arguments: tuple[str, ...]) -> None:
    ours = run(NODE, "df", *arguments).out.splitlines()
    heads = [line.split() for line in capture("host/df-space-and-inodes.txt").splitlines() if "Mounted" in line]
    assert ours[0].split() in (*heads, [word for word in heads[0] if word != "Type"])
    assert len({len(line.split()) for line in ours[1:]}) == 1
    assert len(ours[1].split()) == len(ours[0].split()) - 1  # "Mounted on" is one column
    columns = [line.rindex(" /") for line in ours[1:]]
    assert len(set(columns)) == 1 or arguments == ("-P", "/")


def test_smart_log_has_the_real_keys_and_the_accelerator_refuses(run: Run, capture: Capture) -> None:
    real = json.loads(capture("host/nvme-smart-log.json"))
    ours = json.loads(run(NODE, "nvme", "smart-log", "/dev/nvme1", "-o", "json").out)
    assert {key for key in real if not key.startswith("temperature_sensor")} <= set(ours)
    refused = run(NODE, "nvme", "smart-log", "/dev/nvme0", "-o", "json")
    assert refused.code != 0 and refused.out == "" and refused.err.startswith("NVMe status: ")
    assert run(NODE, "nvme", "smart-log", "/dev/nvme9").code != 0


def test_chronyc_has_the_real_lines(run: Run, capture: Capture) -> None:
    def shape(text: str) -> list[str]:
        return [re.sub(r"\d+(\.\d+)?", "#", line.partition(":")[0]) for line in text.splitlines()]

    assert shape(run(NODE, "chronyc", "-n", "tracking").out) == shape(capture("host/chronyc-tracking-pps.txt"))


def test_driver_parameters_are_named_and_written_as_the_drivers_are(world: World, capture: Capture) -> None:
    def names(text: str) -> dict[str, bool]:
        return {line.partition(": ")[0]: '"' in line for line in text.splitlines()}

    real, ours = names(capture("host/nvidia-params.txt")), names(files(world)["proc/driver/nvidia/params"])
    assert set(ours) <= set(real) and {name: real[name] for name in ours} == ours


def test_tasks_have_as_many_fields_as_the_kernels(world: World, capture: Capture) -> None:
    world.faults.add("d-state", node=NODE)
    real = capture("host/proc-pid-stat.txt").split()
    stats = [text.split() for path, text in files(world).items() if re.fullmatch(r"proc/\d+/stat", path)]
    assert {len(fields) for fields in stats} == {len(real)}
    assert "D" in {fields[2] for fields in stats}
    assert all(int(fields[21]) > 0 for fields in stats)


def test_serials_differ_between_nodes_and_settings_do_not(world: World) -> None:
    one, other = files(world), files(world, "rack01-n02")
    assert one["sys/class/nvme/nvme1/serial"] != other["sys/class/nvme/nvme1/serial"]
    for path in ("proc/driver/nvidia/params", "opt/azurehpc/component_versions.txt", "proc/sys/vm/swappiness"):
        assert one[path] == other[path]


@pytest.mark.parametrize(
    ("kind", "where", "path", "word"),
    [
        ("ro-mount", {}, "proc/mounts", " / ext4 rw,relatime,discard,errors=remount-ro,emergency_ro 0 0"),
        ("ro-mount", {"mount": "/mnt/nvme"}, "proc/mounts", " /mnt/nvme xfs ro,"),
        ("component-drift", {}, "opt/azurehpc/component_versions.txt", '"NCCL": "2.27.3-1"'),
        ("setting-drift", {}, "proc/sys/kernel/numa_balancing", "1"),
        ("cpus-offline", {"cpus": 4}, "sys/devices/system/cpu/online", "0-123"),
        ("d-state", {"name": "tar"}, "proc/31337/stat", "31337 (tar) D 1 "),
    ],
)
def test_a_fault_shows_in_the_nodes_own_files_and_in_no_others(
    world: World, kind: str, where: dict[str, object], path: str, word: str
) -> None:
    before, neighbour = files(world), files(world, "rack01-n02")
    world.faults.add(kind, node=NODE, **where)
    after = files(world)
    assert word in after[path] and word not in before.get(path, "")
    assert files(world, "rack01-n02") == neighbour


def test_faults_of_disks_units_and_clock_show_in_their_tools(world: World, run: Run) -> None:
    world.faults.add("nvme-missing", node=NODE, disk=2)
    world.faults.add("nvme-media-errors", node=NODE, disk=3, count=5)
    world.faults.add("disk-full", node=NODE)
    world.faults.add("failed-unit", node=NODE, unit="chrony.service")
    world.faults.add("clock-skew", node=NODE, seconds=2.5)
    assert "sys/class/nvme/nvme2/model" not in files(world) and "sys/class/nvme/nvme3/model" in files(world)
    assert json.loads(run(NODE, "nvme", "smart-log", "/dev/nvme3", "-o", "json").out)["media_errors"] == 5
    root = next(line for line in run(NODE, "df", "-lPTk").out.splitlines() if line.endswith(" /"))
    assert root.split()[-3:] == ["0", "100%", "/"]
    assert run(NODE, "systemctl", "--failed", "--no-legend", "--plain").out.startswith("chrony.service loaded failed")
    assert run(NODE, "systemctl", "is-system-running").out == "degraded\n"
    assert run(NODE, "systemctl", "is-active", "chrony").out == "failed\n"
    assert "2.500000000 seconds slow" in run(NODE, "chronyc", "tracking").out
