"""The nodes' SSH servers: one listener per address, each with its VM's own host key, in the simulator's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import socket
import time
from typing import Any

import asyncssh

from ndctl.sim.nodes import shell
from ndctl.sim.nodes.service import ToolService
from ndctl.sim.world import VM, World
from ndctl.sim.world.ssh_fate import ssh_fate

# What paramiko, OpenSSH and asyncssh all offer, cheapest first; sntrup761 costs OpenSSH clients 90 ms of CPU.
_KEX = ("curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256", "diffie-hellman-group14-sha256")
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")
_RESYNC_S = 0.2
_LOGIN_S = 30.0


class NodeServer:
    """Serves all VMs of a world; new VMs get their listener within a moment, removed ones lose it."""

    def __init__(self, world: World, port: int) -> None:
        self.world = world
        self.port = port
        self.trees = world.trees
        self.tools = ToolService(world, self.trees)
        self._listeners: dict[str, socket.socket] = {}
        self._options: dict[tuple[str, str], asyncssh.SSHServerConnectionOptions] = {}
        self._silent: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._version = -1
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        _raise_file_limit()
        await self.tools.start()
        self.sync()
        self._watch = asyncio.create_task(self._keep_in_step())

    async def close(self) -> None:
        """End every listener, connection and command."""
        if self._watch is not None:
            self._watch.cancel()
        for address in list(self._listeners):
            self._unlisten(address)
        for connection in self._silent:
            connection.close()
        self._silent.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.tools.stop()

    def sync(self) -> None:
        """Listeners as the world wants them now. A node that is down refuses connections: it has no listener."""
        version = self.world.version
        if version == self._version:
            return
        self._version = version
        wanted = {}
        for vm in self.world.vms():
            if ssh_fate(self.world, vm) != "refused":
                wanted[vm.address] = vm
        for address in set(self._listeners) - set(wanted):
            self._unlisten(address)
        for address in set(wanted) - set(self._listeners):
            self._listen(address)

    async def _keep_in_step(self) -> None:
        while True:
            await asyncio.sleep(_RESYNC_S)
            self.sync()

    def _listen(self, address: str) -> None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        try:
            listener.bind((address, self.port))
            listener.listen(128)
        except OSError:
            listener.close()
            raise
        self._listeners[address] = listener
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _unlisten(self, address: str) -> None:
        listener = self._listeners.pop(address)
        asyncio.get_running_loop().remove_reader(listener)
        listener.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # the client was gone before it was taken
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        vm = self.world.vm_at(connection.getsockname()[0])
        fate = ssh_fate(self.world, vm) if vm is not None else "refused"
        if vm is None or fate == "refused":
            connection.close()
            return
        if fate == "silent":
            self._silent.add(connection)  # accepts, and never says a word
            return
        server = None
        try:
            server = await asyncssh.run_server(connection, options=await self._options_for(vm))
            await server.wait_closed()
        except (OSError, asyncssh.Error, asyncio.IncompleteReadError):
            pass  # a client that went away or failed to log in: its own story
        except asyncio.CancelledError:
            if server is not None:
                server.abort()
            raise
        finally:
            with contextlib.suppress(OSError):
                connection.close()

    async def _options_for(self, vm: VM) -> asyncssh.SSHServerConnectionOptions:
        key = (vm.address, vm.host_public_keys[0])
        options = self._options.get(key)
        if options is None:
            options = asyncssh.SSHServerConnectionOptions(
                server_factory=lambda: NodeLogin(self, vm.address),
                server_host_keys=[asyncssh.import_private_key(vm.host_private_key)],
                process_factory=self._process,
                encoding=None,
                kex_algs=list(_KEX),
                encryption_algs=list(_CIPHERS),
                compression_algs=["none"],
                password_auth=False,
                kbdint_auth=False,
                host_based_auth=False,
                gss_host=None,
                allow_pty=True,
                agent_forwarding=True,
                x11_forwarding=False,
                login_timeout=_LOGIN_S,
                server_version="OpenSSH_9.6p1-ndctl-sim",
            )
            self._options[key] = options
        return options

    async def _process(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        address = process.get_extra_info("sockname")[0]
        vm = self.world.vm_at(address)
        if vm is None:
            process.exit(255)
            return
        peer = process.get_extra_info("peername")
        connection = f"{peer[0]} {peer[1]} {address} {self.port}"
        extra = {"SSH_CONNECTION": connection}
        if agent := process.channel.get_agent_path():
            extra["SSH_AUTH_SOCK"] = agent
        child = await shell.start(self.trees, vm, process.command, extra)
        try:
            await _wire(process, child)
        finally:
            shell.end(child)


class NodeLogin(asyncssh.SSHServer):
    """Who may log in to one node: its admin user with a key of the VM or of the node's own authorized_keys."""

    def __init__(self, server: NodeServer, address: str) -> None:
        self._server = server
        self._address = address

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        vm = self._server.world.vm_at(self._address)
        if vm is None or username != vm.admin_user:
            return False
        broken = self._server.world.node_fault(vm, "sshd-broken")
        if broken is not None and broken["how"] == "key-missing":
            return False
        offered = key.public_data
        for line in self._server.trees.authorized_keys(vm):
            if _expired(line, self._server.world.clock()):
                continue
            with contextlib.suppress(asyncssh.KeyImportError):
                if asyncssh.import_public_key(_without_options(line)).public_data == offered:
                    return True
        return False

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        """direct-tcpip to this region's own addresses only."""
        return self._server.world.vm_at(dest_host) is not None and dest_port == self._server.port


