"""From a node to its target and its way there: what the inventory says, what the user's ssh_config adds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ndctl.model.answers import Command, OutcomeKind
from ndctl.model.places import Node
from ndctl.ssh.deadlines import DeadlineKeeper
from ndctl.ssh.engine import Engine
from ndctl.ssh.routes import Routes
from ndctl.ssh.settings import Hop, SshSettings, parse_jump
from ndctl.ssh.target import Fault, Target
from tests.ssh import sshd as openssh

ADDRESS = Command("address", "echo ${SSH_CONNECTION#* * }")


class Way:
    """Routes over a configuration, with the chains that a node's dialling would take."""

    def __init__(self, folder: Path, text: str, **settings: Any) -> None:
        config = folder / "config"
        config.write_text(text)
        self.keeper = DeadlineKeeper()
        plain = SshSettings(user="azureuser", agent=False, user_config=config)
        self.routes = Routes(dataclasses.replace(plain, **settings), self.keeper)

    def target(self, address: str, port: int = 22) -> Target:
        return self.routes.to(Node("n1", "r1", address=address, port=port))[0]

    def hops(self, address: str) -> list[list[str]]:
        """Each chain as user@host:port words; empty when the node is dialled directly."""
        _, dial = self.routes.to(Node("n1", "r1", address=address))
        jumps = getattr(dial, "__self__", None)
        chains = jumps._chains if jumps is not None else ()
        return [[f"{hop.user}@{hop.host}:{hop.port}" for hop in chain.hops] for chain in chains]


class TestPrecedence:
    TEXT = "Host *\n User kim\n Port 2200\n IdentityFile ~/k\n UserKnownHostsFile /kh\n ConnectTimeout 3\n"

    def test_the_file_fills_in(self, tmp_path: Path) -> None:
        target = Way(tmp_path, self.TEXT, known_hosts=(Path("/own"),)).target("gpu1")
        assert (target.user, target.port, target.connect_s) == ("kim", 2200, 3.0)
        assert target.known_hosts.files == (Path("/kh"),)
        assert target.identities.problems[0].startswith(f"{Path.home()}/k ")

    def test_what_is_pinned_stays(self, tmp_path: Path) -> None:
        target = Way(
            tmp_path,
            self.TEXT,
            pinned=frozenset({"user", "port", "private_keys", "known_hosts"}),
            known_hosts=(Path("/own"),),
            private_keys=(Path("/mine"),),
        ).target("gpu1")
        assert (target.user, target.port, target.connect_s) == ("azureuser", 22, 3.0)
        assert target.known_hosts.files == (Path("/own"),)
        assert target.identities.problems[0].startswith("/mine ")

    def test_a_nodes_own_port_beats_both(self, tmp_path: Path) -> None:
        assert Way(tmp_path, self.TEXT).target("gpu1", 4444).port == 4444

    def test_conditions_see_what_is_pinned(self, tmp_path: Path) -> None:
        text = "Match user azureuser\n HostName for-azure\nMatch user kim\n HostName for-kim\n"
        assert Way(tmp_path, text, pinned=frozenset({"user"})).target("gpu1").host == "for-azure"
        assert Way(tmp_path, f"User kim\n{text}").target("gpu1").host == "for-kim"


