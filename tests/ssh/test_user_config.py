"""The user's ssh_config: what is followed, what is passed over and said."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from ndctl.ssh.config_reader import seconds_of
from ndctl.ssh.user_config import HostConfig, UserConfig


def load(home: Path, text: str, **others: str) -> UserConfig:
    folder = home / ".ssh"
    folder.mkdir(exist_ok=True)
    for name, content in others.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "config").write_text(text)
    return UserConfig.load(folder / "config", home)


def passed_over(config: UserConfig) -> list[tuple[str, str]]:
    """(line number, what was said of it)."""
    said = [line.split(" ", 1) for line in config.ignored]
    return [(place.rsplit(":", 1)[1], words) for place, words in said]


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
          IdentityFile "~/.ssh/two words"   # a comment
          IdentityFile ~/.ssh/one
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
    config = load(tmp_path, "Host *.lab !bad.lab n? [f]*\n  User x\n")
    asked = ("a.lab", "bad.lab", "n1", "n10", "[f]1", "f1", "A.LAB")
    assert [config.lookup(host).user for host in asked] == ["x", "", "x", "", "x", "", ""]


class TestTokens:
    TEXT = """
        Host gpu?
          HostName %h.lab
          IdentityFile ~/.ssh/%r@%h:%p_%n%%
          UserKnownHostsFile %d/known.%u ${NDCTL_TEST_PLACE}/known ${NDCTL_TEST_NOWHERE}/known
          ProxyJump %r@jump-%n:2200
          Port 2222
    """

    def test_in_paths_and_jumps(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NDCTL_TEST_PLACE", "/place")
        found = load(tmp_path, self.TEXT).lookup("gpu1", user="ann")
        assert found.host_name == "gpu1.lab"
        assert found.identity_files == (tmp_path / ".ssh/ann@gpu1.lab:2222_gpu1%",)
        assert found.proxy_jump == "ann@jump-gpu1:2200"
        assert found.known_hosts == (
            tmp_path / f"known.{getpass.getuser()}",
            Path("/place/known"),
            Path("${NDCTL_TEST_NOWHERE}/known"),
        )

    def test_what_was_given_beats_the_file(self, tmp_path: Path) -> None:
        found = load(tmp_path, self.TEXT).lookup("gpu1", user="", port=99, else_user="bob")
        assert found.identity_files == (tmp_path / ".ssh/bob@gpu1.lab:99_gpu1%",)


class TestInclude:
    def test_keeps_the_condition_it_stands_under(self, tmp_path: Path) -> None:
        config = load(
            tmp_path,
            "Host gpu*\n  Include part*.conf\n  Port 3\nHost *\n  User last\n",
            **{"part1.conf": "User included\nHost gpu2\n  Port 2\n"},
        )
        assert (config.lookup("gpu1").user, config.lookup("gpu1").port) == ("included", 3)
        assert config.lookup("gpu2").port == 2
        assert config.lookup("cpu").user == "last"

    def test_globs_sorted_nested_absolute_and_from_home(self, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.write_text("ConnectTimeout 9\n")
        config = load(
            tmp_path,
            f"Include conf.d/*.conf missing ~/.ssh/at_home\nInclude {elsewhere}\n",
            **{
                "conf.d/20.conf": "User second\nPort 20\n",
                "conf.d/10.conf": "User first\nInclude conf.d/deep/more\n",
                "conf.d/deep/more": "Port 10\n",
                "at_home": "IdentityFile k\n",
            },
        )
        assert config.lookup("n") == HostConfig(
            user="first", port=10, connect_timeout_s=9.0, identity_files=(Path("k"),)
        )
        assert not config.ignored

    def test_loops_are_refused_and_said_once(self, tmp_path: Path) -> None:
        config = load(
            tmp_path,
            "User x\nInclude config other\nInclude config other\nPort 4\n",
            other="Include config\nConnectTimeout 3\n",
        )
        assert config.lookup("n") == HostConfig(user="x", port=4, connect_timeout_s=3.0)
        assert [words.split(":")[0] for _, words in passed_over(config)] == ["Include config"] * 4
        assert all(line.endswith("a loop") for line in config.ignored)

    def test_too_deep(self, tmp_path: Path) -> None:
        files = {f"c{at}": f"Include c{at + 1}\n" for at in range(40)}
        config = load(tmp_path, "Include c0\nUser x\n", **files)
        assert config.lookup("n").user == "x"
        assert ["nested more than 16 deep" in line for line in config.ignored] == [True]

    def test_what_cannot_be_read_is_said(self, tmp_path: Path) -> None:
        (tmp_path / ".ssh/folder").mkdir(parents=True)
        config = load(tmp_path, "Include folder\nUser x\n")
        assert config.lookup("n").user == "x"
        assert config.ignored == (f"{tmp_path}/.ssh/folder cannot be read: Is a directory",)


class TestMatch:
    @pytest.mark.parametrize(
        "criterion",
        [
            "exec true",
            'exec "test -e /"',
            "!exec false",
            "canonical",
            "final all",
            "tagged x",
            "host n canonical",
            "host n unheard-of x",
            "host n all",
            "!all",
            "user",
        ],
    )
    def test_what_is_not_understood_is_not_met_and_is_said(self, tmp_path: Path, criterion: str) -> None:
        config = load(tmp_path, f"Match {criterion}\n  User evil\n  ForwardAgent yes\nHost n\n  User good\n")
        assert config.lookup("n") == HostConfig(user="good")
        ((line, words),) = passed_over(config)
        assert line == "1"
        assert words.startswith(f"Match {criterion} (its whole block: ")

    @pytest.mark.parametrize(
        ("criterion", "met"),
        [
            ("all", True),
            ("host other.lab", True),
            ("host OTHER.lab", True),
            ("host n", False),
            ("originalhost n", True),
            ("originalhost other.lab", False),
            ("host *.lab,!other.*", False),
            ("!host n", True),
            ("user ann", True),
            ("user bob,an?", True),
            ("user bob", False),
            ("!user ann", False),
            ("originalhost n user ann", True),
            ("originalhost n !user ann", False),
            ("host=other.lab", True),
            ("!final host other.lab", True),
        ],
    )
    def test_criteria(self, tmp_path: Path, criterion: str, met: bool) -> None:
        config = load(tmp_path, f"Host n\n  HostName other.lab\nMatch {criterion}\n  Port 5\n")
        assert config.lookup("n", user="ann").port == (5 if met else 0)
        assert not config.ignored

    def test_the_users_own_name(self, tmp_path: Path) -> None:
        config = load(
            tmp_path, f"Match localuser nobody-at-all\n Port 1\nMatch localuser {getpass.getuser()}\n Port 2\n"
        )
        assert config.lookup("n").port == 2


def test_a_proxy_command_counts_where_ssh_would_use_it(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "Host a\n  ProxyCommand ssh -W %h:%p door\nHost b\n  ProxyJump inner\n  ProxyCommand nc %h\n"
        "Host c\n  ProxyCommand none\nHost *\n  ProxyJump door\n",
    )
    place = f"{tmp_path}/.ssh/config:2"
    assert [(config.lookup(host).proxy_jump, config.lookup(host).unfollowed) for host in "abcd"] == [
        ("", place),
        ("inner", ""),
        ("door", ""),
        ("door", ""),
    ]
    assert passed_over(config) == [
        ("2", "ProxyCommand (write it as ProxyJump)"),
        ("5", "ProxyCommand (write it as ProxyJump)"),
    ]


def test_what_is_passed_over_is_said(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "ForwardAgent yes\nPort many\nUser\n# Compression yes\nConnectTimeout soon\nPort 70000\n!!!\nUser = # none\n",
    )
    assert passed_over(config) == [
        ("1", "ForwardAgent"),
        ("2", "Port many is no port number"),
        ("3", "User without a value"),
        ("5", "ConnectTimeout soon is no time"),
        ("6", "Port 70000 is no port number"),
        ("7", "no keyword and value"),
        ("8", "no keyword and value"),
    ]
    assert config.lookup("n") == HostConfig()


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert UserConfig.load(tmp_path / "none", tmp_path).lookup("n") == HostConfig()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1m30S", 90), ("2h", 7200), ("", None), ("1x", None), ("m", None), ("-1", None)],
)
def test_times(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
