"""Connections that end without an answer: the fault `connection-reset`. Sign-in keeps its connections."""

from __future__ import annotations

from typing import Any

from ndctl.sim.arm.planted import Planted


class Resets:
    """An ASGI application around the control plane's."""

    def __init__(self, inner: Any, planted: Planted) -> None:
        self._inner, self._planted = inner, planted

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/subscriptions"):
            self._planted.refresh()
            if self._planted.resets_connection():
                # uvicorn hands out a bound method of the connection's request cycle, which knows its transport.
                send.__self__.transport.abort()
                return
        await self._inner(scope, receive, send)
