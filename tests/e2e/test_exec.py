"""`ndctl exec` as a person types it: against real OpenSSH, and against the embedded region's nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ndctl.report import schemas
from tests.e2e.lab import Lab
from tests.ssh import sshd

# The node's own address, by which one script is another on each of them.
HERE = "set -- $SSH_CONNECTION; here=$3; "


@dataclass
class Ground:
    """An inventory, and `ndctl` with a state directory of its own."""

    inventory: Path
    state: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "NDCTL_STATE_DIR": str(self.state), "NO_COLOR": "1"}

    def words(self, *arguments: object, verb: str = "exec") -> list[str]:
        return [sys.executable, "-m", "ndctl", verb, str(self.inventory), *map(str, arguments)]

    def ndctl(self, *arguments: object, verb: str = "exec") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*arguments, verb=verb),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def json(self, *arguments: object) -> tuple[dict[str, Any], int]:
        done = self.ndctl("-o", "json", *arguments)
        told = json.loads(done.stdout)
        assert list(Draft202012Validator(schemas.load("exec")).iter_errors(told)) == []
        assert told["exit_code"] == done.returncode
        return told, done.returncode


@pytest.fixture(scope="module")
def open_ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Rack 1: six nodes on one sshd. Rack 2: one node where nobody listens."""
    sshd.require()
    folder = tmp_path_factory.mktemp("exec")
    addresses = [f"127.78.1.{number}" for number in range(1, 7)]
    with sshd.start(folder / "sshd", nodes=addresses) as server:
        inventory = folder / "real.yaml"
        inventory.write_text(
            f"cluster: real\nprofile: gb300\nssh: {{user: {server.user}, port: {server.port}, "
            f"private_key: {server.client_key}, known_hosts: {server.known_hosts}}}\nstatic:\n"
            f"  - {{rack: 1, nodes: [{', '.join(addresses)}]}}\n  - {{rack: 2, nodes: ['127.78.2.1:1']}}\n"
        )
        yield Ground(inventory, folder / "state")


openssh = pytest.mark.xdist_group("openssh")


@openssh
def test_equal_output_once_the_broken_one_last(open_ssh: Ground) -> None:
    done = open_ssh.ndctl("--", HERE + "case $here in *.4) echo odd >&2; exit 3;; esac; echo same")
    assert done.returncode == 7
    first, *rest = done.stdout.split("---- ")[1:]
    assert first == "rack01-n[01-03,05-06]  5 nodes\nsame\n"
    assert rest[0] == "rack01-n04  exit 3\nstderr: odd\n"
    assert rest[1].startswith("rack02-n01  refused: ")
    told = done.stderr.splitlines()
    assert told[0] == "real  7 of 7 nodes: rack01-n[01-06],rack02-n01"
    assert told[-1] == "7 nodes: 5 exit 0, 1 exit 3, 1 refused"


@openssh
def test_folding_and_differences(open_ssh: Ground) -> None:
    script = (
        HERE + "echo at $here; echo 'Serial Number : 16509'${here##*.}; case $here in *.6) echo 17;; *) echo 18;; esac"
    )
    plain = open_ssh.ndctl("--rack", 1, "--", script)
    assert plain.stdout.count("---- ") == 6
    folded = open_ssh.ndctl("--rack", 1, "--fold", "--diff", "--", script)
    assert folded.returncode == 0
    assert folded.stdout == (
        "---- rack01-n[01-05]  5 nodes  equal but for addresses, serial numbers\n"
        "at <address>\nSerial Number : <serial>\n18\n"
        "---- rack01-n06  against rack01-n[01-05]\n"
        "@@ -2,2 +2,2 @@\n Serial Number : <serial>\n-18\n+17\n"
    )


@openssh
def test_what_hurts_is_one_nodes_own_trouble(open_ssh: Ground) -> None:
    """A hang, fifty megabytes, bytes that are no text, a missing command, a child that holds the output open."""
    script = HERE + (
        "case $here in"
        " *.1) sleep 60;;"
        " *.2) head -c 50000000 /dev/zero | tr '\\0' x;;"
        " *.3) printf '\\377\\000\\033[31m';;"
        " *.4) nosuchprogram --flag;;"
        " *.5) (sleep 60 &) ; echo left;;"
        " *) echo fine;; esac"
    )
    began = time.monotonic()
    told, code = open_ssh.json("--timeout", 3, "--rack", 1, "--", script)
    assert time.monotonic() - began < 45
    assert code == 7
    hung, flood, binary, missing, holding, fine = told["nodes"]
    assert (hung["outcome"], hung["exit_code"]) == ("timed-out", None)
    assert "did not end within 3 s" in hung["detail"]
    assert (flood["truncated"], len(flood["stdout"]), flood["outcome"]) == (True, told["cap_bytes"], "ok")
    assert binary["stdout"] == "\\xff\x00\x1b[31m"
    assert (missing["exit_code"], "nosuchprogram" in missing["stderr"]) == (127, True)
    assert (holding["exit_code"], holding["stdout"]) == (0, "left\n")
    assert (fine["exit_code"], fine["stdout"], fine["stderr"]) == (0, "fine\n", "")