def _expired(line: str, now: float) -> bool:
    """Whether the line's expiry-time option, local time to the minute or second, has passed."""
    found = re.search(r'expiry-time="(\d{12,14})"', line)
    return found is not None and time.strftime("%Y%m%d%H%M%S", time.localtime(now)) > found[1].ljust(14, "0")


def _without_options(line: str) -> str:
    """A line of authorized_keys without the options in front of the key type."""
    words = line.split()
    start = next((i for i, word in enumerate(words) if word.startswith(("ssh-", "ecdsa-", "sk-"))), 0)
    return " ".join(words[start : start + 2])


async def _wire(process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process) -> None:
    """Carry the three streams until the command has ended and said all it had to say."""
    stdin, stdout, stderr = child.stdin, child.stdout, child.stderr
    assert stdin is not None and stdout is not None and stderr is not None

    async def feed() -> None:
        with contextlib.suppress(ConnectionError, asyncssh.Error):
            while data := await process.stdin.read(65536):
                stdin.write(data)
                await stdin.drain()
        stdin.close()

    async def drain(source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()

    async def gone() -> None:
        await process.channel.wait_closed()

    feeding = asyncio.create_task(feed())
    leaving = asyncio.create_task(gone())
    working = asyncio.gather(drain(stdout, process.stdout), drain(stderr, process.stderr))
    try:
        both: set[asyncio.Future[Any]] = {working, leaving}
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if leaving in done:
            return
        await working
        code = await child.wait()
        if code < 0:
            process.exit_with_signal(_SIGNALS.get(-code, "TERM"))
        else:
            process.exit(code)
    except (ConnectionError, asyncssh.Error):
        pass  # the client closed the channel
    finally:
        for task in (feeding, leaving):
            task.cancel()
        working.cancel()
        await asyncio.gather(feeding, leaving, working, return_exceptions=True)


_SIGNALS = {1: "HUP", 2: "INT", 6: "ABRT", 9: "KILL", 11: "SEGV", 13: "PIPE", 15: "TERM"}


def _raise_file_limit() -> None:
    """A listener and a few pipes per node: the usual soft limit of 1,024 files is too low for a region."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 65536) if hard != resource.RLIM_INFINITY else 65536
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def serve(world: World, port: int) -> NodeServer:
    """Serve every VM of the world on `port` of its own address, now and as they come and go.

    OSError if an address cannot be bound. `await server.close()` ends it all.
    """
    server = NodeServer(world, port)
    try:
        await server.start()
    except OSError:
        await server.close()
        raise
    return server
