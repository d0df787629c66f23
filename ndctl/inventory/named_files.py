"""Files an inventory names that cannot be used on this machine. Another one may deploy: a warning, no error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ndctl.inventory.schema import CustomCloud
from ndctl.model.errors import Where

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

_INLINE = re.compile(r"^(ssh|ecdsa|sk)-\S+ ")
_SIM = "an embedded region writes it: ndctl sim up"
# Key of the inventory -> what to do where its file is not usable.
_ADVICE = {
    "ssh.public_key": "ssh-keygen -t ed25519 makes one; deploying from here needs it",
    "ssh.private_key": "copy it here, or name the one that is; reaching nodes from here needs it",
    "cloud.ca": f"put the CA of the endpoint there ({_SIM}); asking Azure from here needs it",
    "cloud.identity": f"put the identity file there ({_SIM}); signing in from here needs it",
}


def unusable_files(loaded: Loaded) -> Iterator[tuple[Where, str]]:
    """(place in the file, what is wrong there and what to do). A public key's content is judged by `render.keys`."""
    for key, named in _named(loaded):
        path = loaded.path_of(named)
        if wrong := _wrong(path):
            yield loaded.where(key), f"{wrong}: {_ADVICE[key]}"
    known = loaded.inventory.ssh.known_hosts
    if known is not None and (path := loaded.path_of(known)).is_dir():  # a file that is not there yet is made
        yield loaded.where("ssh.known_hosts"), f"{path} is a directory: name a file, in which host keys are kept"


def public_key_file(loaded: Loaded) -> Path | None:
    """The file of `ssh.public_key` where there is one to read."""
    named = dict(_named(loaded)).get("ssh.public_key")
    path = loaded.path_of(named) if named is not None else None
    return None if path is None or _wrong(path) else path


def _named(loaded: Loaded) -> Iterator[tuple[str, str]]:
    ssh, cloud = loaded.inventory.ssh, loaded.inventory.cloud
    given = {"ssh.public_key": ssh.public_key, "ssh.private_key": ssh.private_key}
    if isinstance(cloud, CustomCloud):
        given |= {"cloud.ca": cloud.ca, "cloud.identity": cloud.identity}
    for key, named in given.items():
        if named is not None and not _INLINE.match(named):
            yield key, named


def _wrong(path: Path) -> str:
    try:
        if not path.exists():
            return f"there is no file {path} on this machine"
        if not path.is_file():
            return f"{path} is {'a directory' if path.is_dir() else 'no regular file'}"
        with path.open("rb") as file:
            return "" if file.read(4096).strip() else f"{path} is empty"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror or error})"
