"""Budgets of keys and tenants: what is refused, when, and what clients read of it."""

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline_server.app import create_app
from hookline_server.auth.allowance import duration
from hookline_server.auth.budget import Budget, Exceeded, Limit
from hookline_server.auth.budgets import Budgets
from hookline_server.auth.key import ApiKey, KeySet, Limits, Tenant
from hookline_server.auth.key_file import KeyFile
from hookline_server.auth.key_table import digest_of
from hookline_server.auth.token_bucket import TokenBucket
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

BODY = {"model": "fake", "prompt": "abc"}
KEY = {"Authorization": "Bearer k"}


def settings(limits: Limits, tenant: Tenant | None = None) -> ServerSettings:
    """A server with one key, of the tenant acme."""
    key = ApiKey(name="one", tenant="acme", limits=limits)
    tenants = {} if tenant is None else {"acme": tenant}
    return ServerSettings(
        api_keys=KeyFile("keys", KeySet({digest_of("k"): key}, tenants))
    )


def test_bucket_refills_evenly_and_only_to_its_capacity() -> None:
    """
    Sixty a minute are one a second; what is not used within a minute is lost.
    """
    bucket = TokenBucket(60, now=0)

    bucket.consume(60, now=0)

    assert [bucket.level(now) for now in (0, 1, 31, 60, 1000)] == [0, 1, 31, 60, 60]


def test_overdrawn_bucket_must_recover() -> None:
    """
    A request that costs more than is left delays the next one by what it costs.
    """
    bucket = TokenBucket(60, now=0)

    bucket.consume(180, now=0)

    assert bucket.level(0) == -120
    assert bucket.seconds_until(1, 0) == 121


def test_clock_that_stands_still_refills_nothing() -> None:
    """
    Looking at a bucket does not fill it.
    """
    bucket = TokenBucket(60, now=5)
    bucket.consume(10, now=5)

    assert [bucket.level(5) for _ in range(100)] == [50] * 100


def test_budget_names_the_exceeded_limit() -> None:
    """
    A refusal has the limit, its value, and when there is room again.
    """
    limits = Limits(requests_per_minute=2, tokens_per_minute=120, concurrent_requests=2)
    budget = Budget(limits, now=0)

    budget.open_request(0)
    assert budget.exceeded(0) is None
    budget.open_request(0)
    assert budget.exceeded(0) == Exceeded(Limit.CONCURRENCY, 2, 1)
    budget.close_request()
    assert budget.exceeded(0) == Exceeded(Limit.REQUESTS, 2, 30)
    budget.charge(1000, 30)
    assert budget.exceeded(30) == Exceeded(Limit.TOKENS, 120, (1000 - 120 + 1) / 2)
    assert budget.exceeded(1000) is None


def test_changed_limits_keep_what_was_used() -> None:
    """
    A reload does not refill a budget, and does not forget open requests.
    """
    now = 0.0
    budgets = Budgets(lambda: now)
    key = ApiKey(
        name="a",
        id="31",
        limits=Limits(requests_per_minute=10, concurrent_requests=1),
    )
    budgets.use(KeySet({b"1": key}))
    (budget,) = budgets.of(key, None)
    for _ in range(10):
        budget.open_request(now)
        budget.close_request()
    budget.open_request(now)
    more = ApiKey(
        name="b",
        id="31",
        limits=Limits(requests_per_minute=12, concurrent_requests=1),
    )

    budgets.use(KeySet({b"1": more}))

    (after,) = budgets.of(more, None)
    assert after is budget
    assert after.exceeded(now) == Exceeded(Limit.CONCURRENCY, 1, 1)
    after.close_request()
    assert after.requests is not None
    assert after.requests.level(now) == 1


def test_budgets_of_removed_keys_are_forgotten() -> None:
    """
    The number of budgets is that of the keys and tenants in the file.
    """
    budgets = Budgets(lambda: 0)
    key = ApiKey(name="a", id="31", limits=Limits(concurrent_requests=1))
    budgets.use(KeySet({b"1": key}))

    budgets.use(KeySet())

    assert budgets.of(key, None) == ()
    assert not budgets.are_any


