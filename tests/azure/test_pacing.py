"""One pace for all clients: buckets of the published limits, and one clock for everybody after a 429."""

from __future__ import annotations

import threading

import pytest
from azure.core.exceptions import AzureError
from azure.core.pipeline import Pipeline
from azure.core.pipeline.transport import HttpTransport
from azure.core.rest import HttpRequest

from ndctl.azure.calls import Calls, Tally, call_of
from ndctl.azure.faults import FaultError, fault_from_exception
from ndctl.azure.pacing import READS, SCALE_SET_PUTS, WRITES, Limit, Pace, Turn, WaitTooLong, pace_for
from ndctl.azure.pacing_policy import BY_AZURE, Clock, PacingPolicy, Retries, retry_after
from ndctl.checks.azure_errors import FaultClass

GROUP = "https://management.azure.com/subscriptions/s/resourceGroups/g"
COMPUTE = f"{GROUP}/providers/Microsoft.Compute"


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds


def pace(time: Time, speed: float = 1.0, **limits: Limit) -> Pace:
    return Pace(speed=speed, limits=limits, limits_of_one={}, clock=time.clock, sleep=time.sleep)


def turn(*kinds: str, count: int = 1) -> Turn:
    return Turn(tuple((kind, "", count) for kind in kinds))


def test_a_burst_is_free_and_what_follows_comes_at_the_rate_of_refilling() -> None:
    time = Time()
    one = pace(time, reads=Limit(10, 60))
    for _ in range(10):
        assert one.take(turn("reads"), time.now + 100) == 0
    began = time.now
    for _ in range(30):
        one.take(turn("reads"), time.now + 100)
    assert time.now - began == pytest.approx(30)
    time.now += 1000  # idle: full again, and not fuller than full
    assert sum(one.take(turn("reads"), time.now + 100) > 0 for _ in range(12)) == 2


def test_an_embedded_region_fills_the_buckets_as_much_faster_as_it_lives() -> None:
    time = Time()
    one = pace(time, speed=40, reads=Limit(1, 60))
    one.take(turn("reads"), time.now + 100)
    assert one.take(turn("reads"), time.now + 100) == pytest.approx(1 / 40)


def test_after_a_429_nobody_of_that_kind_asks_before_its_time_and_others_go_on() -> None:
    time = Time()
    one = pace(time, reads=Limit(250, 1500), writes=Limit(200, 600))
    one.hold(["reads"], 30)
    assert one.take(turn("writes"), time.now + 100) == 0
    began = time.now
    for _ in range(5):
        one.take(turn("reads"), time.now + 100)
    # The first waits for the clock; then they come one after another at 25 a second and not all at once.
    assert time.now - began == pytest.approx(30 + 5 / 25)


def test_a_hold_that_comes_while_one_waits_holds_it_too() -> None:
    time = Time()
    one = pace(time, reads=Limit(1, 60))
    one.take(turn("reads"), time.now + 100)
    sleep = time.sleep

    def told_meanwhile(seconds: float) -> None:
        if not time.slept:
            one.hold(["reads"], 20)
        sleep(seconds)

    one._sleep = told_meanwhile
    began = time.now
    one.take(turn("reads"), time.now + 100)
    assert time.now - began >= 20


def test_a_turn_after_the_deadline_is_refused_at_once_and_takes_nothing() -> None:
    time = Time()
    one = pace(time, reads=Limit(1, 1))
    one.take(turn("reads"), time.now + 10)
    for _ in range(3):
        with pytest.raises(WaitTooLong, match="reads"):
            one.take(turn("reads"), time.now + 10)
    assert time.slept == []
    time.now += 60
    assert one.take(turn("reads"), time.now + 10) == 0


def test_many_workers_together_keep_the_limit() -> None:
    one = Pace(limits={"reads": Limit(50, 60 * 1000)}, limits_of_one={})
    taken: list[float] = []

    def work() -> None:
        for _ in range(25):
            one.take(turn("reads"), one.clock() + 60)
            taken.append(one.clock())

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    taken.sort()
    assert len(taken) == 200
    # 50 at once, 150 more at 1,000 a second.
    assert taken[-1] - taken[0] >= 0.14
    for index in range(51, 200):
        assert index - 50 <= (taken[index] - taken[0]) * 1000 + 2


