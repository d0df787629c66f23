"""Who uses a node: the real shell with stand-in tools, and every answer that can come of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ndctl.jobs.occupancy import ASKED_FIRST, Occupancy, Use, occupancy, worth_asking_again
from ndctl.jobs.occupancy_commands import COMPUTE_PROCESSES, KUBERNETES, LOAD, SLURM
from ndctl.model.answers import CommandResult, NodeAnswer, Outcome, OutcomeKind
from ndctl.model.places import Node
from tests.jobs.local_nodes import LocalNodes

CAPTURES = Path(__file__).parents[1] / "captures" / "slurm-node"
NODE = Node("rack01-n01", "rack01")


def answer(**texts: str | tuple[int | None, str, str]) -> NodeAnswer:
    """slurm=, kubernetes=, processes=, load=: stdout, or (exit code, stdout, stderr)."""
    ids = {"slurm": SLURM.id, "kubernetes": KUBERNETES.id, "processes": COMPUTE_PROCESSES.id, "load": LOAD.id}
    results = {}
    for key, text in {"processes": "", **texts}.items():
        code, out, err = text if isinstance(text, tuple) else (0, text, "")
        results[ids[key]] = CommandResult(ids[key], code, out, err, timed_out=code is None)
    return NodeAnswer(NODE, Outcome(OutcomeKind.OK), results)


def told(**texts: str | tuple[int | None, str, str]) -> Occupancy:
    return occupancy(answer(**texts))


def slurm(state: str, cpus: int = 0, tres: str = "") -> str:
    return f"NodeName=n CPUAlloc={cpus} CPUTot=128 State={state} CfgTRES=cpu=128 AllocTRES={tres} CapWatts=n/a\n"


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("allocated", Use.BUSY),
        ("mixed", Use.BUSY),
        ("draining", Use.BUSY),
        ("reserved", Use.BUSY),
        ("drained", Use.FREE),
        ("maintenance", Use.FREE),
        ("down", Use.FREE),
    ],
)
def test_real_slurm_lines(name: str, use: Use) -> None:
    assert told(slurm=(CAPTURES / f"{name}.txt").read_text()).use is use


@pytest.mark.parametrize(
    ("state", "use"),
    [
        ("IDLE", Use.FREE),
        ("IDLE+DYNAMIC_NORM", Use.FREE),
        ("IDLE+CLOUD", Use.FREE),
        ("IDLE+CLOUD+POWERED_DOWN", Use.FREE),
        ("DOWN*+CLOUD", Use.FREE),
        ("IDLE+DRAIN+PLANNED", Use.FREE),
        ("FUTURE", Use.FREE),
        ("ALLOCATED*", Use.BUSY),
        ("ALLOCATED+MAINTENANCE", Use.BUSY),
        ("IDLE+COMPLETING", Use.BUSY),
        ("IDLE+COMPLETING+DRAIN", Use.BUSY),
        ("IDLE+PLANNED", Use.BUSY),
        ("IDLE-", Use.BUSY),
        ("IDLE+BLOCKED", Use.BUSY),
        ("IDLE+CLOUD+POWERING_UP", Use.BUSY),
        ("IDLE#", Use.BUSY),
        ("IDLE+DRAIN+REBOOT_ISSUED", Use.BUSY),
        ("IDLE+DRAIN+POWERING_DOWN", Use.BUSY),
        ("UNKNOWN", Use.UNTOLD),
        ("ERROR", Use.UNTOLD),
        ("NEWSTATE+SHINY", Use.UNTOLD),
        ("", Use.UNTOLD),
    ],
)
def test_states_of_slurm(state: str, use: Use) -> None:
    assert told(slurm=slurm(state)).use is use


def test_an_idle_node_whose_cpus_or_gpus_are_still_a_jobs_is_in_use() -> None:
    assert told(slurm=slurm("IDLE", cpus=8)).use is Use.BUSY
    assert told(slurm=slurm("DOWN+DRAIN", tres="gres/gpu=2")).use is Use.BUSY


def test_one_of_several_slurm_nodes_on_a_host_is_enough() -> None:
    assert told(slurm=slurm("IDLE") + slurm("MIXED", cpus=1)).use is Use.BUSY


@pytest.mark.parametrize(
    "text",
    [
        (127, "", ""),
        (1, "Node n not found\n", ""),
        (1, "scontrol: fatal: Could not establish a configuration source\n", ""),
    ],
)
def test_where_slurm_does_not_schedule_the_node_the_processes_decide(text: tuple[int, str, str]) -> None:
    assert told(slurm=text).use is Use.FREE
    assert told(slurm=text, processes="GPU-1, 7, python\n").use is Use.BUSY


@pytest.mark.parametrize(
    "text",
    [
        (None, "", ""),
        (1, "slurm_load_node error: Unable to contact slurm controller (connect failure)\n", ""),
        (1, 'scontrol: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2"\n', ""),
        (0, "", ""),
        (0, "?\n", ""),
    ],
)
def test_a_slurm_that_does_not_tell_is_unknown(text: tuple[int | None, str, str]) -> None:
    assert told(slurm=text).use is Use.UNTOLD


PLUGIN = "pod kube-system/nvidia-device-plugin-daemonset-x7k2p Running cpu=100m memory=64Mi\n"


@pytest.mark.parametrize(
    ("text", "use"),
    [
        (f"node n open\n{PLUGIN}end\n", Use.FREE),
        (f"node n cordoned\ntaint NoSchedule node.kubernetes.io/unschedulable\n{PLUGIN}end\n", Use.FREE),
        (f"node n cordoned\n{PLUGIN}pod ml/train-0 Running nvidia.com/gpu=4\nend\n", Use.BUSY),
        ("node n open\npod ml/train-0 Pending cpu=8 nvidia.com/gpu=4\nend\n", Use.BUSY),
        ("node n open\npod ml/train-0 Succeeded nvidia.com/gpu=4\npod ml/t Failed nvidia.com/gpu=4\nend\n", Use.FREE),
        ("node n open\npod ml/train-0 Running claim=imex-channel\nend\n", Use.BUSY),
        ("node n open\npod ml/net Running rdma/hca=1\nend\n", Use.BUSY),
        ("node n open\npod ml/mig Running nvidia.com/mig-1g.18gb=1\nend\n", Use.BUSY),
        ("node n open\npod ml/fuse Running smarter-devices/fuse=1\nend\n", Use.FREE),
    ],
)
def test_pods(text: str, use: Use) -> None:
    assert told(kubernetes=text).use is use


@pytest.mark.parametrize(
    "text",
    [
        (127, "", ""),
        (78, "", "kubectl is not configured\n"),
        (1, "", "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?\n"),
        (None, "", ""),
        # Pods that may not be listed, or a list that was cut, are no proof that there are none.
        (1, "node n open\n", "Error from server (Forbidden): pods is forbidden\n"),
        (0, f"node n open\n{PLUGIN}", ""),
    ],
)
def test_a_kubectl_that_cannot_tell_leaves_it_to_the_processes(text: tuple[int | None, str, str]) -> None:
    assert told(kubernetes=text) == Occupancy(Use.FREE)
    assert told(kubernetes=text, processes="GPU-1, 7, python\n").use is Use.BUSY


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("", Use.FREE),
        ("GPU-1, 41, /usr/bin/python3\n", Use.BUSY),
        ("[Not Supported]\n", Use.UNTOLD),
        ("No devices were found\n", Use.UNTOLD),
        ((None, "", ""), Use.UNTOLD),
        ((127, "", "sh: nvidia-smi: not found"), Use.UNTOLD),
        ((9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", ""), Use.UNTOLD),
    ],
)
def test_processes(text: str | tuple[int | None, str, str], use: Use) -> None:
    assert told(processes=text).use is use


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("0.21 0.18 0.12 1/1893 20417\n128\n", Use.FREE),
        ("31.9 0 0 1/1893 20417\n128\n", Use.FREE),
        ("32.1 0 0 1/1893 20417\n128\n", Use.BUSY),
        ("3.9 0 0 1/1893 20417\n4\n", Use.FREE),
        ("4.1 0 0 1/1893 20417\n4\n", Use.BUSY),
        ("99.0 0 0 1/1893 20417\n", Use.FREE),  # nproc does not tell: the process number is no count of CPUs
        ("nan 0 0 1/2 3\n128\n", Use.FREE),
        ("", Use.FREE),
        ((1, "", "cat: no such file"), Use.FREE),
    ],
)
def test_load(text: str | tuple[int | None, str, str], use: Use) -> None:
    assert told(load=text).use is use


def test_in_use_counts_more_than_not_told_and_all_who_say_so_are_named() -> None:
    both = told(slurm=slurm("ALLOCATED", 128), processes=(None, "", ""), load="99.0 9 9 1/2 3\n128\n")
    assert both.use is Use.BUSY
    assert both.said.startswith("Slurm says ALLOCATED; its load is 99.0 on 128 CPUs")


def test_a_node_that_says_nothing_is_not_idle() -> None:
    assert occupancy(NodeAnswer(NODE, Outcome(OutcomeKind.TIMED_OUT))).use is Use.UNTOLD


def test_who_told_nothing_is_not_asked_again_and_load_never() -> None:
    assert worth_asking_again([answer(slurm=(127, "", ""), kubernetes=(None, "", ""))]) == (COMPUTE_PROCESSES,)
    some = [answer(slurm=(127, "", "")), answer(slurm=slurm("IDLE"), kubernetes="node n open\nend\n")]
    assert worth_asking_again(some) == (SLURM, KUBERNETES, COMPUTE_PROCESSES)


# --- the shell that asks ---


@pytest.fixture
def nodes(tmp_path: Path) -> LocalNodes:
    """One node whose tools are only those a test gives it, and the machine's basic ones."""
    one = LocalNodes(tmp_path, 1, path="/usr/local/sbin:/usr/sbin:/sbin:/bin:/usr/bin")
    one.tool("nvidia-smi", "exit 0")
    one.tool("hostname", 'case $1 in -I) echo "10.0.0.1 ";; -s) echo host7;; *) echo host7.example;; esac')
    one.tool("kubectl", "exit 1")
    return one


