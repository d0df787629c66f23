"""What the region's one identity may do: everything, or what the role in `role.json` of its directory says.

The file holds a role definition as `az role definition create` takes it, or a list of them; it is read anew when it
changes. The fault `permission-denied` takes one action away from every role.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ndctl.sim.arm.action_names import Needed, joined, needed
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.http import Request
from ndctl.sim.arm.region import Body
from ndctl.sim.arm.settings import CLIENT, OBJECT
from ndctl.sim.arm.template import Wanted
from ndctl.sim.faults import FaultBook

_OWNER: Body = {"actions": ["*"], "notActions": [], "dataActions": [], "notDataActions": []}


class Authorization:
    """`path` need not exist: then the identity is an owner."""

    def __init__(self, path: Path, book: FaultBook) -> None:
        self._path = path
        self._book = book
        self._stamp: tuple[int, int] | None = None
        self._asked: dict[str, None] = {}
        self._roles: tuple[Body, ...] = (_OWNER,)

    def permissions(self) -> list[Body]:
        """As Microsoft.Authorization/permissions lists them: one entry a role."""
        self._read()
        taken = [str(fault["action"]) for fault in self._book.of("permission-denied")]
        return [{**role, "notActions": [*role["notActions"], *taken]} for role in self._roles]

    def take_asked(self) -> list[str]:
        """The actions asked for since the last call, each once, in their order."""
        asked, self._asked = list(self._asked), {}
        return asked

    def allows(self, action: str) -> bool:
        self._asked[action] = None
        return any(
            _any_fits(role["actions"], action) and not _any_fits(role["notActions"], action)
            for role in self.permissions()
        )

    def check(self, request: Request) -> None:
        """ArmError 403 AuthorizationFailed, in Azure's words, when a request is not allowed."""
        need = needed(request)
        if need is None or self.allows(need.action):
            return
        raise ArmError(
            403,
            "AuthorizationFailed",
            f"The client '{CLIENT}' with object id '{OBJECT}' does not have authorization to perform action "
            f"'{need.action}' over scope '{need.scope}' or the scope is invalid. If access was recently granted, "
            "please refresh your credentials.",
        )

    def check_template(self, wanted: Iterable[Wanted]) -> None:
        """ArmError 403 when a resource of a template may not be written, or may not use what it names."""
        every = list(wanted)
        refused = [one for one in every if not self.allows(f"{one.rid.type}/write")]
        if refused:
            told = ":".join(
                f"Authorization failed for template resource '{one.rid.name}' of type '{one.rid.type}'. The client "
                f"'{CLIENT}' with object id '{OBJECT}' does not have permission to perform action "
                f"'{one.rid.type}/write' at scope '{one.rid}'."
                for one in refused
            )
            many = "Deployment failed with multiple errors" if len(refused) > 1 else "The template deployment failed"
            raise ArmError(403, "InvalidTemplateDeployment", f"{many}: '{told}'")
        for one in every:
            links = [link for link in joined(one.rid, one.body) if not self.allows(link.action)]
            if links:
                raise _linked(one, links)

    def _read(self) -> None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._stamp, self._roles = None, (_OWNER,)
            return
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp != self._stamp:
            told = json.loads(self._path.read_text(encoding="utf-8"))
            self._roles = tuple(_role(one) for one in (told if isinstance(told, list) else [told]))
            self._stamp = stamp


def _role(told: Mapping[str, Any]) -> Body:
    """Azure CLI takes both spellings, Actions and actions."""
    low = {key[:1].lower() + key[1:]: value for key, value in told.items()}
    return {key: list(low.get(key) or []) for key in _OWNER}


def _any_fits(patterns: Iterable[str], action: str) -> bool:
    return any(
        re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), action, re.IGNORECASE)
        for pattern in patterns
    )


def _linked(one: Wanted, links: list[Needed]) -> ArmError:
    actions = ", ".join(dict.fromkeys(link.action for link in links))
    scopes = ", ".join(link.scope for link in links)
    return ArmError(
        403,
        "LinkedAuthorizationFailed",
        f"The client '{CLIENT}' with object id '{OBJECT}' has permission to perform action '{one.rid.type}/write' on "
        f"scope '{one.rid}'; however, it does not have permission to perform action(s) '{actions}' on the linked "
        f"scope(s) '{scopes}' (respectively) or the linked scope(s) are invalid.",
    )
