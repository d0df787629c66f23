"""The ASGI application: sign-in, headers, planted faults and the request log around the control plane's routes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.applications import Starlette
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import Route

from ndctl.sim.arm.authorization import Authorization
from ndctl.sim.arm.errors import ArmError
from ndctl.sim.arm.http import Answer, Request
from ndctl.sim.arm.ledger import Ledger
from ndctl.sim.arm.limits import Remaining
from ndctl.sim.arm.planted import Planted
from ndctl.sim.arm.refusals import Refusals
from ndctl.sim.arm.region import Region
from ndctl.sim.arm.resets import Resets
from ndctl.sim.arm.routes import Routes
from ndctl.sim.arm.settings import Settings
from ndctl.sim.arm.signin import SignIn
from ndctl.sim.arm.store import Store
from ndctl.sim.arm.work import Work
from ndctl.sim.world import World

log = logging.getLogger("ndctl.sim.arm")
_METHODS = ["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE"]
_MAX_BODY = 8_000_000


class ControlPlane:
    """One region's Resource Manager over one directory. `app` is what a web server serves."""

    def __init__(self, directory: Path, settings: Settings, world: World, *, secret: bytes, federated: str) -> None:
        self.settings = settings
        store = Store(directory / "arm.jsonl")
        book = world.faults
        self.authorization = Authorization(directory / "role.json", book)
        self.region = Region(settings, store, world, Work(store), Planted(book), Refusals(book), self.authorization)
        self.sign_in = SignIn(settings, secret, federated)
        self._routes = Routes(self.region, secret)
        self._ledger = Ledger(directory / "ledger.json")
        self._requests = (directory / "requests.jsonl").open("a", encoding="utf-8")
        self._remaining = Remaining()
        served = Starlette(routes=[Route("/{path:path}", self._serve, methods=_METHODS)], lifespan=self._lifespan)
        self.app = Resets(served, self.region.planted)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        beat = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)
            self._routes.close()
            self.region.store.close()
            self._requests.close()

    async def _beat(self) -> None:
        """The pulse that moves long-running operations on."""
        while True:
            await asyncio.sleep(self.settings.pulse_s)
            if not self.region.work.idle:
                self.region.planted.refresh()
                self.region.work.pulse()
                self._ledger.update(self.region)

    async def _serve(self, web: WebRequest) -> Response:
        begun = time.monotonic()
        request_id = str(uuid.uuid4())
        # The raw path keeps "%2F" apart from "/".
        path = unquote(web.scope.get("raw_path", b"").decode("ascii", "replace") or web.url.path)
        query = {key.lower(): value for key, value in parse_qsl(web.url.query, keep_blank_values=True)}
        request = Request(web.method, path, tuple(part for part in path.split("/") if part), query, await web.body())
        try:
            answer = self._answer(web, request)
        except ArmError as error:
            answer = Answer(error.status, error.body, error.headers)
        except Exception as error:
            log.exception("%s %s", web.method, path)
            body = {"error": {"code": "InternalServerError", "message": f"simulator: {type(error).__name__}: {error}"}}
            answer = Answer(500, body)
        self._note(web.method, path, query, answer, request_id, time.monotonic() - begun)
        return self._response(web, answer, request_id)

    def _answer(self, web: WebRequest, request: Request) -> Answer:
        if len(request.text) > _MAX_BODY:
            raise ArmError(413, "RequestContentTooLarge", "The request content size exceeds the maximum size.")
        low = request.lower
        if low[1:] == ("v2.0", ".well-known", "openid-configuration"):
            return Answer(200, self.sign_in.openid_configuration(request.parts[0]))
        if low[1:] == ("oauth2", "v2.0", "token") and request.method == "POST":
            form = dict(parse_qsl(request.text.decode("utf-8", "replace")))
            return Answer(*self.sign_in.token(request.parts[0], form))
        if low[:1] == ("bootdiagnostics",):
            return self._routes.console(request)
        self.region.planted.refresh()
        self.sign_in.check(web.headers.get("authorization", ""), self.region.planted.ends_tokens())
        instead = self.region.planted.answer_instead(request.method, request.path)
        if instead is None:
            instead = self.region.refusals.answer(request.method, request.path)
        if instead is not None:
            raise instead
        if "api-version" not in request.query:
            raise ArmError(
                400,
                "MissingApiVersionParameter",
                "The api-version query parameter (?api-version=) is required for all requests.",
            )
        self.authorization.check(request)
        return self._routes.serve(request)

    def _response(self, web: WebRequest, answer: Answer, request_id: str) -> Response:
        headers = {
            "Date": formatdate(time.time() + self.region.planted.clock_ahead_s(), usegmt=True),
            "Cache-Control": "no-cache",
            "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
            "x-ms-request-id": request_id,
            "x-ms-correlation-request-id": web.headers.get("x-ms-correlation-request-id", request_id),
            "x-ms-routing-request-id": f"SIMREGION:{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}:{request_id}",
            **self._remaining.headers(web.method, web.url.path),
            **answer.headers,
        }
        client_id = web.headers.get("x-ms-client-request-id")
        if client_id and web.headers.get("x-ms-return-client-request-id", "").lower() == "true":
            headers["x-ms-client-request-id"] = client_id
        if answer.body is None or web.method == "HEAD":
            return Response(None, answer.status, headers)
        if isinstance(answer.body, str):
            return Response(answer.body, answer.status, headers, media_type="text/plain; charset=utf-8")
        return Response(json.dumps(answer.body), answer.status, headers, media_type="application/json; charset=utf-8")

    def _note(
        self, method: str, path: str, query: dict[str, str], answer: Answer, request_id: str, seconds: float
    ) -> None:
        """One line a request; no header, no body and no signature, so no secret can be in it."""
        entry: dict[str, Any] = {
            "time": round(time.time(), 3),
            "method": method,
            "path": path,
            "api_version": query.get("api-version", ""),
            "status": answer.status,
            "ms": round(seconds * 1000, 1),
            "request_id": request_id,
        }
        if asked := self.authorization.take_asked():
            entry["actions"] = asked
        if isinstance(answer.body, dict) and isinstance(answer.body.get("error"), dict):
            entry["error"] = answer.body["error"].get("code", "")
        self._requests.write(json.dumps(entry) + "\n")
        self._requests.flush()
