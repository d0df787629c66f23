"""The places in the SDKs' pipelines where calls are paced and counted, and where a token that Azure no longer takes
is renewed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from azure.core.pipeline import PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import HTTPPolicy, RetryPolicy

from ndctl.azure.calls import Call, Tally, call_of
from ndctl.azure.credentials import RenewableCredential
from ndctl.azure.faults import FaultError, fault_from_body
from ndctl.azure.pacing import DEFAULT_HOLD_S, Pace, WaitTooLong

CALL_DEADLINE_S = 300.0  # one call with all its tries and all its waiting
BY_AZURE = "ndctl_by_azure"  # option of a call: type -> how many resources ARM puts for it


class Retries(RetryPolicy[Any, Any]):
    """The SDK's retries, but for 429, which is waited for below it and for all callers at once."""

    def is_retry(self, settings: dict[str, Any], response: PipelineResponse[Any, Any]) -> bool:
        return response.http_response.status_code != 429 and super().is_retry(settings, response)

    def increment(self, settings: dict[str, Any], response: Any = None, error: Any = None) -> bool:
        return not isinstance(error, FaultError) and super().increment(settings, response, error)


class Clock:
    """How far this machine's clock is from Azure's, from the Date of its answers."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self.offset_s = 0.0

    def now(self) -> float:
        """Seconds since 1970 by Azure's clock, to about a second."""
        return self._wall() + self.offset_s

    def heard(self, date: str) -> None:
        at = _http_date(date)
        if at is not None:
            self.offset_s = at - self._wall()


class PacingPolicy(HTTPPolicy[Any, Any]):
    """One per client, since a pipeline strings its policies together; pace, tally and clock are shared."""

    def __init__(self, pace: Pace, tally: Tally, clock: Clock, deadline_s: float = CALL_DEADLINE_S) -> None:
        super().__init__()
        self._pace, self._tally, self._clock, self._deadline_s = pace, tally, clock, deadline_s

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        if BY_AZURE in request.context.options:  # a retry finds it in the context
            request.context[BY_AZURE] = request.context.options.pop(BY_AZURE)
        sent = request.http_request
        by_azure: Mapping[str, int] = request.context.get(BY_AZURE) or {}
        by_azure = by_azure if sent.method == "PUT" else {}
        call = call_of(sent.method, sent.url, by_azure)
        deadline = self._pace.clock() + self._deadline_s
        while True:
            try:
                waited = self._pace.take(call.turn, deadline)
            except WaitTooLong as error:
                raise _throttled(error) from None
            self._tally.sent(call, by_azure, waited)
            response: PipelineResponse[Any, Any] = self.next.send(request)
            headers = response.http_response.headers
            self._clock.heard(headers.get("Date", ""))
            if response.http_response.status_code != 429:
                return response
            self._tally.refused(by_azure)
            seconds = retry_after(headers)
            self._pace.hold(_limited(call, headers), seconds)
            if self._pace.clock() + seconds > deadline:
                return response


class RenewalPolicy(HTTPPolicy[Any, Any]):
    """A token that Azure refuses as expired is renewed once, also when this machine's clock says it is still good."""

    def __init__(self, credential: RenewableCredential) -> None:
        super().__init__()
        self._credential = credential

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        response: PipelineResponse[Any, Any] = self.next.send(request)
        challenge = response.http_response.headers.get("WWW-Authenticate", "")
        if response.http_response.status_code != 401 or "invalid_token" not in challenge:
            return response
        used = request.http_request.headers.get("Authorization", "").removeprefix("Bearer ")
        self._credential.renew(used)
        again: PipelineResponse[Any, Any] = self.next.send(request)
        return again


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds. A date is held against the answer's own Date, since clocks differ."""
    for name, unit in (("retry-after-ms", 0.001), ("x-ms-retry-after-ms", 0.001), ("Retry-After", 1.0)):
        told = headers.get(name, "").strip()
        try:
            return max(0.0, float(told) * unit)
        except ValueError:
            until, now = _http_date(told), _http_date(headers.get("Date", ""))
            if until is not None and now is not None:
                return max(0.0, until - now)
    return DEFAULT_HOLD_S


def _limited(call: Call, headers: Mapping[str, str]) -> tuple[str, ...]:
    """Whose limit was hit. ARM's own when it says that none is left, else the provider's: the narrowest kind."""
    left = headers.get(f"x-ms-ratelimit-remaining-subscription-{call.kind}", "")
    kinds = call.turn.kinds
    return (call.kind,) if left == "0" or len(kinds) == 1 else kinds[-1:]


def _throttled(error: WaitTooLong) -> FaultError:
    message = f"Azure's limit for {error.kind} is used up: the next turn would come in {error.wait_s:.0f} s"
    return FaultError(fault_from_body({"code": "TooManyRequests", "message": message}, status=429))


def _http_date(text: str) -> float | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
