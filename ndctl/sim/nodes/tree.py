"""A node's folder: its root, its home, and the answers already given, kept in step with the model."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from ndctl.sim.nodes import scripts, sysroot
from ndctl.sim.tools import registry
from ndctl.sim.tools.answer import Answer, not_found
from ndctl.sim.world import VM, World
from ndctl.sim.world.view import NodeView

# Counters that move between two reads of one script, a little with every tool called in between.
_TICKING = ("port_xmit_data", "port_rcv_data", "symbol_error")
_POPULAR_LIMIT = 48
# Where Azure's HPC images have them.
_BURN_IN = (
    "usr/libexec/datacenter-gpu-manager-4/plugins/cuda13/updated/ubergemm",
    "opt/nvidia/nvbandwidth/nvbandwidth",
)


class NodeTrees:
    """Folders of all nodes under `<world directory>/nodes/<address>`; thread-safe."""

    def __init__(self, world: World, socket_path: str) -> None:
        self.world = world
        self.socket_path = socket_path
        self.folder = world.directory / "nodes"
        here = Path(__file__).parent
        self.bin = scripts.install(world.directory / "bin", here / "client.py", here / "mpirun.py")
        self._lock = threading.RLock()
        self._done: dict[str, tuple[int, str]] = {}  # address -> (version, signature) its folder shows
        self._touched: dict[str, float] = {}
        self._popular: dict[str, tuple[str, Sequence[str]]] = {}

    def prepare(self, vm: VM) -> Path:
        """The node's folder, brought up to date. Cheap when nothing changed."""
        folder = self.folder / vm.address
        with self._lock:
            now = self.world.clock()
            version = self.world.version
            done = self._done.get(vm.address)
            if done is None or done[0] != version:
                view = self.world.node(vm) if vm.has_gpus else None
                signature = hashlib.sha256(repr((vm, view)).encode()).hexdigest()
                if done is None or done[1] != signature:
                    self._render(vm, view, folder, now)
                self._done[vm.address] = (version, signature)
                self._touched[vm.address] = now
            elif vm.has_gpus and now - self._touched[vm.address] > 1.0:
                self._let_time_pass(self.world.node(vm), folder, now - self._touched[vm.address], now)
                self._touched[vm.address] = now
        return folder

    def environment(self, vm: VM, folder: Path) -> dict[str, str]:
        """What a command on the node finds in its environment, and nothing of the machine's."""
        home = folder / "home"
        return {
            "PATH": f"{folder}/bin:{self.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(home),
            "USER": vm.admin_user,
            "LOGNAME": vm.admin_user,
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "TMPDIR": str(folder / "tmp"),
            "NDCTL_SYSROOT": str(folder / "root"),
            "NDCTL_SIM_NODE": str(folder),
            "NDCTL_SIM_ADDRESS": vm.address,
            "NDCTL_SIM_SOCKET": self.socket_path,
        }

    def authorized_keys(self, vm: VM) -> list[str]:
        """Key lines that may log in: the VM's own and those in its home."""
        lines = vm.admin_key.splitlines()
        extra = self.folder / vm.address / "home/.ssh/authorized_keys"
        if extra.exists():
            lines += extra.read_text().splitlines()
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]

    def answer(self, vm: VM, key: str, tool: str, arguments: Sequence[str]) -> Answer:
        """Ask the model, and keep the answer in the node's folder where it may be kept."""
        if not vm.has_gpus and tool not in ("hostname", "uname", "nproc"):
            return not_found(tool)
        answer = registry.answer(tool, self.world.node(vm), list(arguments), self.world.clock())
        if answer.keep and answer.code == 0 and not answer.err and key:
            with self._lock:
                if len(self._popular) < _POPULAR_LIMIT:
                    self._popular[key] = (tool, tuple(arguments))
                self._keep(self.folder / vm.address, key, answer.out)
        return answer

    def _render(self, vm: VM, view: NodeView | None, folder: Path, now: float) -> None:
        home = folder / "home"
        (home / ".ssh").mkdir(parents=True, exist_ok=True)
        (home / ".ssh").chmod(0o700)
        (folder / "tmp").mkdir(exist_ok=True)
        answers = folder / "answers"
        shutil.rmtree(answers, ignore_errors=True)
        answers.mkdir()
        root = folder / "root"
        # Locks that jobs hold outlive a change of the model, and no boot.
        _empty(root, but="run" if _booted_as(root) in ("", vm.boot_id) else "")
        (root / "run/lock").mkdir(parents=True, exist_ok=True)
        for index, line in enumerate(vm.host_public_keys):
            kind = line.split()[0].removeprefix("ssh-")
            _write(root / f"etc/ssh/ssh_host_{kind}{index or ''}_key.pub", line + "\n")
        if view is None:
            _write(root / "etc/hostname", vm.hostname + "\n")
            return
        for path, content in sysroot.files(view, now):
            _write(root / path, content)
        for path in (*sysroot.perf_tools(view), *_BURN_IN):
            scripts.link_tool(self.bin, root / path)
        hang = folder / "hang"
        shutil.rmtree(hang, ignore_errors=True)
        hang.mkdir()
        for tool in view.hangs:
            _write(hang / tool, "")
        self._install(view, folder)
        _write(folder / "tick", _tick(view))
        for key, (tool, arguments) in self._popular.items():
            answer = registry.answer(tool, view, list(arguments), now)
            if answer.keep and answer.code == 0 and not answer.err:
                self._keep(folder, key, answer.out)

    def _install(self, view: NodeView, folder: Path) -> None:
        """The tools that only this node has, before all others on its PATH; kubectl is asked where it is configured."""
        shutil.rmtree(folder / "bin", ignore_errors=True)
        (folder / "bin").mkdir()
        for tool in view.schedulers.tools:
            scripts.link_tool(self.bin, folder / "bin" / tool)
        config = folder / "home/.kube/config"
        config.unlink(missing_ok=True)
        if view.schedulers.kubernetes:
            _write(config, "apiVersion: v1\nkind: Config\n")

    def _keep(self, folder: Path, key: str, text: str) -> None:
        path = folder / "answers" / key
        temporary = folder / "answers" / f".{os.getpid()}.{threading.get_ident()}"
        try:
            temporary.write_text(text)
            temporary.replace(path)
        except FileNotFoundError:
            return  # the folder is being rendered anew: the next call asks again

    def _let_time_pass(self, view: NodeView, folder: Path, seconds: float, now: float) -> None:
        root = folder / "root"
        for port in view.ports:
            for name, per_second in port.growth.items():
                path = root / sysroot.counter_folder(port, name)
                value = int(path.read_text() or 0)
                _write(path, f"{value + max(1, int(per_second * min(seconds, 3600)))}\n")
        _write(root / "proc/uptime", f"{now - view.booted:.2f} {(now - view.booted) * view.shape.vcpus:.2f}\n")


def _tick(view: NodeView) -> str:
    """sh text that moves the ticking counters on, with builtins only."""
    lines = []
    for port in view.ports:
        for name in _TICKING:
            if port.growth.get(name):
                step = max(1, port.growth[name] // 16)
                path = f'"$NDCTL_SYSROOT/{sysroot.counter_folder(port, name)}"'
                lines.append(f"read c <{path} && echo $((c + {step})) >{path}\n")
    return "".join(lines)


def _booted_as(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _empty(folder: Path, *, but: str) -> None:
    """Remove what is in a folder, all but one entry; "": all of it."""
    for entry in folder.iterdir() if folder.exists() else ():
        if entry.name != but:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _write(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    try:
        with open(path, "wb") as file:
            file.write(data)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