def test_one_pace_for_a_subscription_whoever_asks() -> None:
    assert pace_for("https://a", "S") is pace_for("https://A", "s")
    assert pace_for("https://a", "S") is not pace_for("https://a", "T")


@pytest.mark.parametrize(
    ("method", "url", "kind", "type_", "also"),
    [
        ("GET", GROUP, READS, "Microsoft.Resources/resourceGroups", []),
        ("POST", f"{GROUP}/providers/Microsoft.Resources/deployments/d/whatIf", WRITES, None, []),
        ("GET", f"{COMPUTE}/virtualMachineScaleSets?api-version=1", READS, None, ["scale-set lists"]),
        (
            "GET",
            f"{COMPUTE}/virtualMachineScaleSets/a/virtualMachines?x=1",
            READS,
            "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
            ["scale-set lists of a", "scale-set lists"],
        ),
        ("PUT", f"{COMPUTE}/virtualMachineScaleSets/a", WRITES, None, ["scale-set PUTs of a", "scale-set PUTs"]),
        ("PATCH", f"{COMPUTE}/virtualMachineScaleSets/a", WRITES, None, ["scale-set PUTs of a", "scale-set PUTs"]),
        ("POST", f"{COMPUTE}/virtualMachineScaleSets/a/virtualMachines/3/reimage", WRITES, None, ["VM updates of 3"]),
        ("DELETE", f"{COMPUTE}/virtualMachineScaleSets/a", "deletes", None, []),
        ("GET", "https://m/subscriptions/s/operationresults/5", READS, None, []),
    ],
)
def test_what_a_request_counts_against(method: str, url: str, kind: str, type_: str | None, also: list[str]) -> None:
    call = call_of(method, url, {})
    assert call.kind == kind and type_ in (None, call.type)
    told = [f"{k} of {one.rpartition('/')[2]}" if one else k for k, one, _ in call.turn.takes]
    assert told == [kind, *also]


def test_the_scale_sets_of_a_deployment_count_as_well() -> None:
    url = f"{GROUP}/providers/Microsoft.Resources/deployments/d"
    call = call_of("PUT", url, {"Microsoft.Compute/virtualMachineScaleSets": 2, "Microsoft.Compute/x": 1})
    assert call.turn.takes == ((WRITES, "", 1), (SCALE_SET_PUTS, "", 2))


class Answers(HttpTransport):  # type: ignore[type-arg]
    """Answers from a list: (status, headers)."""

    def __init__(self, *answers: tuple[int, dict[str, str]]) -> None:
        self.answers, self.asked = list(answers), 0

    def send(self, request: HttpRequest, **options: object) -> object:
        assert BY_AZURE not in options, "an option of ours reached the transport"
        self.asked += 1
        status, headers = self.answers.pop(0)

        class Response:
            status_code = status
            content_type = "application/json"

        response = Response()
        response.headers = headers  # type: ignore[attr-defined]
        response.request = request  # type: ignore[attr-defined]
        return response

    def sleep(self, duration: float) -> None:
        raise AssertionError("the SDK waits by itself")

    def open(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *args: object) -> None: ...


def run(time: Time, transport: Answers, *, method: str = "PUT", deadline_s: float = 300) -> tuple[int, Calls]:
    tally = Tally()
    policy = PacingPolicy(Pace(clock=time.clock, sleep=time.sleep), tally, Clock(time.clock), deadline_s)
    pipeline: Pipeline[HttpRequest, object] = Pipeline(transport, [Retries(), policy])  # type: ignore[arg-type]
    request = HttpRequest(method, f"{GROUP}/providers/Microsoft.Resources/deployments/d")
    put = {"Microsoft.Compute/virtualMachineScaleSets": 1}
    answer = pipeline.run(request, **{BY_AZURE: put})  # type: ignore[arg-type]
    return answer.http_response.status_code, tally.calls()  # type: ignore[attr-defined]


def test_a_429_is_waited_for_in_one_place_and_counted() -> None:
    time = Time()
    busy = (429, {"Retry-After": "7"})
    status, calls = run(time, Answers(busy, busy, (200, {})))
    assert status == 200 and time.now - 1000 == pytest.approx(14, abs=2)
    assert (calls.total, calls.throttled) == (3, 2)
    assert calls.by_azure == {"Microsoft.Compute/virtualMachineScaleSets": 1}
    assert calls.line() == (
        "ARM calls: 3 (3 writes); inside deployments 1 scale-set PUTs; 2 answered 429, "
        f"{calls.waited_s:.0f} s waited for a turn"
    )


