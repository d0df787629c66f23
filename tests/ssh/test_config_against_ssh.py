"""How a host's ssh_config is resolved, held against what `ssh -G` says of the same file."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ndctl.ssh.user_config import UserConfig

pytestmark = pytest.mark.part("ssh")

_SSH = shutil.which("ssh")
_HOSTS = ("gpu1", "gpu12", "GPU1", "door", "other.lab", "10.0.0.7", "fd00::7")

CONFIGS = {
    "first-value-wins": """
        User early
        Port 2222
        Host gpu*
          User late
          Port 22
          HostName %h.lab
    """,
    "patterns": """
        Host gpu? !gpu2
          Port 1001
        Host gpu?? *.lab
          Port 1002
        Host 10.0.0.* fd00::*
          Port 1003
        Host * !door
          User inner
    """,
    "case": """
        Host gpu1
          User small
        Host GPU1
          User big
        Match host gpu1
          Port 1234
    """,
    "equals-quotes-comments": """
        Host = gpu1   # a comment
          User = "ann"
          IdentityFile="/keys/two words"
          HostName	tabbed.lab
        # Host *
        Host "door"
          Port=77
    """,
    "identities-gather": """
        Host gpu*
          IdentityFile /keys/one
        Host gpu1
          IdentityFile /keys/two
          IdentityFile /keys/one
    """,
    "jumps": """
        Host gpu*
          ProxyJump ann@door:2200,inner
        Host door
          ProxyJump none
        Host *
          ProxyJump late
    """,
    "jump-or-command": """
        Host gpu*
          ProxyCommand nc %h %p
        Host * !door
          ProxyJump door
    """,
    "times": """
        Host gpu1
          ConnectTimeout 1m30s
        Host gpu*
          ConnectTimeout none
        Host *
          ConnectTimeout 7
    """,
    "known-hosts": """
        Host gpu*
          UserKnownHostsFile /kh/%h.%n /kh/two "/kh/two words"
        Host *
          UserKnownHostsFile /kh/%p_%r
          User kim
          Port 66
    """,
    "match": """
        Match host gpu1,*.lab
          Port 11
        Match originalhost gpu12 !user root
          Port 12
        Host gpu12
          User root
        Match user root host "gpu*"
          ConnectTimeout 13
        Match localuser nobody-at-all
          Port 14
        Match all
          User everyone
    """,
    "match-sees-hostname": """
        Host gpu*
          HostName %h.lab
        Match host *.lab
          User in-lab
        Match originalhost gpu1
          Port 15
    """,
    "includes": """
        Host gpu*
          Include FOLDER/*.conf FOLDER/missing
          ConnectTimeout 5
        Include FOLDER/all
    """,
}
INCLUDED = {
    "10.conf": "User ten\nHost gpu12\n  Port 1010\n",
    "20.conf": "User twenty\nPort 2020\nHost *\n  ConnectTimeout 20\n",
    "all": "Match host door\n  User doorman\nMatch all\n  Port 3030\n",
}


@pytest.fixture(autouse=True)
def _needs_ssh() -> None:
    if _SSH is None:
        if os.environ.get("CI") == "true":
            raise RuntimeError("ssh is missing: apt-get install openssh-client")
        pytest.skip("no OpenSSH client on this machine (apt-get install openssh-client)")


def said_by_ssh(config: Path, host: str, *options: str) -> dict[str, list[str]]:
    printed = subprocess.run(
        [str(_SSH), "-G", "-F", str(config), *options, host],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
        stdin=subprocess.DEVNULL,
    ).stdout
    said: dict[str, list[str]] = {}
    for line in printed.splitlines():
        keyword, _, value = line.partition(" ")
        said.setdefault(keyword, []).append(value)
    return said


def resolved(config: Path, host: str, *, user: str = "", port: int = 0) -> dict[str, list[str]]:
    """Our own reading in ssh's words; where the file says nothing, ssh's defaults."""
    loaded = UserConfig.load(config)
    found = loaded.lookup(host, user=user, port=port)
    told = {
        "hostname": [found.host_name or host.lower()],
        "user": [user or found.user or loaded.local_user],
        "port": [str(port or found.port or 22)],
    }
    if found.connect_timeout_s:
        told["connecttimeout"] = [f"{found.connect_timeout_s:g}"]
    if found.identity_files:
        told["identityfile"] = [str(path) for path in found.identity_files]
    if found.proxy_jump and found.proxy_jump != "none":
        told["proxyjump"] = [found.proxy_jump]
    if found.known_hosts:
        told["userknownhostsfile"] = [" ".join(map(str, found.known_hosts))]
    return told


def defaults(keyword: str, values: list[str]) -> bool:
    """Whether ssh says of this what it says when nobody told it anything."""
    return {
        "connecttimeout": values == ["none"],
        "identityfile": all("/.ssh/id_" in value for value in values),
        "userknownhostsfile": all("/.ssh/known_hosts" in value for value in values),
    }.get(keyword, False)


@pytest.mark.parametrize("name", CONFIGS)
def test_resolved_as_ssh_does(tmp_path: Path, name: str) -> None:
    for file, text in INCLUDED.items():
        (tmp_path / file).write_text(text)
    config = tmp_path / "config"
    config.write_text(CONFIGS[name].replace("FOLDER", str(tmp_path)))
    for host in _HOSTS:
        for options, given in (((), {}), (("-l", "root", "-p", "4000"), {"user": "root", "port": 4000})):
            theirs = {
                keyword: values
                for keyword, values in said_by_ssh(config, host, *options).items()
                if keyword in ("hostname", "user", "port", "proxyjump")
                or (
                    keyword in ("connecttimeout", "identityfile", "userknownhostsfile")
                    and not defaults(keyword, values)
                )
            }
            ours = resolved(config, host, **given)  # type: ignore[arg-type]
            assert ours == theirs, f"{host} {options}"


def test_every_keyword_that_is_followed_is_compared() -> None:
    texts = "".join(CONFIGS.values()).lower()
    followed = {
        "host", "match", "include", "hostname", "user", "port", "identityfile", "proxyjump", "connecttimeout",
        "userknownhostsfile",
    }  # fmt: skip
    assert {word for word in followed if f" {word} " not in texts and f" {word}=" not in texts} == set()
