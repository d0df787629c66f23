"""What jobs need of a transport, so that they can be tested with none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ndctl.model.answers import Command, NodeAnswer
from ndctl.model.places import Node


class NodeRunner(Protocol):
    """Runs bounded commands on nodes. Implemented by `ssh.engine`; a node that fails is a value."""

    def ask(self, requests: Mapping[Node, Sequence[Command]]) -> Mapping[Node, NodeAnswer]:
        """Ask all nodes side by side; every node in `requests` has an answer."""
        ...

    @property
    def user(self) -> str:
        """The login user on the nodes."""
        ...
