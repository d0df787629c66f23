"""The region's process: Resource Manager over HTTPS and the nodes over SSH, in one event loop.

`python -m ndctl.sim.server DIRECTORY` runs in the foreground until SIGTERM or SIGINT. sim.json appears in the
directory when both sides answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from pathlib import Path

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.sim.arm.settings import Settings
from ndctl.sim.state import Running, SimDirectory, read_settings

_SHUTDOWN_S = 1


def listen(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1. NdctlError when the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise NdctlError(
            "sim.port",
            f"port {port} on 127.0.0.1 cannot be had: {error.strerror}",
            hint="--port 0 takes a free one",
            exit_code=ExitCode.USAGE,
        ) from None
    listener.listen(256)
    return listener


def free_ssh_port(wanted: int) -> int:
    """The port nodes listen on, each on an address of its own: it must be free on every loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("0.0.0.0", wanted))
        except OSError as error:
            raise NdctlError(
                "sim.ssh-port",
                f"SSH port {wanted} is not free on all loopback addresses: {error.strerror}",
                hint="--ssh-port 0 takes a free one",
                exit_code=ExitCode.USAGE,
            ) from None
        return int(probe.getsockname()[1])


async def serve(directory: SimDirectory, listener: socket.socket, settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    import uvicorn

    from ndctl.sim.arm.app import ControlPlane
    from ndctl.sim.furnish import furnish, secret_of
    from ndctl.sim.nodes import server as nodes
    from ndctl.sim.world import World

    furnish(directory, settings)
    world = World(directory.path)
    plane = ControlPlane(
        directory.path,
        settings,
        world,
        secret=secret_of(directory.file("signing.key")),
        federated=directory.file("federated.jwt").read_text(),
    )
    config = uvicorn.Config(
        plane.app,
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,  # the region's own clock says it
        ssl_certfile=directory.file("server.pem"),
        timeout_graceful_shutdown=_SHUTDOWN_S,
        timeout_keep_alive=30,
    )
    web = uvicorn.Server(config)
    node_server = await nodes.serve(world, settings.ssh_port)
    task = asyncio.create_task(web.serve(sockets=[listener]))
    # uvicorn would take the signals while it serves and raise them again afterwards; the region ends by itself.
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        while not web.started and not task.done():
            await asyncio.sleep(0.005)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if not task.done():
            directory.say_ready(Running(os.getpid(), settings.endpoint, settings.ssh_port))
        ended = asyncio.create_task(stop.wait())
        await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
    finally:
        web.should_exit = True
        await node_server.close()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        directory.file("sim.json").unlink(missing_ok=True)


def main(path: Path) -> None:
    """Run the region of a directory that has been claimed. NdctlError for ports and locks that cannot be had."""
    directory = SimDirectory(path.absolute())
    directory.need()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    lock = directory.hold()
    try:
        directory.file("sim.json").unlink(missing_ok=True)
        told = read_settings(directory)
        listener = listen(int(told.pop("port")))
        told["ssh_port"] = free_ssh_port(int(told["ssh_port"]))
        told["subscriptions"] = tuple(one.lower() for one in told.get("subscriptions", Settings().subscriptions))
        settings = Settings(**{**told, "endpoint": f"https://127.0.0.1:{listener.getsockname()[1]}"})
        asyncio.run(serve(directory, listener, settings))
    finally:
        os.close(lock)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except NdctlError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        sys.exit(int(error.exit_code))
