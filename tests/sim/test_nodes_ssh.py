"""The nodes over SSH, asked by paramiko, by asyncssh and by OpenSSH's own programs."""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import asyncssh
import paramiko
import pytest

from ndctl.sim.nodes import forced_command
from ndctl.sim.nodes.server import NodeServer, serve
from ndctl.sim.world import World

T = TypeVar("T")
NODES = 4


def needs(program: str) -> str:
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if found is None:
        if os.environ.get("CI") == "true":
            raise RuntimeError(f"{program} is required under CI")
        pytest.skip(f"{program} is not installed")
    return found


@dataclass
class Region:
    world: World
    server: NodeServer
    loop: asyncio.AbstractEventLoop
    folder: Path
    key: asyncssh.SSHKey

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=30)

    def run(self, node: int, command: str, stdin: str | None = None) -> tuple[int, str, str]:
        async def ask() -> asyncssh.SSHCompletedProcess:
            host = f"127.67.1.{node}"
            async with asyncssh.connect(
                host, self.server.port, username="azureuser", client_keys=[self.key], config=None, agent_path=None,
                known_hosts=asyncssh.import_known_hosts(self.known_hosts()),
            ) as connection:  # fmt: skip
                return await connection.run(command, input=stdin)

        done = self.call(ask())
        status = done.exit_status if done.exit_status is not None else -1
        return status, str(done.stdout), str(done.stderr)

    def known_hosts(self) -> str:
        return "".join(
            f"[{vm.address}]:{self.server.port} {key}\n" for vm in self.world.vms() for key in vm.host_public_keys
        )

    def ssh_arguments(self) -> list[str]:
        (self.folder / "known_hosts").write_text(self.known_hosts())
        return [
            "-F", "none", "-p", str(self.server.port), "-l", "azureuser", "-i", str(self.folder / "id"),
            "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes",
            "-o", f"UserKnownHostsFile={self.folder / 'known_hosts'}",
        ]  # fmt: skip

    def resync(self) -> None:
        self.loop.call_soon_threadsafe(self.server.sync)
        self.call(asyncio.sleep(0))