def test_a_key_that_comes_back_has_no_new_budget() -> None:
    """
    What it used before it was removed stays used, and what it has open stays open,
    until a new budget would be the same.
    """
    now = 0.0
    budgets = Budgets(lambda: now)
    limits = Limits(requests_per_minute=10, concurrent_requests=1)
    key = ApiKey(name="a", id="31", limits=limits)
    budgets.use(KeySet({b"1": key}))
    (budget,) = budgets.of(key, None)
    budget.open_request(now)

    budgets.use(KeySet())
    budgets.use(KeySet({b"1": key}))
    (same,) = budgets.of(key, None)
    exceeded = same.exceeded(now)
    same.close_request()
    now = 60.0
    budgets.use(KeySet())
    budgets.use(KeySet({b"1": key}))

    assert exceeded == Exceeded(Limit.CONCURRENCY, 1, 1)
    assert budgets.of(key, None) != (budget,)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0451, "46ms"), (1, "1s"), (59.2, "1m0s"), (90, "1m30s")],
)
def test_times_are_written_as_openai_does(seconds: float, text: str) -> None:
    """
    Clients parse `45ms`, `12s` and `1m30s`.
    """
    assert duration(seconds) == text


async def test_requests_beyond_the_limit_are_told_when_to_come_back() -> None:
    """
    The third of two requests a minute is a 429 with Retry-After, and counted once.
    """
    engine = FakeEngine()
    async with client_of(engine, settings(Limits(requests_per_minute=2))) as client:
        answers = [
            await client.post("/v1/completions", json=BODY, headers=KEY)
            for _ in range(3)
        ]
        error = (await answers[2].json())["error"]

    assert [each.status for each in answers] == [200, 200, 429]
    assert [each.headers["x-ratelimit-remaining-requests"] for each in answers] == [
        "1",
        "0",
        "0",
    ]
    assert answers[0].headers["x-ratelimit-limit-requests"] == "2"
    assert answers[0].headers["x-ratelimit-reset-requests"] == "30s"
    assert 1 <= int(answers[2].headers["Retry-After"]) <= 30
    assert error["code"] == "rate_limit_exceeded"
    assert error["type"] == "rate_limit_error"
    (rejected,) = engine.rejected
    assert (rejected.kind, rejected.limit) == (
        "rate_limit_exceeded",
        "requests_per_minute",
    )


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_tokens_of_prompts_and_outputs_are_charged(is_streamed: bool) -> None:
    """
    Three tokens of the prompt and five of each of two outputs are gone afterwards.
    """
    limits = settings(Limits(tokens_per_minute=14))
    body = {**BODY, "n": 2, "stream": is_streamed}
    async with client_of(FakeEngine(), limits) as client:
        first = await client.post("/v1/completions", json=body, headers=KEY)
        await first.read()
        second = await client.post("/v1/completions", json=BODY, headers=KEY)
        await second.read()
        third = await client.post("/v1/completions", json=BODY, headers=KEY)

    assert [each.status for each in (first, second, third)] == [200, 200, 429]
    assert first.headers["x-ratelimit-remaining-tokens"] in {"1", "11"}
    assert third.headers["x-ratelimit-remaining-tokens"] == "0"


async def test_abandoned_requests_are_charged() -> None:
    """
    Leaving before the end does not save the tokens that were made.
    """
    engine = FakeEngine(["abcde"] * 4)
    engine.free_steps = 3
    engine.gate.clear()
    app = create_app(engine, settings(Limits(tokens_per_minute=100)))
    async with TestClient(TestServer(app)) as client:
        asked = {**BODY, "stream": True}
        answer = await client.post("/v1/completions", json=asked, headers=KEY)
        for _ in range(3):
            await answer.content.readuntil(b"\n\n")
        answer.close()
        await engine.streams[0].aborted.wait()
        models = await client.get("/v1/models", headers=KEY)

    assert models.headers["x-ratelimit-remaining-tokens"] == str(100 - 3 - 15)


async def test_open_requests_are_limited() -> None:
    """
    The second of two requests at once is refused; after the first one there is room.
    """
    engine = FakeEngine()
    engine.gate.clear()
    tenant = Tenant(limits=Limits(concurrent_requests=1))
    async with client_of(engine, settings(Limits(), tenant)) as client:
        asked = {**BODY, "stream": True}
        engine.free_steps = 1
        first = await client.post("/v1/completions", json=asked, headers=KEY)
        second = await client.post("/v1/completions", json=BODY, headers=KEY)
        engine.gate.set()
        await first.read()
        third = await client.post("/v1/completions", json=BODY, headers=KEY)

    assert [each.status for each in (first, second, third)] == [200, 429, 200]


async def test_pages_and_unlimited_keys_have_no_limits() -> None:
    """
    Probes and other keys are not refused, and have none of the headers.
    """
    async with client_of(FakeEngine(), ServerSettings(api_key="k")) as client:
        answer = await client.post("/v1/completions", json=BODY, headers=KEY)
        probe = await client.get("/health")

    for each in (answer, probe):
        assert not [name for name in each.headers if "ratelimit" in name.lower()]
