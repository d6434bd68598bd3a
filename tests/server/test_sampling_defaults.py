"""Requests that are silent get the model's defaults, in every API."""

from dataclasses import replace

import pytest

from hookline.sampling_params import SamplingParams
from hookline.sampling_values import SamplingDefaults
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

HELLO = [{"role": "user", "content": "Hi"}]
SILENT: dict[str, dict[str, object]] = {
    "/v1/completions": {"prompt": "ab"},
    "/v1/chat/completions": {"messages": HELLO},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": HELLO, "max_tokens": 9},
}
LENGTH = {
    "/v1/chat/completions": "max_completion_tokens",
    "/v1/responses": "max_output_tokens",
}
VALUES = {
    "temperature": 0.6,
    "top_p": 0.95,
    "top_k": 20,
    "repetition_penalty": 1.5,
    "max_tokens": 7,
}


def engine_with(**fields: object) -> FakeEngine:
    """A scripted engine whose model recommends sampling."""
    engine = FakeEngine()
    sampling = SamplingDefaults(values=VALUES, source="here", **fields)  # type: ignore[arg-type]
    engine.facts = replace(FACTS, model=replace(FACTS.model, sampling=sampling))
    return engine


async def params_of(
    engine: FakeEngine,
    path: str,
    fields: dict[str, object] | None = None,
    *,
    ignored: str | None = None,
) -> SamplingParams:
    """The parameters with which the engine gets a request."""
    async with client_of(engine) as client:
        response = await client.post(path, json={**SILENT[path], **(fields or {})})
        assert response.status == 200, await response.text()
        assert response.headers.get("X-Hookline-Ignored") == ignored
    return engine.streams[-1].params


@pytest.mark.parametrize("path", SILENT)
async def test_silent_fields_have_the_defaults(path: str) -> None:
    """Each by itself: what a request sets is the request's."""
    silent = await params_of(engine_with(), path)
    spoken = await params_of(engine_with(), path, {"temperature": 0, "top_k": -1})

    for name in ("temperature", "top_p", "top_k", "repetition_penalty"):
        assert getattr(silent, name) == VALUES[name]
    assert (spoken.temperature, spoken.top_k, spoken.top_p) == (0.0, None, 0.95)
    assert silent.max_tokens == (9 if path == "/v1/messages" else 7)


@pytest.mark.parametrize("path", SILENT)
async def test_the_operators_length_bounds_all(path: str) -> None:
    """A longer request gets that many and is told so; a shorter one is as it was."""
    name, bound = LENGTH.get(path, "max_tokens"), engine_with(most_tokens=7)

    longer = await params_of(bound, path, {name: 8}, ignored="limit.max_tokens")
    shorter = await params_of(bound, path, {name: 5})

    assert (longer.max_tokens, shorter.max_tokens) == (7, 5)


@pytest.mark.parametrize("path", [each for each in SILENT if each != "/v1/messages"])
async def test_a_default_length_is_shortened_to_fit(path: str) -> None:
    """The context's end, not an error, ends a request that named no length."""
    engine = engine_with()
    engine.facts = replace(
        engine.facts, model=replace(engine.facts.model, max_model_len=8)
    )

    params = await params_of(engine, path)

    assert params.max_tokens == 8 - engine.streams[-1].prompt_tokens


async def test_models_tell_their_defaults() -> None:
    """Whoever lists the models reads what silence means."""
    async with client_of(engine_with()) as client:
        listed = await (await client.get("/v1/models")).json()

    assert listed["data"][0]["default_sampling_params"] == VALUES
