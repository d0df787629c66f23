"""From a loaded inventory to templates that can be deployed: every parameter has a value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ndctl.model.errors import ExitCode, NdctlError
from ndctl.render import render

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.render.rendered import Rendered

_USUAL = ("id_ed25519.pub", "id_rsa.pub")  # the kinds that Azure takes


def render_to_deploy(loaded: Loaded, home: Path | None = None) -> Rendered:
    """Render with a public key: the inventory's, else the first usual one of the user.

    Raises NdctlError (exit 2) when nobody has a key, or the inventory names a key file that does not exist.
    """
    setting = loaded.inventory.ssh.public_key
    rendered = render(loaded, _own_key(home or Path.home()) if setting is None else None)
    if rendered.missing_parameters:
        told = " ".join(rendered.notes) if setting else "there is no SSH key in ~/.ssh"
        raise NdctlError(
            "deploy.no-public-key",
            f"no public key for the nodes: {told}",
            hint="make one with: ssh-keygen -t ed25519",
            where=loaded.where("ssh.public_key") if setting else None,
            exit_code=ExitCode.USAGE,
        )
    return rendered


def _own_key(home: Path) -> str | None:
    for name in _USUAL:
        path = home / ".ssh" / name
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None
