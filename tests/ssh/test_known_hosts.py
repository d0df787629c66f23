"""known_hosts as an index: every form of line OpenSSH writes, judged as OpenSSH judges."""

from __future__ import annotations

import base64
import hashlib
import hmac
import stat
import time
from pathlib import Path

import pytest

from ndctl.ssh.known_hosts import HostKey, KnownHosts, Trust, fingerprint, host_name, parse_public_keys, write_entries


def key(seed: int, kind: str = "ssh-ed25519") -> HostKey:
    blob = len(kind).to_bytes(4, "big") + kind.encode() + (32).to_bytes(4, "big") + bytes([seed]) * 32
    return HostKey(kind, blob)


A, B, RSA = key(1), key(2), key(3, "ssh-rsa")


def hashed(name: str) -> str:
    salt = hashlib.sha1(name.encode()).digest()
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def index(folder: Path, *lines: str) -> KnownHosts:
    path = folder / "known_hosts"
    path.write_text("\n".join(lines) + "\n")
    return KnownHosts.load([path])


def trust(known: KnownHosts, host: str, port: int, shown: HostKey) -> Trust:
    return known.judge(host, port, shown.kind, shown.blob)[0]


@pytest.mark.parametrize(
    ("names", "host", "port", "verdict"),
    [
        ("10.0.0.1", "10.0.0.1", 22, Trust.KNOWN),
        ("10.0.0.1", "10.0.0.2", 22, Trust.UNKNOWN),
        ("Node1,10.0.0.1", "node1", 22, Trust.KNOWN),
        ("node1", "NODE1", 22, Trust.KNOWN),
        ("[10.0.0.1]:2222", "10.0.0.1", 2222, Trust.KNOWN),
        ("[10.0.0.1]:2222", "10.0.0.1", 22, Trust.UNKNOWN),
        ("10.0.0.1", "10.0.0.1", 2222, Trust.KNOWN),  # the bare host's key is accepted on another port
        ("10.0.0.?", "10.0.0.7", 22, Trust.KNOWN),
        ("10.0.0.*", "10.0.1.7", 22, Trust.UNKNOWN),
        ("*.lab,!bad.lab", "good.lab", 22, Trust.KNOWN),
        ("*.lab,!bad.lab", "bad.lab", 22, Trust.UNKNOWN),
        ("[10.0.0.*]:2222", "10.0.0.9", 2222, Trust.KNOWN),
        (hashed("10.0.0.1"), "10.0.0.1", 22, Trust.KNOWN),
        (hashed("10.0.0.1"), "10.0.0.2", 22, Trust.UNKNOWN),
        (hashed("[10.0.0.1]:2222"), "10.0.0.1", 2222, Trust.KNOWN),
    ],
)
def test_names(tmp_path: Path, names: str, host: str, port: int, verdict: Trust) -> None:
    assert trust(index(tmp_path, A.line(names)), host, port, A) is verdict


def test_changed_names_the_key_of_the_same_type(tmp_path: Path) -> None:
    known = index(tmp_path, A.line("n1"), RSA.line("n1"))
    verdict, expected = known.judge("n1", 22, B.kind, B.blob)
    assert verdict is Trust.CHANGED
    assert [(one.fingerprint, one.where) for one in expected] == [(A.fingerprint, f"{tmp_path}/known_hosts:1")]


def test_changed_to_another_type_names_what_is_known(tmp_path: Path) -> None:
    verdict, expected = index(tmp_path, RSA.line("n1")).judge("n1", 22, B.kind, B.blob)
    assert verdict is Trust.CHANGED
    assert [one.kind for one in expected] == ["ssh-rsa"]


def test_another_server_on_the_bare_host_is_no_change(tmp_path: Path) -> None:
    assert trust(index(tmp_path, A.line("n1")), "n1", 2222, B) is Trust.UNKNOWN


def test_a_port_with_a_key_of_its_own_is_not_helped_by_the_bare_hosts(tmp_path: Path) -> None:
    known = index(tmp_path, A.line("[n1]:2222"), B.line("n1"))
    assert trust(known, "n1", 2222, A) is Trust.KNOWN
    assert trust(known, "n1", 2222, B) is Trust.CHANGED
    assert trust(known, "n1", 22, B) is Trust.KNOWN


@pytest.mark.parametrize("name", ["fd00::7", "[fd00::7]:2222", hashed("fd00::7"), hashed("[fd00::7]:2222"), "fd00::?"])
def test_ipv6(tmp_path: Path, name: str) -> None:
    known = index(tmp_path, A.line(name))
    assert trust(known, "fd00::7", 2222, A) is Trust.KNOWN
    assert trust(known, "FD00::7", 2222, A) is Trust.KNOWN
    assert trust(known, "fd00::77", 2222, A) is Trust.UNKNOWN


def test_hashed_lines_are_searched_once_per_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = index(tmp_path, *(A.line(hashed(f"n{at}")) for at in range(20)))
    digests: list[bytes] = []
    real = hmac.digest

    def counted(key: bytes, message: bytes, kind: str) -> bytes:
        digests.append(message)
        return real(key, message, kind)

    monkeypatch.setattr("ndctl.ssh.known_hosts.hmac.digest", counted)
    assert [one.kind for one in known.expected("n7")] == [A.kind]
    assert trust(known, "n7", 22, A) is Trust.KNOWN
    assert len(digests) == 20


def test_changed_in_a_hashed_line(tmp_path: Path) -> None:
    assert trust(index(tmp_path, A.line(hashed("n1"))), "n1", 22, B) is Trust.CHANGED


