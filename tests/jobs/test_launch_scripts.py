"""The launch's scripts in a real /bin/sh: keys come and go, nothing of the user's is lost, nothing stays behind."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ndctl.jobs import nccl_scripts as scripts
from ndctl.jobs.nccl import NcclLaunch, clean_up, run_nccl, run_side_by_side
from ndctl.model.answers import Command
from ndctl.model.places import Node
from tests.jobs.local_nodes import LocalNodes

# In CI it must be there, so nothing is skipped and the tests say what is missing.
needs_keygen = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None and os.environ.get("CI") != "true", reason="no ssh-keygen on this machine"
)
# The clean-up ends processes by the token, so test runs that go on side by side must not share one.
OWN = f"t{os.getpid()}"
PUBLIC = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFake ndctl-job-{OWN}-1:"


@pytest.fixture
def nodes(tmp_path: Path) -> LocalNodes:
    return LocalNodes(tmp_path)


def launch(
    nodes: LocalNodes, token: str = f"{OWN}-1", some: Sequence[Node] | None = None, **changes: object
) -> NcclLaunch:
    settings: dict[str, object] = {
        "test": "all_reduce",
        "nodes": tuple(some or nodes.nodes),
        "gpus_per_node": 4,
        "environment": {"NCCL_DEBUG": "INFO"},
        "host_keys": {node.name: (f"{node.address} ssh-ed25519 AAAA{node.name}",) for node in nodes.nodes},
        "tests_dir": "/opt/nccl-tests/build",
        "token": token,
        "deadline_s": 20.0,
        **changes,
    }
    return NcclLaunch(**settings)  # type: ignore[arg-type]


def admit(nodes: LocalNodes, node: Node, one: NcclLaunch, key: str = PUBLIC) -> None:
    assert nodes.sh(node, scripts.peer_script(one)).exit_code == 0
    result = nodes.sh(node, scripts.admit_script(one, key))
    assert result.exit_code == 0, result.stderr


def write_keys(nodes: LocalNodes, node: Node, text: str) -> Path:
    path = nodes.keys(node)
    path.parent.mkdir(mode=0o700)
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_the_key_is_restricted_ends_by_itself_and_joins_the_users_own(nodes: LocalNodes) -> None:
    node = nodes.nodes[0]
    path = write_keys(nodes, node, "ssh-rsa AAAAuser without-newline")
    admit(nodes, node, launch(nodes))
    lines = path.read_text().splitlines()
    assert lines[0] == "ssh-rsa AAAAuser without-newline"
    assert lines[1].startswith('restrict,expiry-time="20') and lines[1].endswith(PUBLIC)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_clean_up_leaves_the_users_keys_as_they_were(nodes: LocalNodes) -> None:
    node = nodes.nodes[0]
    path = write_keys(nodes, node, "# mine\nssh-rsa AAAAuser me\n")
    one = launch(nodes)
    admit(nodes, node, one)
    for _ in range(2):  # safe to repeat
        result = nodes.sh(node, scripts.cleanup_script(one.token))
        assert (result.exit_code, result.stdout) == (0, "")
    assert path.read_text() == "# mine\nssh-rsa AAAAuser me\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in path.parent.iterdir()) == ["authorized_keys"]
    assert [p.name for p in nodes.home(node).iterdir()] == [".ssh"]


def test_a_file_of_keys_that_was_not_there_is_not_there_afterwards(nodes: LocalNodes) -> None:
    node = nodes.nodes[0]
    admit(nodes, node, launch(nodes))
    assert nodes.sh(node, scripts.cleanup_script(f"{OWN}-1")).exit_code == 0
    assert not nodes.keys(node).exists()


def test_a_linked_file_of_keys_stays_a_link(nodes: LocalNodes, tmp_path: Path) -> None:
    node = nodes.nodes[0]
    real = tmp_path / "elsewhere" / "keys"
    real.parent.mkdir()
    real.write_text("ssh-rsa AAAAuser me\n")
    nodes.keys(node).parent.mkdir()
    nodes.keys(node).symlink_to(real)
    admit(nodes, node, launch(nodes))
    assert PUBLIC in real.read_text() and nodes.keys(node).is_symlink()
    assert nodes.sh(node, scripts.cleanup_script(f"{OWN}-1")).exit_code == 0
    assert real.read_text() == "ssh-rsa AAAAuser me\n" and nodes.keys(node).is_symlink()


def test_the_clean_up_of_one_launch_keeps_the_key_of_another(nodes: LocalNodes) -> None:
    node = nodes.nodes[0]
    admit(nodes, node, launch(nodes, f"{OWN}-1"))
    admit(nodes, node, launch(nodes, f"{OWN}-11"), PUBLIC.replace("-1:", "-11:"))
    nodes.sh(node, scripts.cleanup_script(f"{OWN}-1"))
    text = nodes.keys(node).read_text()
    assert f"ndctl-job-{OWN}-11:" in text and f"ndctl-job-{OWN}-1:" not in text


def test_a_key_that_comes_after_the_clean_up_is_not_admitted(nodes: LocalNodes) -> None:
    """The connection that brought it was cut, and its script ran on."""
    node = nodes.nodes[0]
    one = launch(nodes)
    nodes.sh(node, scripts.peer_script(one))
    nodes.sh(node, scripts.cleanup_script(one.token))
    result = nodes.sh(node, scripts.admit_script(one, PUBLIC))
    assert result.exit_code == 1 and "over" in result.stderr
    assert not nodes.keys(node).exists()


def test_a_disk_that_is_full_costs_nobody_a_key(nodes: LocalNodes) -> None:
    node = nodes.nodes[0]
    path = write_keys(nodes, node, "ssh-rsa AAAAuser me\n")
    one = launch(nodes)
    admit(nodes, node, one)
    before = path.read_text()
    nodes.tool("grep", 'case "$*" in *-vF*) echo "grep: write error: No space left on device" >&2; exit 2;; esac\n'
               'exec /bin/grep "$@"')  # fmt: skip
    result = nodes.sh(node, scripts.cleanup_script(one.token))
    assert result.exit_code == 1 and "its key" in result.stdout
    assert path.read_text() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["authorized_keys"]


def test_the_clean_up_ends_what_carries_the_mark_and_nothing_else(nodes: LocalNodes) -> None:
    node = nodes.nodes[0]
    start = "NDCTL_JOB={}: sh -c 'trap \"\" TERM; while :; do sleep 0.2; done' >/dev/null 2>&1 & echo $!"
    mine = nodes.sh(node, start.format(f"{OWN}-1")).stdout.strip()
    other = nodes.sh(node, start.format(f"{OWN}-12")).stdout.strip()
    try:
        assert nodes.sh(node, scripts.cleanup_script(f"{OWN}-1")).exit_code == 0
        assert not Path(f"/proc/{mine}/cmdline").exists() or not Path(f"/proc/{mine}/cmdline").read_bytes()
        assert b"while" in Path(f"/proc/{other}/cmdline").read_bytes()
    finally:
        nodes.sh(node, scripts.cleanup_script(f"{OWN}-12"))


@needs_keygen
def test_mpirun_gets_a_line_that_open_mpi_4_1_understands(nodes: LocalNodes) -> None:
    nodes.tool("mpirun", 'for a in "$@"; do printf "<%s>" "$a"; done; echo; cat hostfile ssh_config known_hosts')
    one = launch(nodes, environment={"NCCL_SOCKET_IFNAME": "=bond0,eth1", "NCCL_ODD": "it's; $HOME"})
    run = run_nccl(nodes, one)
    assert run.log is not None and run.log.exit_code == 0, run
    line, _, files = run.log.stdout.partition("\n")
    arguments = line.strip("<>").split("><")
    pairs = list(itertools.pairwise(arguments))
    assert ("-np", "12") in pairs and ("--map-by", "ppr:4:node") in pairs and ("-hostfile", "hostfile") in pairs
    assert ("plm_rsh_args", "-F ssh_config") in pairs and ("plm_rsh_no_tree_spawn", "1") in pairs
    assert ("oob_tcp_if_include", "bond0,eth1") in pairs and ("btl_tcp_if_include", "bond0,eth1") in pairs
    assert ("-x", "NCCL_ODD=it's; $HOME") in pairs and ("-x", "NDCTL_JOB") in pairs
    assert ("-x", "LD_LIBRARY_PATH") not in pairs  # it is not set here, and mpirun would complain
    program = arguments.index("/opt/nccl-tests/build/all_reduce_perf")
    assert arguments[program + 1 :] == [
        "-b", "1073741824", "-e", "17179869184", "-f", "2", "-g", "1", "-n", "20", "-w", "5", "-c", "1",
    ]  # fmt: skip
    assert "10.0.0.2 slots=4\n" in files and "StrictHostKeyChecking yes" in files
    assert "10.0.0.3 ssh-ed25519 AAAArack01-n03" in files
    assert f'IdentityFile "{nodes.home(nodes.nodes[0])}/.ndctl-job-{OWN}-1/key"' in files


def test_interfaces_are_named_to_open_mpi_only_where_nccl_is_told_names(nodes: LocalNodes) -> None:
    for value in ("^docker0", "", "eth0,^lo"):
        assert "if_include" not in scripts.mpirun_line(launch(nodes, environment={"NCCL_SOCKET_IFNAME": value}))


def test_every_node_may_have_a_port_of_its_own(nodes: LocalNodes) -> None:
    odd = Node("rack01-n09", "rack01", address="10.0.0.9", port=2200)
    text = scripts.ssh_config(launch(nodes, some=[nodes.nodes[0], odd]))
    assert text.index("Host 10.0.0.9\n  Port 2200\n") < text.index("Host *")
    assert text.count("Port") == 1


@needs_keygen
def test_hpc_x_that_nobody_loaded_is_found_and_loaded(tmp_path: Path) -> None:
    tools = tmp_path / "usr-bin"
    tools.mkdir()
    for name in ("sh", "bash", "cat", "mkdir", "rm", "ssh-keygen", "id", "timeout", "wc", "mktemp", "cp", "mv", "grep",
                 "tr", "flock", "tail", "env", "date", "sleep", "rmdir", "readlink"):  # fmt: skip
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    folder = tmp_path / "nodes"
    folder.mkdir()
    nodes = LocalNodes(folder, path=str(tools))
    hpcx = nodes.root(nodes.nodes[0]) / "opt" / "hpcx-v2.24"
    (hpcx / "ompi" / "bin").mkdir(parents=True)
    (hpcx / "hpcx-init.sh").write_text(
        'hpcx_load() { export PATH="${BASH_SOURCE[0]%/*}/ompi/bin:$PATH" LD_LIBRARY_PATH=/hpcx/lib OPAL_PREFIX=/h; }\n'
        "echo noise\n"
    )
    mpirun = hpcx / "ompi" / "bin" / "mpirun"
    mpirun.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH $OPAL_PREFIX" "$@"\n')
    mpirun.chmod(0o755)
    run = run_nccl(nodes, launch(nodes))
    assert run.log is not None and run.log.stdout.startswith("/hpcx/lib /h -np 12"), run
    assert "-x LD_LIBRARY_PATH" in run.log.stdout


@needs_keygen
def test_a_machine_without_mpirun_says_so(tmp_path: Path, nodes: LocalNodes) -> None:
    nodes.tool("timeout", "exit 99")
    one = launch(nodes)
    script = scripts.run_script(one).replace("command -v mpirun", "command -v no-such-mpirun")
    nodes.sh(nodes.nodes[0], scripts.peer_script(one))
    result = nodes.sh(nodes.nodes[0], script)
    assert result.exit_code == 127 and "mpirun: not found" in result.stdout


@needs_keygen
def test_of_a_long_log_head_and_tail_come_back(nodes: LocalNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "LOG_HEAD_BYTES", 1000)
    monkeypatch.setattr(scripts, "LOG_TAIL_BYTES", 500)
    nodes.tool("mpirun", "echo first; i=0; while [ $i -lt 1000 ]; do echo 'NCCL INFO chatter'; i=$((i+1)); done; "
               "echo last; exit 3")  # fmt: skip
    run = run_nccl(nodes, launch(nodes))
    assert run.log is not None and run.log.exit_code == 3
    assert run.log.stdout.startswith("first\n") and run.log.stdout.endswith("last\n")
    assert "bytes of this log are left out" in run.log.stdout and len(run.log.stdout) < 1700


def clean(nodes: LocalNodes) -> bool:
    return all(
        not list(nodes.home(node).glob(".ndctl-job-*"))
        and not (nodes.keys(node).exists() and "ndctl-job" in nodes.keys(node).read_text())
        for node in nodes.nodes
    )


@needs_keygen
@pytest.mark.parametrize("step", ["nccl-prepare", "nccl-admit", "nccl-all_reduce"])
def test_an_interruption_at_any_step_is_cleaned_up_and_goes_on(nodes: LocalNodes, step: str) -> None:
    def interrupt(requests: Mapping[Node, Sequence[Command]]) -> None:
        if any(command.id == step for commands in requests.values() for command in commands):
            raise KeyboardInterrupt

    nodes.tool("mpirun", "echo ran")
    nodes.watch = interrupt
    with pytest.raises(KeyboardInterrupt):
        run_nccl(nodes, launch(nodes))
    assert clean(nodes)
    assert nodes.asked[-1] == {node.name: ["nccl-cleanup"] for node in nodes.nodes}


@needs_keygen
def test_a_second_ctrl_c_does_not_stop_the_clean_up(nodes: LocalNodes) -> None:
    times = iter(range(10))

    def interrupt(requests: Mapping[Node, Sequence[Command]]) -> None:
        if any(c.id in ("nccl-all_reduce", "nccl-cleanup") for cs in requests.values() for c in cs) and next(times) < 2:
            raise KeyboardInterrupt

    nodes.tool("mpirun", "echo ran")
    nodes.watch = interrupt
    with pytest.raises(KeyboardInterrupt):
        run_nccl(nodes, launch(nodes))
    assert clean(nodes)


@needs_keygen
def test_a_node_that_is_away_is_named_and_the_others_are_left_clean(nodes: LocalNodes) -> None:
    nodes.away = {"rack01-n02"}
    run = run_nccl(nodes, launch(nodes))
    assert run.log is None and run.blamed == "rack01-n02" and "no route" in run.problem
    assert run.leftovers == ("rack01-n02: unreachable no route",)
    assert clean(nodes)


@needs_keygen
def test_a_head_that_is_lost_gives_no_log(nodes: LocalNodes) -> None:
    def lose(requests: Mapping[Node, Sequence[Command]]) -> None:
        if any(command.id == "nccl-all_reduce" for commands in requests.values() for command in commands):
            nodes.away = {"rack01-n01"}

    nodes.watch = lose
    run = run_nccl(nodes, launch(nodes))
    assert run.log is None and run.blamed == "rack01-n01" and "head was lost" in run.problem
    assert [text.partition(":")[0] for text in run.leftovers] == ["rack01-n01"]


@needs_keygen
def test_a_peer_without_a_host_key_is_not_launched(nodes: LocalNodes) -> None:
    keys = {"rack01-n01": ("x",), "rack01-n03": ("y",)}
    run = run_nccl(nodes, launch(nodes, host_keys=keys))
    assert run.log is None and "no host key is known for rack01-n02" in run.problem
    assert not any("nccl-prepare" in ids for asked in nodes.asked for ids in asked.values())


@needs_keygen
def test_launches_side_by_side_share_each_step_and_fail_apart(tmp_path: Path) -> None:
    nodes = LocalNodes(tmp_path, count=4)
    nodes.tool("mpirun", "cat hostfile")
    nodes.away = {"rack01-n04"}
    one, other = launch(nodes, f"{OWN}-a", nodes.nodes[:2]), launch(nodes, f"{OWN}-b", nodes.nodes[2:])
    runs = run_side_by_side(nodes, [one, other])
    assert runs[0].log is not None and "10.0.0.1 slots=4\n10.0.0.2 slots=4\n" in runs[0].log.stdout
    assert runs[1].log is None and runs[1].blamed == "rack01-n04"
    assert clean(nodes)
    assert len(nodes.asked) == 5  # prepare, admit, run, clean up, and once more for the node that is away


def test_launches_that_share_a_node_are_refused(nodes: LocalNodes) -> None:
    with pytest.raises(ValueError, match="share a node"):
        run_side_by_side(nodes, [launch(nodes, "a"), launch(nodes, "b")])
    assert nodes.asked == []


@pytest.mark.parametrize("token", ["", "a b", "x;rm -rf", "../up", "$(id)"])
def test_a_token_that_could_be_read_as_shell_is_refused(nodes: LocalNodes, token: str) -> None:
    with pytest.raises(ValueError, match="cannot name a launch"):
        launch(nodes, token)


def test_a_clean_up_without_anything_to_clean_is_quiet(nodes: LocalNodes) -> None:
    assert clean_up(nodes, [launch(nodes)]) == {}