def ask(nodes: LocalNodes) -> Occupancy:
    [node] = nodes.nodes
    return occupancy(nodes.ask({node: list(ASKED_FIRST)})[node])


def test_a_node_of_another_name_is_found_by_its_host(nodes: LocalNodes) -> None:
    nodes.tool(
        "scontrol",
        'case "$*" in "show node host7 -o") echo "Node host7 not found"; exit 1;;'
        ' "show aliases host7") echo "gpu-a gpu-b";;'
        f' "show node gpu-a,gpu-b -o") echo "{slurm("IDLE").strip()}"; echo "{slurm("MIXED", 4).strip()}";; esac',
    )
    nodes.tool("squeue", 'echo "$*" | grep -q gpu-a,gpu-b && echo "JobId=9 UserId=train State=RUNNING JobName=x"')
    assert ask(nodes) == Occupancy(Use.BUSY, "Slurm says MIXED (job 9 of train, x)")


def test_the_controller_is_not_asked_for_its_jobs_where_nothing_is_allocated(nodes: LocalNodes, tmp_path: Path) -> None:
    nodes.tool("scontrol", f'echo "{slurm("IDLE").strip()}"')
    nodes.tool("squeue", f"touch {tmp_path}/asked")
    assert ask(nodes) == Occupancy(Use.FREE, "Slurm says IDLE")
    assert not (tmp_path / "asked").exists()