def test_more_429s_than_any_number_of_retries_are_ridden_out() -> None:
    time = Time()
    status, calls = run(time, Answers(*[(429, {"Retry-After": "1"})] * 40, (200, {})))
    assert status == 200 and calls.throttled == 40


def test_a_429_beyond_the_deadline_is_the_answer() -> None:
    time = Time()
    transport = Answers((429, {"Retry-After": "3600"}))
    assert run(time, transport)[0] == 429 and transport.asked == 1


def test_a_turn_that_never_comes_is_a_throttle_fault() -> None:
    time = Time()
    one = Pace(limits={WRITES: Limit(1, 0.01)}, limits_of_one={}, clock=time.clock, sleep=time.sleep)
    one.take(turn(WRITES), time.now)
    policy = PacingPolicy(one, Tally(), Clock(time.clock), 60)
    pipeline: Pipeline[HttpRequest, object] = Pipeline(Answers(), [Retries(), policy])  # type: ignore[arg-type]
    with pytest.raises(AzureError) as caught:
        pipeline.run(HttpRequest("PUT", GROUP))
    fault = fault_from_exception(caught.value)
    assert isinstance(caught.value, FaultError)
    assert fault.fault_class is FaultClass.THROTTLE and fault.retryable and "writes" in fault.innermost_message


@pytest.mark.parametrize(("left", "held", "free"), [("200", "scale-set lists", READS), ("0", READS, "scale-set lists")])
def test_only_what_throttles_is_held(left: str, held: str, free: str) -> None:
    """The provider throttles while ARM itself has tokens left, or ARM does."""
    time = Time()
    one = Pace(clock=time.clock, sleep=time.sleep)
    policy = PacingPolicy(one, Tally(), Clock(time.clock), deadline_s=10)
    transport = Answers((429, {"Retry-After": "20", "x-ms-ratelimit-remaining-subscription-reads": left}))
    pipeline: Pipeline[HttpRequest, object] = Pipeline(transport, [Retries(), policy])  # type: ignore[arg-type]
    pipeline.run(HttpRequest("GET", f"{COMPUTE}/virtualMachineScaleSets/a/virtualMachines"))
    assert one.take(turn(free), time.now) == 0
    with pytest.raises(WaitTooLong):
        one.take(turn(held), time.now + 10)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0"}, 0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"x-ms-retry-after-ms": "1500", "Retry-After": "9"}, 1.5),
        ({}, 5),
        ({"Retry-After": "soon"}, 5),
        ({"Retry-After": "-3"}, 0),
        # A date counts from the answer's own clock, whatever this machine's says.
        ({"Retry-After": "Wed, 02 Dec 2026 03:00:30 GMT", "Date": "Wed, 02 Dec 2026 03:00:00 GMT"}, 30),
        ({"Retry-After": "Wed, 02 Dec 2026 03:00:30 GMT"}, 5),
    ],
)
def test_retry_after_in_every_form(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(headers) == seconds


def test_the_clock_of_azure_is_heard() -> None:
    time = Time()
    clock = Clock(time.clock)
    clock.heard("Thu, 01 Jan 1970 02:00:00 GMT")
    assert clock.now() == 7200 and clock.offset_s == 6200
    clock.heard("nonsense")
    assert clock.now() == 7200


def test_calls_since_a_moment() -> None:
    tally = Tally()
    call = call_of("GET", GROUP, {})
    tally.sent(call, {}, 0)
    before = tally.calls()
    tally.sent(call, {}, 2)
    tally.sent(call_of("PUT", GROUP, {}), {"a/b": 3}, 0)
    since = tally.calls().since(before)
    assert since.as_dict() == {
        "total": 2,
        "by_kind": {"reads": 1, "writes": 1},
        "by_type": {"reads Microsoft.Resources/resourceGroups": 1, "writes Microsoft.Resources/resourceGroups": 1},
        "by_azure": {"a/b": 3},
        "throttled": 0,
        "waited_s": 2.0,
    }
