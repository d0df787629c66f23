"""Files an inventory names that are not on this machine. They may be on the one that deploys: a warning, no error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ndctl.model.errors import Where

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded

_INLINE = re.compile(r"^(ssh|ecdsa|sk)-\S+ ")


def missing_files(loaded: Loaded) -> Iterator[tuple[Where, str]]:
    """(place in the file, what is missing there)."""
    ssh = loaded.inventory.ssh
    for key, named in (("public_key", ssh.public_key), ("private_key", ssh.private_key)):
        if named is None or _INLINE.match(named):
            continue
        path = loaded.path_of(named)
        if not path.is_file():
            yield loaded.where(f"ssh.{key}"), f"there is no file {path} on this machine"
