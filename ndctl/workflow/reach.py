"""The way to a cluster's nodes as other programs take it: resolved, so that it means the same without ndctl."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ndctl.report.host_lists import JumpHost, Reach
from ndctl.workflow.jump_hosts import learn_jump_host
from ndctl.workflow.transport import ssh_settings

if TYPE_CHECKING:
    from ndctl.inventory.loader import Loaded
    from ndctl.ssh.settings import Hop, SshSettings
    from ndctl.ssh.user_config import UserConfig


def reach_of(loaded: Loaded) -> Reach:
    """As the ssh room would go there: the inventory's words first, then the user's ssh_config for jump hosts.

    The jump VM that ndctl deploys is learned from Azure when it is not known yet. Raises NdctlError: 3 identity,
    4 when there is no jump VM.
    """
    from ndctl.ssh.user_config import UserConfig

    learn_jump_host(loaded)
    settings = ssh_settings(loaded, fanout=1)
    config = UserConfig.load(settings.user_config) if settings.user_config else UserConfig()
    return Reach(
        user=settings.user,
        identity_files=_absolute(settings.private_keys),
        known_hosts=_absolute(settings.known_hosts),
        jumps=tuple(tuple(_jump(hop, settings, config) for hop in chain) for chain in settings.jumps),
    )


def _jump(hop: Hop, settings: SshSettings, config: UserConfig) -> JumpHost:
    own = config.lookup(hop.host)
    return JumpHost(
        host=own.host_name or hop.host,
        user=hop.user or own.user or settings.user,
        port=hop.port or own.port or 22,
        identity_files=_absolute(own.identity_files or settings.private_keys),
        known_hosts=_absolute(own.known_hosts or settings.known_hosts),
    )


def _absolute(files: Sequence[Path]) -> tuple[Path, ...]:
    """The text is read from other folders than the one ndctl was started in."""
    return tuple(Path(os.path.abspath(file)) for file in files)