class TestJumps:
    def test_of_the_inventory_beat_those_of_the_file(self, tmp_path: Path) -> None:
        text = "Host gpu*\n ProxyJump filed\n"
        assert Way(tmp_path, text).hops("gpu1") == [["azureuser@filed:22"]]
        named = Way(tmp_path, text, jumps=(parse_jump("ann@one:2222"), parse_jump("two,three")))
        assert named.hops("gpu1") == [
            ["ann@one:2222"],
            ["azureuser@two:22", "azureuser@three:22"],
        ]

    def test_none_and_nothing_are_direct(self, tmp_path: Path) -> None:
        way = Way(tmp_path, "Host gpu1\n ProxyJump none\nHost gpu*\n ProxyJump door\n")
        assert (way.hops("gpu1"), way.hops("gpu2"), way.hops("cpu")) == ([], [["azureuser@door:22"]], [])

    @pytest.mark.parametrize("inventory", [False, True])
    def test_a_jump_host_may_have_one_itself(self, tmp_path: Path, inventory: bool) -> None:
        text = (
            "Host gpu*\n ProxyJump inner\nHost inner\n HostName 10.0.0.9\n Port 2209\n User ivy\n ProxyJump outer,mid\n"
            "Host outer\n ProxyJump ssh://edge:2211\nHost mid\n ProxyJump not-asked\n"
        )
        way = Way(tmp_path, text, jumps=(parse_jump("inner"),) if inventory else ())
        assert way.hops("other-node" if inventory else "gpu1") == [
            ["azureuser@edge:2211", "azureuser@outer:22", "azureuser@mid:22", "ivy@10.0.0.9:2209"]
        ]
        assert way.routes.remarks == ()

    def test_a_host_that_is_its_own_jump_host_is_dialled(self, tmp_path: Path) -> None:
        way = Way(tmp_path, "Host *\n ProxyJump door\n")
        assert way.hops("gpu1") == [["azureuser@door:22"]]
        assert way.routes.remarks == ("ssh_config: ProxyJump door of door is a loop, not followed",)

    def test_a_longer_loop_ends(self, tmp_path: Path) -> None:
        way = Way(tmp_path, "Host a gpu\n ProxyJump b\nHost b\n ProxyJump c\nHost c\n ProxyJump a,b\n")
        assert way.hops("gpu") == [["azureuser@c:22", "azureuser@b:22"]]
        assert len(way.routes.remarks) == 1

    @pytest.mark.parametrize("text", ["ProxyJump b:port", "ProxyJump good\nHost good\nProxyJump a@"])
    def test_what_makes_no_sense_is_told_of_the_node(self, tmp_path: Path, text: str) -> None:
        way = Way(tmp_path, f"Host gpu\n{text}\n")
        target, dial = way.routes.to(Node("n1", "r1", address="gpu"))
        with pytest.raises(Fault, match="is not a jump host") as caught:
            dial(target, way.keeper.watch())
        assert caught.value.kind is OutcomeKind.UNREACHABLE
        way.keeper.close()

    def test_jump_hosts_have_known_hosts_of_their_own(self, tmp_path: Path) -> None:
        way = Way(
            tmp_path,
            "Host filed\n UserKnownHostsFile /filed\n",
            jumps=((Hop("named"),), (Hop("filed"),)),
            known_hosts=(Path("/cluster"),),
            hop_known_hosts=(Path("/home"),),
        )
        _, dial = way.routes.to(Node("n1", "r1", address="gpu"))
        files = [chain.hops[0].known_hosts.files for chain in dial.__self__._chains]  # type: ignore[attr-defined]
        assert files == [(Path("/cluster"), Path("/home")), (Path("/cluster"), Path("/filed"))]
        assert way.target("gpu").known_hosts.files == (Path("/cluster"),)


def test_a_proxy_command_is_named_where_it_would_have_helped(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host 127.*\n  ProxyCommand ssh -W %h:%p door\n")
    node = Node("n1", "r1", address="127.0.0.1", port=openssh.free_port())
    with Engine(SshSettings(user="u", agent=False, retries=0, user_config=config)) as engine:
        (answer,) = engine.ask({node: [ADDRESS]}).values()
    assert answer.outcome.kind is OutcomeKind.REFUSED
    assert f"ProxyCommand of {config}:2" in answer.outcome.hint


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[openssh.Sshd]]:
    """Three servers of their own, one behind the other in the test below."""
    running = [openssh.start(tmp_path_factory.mktemp(name)) for name in ("outer", "inner", "node")]
    yield running
    for one in running:
        one.stop()


def chained(doors: list[openssh.Sshd], folder: Path, *, unknown: int | None = None) -> SshSettings:
    """ssh_config leads node ← inner ← outer; the host key of one of them is not known."""
    known = folder / "known_hosts"
    known.write_text("".join(one.known_hosts.read_text() for at, one in enumerate(doors) if at != unknown))
    lines = [f"UserKnownHostsFile {known}"]
    for name, one, jump in zip(("outer", "inner", "gpu"), doors, ("none", "outer", "inner"), strict=True):
        lines += [f"Host {name}", f"  HostName {one.nodes[0].address}", f"  Port {one.port}", f"  ProxyJump {jump}"]
        lines += [f"  IdentityFile {one.client_key}"]
    (folder / "config").write_text("\n".join(lines) + "\n")
    return SshSettings(user=doors[0].user, agent=False, retries=0, user_config=folder / "config")


def test_a_chain_from_ssh_config_alone(doors: list[openssh.Sshd], tmp_path: Path) -> None:
    with Engine(chained(doors, tmp_path)) as engine:
        (answer,) = engine.ask({Node("n1", "r1", address="gpu"): [ADDRESS]}).values()
    assert answer.outcome.ok, answer.outcome
    assert answer.results["address"].stdout == f"127.1.1.1 {doors[2].port}\n"


@pytest.mark.parametrize("unknown", [0, 1, 2])
def test_each_hops_key_is_verified(doors: list[openssh.Sshd], tmp_path: Path, unknown: int) -> None:
    with Engine(chained(doors, tmp_path, unknown=unknown)) as engine:
        (answer,) = engine.ask({Node("n1", "r1", address="gpu"): [ADDRESS]}).values()
    assert answer.outcome.kind is OutcomeKind.HOST_KEY_UNKNOWN
    assert f"[127.1.1.1]:{doors[unknown].port} shows" in answer.outcome.detail
    assert answer.outcome.detail.startswith("jump host: ") is (unknown < 2)