def test_a_slurmd_that_nobody_can_be_asked_about_is_not_taken_for_idle(nodes: LocalNodes) -> None:
    tasks = nodes.root(nodes.nodes[0]) / "proc"
    for number, name in ((1, "systemd"), (77, "slurmd")):
        (tasks / str(number)).mkdir(parents=True)
        (tasks / str(number) / "comm").write_text(f"{name}\n")
    said = "Slurm does not tell whether it is in use (slurmd runs here, and scontrol does not know its cluster)"
    assert (ask(nodes).use, ask(nodes).said) == (Use.UNTOLD, said)
    nodes.tool("scontrol", "echo 'scontrol: fatal: Could not establish a configuration source' >&2; exit 1")
    assert (ask(nodes).use, ask(nodes).said) == (Use.UNTOLD, said)
    (tasks / "77" / "comm").write_text("sleep\n")
    assert ask(nodes) == Occupancy(Use.FREE)


@pytest.mark.parametrize("shell", [["dash"], ["bash", "--posix"], ["busybox", "sh"]])
def test_the_scripts_are_plain_sh(shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        if os.environ.get("CI") == "true" and shell[0] != "bash":
            raise RuntimeError(f"no {shell[0]} on this machine")
        pytest.skip(f"no {shell[0]} on this machine")
    for command in ASKED_FIRST:
        done = subprocess.run([*shell, "-n"], input=command.shell, text=True, capture_output=True, timeout=20)
        assert (done.returncode, done.stderr) == (0, "")


def test_kubectl_is_not_started_where_it_is_not_configured(nodes: LocalNodes, tmp_path: Path) -> None:
    nodes.tool("kubectl", f"touch {tmp_path}/asked")
    assert ask(nodes) == Occupancy(Use.FREE)
    assert not (tmp_path / "asked").exists()