def test_a_second_key_in_a_hashed_line_is_known_too(tmp_path: Path) -> None:
    assert trust(index(tmp_path, RSA.line("n1"), A.line(hashed("n1"))), "n1", 22, A) is Trust.KNOWN


@pytest.mark.parametrize("name", ["n1", "*", hashed("n1")])
def test_revoked_beats_known(tmp_path: Path, name: str) -> None:
    assert trust(index(tmp_path, A.line("n1"), f"@revoked {A.line(name)}"), "n1", 22, A) is Trust.REVOKED


def test_revoked_says_nothing_of_other_keys(tmp_path: Path) -> None:
    assert trust(index(tmp_path, A.line("n1"), f"@revoked {B.line('*')}"), "n1", 22, A) is Trust.KNOWN


def test_authority_alone_is_said(tmp_path: Path) -> None:
    known = index(tmp_path, f"@cert-authority {A.line('*.lab')}")
    assert trust(known, "n1.lab", 22, A) is Trust.AUTHORITY_ONLY
    assert trust(known, "n1.other", 22, A) is Trust.UNKNOWN


def test_bad_lines_are_told_and_cost_nothing_else(tmp_path: Path) -> None:
    known = index(
        tmp_path,
        "# a comment",
        "",
        "n0 ssh-ed25519",
        "n1 ssh-ed25519 not-base64!",
        "n2 ssh-rsa " + base64.b64encode(A.blob).decode(),
        f"@unheard-of {A.line('n3')}",
        A.line("|2|x|y"),
        A.line("n4"),
    )
    assert trust(known, "n4", 22, A) is Trust.KNOWN
    assert [problem.split(" ")[0].rsplit(":", 1)[1] for problem in known.problems] == ["3", "4", "5", "6", "7"]


def test_several_files_and_missing_ones(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(A.line("n1") + "\n")
    two.write_text(B.line("n2") + " a comment\n")
    known = KnownHosts.load([one, tmp_path / "absent", two])
    assert trust(known, "n1", 22, A) is Trust.KNOWN
    assert trust(known, "n2", 22, B) is Trust.KNOWN
    assert not known.problems


def test_expected_types_come_first_hand(tmp_path: Path) -> None:
    known = index(tmp_path, RSA.line("n1"), A.line(hashed("n2")))
    assert [one.kind for one in known.expected("n1")] == ["ssh-rsa"]
    assert [one.kind for one in known.expected("n2")] == ["ssh-ed25519"]
    assert known.expected("n3") == []


def test_cost_grows_with_the_lines_not_with_their_square(tmp_path: Path) -> None:
    """A lookup of a plain name looks at no other line: 8 times the file may not cost 8 times per lookup."""

    def cpu_per_lookup(count: int) -> float:
        names = [f"10.{n // 62500}.{n // 250 % 250}.{n % 250}" for n in range(count)]
        known = index(tmp_path, *(A.line(name) for name in names))
        best = float("inf")
        for _ in range(5):
            before = time.process_time()
            for name in names[:1000]:
                known.judge(name, 22, A.kind, A.blob)
            best = min(best, time.process_time() - before)
        return best

    assert cpu_per_lookup(16_000) < 4 * cpu_per_lookup(2_000)


class TestWriting:
    def test_new_file_is_private(self, tmp_path: Path) -> None:
        path = tmp_path / "state" / "known_hosts"
        write_entries(path, {("10.0.0.1", 22): [A], ("10.0.0.2", 2222): [A, RSA]})
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().splitlines() == [
            A.line("10.0.0.1"),
            A.line("[10.0.0.2]:2222"),
            RSA.line("[10.0.0.2]:2222"),
        ]
        assert [item.name for item in path.parent.iterdir()] == ["known_hosts"]

    def test_relearning_replaces_every_old_key_of_the_host_only(self, tmp_path: Path) -> None:
        path = tmp_path / "known_hosts"
        kept = ["# mine", f"@revoked {A.line('n1')}", A.line("n2"), A.line("*.lab")]
        path.write_text("\n".join([*kept, A.line("n1"), RSA.line(hashed("n1")), RSA.line("n1,n3")]) + "\n")
        write_entries(path, {("n1", 22): [B]})
        assert path.read_text().splitlines() == [*kept, RSA.line("n3"), B.line("n1")]

    def test_forgetting(self, tmp_path: Path) -> None:
        path = tmp_path / "known_hosts"
        path.write_text(A.line("n1") + "\n")
        write_entries(path, {("n1", 22): []})
        assert path.read_text() == ""

    def test_a_failed_write_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "known_hosts"
        path.mkdir()
        (path / "in the way").write_text("")
        with pytest.raises(OSError, match=r"known_hosts"):
            write_entries(path, {("n1", 22): [A]})
        assert [item.name for item in tmp_path.iterdir()] == ["known_hosts"]


def test_public_key_lines() -> None:
    text = f"{A.kind} {base64.b64encode(A.blob).decode()} root@n1\nssh-rsa short\nwelcome\n"
    assert [one.blob for one in parse_public_keys(text)] == [A.blob]


def test_names_and_fingerprints() -> None:
    assert host_name("N1", 22) == "n1"
    assert host_name("fe80::1", 2222) == "[fe80::1]:2222"
    digest = base64.b64encode(hashlib.sha256(A.blob).digest()).decode().rstrip("=")
    assert fingerprint(A.blob) == f"SHA256:{digest}"