@openssh
def test_only_what_was_chosen_is_asked(open_ssh: Ground, tmp_path: Path) -> None:
    mark = tmp_path / "asked"
    mark.mkdir()
    done = open_ssh.ndctl(
        "--nodes", "rack01-n[01-05]!rack01-n02", "--exclude", "*-n05", "--", HERE + f"touch {mark}/$here"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(one.name for one in mark.iterdir()) == ["127.78.1.1", "127.78.1.3", "127.78.1.4"]


@openssh
def test_a_draw_is_told_and_only_it_is_asked(open_ssh: Ground) -> None:
    told, code = open_ssh.json("--rack", 1, "--pick", 2, "--", "true")
    assert (code, len(told["nodes"])) == (0, 2)


@openssh
def test_quotes_and_new_lines_arrive_as_they_are(open_ssh: Ground) -> None:
    told, _ = open_ssh.json("--nodes", "rack01-n01", "--", "printf '%s|' \"a  b\" 'c\"d' \"$((1+1))\"\necho 'é'")
    assert told["nodes"][0]["stdout"] == 'a  b|c"d|2|é\n'
    several, _ = open_ssh.json("--nodes", "rack01-n01", "--", "echo", "$((2+3))", "two")
    assert several["nodes"][0]["stdout"] == "5 two\n"


@openssh
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_the_first_interrupt_lets_running_ones_finish(open_ssh: Ground, tmp_path: Path, sent: signal.Signals) -> None:
    begun = tmp_path / "begun"
    go = tmp_path / "go"
    script = f"touch {begun}; while [ ! -e {go} ]; do sleep 0.05; done; echo finished"
    words = open_ssh.words("--rack", 1, "--fanout", 1, "-o", "json", "--", script)
    running = subprocess.Popen(
        words, env=open_ssh.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        until = time.monotonic() + 60
        while not begun.exists():
            assert time.monotonic() < until and running.poll() is None
            time.sleep(0.02)  # for another program to begin
        running.send_signal(sent)
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("interrupted: "):
                break
        go.touch()
        out, _ = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait(10)
    told = json.loads(out)
    assert (running.returncode, told["exit_code"], told["interrupted"]) == (130, 130, True)
    assert told["nodes"][0]["stdout"] == "finished\n"
    # The node that was next may have been taken before the stop was seen; the one at the end was not.
    assert [one["outcome"] for one in told["nodes"]][-2:] == ["interrupted"] * 2


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    one = Lab(tmp_path_factory.mktemp("exec-lab"), racks=2, nodes=4)
    yield one
    one.close()


@pytest.mark.xdist_group("lab")
def test_a_region_healthy_then_broken_and_its_groups(lab: Lab, tmp_path: Path) -> None:
    ground = Ground(lab.inventory, tmp_path / "state")
    healthy = ground.ndctl("--", "nvidia-smi --query-gpu=name --format=csv,noheader")
    assert healthy.returncode == 0, healthy.stderr
    assert healthy.stdout.startswith("---- rack[01-02]-n[01-04]  8 nodes\nNVIDIA GB300\n")
    serials = ground.ndctl("--fold", "--rack", 1, "--", "nvidia-smi -q | grep -i -e serial -e uuid; uname -n")
    assert serials.returncode == 0 and serials.stdout.count("---- ") == 1, serials.stdout[:3000]

    lab.faults.add("nvlink-down", node="rack01-n02", gpu=1, link=3)
    lab.faults.add("node-down", node="rack02-n03")
    lab.sync()
    try:
        judged = ground.ndctl("--level", "quick", "-o", "json", verb="validate")
        assert judged.returncode == 7, judged.stdout[-2000:]
        run = json.loads(judged.stdout)["run"]
        done = ground.ndctl("--nodes", "@failed", "--", "true")
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines()[:2] == [
            f"lab  @failed: 1 node by run {run}",
            "lab  1 of 8 nodes: rack01-n02",
        ]
        done = ground.ndctl("--nodes", "@incomplete", "--", "true")
        assert done.returncode == 8 and done.stdout.startswith("---- rack02-n03  ")
        done = ground.ndctl("--exclude", "@failed,@incomplete", "--", "true")
        assert done.returncode == 0
        assert "6 of 8 nodes: rack01-n[01,03-04],rack02-n[01-02,04]" in done.stderr
        again = ground.ndctl("--nodes", "@failed", "--level", "quick", verb="validate")
        assert again.returncode == 7 and "lab  1 of 8 nodes: rack01-n02" in again.stderr
        # Now the last run is that one, of one node.
        none = ground.ndctl("--nodes", "@incomplete", "--", "true")
        assert none.returncode == 2 and "leaves no node (@incomplete: 0 nodes by run" in none.stderr
        none = ground.ndctl("--nodes", "@incomplete", "--level", "quick", verb="validate")
        assert none.returncode == 2 and none.stdout == "" and "leaves no node" in none.stderr
    finally:
        lab.faults.clear()
        lab.sync()
