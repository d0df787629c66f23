"""Ports' states in kernel logs, as kernels print them; and listings of rails in every state of damage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ndctl.parse import fabric_map
from ndctl.parse.ib_link_log import parse

# The form of a real log of an mlx5 adapter whose port went away and came back; its network interface has lines too.
LOG = """[    0.000000] Linux version 6.17.0-1005-azure-nvidia (buildd@bos03-arm64-012)
[    9.100000] mlx5_core 0101:00:00.0 mlx5_ib0: Port: 1 Link INIT
[    9.500000] mlx5_core 0101:00:00.0 mlx5_ib0: Port: 1 Link ACTIVE
[ 4441.768101] mlx5_core 0000:53:00.0 enp83s0f0np0: Link up
[ 4443.968257] mlx5_core 0000:53:00.0 enp83s0f0np0: Link down
[ 4443.974372] mlx5_core 0101:00:00.0 mlx5_ib0: Port: 1 Link DOWN
[ 4450.320122] mlx5_core 0101:00:00.0 mlx5_ib0: Port: 1 Link ACTIVE
"""


def test_states_of_ports_are_read_and_network_interfaces_passed_over() -> None:
    log = parse(LOG)
    assert log.booted == 0.0
    assert [(c.device, c.pci, c.port, c.state, c.active) for c in log.changes] == [
        ("mlx5_ib0", "0101:00:00.0", 1, "INIT", False),
        ("mlx5_ib0", "0101:00:00.0", 1, "ACTIVE", True),
        ("mlx5_ib0", "0101:00:00.0", 1, "DOWN", False),
        ("mlx5_ib0", "0101:00:00.0", 1, "ACTIVE", True),
    ]
    assert log.changes[2].seconds == 4443.974372


def test_every_dress_of_a_log_gives_the_same_changes() -> None:
    body = "mlx5_core 0101:00:00.0 mlx5_ib0: Port: 1 Link DOWN"
    for line in (
        f"[ 4443.974372] {body}",
        f"2026-12-02T03:12:09.123456+00:00 gpu01 kernel: {body}",
        f"2026-12-02T03:12:09,123456+00:00 {body}",
        f"Dec 02 03:12:09 gpu01 kernel: {body}",
        f"<6>[ 4443.974372] {body}",
        body,
    ):
        (change,) = parse(line + "\r\n").changes
        assert (change.device, change.state) == ("mlx5_ib0", "DOWN"), line


def test_a_line_without_a_device_is_known_by_its_address() -> None:
    (change,) = parse("mlx4_core 0000:86:00.0: Port: 2 Link ACTIVE").changes
    assert (change.device, change.pci, change.port) == ("", "0000:86:00.0", 2)


def test_the_same_line_from_dmesg_and_journal_counts_once() -> None:
    assert len(parse(LOG + LOG).changes) == 4


MAP = """port mlx5_ib0 0101:00:00.0 0 ib0 2
port mlx5_ib1 ? -1 * ?
gpu 0008:01:00.0 0
gpu 0009:01:00.0 ?
driver NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.126.20  Release Build
module nvidia_peermem
modules
sharp /opt/mellanox/sharp/lib/libsharp_coll.so
end
"""


def test_a_listing_of_rails_keeps_what_is_not_told_apart() -> None:
    read = fabric_map.parse(MAP)
    first, second = read.ports
    assert (first.pci, first.numa, first.netdev, first.losses) == ("0101:00:00.0", 0, "ib0", 0)
    assert (second.pci, second.numa, second.netdev, second.losses) == ("", None, "", None)
    assert [gpu.numa for gpu in read.gpus] == [0, None]
    assert read.modules == ("nvidia_peermem",) and read.all_modules and read.complete and read.sharp
    assert read.unknown_fields == ()


def test_losses_of_a_carrier_do_not_count_its_first_coming_up() -> None:
    for changes, losses in ((0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (12, 5)):
        assert fabric_map.parse(f"port mlx5_ib0 ? ? ib0 {changes}\n").ports[0].losses == losses


@given(st.text(max_size=300), st.integers(0, len(MAP)), st.integers(0, len(LOG)))
def test_no_text_is_too_strange(noise: str, at: int, cut: int) -> None:
    fabric_map.parse(MAP[:at] + noise)
    fabric_map.parse(noise + MAP[at:])
    assert len(parse(LOG[:cut] + noise).changes) <= 5
    assert not fabric_map.parse(MAP[: len(MAP) - 5]).complete
