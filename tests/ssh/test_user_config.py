"""The user's ssh_config: what is followed, what is passed over and said."""

from __future__ import annotations

from pathlib import Path

from ndctl.ssh.user_config import HostConfig, UserConfig


def load(home: Path, text: str, **others: str) -> UserConfig:
    folder = home / ".ssh"
    folder.mkdir(exist_ok=True)
    for name, content in others.items():
        (folder / name).write_text(content)
    (folder / "config").write_text(text)
    return UserConfig.load(folder / "config", home)


def test_the_first_value_wins_and_identities_gather(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
        User early
        Host gpu*
          HostName %h.lab.example
          User late
          Port = 2222
          IdentityFile ~/.ssh/one
          ConnectTimeout 7
        Host *
          IdentityFile "~/.ssh/two words"
          UserKnownHostsFile ~/.ssh/a ~/.ssh/b
          ProxyJump alice@bastion:2200,inner
        """,
    )
    assert config.lookup("gpu01") == HostConfig(
        host_name="gpu01.lab.example",
        user="early",
        port=2222,
        identity_files=(tmp_path / ".ssh/one", tmp_path / ".ssh/two words"),
        proxy_jump="alice@bastion:2200,inner",
        connect_timeout_s=7.0,
        known_hosts=(tmp_path / ".ssh/a", tmp_path / ".ssh/b"),
    )
    assert config.lookup("cpu01").host_name == ""
    assert config.lookup("cpu01").port == 0
    assert not config.ignored


def test_patterns_and_negation(tmp_path: Path) -> None:
    config = load(tmp_path, "Host *.lab !bad.lab n?\n  User x\n")
    assert [config.lookup(host).user for host in ("a.lab", "bad.lab", "n1", "n10", "A.LAB")] == ["x", "", "x", "", "x"]


def test_include_keeps_the_condition_it_stands_under(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "Host gpu*\n  Include part*.conf\n  Port 3\nHost *\n  User last\n",
        **{"part1.conf": "User included\nHost gpu2\n  Port 2\n"},
    )
    assert (config.lookup("gpu1").user, config.lookup("gpu1").port) == ("included", 3)
    assert config.lookup("gpu2").port == 2
    assert config.lookup("cpu").user == "last"


def test_include_loops_end(tmp_path: Path) -> None:
    config = load(tmp_path, "User x\nInclude config\n")
    assert config.lookup("n").user == "x"
    assert any("Include nested" in line for line in config.ignored)


def test_match_blocks_do_not_count_as_met(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "Match exec true\n  User evil\n  HostName elsewhere\nMatch all\n  Port 5\nHost n\n  User good\n",
    )
    assert config.lookup("n") == HostConfig(user="good", port=5)
    assert [line.split(" ", 1)[1] for line in config.ignored] == ["Match exec true (its whole block)"]


def test_what_is_passed_over_is_said(tmp_path: Path) -> None:
    config = load(tmp_path, "ForwardAgent yes\nPort many\nUser\n# Compression yes\n")
    names = [line.split(" ", 1) for line in config.ignored]
    assert [(place.rsplit(":", 1)[1], word) for place, word in names] == [
        ("1", "ForwardAgent"),
        ("2", "Port many is not a number"),
    ]
    assert config.lookup("n") == HostConfig()


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert UserConfig.load(tmp_path / "none", tmp_path).lookup("n") == HostConfig()
