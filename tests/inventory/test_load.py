"""Loading what is right, and being told what is not: all of it, each at its line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ndctl.inventory.loader import load
from ndctl.inventory.reach import CustomCloud
from ndctl.model.errors import ExitCode, ManyErrors, NdctlError, Where

from .conftest import RIGHT, STATIC, each, told

Write = Callable[..., Path]


def refused(file: Path) -> NdctlError:
    with pytest.raises(NdctlError) as caught:
        load(file)
    assert caught.value.exit_code == ExitCode.USAGE
    return caught.value


def test_a_right_inventory(write: Write) -> None:
    loaded = load(write(RIGHT))
    assert loaded.inventory.racks == 64
    assert loaded.profile.name == "gb300"
    assert loaded.vms_per_rack == 18
    assert loaded.image.startswith("microsoft-dsvm:ubuntu-hpc:2404-gb:")


def test_numbers_and_truth_values_without_quotes_are_text_where_text_is_meant(write: Write) -> None:
    text = RIGHT.replace('"1"', "1") + "tags: {floor: 03, live: yes}\nnccl_env: {NCCL_IB_SL: 1}\nprotect: yes\n"
    inventory = load(write(text)).inventory
    assert inventory.zone == "1"
    assert inventory.tags == {"floor": "03", "live": "yes"}
    assert inventory.nccl_env == {"NCCL_IB_SL": "1"}
    assert inventory.protect is True


def test_byte_order_mark_and_windows_line_ends(write: Write) -> None:
    assert load(write(b"\xef\xbb\xbf" + RIGHT.replace("\n", "\r\n").encode())).inventory.cluster == "swc-a"


def test_the_misspelt_key_of_the_manual(write: Write) -> None:
    error = refused(write(RIGHT.replace("racks: 64", "rack: 64")))
    assert not isinstance(error, ManyErrors)
    assert (error.code, error.message, error.hint) == (
        "inventory.unknown-key",
        "unknown key 'rack'",
        "did you mean 'racks'?",
    )
    assert error.where == Where(error.where.file, 6, 1, 4)  # type: ignore[union-attr]


def test_all_errors_come_at_once_in_the_order_of_the_file(write: Write) -> None:
    text = RIGHT.replace("racks: 64", "racks: ten") + "ssh: {usr: x, port: 99999, jump: host}\nprotect: maybe\n"
    assert told(refused(write(text))) == [
        (6, 8, "racks: a whole number is needed, not 'ten'"),
        (9, 7, "unknown key 'usr'"),
        (9, 21, "ssh.port: '99999' should be less than or equal to 65535"),
        (9, 34, "ssh.jump: a list is needed, not 'host'"),
        (10, 10, "protect: true or false is needed, not 'maybe'"),
    ]


def test_missing_keys_are_one_error_and_the_static_way_is_named(write: Write) -> None:
    error = refused(write("cluster: ab\n"))
    assert error.message == ("missing keys 'subscription', 'resource_group', 'region', 'racks', 'vm_size', 'network'")
    assert "'static'" in error.hint


def test_missing_keys_are_told_beside_other_errors(write: Write) -> None:
    text = RIGHT.replace("racks: 64\n", "").replace("10.40.0.0/16", "10.40.0.0/33")
    assert [message for _, _, message in told(refused(write(text)))] == [
        "missing key 'racks'",
        "'10.40.0.0/33' is no address range",
    ]


@pytest.mark.parametrize(
    ("change", "to", "line", "message"),
    [
        ("swc-a\nregion", "SWC_A\nregion", 1, "'SWC_A' is no valid cluster"),
        ("swedencentral", "Sweden Central", 2, "'Sweden Central' is no valid region"),
        ('"1"', "one", 3, "'one' is no valid zone"),
        ("-000000000000", "-00000000000", 4, "is no valid subscription"),
        ("rg-swc-a", "rg/swc", 5, "'rg/swc' is no valid resource_group"),
        ("racks: 64", "racks: 0", 6, "racks: '0' should be greater than or equal to 1"),
        ("racks: 64", "racks: [64]", 6, "racks: a whole number is needed, not a list"),
        ("racks: 64", "racks:", 6, "'racks' has no value"),
        ("GB300_v6", "GB300_v7", 7, "no profile for VM size 'Standard_ND128isr_GB300_v7'"),
        ("10.40.0.0/16", "10.40.0.1/16", 8, "'10.40.0.1/16' has bits set behind its prefix"),
        ("10.40.0.0/16", "10.40.0.0/25", 8, "'10.40.0.0/25' is too small"),
        ("10.40.0.0/16", "'fd00::/48'", 8, "'fd00::/48' is no IPv4 range"),
        ("create: 10.40.0.0/16", "subnet: racks", 8, "'racks' is no subnet's resource id"),
        ("create: 10.40.0.0/16", "admin_from: []", 8, "'create' or 'subnet' is missing"),
        ("/16}", "/16, admin_from: [0.0.0.0/0]}", 8, "0.0.0.0/0 is the whole internet"),
        ("{create: 10.40.0.0/16}", "none", 8, "network: 'key: value' lines are needed, not 'none'"),
    ],
)
def test_a_wrong_value_is_told_at_its_place(change: str, to: str, line: int, message: str, write: Write) -> None:
    (error,) = each(refused(write(RIGHT.replace(change, to, 1))))
    assert message in error.message
    assert error.where is not None and error.where.line == line


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("vms_per_rack: 20", "vms_per_rack 20, and a rack of profile gb300 has 18"),
        ("profile: gb301", "no profile 'gb301'"),
        ("image: ubuntu", "'ubuntu' is no image"),
        ("cloud: usgv", "'usgv' is no cloud"),
        ("cloud: usgov", "region swedencentral is not in cloud usgov"),
        ("cloud: {endpoint: http://x}", "'http://x' is no https URL"),
        ("cloud: {endpont: https://x}", "unknown key 'endpont'"),
        ("placement: {kind: blocks}", "'blocks' is no placement.kind"),
        ("tags: {a/b: x}", "tag 'a/b' holds one of"),
        ("tags: {a: 1, A: 2}", "tags 'a' and 'A' are one to Azure"),
        ("tags: {Azure-x: 1}", "begins with a word that Azure keeps"),
        (f"tags: {{a: {'x' * 257}}}", "has 257 characters"),
        (f"tags: {{{'x' * 513}: a}}", "a tag's name has 1 to 512 characters"),
        ("tags: {" + ", ".join(f"t{n}: x" for n in range(51)) + "}", "51 tags, and Azure allows 50"),
        ("tags: {" + ", ".join(f"t{n}: x" for n in range(48)) + "}", "ndctl sets 3 of its own"),
        ("tags: {Managed-By: me}", "tag 'Managed-By' is set by ndctl itself"),
        ("nccl_env: {A-B: 1}", "'A-B' is no environment variable's name"),
        ('nccl_env: {A: "x\\ny"}', "A holds a line break"),
        ("disabled_checks: [{check: a, reason: because, until: 2027-02-30}]", "'2027-02-30' is no day of the calendar"),
        ("ssh: {user: root}", "Azure refuses the login user 'root'"),
        ("ssh: {public_key: '-----BEGIN OPENSSH PRIVATE KEY-----'}", "a private key does not belong"),
        ("ssh: {public_key: ecdsa-sha2-nistp256 AAAA}", "no public key that Azure takes"),
        ("ssh: {jump: ['-oProxyCommand=x']}", "is no jump host"),
        ("ssh: {jump: ['host:99999']}", "is no jump host"),
        ("ssh: {jump: [a, a]}", "a jump host is named twice"),
        ("racks: 3", "'racks' is given twice, first on line 6"),
    ],
)
def test_a_wrong_addition_is_told_on_its_own_line(more: str, message: str, write: Write) -> None:
    error = each(refused(write(RIGHT + more + "\n")))[-1]
    assert message in error.message
    assert error.where is not None and error.where.line in (2, 9)


def test_a_subnet_of_another_subscription(write: Write) -> None:
    subnet = (
        "/subscriptions/11111111-0000-0000-0000-000000000000/resourceGroups/net/providers/Microsoft.Network"
        "/virtualNetworks/hub/subnets/racks"
    )
    text = RIGHT.replace("create: 10.40.0.0/16", f"subnet: {subnet}")
    assert "in another subscription" in refused(write(text)).message
    own = text.replace("11111111-0000", "00000000-0000")
    assert load(write(own)).inventory.network.subnet.endswith("/racks")  # type: ignore[union-attr]


@pytest.mark.parametrize(("network", "most"), [("10.0.0.0/24", 6), ("10.0.0.0/23", 13), ("10.0.0.0/20", 113)])
def test_the_network_must_hold_the_racks_as_render_lays_them_out(network: str, most: int, write: Write) -> None:
    from ndctl.render.addresses import address_plan

    text = RIGHT.replace("10.40.0.0/16", network)
    assert load(write(text.replace("64", str(most)))).inventory.racks == most
    address_plan(network, most * 18, Path("x"))
    assert f"{network} has room for" in refused(write(text.replace("64", str(most + 1)))).message
    with pytest.raises(NdctlError):
        address_plan(network, (most + 1) * 18, Path("x"))


def test_the_hint_for_a_small_network_names_one_that_is_enough(write: Write) -> None:
    error = refused(write(RIGHT.replace("10.40.0.0/16", "10.40.0.0/24")))
    wanted = error.hint.split()[1]
    assert load(write(RIGHT.replace("10.40.0.0/16", f"10.0.0.0{wanted}"))).inventory.racks == 64


def test_errors_in_keys_of_no_azure_size_name_the_profile_way(write: Write) -> None:
    error = refused(write(RIGHT.replace("Standard_ND128isr_GB300_v6", "Standard_D4")))
    assert error.hint.endswith("or name a 'profile' for it")
    assert (
        load(write(RIGHT.replace("Standard_ND128isr_GB300_v6", "Standard_D4") + "profile: gb300\n")).vms_per_rack == 18
    )


def test_a_custom_cloud(write: Write) -> None:
    cloud = load(write(RIGHT + "cloud: {endpoint: 'https://127.0.0.1:8443', ca: ca.pem}\n")).inventory.cloud
    assert isinstance(cloud, CustomCloud) and cloud.ca == "ca.pem"


def test_static_racks_are_not_deployed(write: Write) -> None:
    text = STATIC + "racks: 3\nzone: 1\nstatic:\n- {rack: 1, nodes: 'a[1-3]'}\n"
    assert told(refused(write(text))) == [
        (3, 1, "'static' racks are not deployed: remove 'racks'"),
        (4, 1, "'static' racks are not deployed: remove 'zone'"),
    ]


def test_static_racks_need_a_profile(write: Write) -> None:
    error = refused(write("cluster: lab\nstatic:\n- {rack: 1, nodes: a}\n"))
    assert error.message == "missing key 'profile'"


def test_what_cannot_be_opened(tmp_path: Path, write: Write) -> None:
    absent = refused(tmp_path / "absent.yaml")
    assert (absent.message, absent.hint) == ("no such file", "ndctl init NAME writes one to start from")
    assert refused(tmp_path).message == "a folder, where a file is needed"
    assert refused(write("x" * 1_000_001)).message.startswith("larger than")
    assert "unreadable" in refused(Path("a\0b")).code


def test_bytes_that_are_not_utf8_are_told_at_their_line(write: Write) -> None:
    error = refused(write(b"cluster: swc-a\nregion: caf\xe9\n"))
    assert error.message == "byte 0xe9 is not UTF-8 text"
    assert error.where == Where(error.where.file, 2, 12)  # type: ignore[union-attr]


def test_a_missing_key_file_is_no_error(write: Write) -> None:
    loaded = load(write(RIGHT + "ssh: {public_key: no/such.pub}\n"))
    assert loaded.path_of(loaded.inventory.ssh.public_key or "") == loaded.path.parent / "no/such.pub"


def test_paths_are_relative_to_the_inventory(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(write(RIGHT))
    monkeypatch.setenv("HOME", "/home/ops")
    assert loaded.path_of("../keys/a.pub") == loaded.path.parent.parent / "keys/a.pub"
    assert loaded.path_of("~/.ssh/id_ed25519.pub") == Path("/home/ops/.ssh/id_ed25519.pub")
    assert loaded.path_of("/etc/ca.pem") == Path("/etc/ca.pem")
    with pytest.raises(NdctlError, match="home"):
        loaded.path_of("~nobody-of-this-name/x")


def test_paths_are_absolute_when_the_inventory_is_named_relatively(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(RIGHT)
    monkeypatch.chdir(file.parent)
    loaded = load(file.name)
    assert str(loaded.path) == "one.yaml"
    assert loaded.path_of("ca.pem") == Path(os.path.realpath(file.parent)) / "ca.pem"


def test_where_points_at_keys(write: Write) -> None:
    loaded = load(write(RIGHT + "tags: {a.b: x}\n"))
    assert str(loaded.where("racks")).endswith("one.yaml:6:1")
    assert str(loaded.where("network.create")).endswith(":8:11")
    assert str(loaded.where("tags.a.b")).endswith(":9:8")
    assert str(loaded.where("network.admin_from")).endswith(":8:1")  # left out: its parent