@pytest.fixture
def region(tmp_path: Path) -> Iterator[Region]:
    with socket.socket() as probe:
        probe.bind(("127.67.1.1", 0))
        port = probe.getsockname()[1]
    key = asyncssh.generate_private_key("ssh-ed25519")
    (tmp_path / "id").touch(mode=0o600)
    (tmp_path / "id").write_bytes(key.export_private_key())
    world = World(tmp_path / "sim", seed="ssh")
    public = key.export_public_key().decode()
    for index in range(1, NODES + 1):
        world.add_vm(
            "lab", 1, index, vmss="v", instance_id=str(index), address=f"127.67.1.{index}", admin_user="azureuser",
            admin_key=public,
        )  # fmt: skip
    world.add_vm(
        "lab", None, 0, vmss="jump", instance_id="0", address="127.67.0.1", admin_user="azureuser", admin_key=public,
        name="jump-1",
    )  # fmt: skip
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(serve(world, port), loop).result(timeout=20)
    try:
        yield Region(world, server, loop, tmp_path, key)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(timeout=20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()


def test_a_script_on_stdin_sees_the_node_and_not_the_machine(region: Region) -> None:
    script = """
    hostname; nproc; echo "$USER"; sudo -n id -u >/dev/null && echo root
    cat "$NDCTL_SYSROOT/sys/class/infiniband/mlx5_ib0/ports/1/rate"
    cat "$NDCTL_SYSROOT/etc/nvidia-imex/nodes_config.cfg" | wc -l
    timeout -k 2 20 nvidia-smi -L | grep -c GB300
    env | grep -c PYTHON
    exit 3
    """
    code, out, err = region.run(2, "sh -s", stdin=script)
    assert code == 3 and err == ""
    assert out.split("\n")[:8] == ["rack01-n02", "128", "azureuser", "root", "800 Gb/sec (4X XDR)", "4", "4", "0"]


def test_answers_are_kept_until_the_model_changes(region: Region) -> None:
    assert region.run(1, "nvidia-smi -L")[1].count("GPU ") == 4
    kept = region.world.trees.folder / "127.67.1.1/answers/nvidia-smi -L"
    assert kept.exists()
    region.world.faults.add("gpu-missing", node="rack01-n01")
    assert region.run(1, "nvidia-smi -L")[1].count("GPU ") == 3
    assert region.run(2, "nvidia-smi -L")[1].count("GPU ") == 4


def test_long_and_slashed_arguments_and_errors_come_through(region: Region) -> None:
    fields = ",".join(["index", "name", "uuid", "serial", "pci.bus_id", "driver_version", "vbios_version"] * 6)
    for _ in range(2):
        code, out, _ = region.run(1, f"nvidia-smi --query-gpu={fields} --format=csv,noheader")
        assert code == 0 and len(out.splitlines()) == 4 and len(out.splitlines()[0].split(", ")) == 42
    code, out, _ = region.run(1, "nvidia-smi --query-gpu=nonsense --format=csv")
    assert code == 2 and "not a valid field" in out
    assert region.run(1, "no-such-tool")[0] == 127
    url = "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01"
    assert '"vmScaleSetName": "v"' in region.run(1, f"curl -s -H Metadata:true '{url}'")[1]


def test_counters_grow_between_two_reads_and_symbol_errors_only_where_planted(region: Region) -> None:
    region.world.faults.add("symbol-errors", node="rack01-n01", port="mlx5_ib2")
    counters = '"$NDCTL_SYSROOT"/sys/class/infiniband/mlx5_ib*/ports/1/counters'
    script = f"grep -H . {counters}/symbol_error {counters}/port_xmit_data; nvidia-smi -L; hostname; echo AGAIN; "
    script += f"grep -H . {counters}/symbol_error {counters}/port_xmit_data"

    def read(text: str) -> dict[str, int]:
        return {m[1]: int(m[2]) for m in re.finditer(r"(mlx5_ib\d/\S+/\w+):(\d+)", text)}

    before, after = map(read, region.run(1, script)[1].split("AGAIN"))
    grown = {name.split("/")[0] for name in before if "symbol" in name and after[name] > before[name]}
    assert grown == {"mlx5_ib2"}
    assert all(after[name] > before[name] for name in before if "xmit" in name)


def test_paramiko_logs_in_with_the_key_and_is_refused_with_another(region: Region) -> None:
    def login(key: paramiko.PKey, user: str = "azureuser") -> str:
        transport = paramiko.Transport(("127.67.1.1", region.server.port))
        try:
            transport.start_client(timeout=10)
            assert (
                transport.get_remote_server_key().get_base64() == region.world.vms()[0].host_public_keys[0].split()[1]
            )
            transport.auth_publickey(user, key)
            channel = transport.open_session(timeout=10)
            channel.exec_command("hostname")
            return channel.makefile().read().decode()
        finally:
            transport.close()

    own = paramiko.Ed25519Key.from_private_key(io.StringIO(region.key.export_private_key().decode()))
    other_text = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    other = paramiko.Ed25519Key.from_private_key(io.StringIO(other_text))
    assert login(own) == "rack01-n01\n"
    with pytest.raises(paramiko.AuthenticationException):
        login(other)
    with pytest.raises(paramiko.AuthenticationException):
        login(own, "root")
    # A job may add an ephemeral key to the node's own authorized_keys, and take it away again.
    line = f'restrict,command="x" {other.get_name()} {other.get_base64()} ephemeral'
    region.run(1, f"printf '%s\\n' '{line}' >>$HOME/.ssh/authorized_keys")
    assert login(other) == "rack01-n01\n"
    region.run(1, "rm $HOME/.ssh/authorized_keys")
    with pytest.raises(paramiko.AuthenticationException):
        login(other)


def test_each_node_has_its_own_host_key_and_a_changed_one_is_another(region: Region) -> None:
    keys = {vm.host_public_keys[0].split()[1] for vm in region.world.vms()}
    assert len(keys) == NODES + 1
    assert region.run(1, "true")[0] == 0
    before = region.world.vm("v", "1").host_public_keys
    region.world.faults.add("ssh-hostkey-changed", node="rack01-n01")
    assert region.world.vm("v", "1").host_public_keys != before
    assert (
        region.run(1, "cat $NDCTL_SYSROOT/etc/ssh/ssh_host_*_key.pub")[1].strip()
        == region.world.vm("v", "1").host_public_keys[0]
    )


def test_run_command_reads_the_host_key_by_its_absolute_path(region: Region) -> None:
    vm = region.world.vm("v", "3")
    code, out, err = region.world.shell(vm, "cat /etc/ssh/ssh_host_*_key.pub\nnvidia-smi -L | wc -l")
    assert (code, err) == (0, "") and out.splitlines() == [vm.host_public_keys[0], "4"]


def test_a_node_that_is_down_refuses_or_says_nothing(region: Region) -> None:
    region.world.faults.add("node-down", node="rack01-n01")
    region.world.faults.add("node-down", node="rack01-n02", how="silent")
    region.resync()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.67.1.1", region.server.port), timeout=5)
    with socket.create_connection(("127.67.1.2", region.server.port), timeout=5) as silent:
        silent.settimeout(0.3)
        with pytest.raises(TimeoutError):
            silent.recv(1)
    assert region.run(3, "true")[0] == 0
    region.world.faults.clear()
    region.resync()
    assert region.run(1, "hostname")[1] == "rack01-n01\n"


def test_vms_come_and_go_while_the_region_is_up(region: Region) -> None:
    region.world.add_vm(
        "lab", 1, 9, vmss="v", instance_id="9", address="127.67.1.9", admin_user="azureuser",
        admin_key=region.key.export_public_key().decode(),
    )  # fmt: skip
    region.resync()
    assert region.run(9, "hostname")[1] == "rack01-n09\n"
    region.world.remove_vm("v", "9")
    region.resync()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.67.1.9", region.server.port), timeout=5)


def test_hung_nvidia_smi_ignores_term_and_falls_to_kill(region: Region) -> None:
    region.world.faults.add("hung-nvidia-smi", node="rack01-n01")
    code, out, _ = region.run(1, "timeout -k 0.2 0.2 nvidia-smi; echo $?; hostname")
    assert code == 0 and out.splitlines() == ["137", "rack01-n01"]


def test_the_command_ends_with_its_connection(region: Region) -> None:
    marker = region.folder / "alive"

    async def leave() -> None:
        connection = await asyncssh.connect(
            "127.67.1.1", region.server.port, username="azureuser", client_keys=[region.key], known_hosts=None,
            config=None, agent_path=None,
        )  # fmt: skip
        process = await connection.create_process(f"echo $$ >{marker}; echo ready; sleep 600")
        assert (await process.stdout.readline()).strip() == "ready"
        connection.abort()

    region.call(leave())
    pid = int(marker.read_text())
    assert _until(lambda: not _alive(pid)), "the command outlived its connection"


def _alive(pid: int) -> bool:
    """Running, and not just waiting to be reaped."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_large_output_and_stderr_come_whole(region: Region) -> None:
    code, out, err = region.run(1, "head -c 3000000 /dev/zero | tr '\\0' x; head -c 500000 /dev/zero | tr '\\0' y >&2")
    assert (code, len(out), len(err)) == (0, 3_000_000, 500_000)


def test_a_jump_host_leads_to_nodes_and_nowhere_else(region: Region) -> None:
    async def through(host: str, port: int) -> str:
        options: dict[str, Any] = {"username": "azureuser", "client_keys": [region.key], "known_hosts": None}
        options |= {"config": None, "agent_path": None}
        async with (
            asyncssh.connect("127.67.0.1", region.server.port, **options) as jump,
            asyncssh.connect(host, port, tunnel=jump, **options) as node,
        ):
            return str((await node.run("hostname")).stdout)

    assert region.call(through("127.67.1.3", region.server.port)) == "rack01-n03\n"
    for host, port in (("127.0.0.1", region.server.port), ("127.67.1.3", 1)):
        with pytest.raises(asyncssh.ChannelOpenError):
            region.call(through(host, port))


def test_jump_host_has_no_gpu_tools(region: Region) -> None:
    async def ask() -> Any:
        async with asyncssh.connect(
            "127.67.0.1", region.server.port, username="azureuser", client_keys=[region.key], known_hosts=None,
            config=None, agent_path=None,
        ) as connection:  # fmt: skip
            return await connection.run("nvidia-smi; echo $?; hostname")

    assert str(region.call(ask()).stdout) == "127\njump-1\n"


class TestMpirun:
    @pytest.fixture
    def head(self, region: Region) -> Callable[..., tuple[int, str, str]]:
        needs("ssh")
        arguments = " ".join(region.ssh_arguments()).replace(" -l azureuser", "")  # mpirun's ssh goes as the login user

        def launch(nodes: list[int], extra: str = "", rsh: str = arguments) -> tuple[int, str, str]:
            hosts = "\\n".join(f"127.67.1.{node} slots=4" for node in nodes)
            command = (
                f"printf '{hosts}\\n' >hosts; mpirun -np {4 * len(nodes)} --map-by ppr:4:node -hostfile hosts "
                f"-mca plm_rsh_no_tree_spawn 1 -mca plm_rsh_args '{rsh}' -mca coll_hcoll_enable 0 --bind-to none "
                f"-x NCCL_DEBUG=INFO -x NCCL_MNNVL_ENABLE=1 {extra} "
                "/opt/nccl-tests/build/all_reduce_perf -b 16G -e 16G -f 2 -g 1"
            )
            return region.run(nodes[0], command)

        return launch

    def test_reaches_every_host_by_the_machines_ssh(self, head: Callable[..., tuple[int, str, str]]) -> None:
        code, out, err = head([1, 2, 3, 4])
        assert (code, err) == (0, "")
        assert out.count("# Using devices") == 1 and "#  Rank 15 Group  0" in out and "via P2P/MNNVL" in out
        assert re.search(r"# Avg bus bandwidth    : \d", out)

    def test_says_what_ssh_says_when_a_host_cannot_be_reached(
        self, region: Region, head: Callable[..., tuple[int, str, str]]
    ) -> None:
        region.world.faults.add("node-down", node="rack01-n03")
        region.resync()
        code, out, err = head([1, 2, 3, 4])
        assert code != 0 and "Avg bus bandwidth" not in out
        assert "127.67.1.3" in err and "Connection refused" in err and "ORTE was unable to reliably start" in err

    def test_an_unknown_host_key_stops_it(self, region: Region, head: Callable[..., tuple[int, str, str]]) -> None:
        strict = " ".join(region.ssh_arguments()).replace("known_hosts", "empty_known_hosts")
        code, out, err = head([1, 2], rsh=strict)
        assert code != 0 and "Host key verification failed" in err and "busbw" not in out


class TestInfiniBandPairs:
    def pair(self, region: Region, server: str, client: str) -> tuple[tuple[int, str, str], tuple[int, str, str]]:
        async def both() -> list[asyncssh.SSHCompletedProcess]:
            async def one(node: int, command: str) -> asyncssh.SSHCompletedProcess:
                async with asyncssh.connect(
                    f"127.67.1.{node}", region.server.port, username="azureuser", client_keys=[region.key],
                    known_hosts=None, config=None, agent_path=None,
                ) as connection:  # fmt: skip
                    if node == 2:
                        while not region.server.tools.waiting():  # the server side has to be there first
                            await asyncio.sleep(0.01)
                    return await connection.run(command)

            return list(await asyncio.gather(one(1, server), one(2, client)))

        done = region.call(both())
        return tuple((p.exit_status or 0, str(p.stdout), str(p.stderr)) for p in done)  # type: ignore[return-value]

    def test_both_sides_print_the_same_row(self, region: Region) -> None:
        options = "-d mlx5_ib1 -s 8388608 --report_gbits -D 5"
        server, client = self.pair(region, f"timeout 20 ib_write_bw {options}", f"ib_write_bw {options} 127.67.1.1")
        assert server[0] == client[0] == 0
        rows = [re.search(r"^ 8388608 +\d+ +\S+ +(\S+)", side[1], re.M) for side in (server, client)]
        assert rows[0] and rows[1] and rows[0][1] == rows[1][1] and 760 < float(rows[0][1]) < 800
        assert "Waiting for client to connect" in server[1] and "Waiting" not in client[1]

    def test_the_layout_is_perftests(self, region: Region) -> None:
        captures = Path(__file__).parents[1] / "captures/perftest"
        options = "-d mlx5_ib0 -s 65536 --report_gbits"
        _, client = self.pair(region, f"timeout 20 ib_write_bw {options}", f"ib_write_bw {options} 127.67.1.1")

        def labels(text: str) -> list[str]:
            lines = text.expandtabs().splitlines()
            return [
                re.sub(r" +", " ", line.split(":")[0].strip()) for line in lines if ":" in line and "GID" not in line
            ]

        real = labels((captures / "write-bw-new-banner.txt").read_text())
        assert labels(client[1]) == real
        for name in ("write-bw-new-banner.txt", "write-bw-gbits.txt"):
            header = next(line for line in (captures / name).read_text().splitlines() if line.startswith(" #bytes"))
            assert header in client[1].splitlines()
        address = next(
            line for line in (captures / "write-bw-gbits.txt").read_text().splitlines() if "local address" in line
        )
        ours = next(line for line in client[1].splitlines() if "local address" in line)
        assert re.sub(r"0x[0-9a-f]+", "#", ours) == re.sub(r"0x[0-9a-f]+", "#", address)

    def test_half_rate_and_other_partition(self, region: Region) -> None:
        region.world.faults.add("port-half-rate", node="rack01-n01", port="mlx5_ib1")
        options = "-d mlx5_ib1 -s 8388608 --report_gbits"
        server, _ = self.pair(region, f"timeout 20 ib_write_bw {options}", f"ib_write_bw {options} 127.67.1.1")
        row = re.search(r"^ 8388608 +\d+ +\S+ +(\S+)", server[1], re.M)
        assert row and 380 < float(row[1]) < 400
        region.world.faults.add("wrong-pkey", node="rack01-n02")
        server, client = self.pair(region, f"timeout 20 ib_write_bw {options}", f"ib_write_bw {options} 127.67.1.1")
        assert client[0] != 0 and "Failed status 12" in client[2] and "8388608" not in client[1]

    def test_no_server_and_a_port_that_is_down(self, region: Region) -> None:
        captures = Path(__file__).parents[1] / "captures/perftest"
        code, _, err = region.run(2, "ib_write_bw -d mlx5_ib1 127.67.1.1")
        real = (captures / "couldnt-connect.txt").read_text()
        assert code != 0 and re.sub(r"[\d.]+:", "#:", err.strip()) == re.sub(r"[\d.]+:", "#:", real.strip())
        region.world.faults.add("port-down", node="rack01-n01", port="mlx5_ib1")
        code, _, err = region.run(1, "ib_write_bw -d mlx5_ib1")
        real_lines = [line.strip() for line in (captures / "port-down.txt").read_text().splitlines()]
        assert code != 0 and [line.strip() for line in err.splitlines()] == real_lines

    def test_a_server_that_is_ended_is_forgotten(self, region: Region) -> None:
        region.run(1, "timeout 0.3 ib_write_bw -d mlx5_ib1")
        assert _until(lambda: not region.server.tools.waiting())
        assert region.run(2, "ib_write_bw -d mlx5_ib1 127.67.1.1")[0] != 0


def test_a_real_sshd_serves_the_same_nodes(tmp_path: Path) -> None:
    sshd, ssh = needs("sshd"), needs("ssh")
    if os.geteuid() != 0 and not Path("/run/sshd").exists():
        pytest.skip("sshd needs /run/sshd")
    Path("/run/sshd").mkdir(exist_ok=True)
    key, host_key = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
    for name, one in (("id", key), ("host", host_key)):
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).write_bytes(one.export_private_key())
    (tmp_path / "authorized_keys").write_bytes(key.export_public_key())
    world = World(tmp_path / "sim")
    for index in (1, 2):
        world.add_vm(
            "lab", 1, index, vmss="v", instance_id=str(index), address=f"127.68.1.{index}", admin_user="u",
            admin_key="ssh-ed25519 A",
        )  # fmt: skip
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    with forced_command.served(world, tmp_path / "node-shell") as command:
        for index in (1, 2):
            # sshd -i speaks on a socket: one connection each, no daemon to leave behind.
            with socket.socket() as listener:
                listener.bind((f"127.68.1.{index}", 0))
                listener.listen(1)
                port = listener.getsockname()[1]
                client = subprocess.Popen(
                    [ssh, "-F", "none", "-p", str(port), "-i", str(tmp_path / "id"), "-o", "IdentitiesOnly=yes",
                     "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-l", user,
                     "-o", f"UserKnownHostsFile={tmp_path / 'known'}", f"127.68.1.{index}",
                     "hostname; nvidia-smi -L; nvidia-smi --query-gpu=index --format=csv,noheader"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )  # fmt: skip
                (tmp_path / "known").write_text(f"[127.68.1.{index}]:{port} {host_key.export_public_key().decode()}")
                listener.settimeout(10)
                connection, _ = listener.accept()
            server = subprocess.Popen(
                [sshd, "-i", "-f", "/dev/null", "-h", str(tmp_path / "host"), "-o", "UsePAM=no", "-o", "StrictModes=no",
                 "-o", f"AuthorizedKeysFile={tmp_path / 'authorized_keys'}", "-o", f"ForceCommand={command}",
                 "-o", "PermitRootLogin=yes", "-o", "PidFile=none"],
                stdin=connection, stdout=connection, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            connection.close()
            out, err = client.communicate(timeout=30)
            server.wait(timeout=10)
            lines = out.splitlines()
            assert client.returncode == 0, err
            assert lines[0] == f"rack01-n0{index}" and len(lines) == 9 and lines[5:] == ["0", "1", "2", "3"]
