"""Metrics of a request in its response, and where a stream's finish reason is."""

import json
from typing import Any

import pytest

from hookline.outputs import RequestMetrics
from hookline.request import FinishReason
from hookline_server.answers.settings import ResponseSettings, SpecDecodeMetrics
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "ab"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
}
CHAT = "/v1/chat/completions"
METRICS = RequestMetrics(
    arrival_time=1.0,
    queue_seconds=0.25,
    prefill_seconds=0.5,
    decode_seconds=2.0,
    inference_seconds=2.5,
    ttft_seconds=0.75,
    tpot_seconds=0.125,
    e2e_seconds=3.0,
    preemptions=0,
    draft_tokens=15,
    steps_by_accepted=(1, 0, 2, 2),
)
TIMES = {
    "time_to_first_token_ms": 500.0,
    "generation_time_ms": 2000.0,
    "queue_time_ms": 250.0,
    "mean_itl_ms": 125.0,
    "tokens_per_second": 1.5,
}
DRAFTS = {
    "mean_acceptance_length": 3.0,
    "draft_acceptance_rate": 10 / 15,
    "acceptance_histogram": [1, 0, 2, 2],
    "num_spec_steps": 5,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 15,
    "num_spec_tokens": 3,
}
ALL = ResponseSettings(
    enable_per_request_metrics=True,
    per_request_spec_decode_metrics=SpecDecodeMetrics.SUMMARY,
)
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def engine_of(*script: str, metrics: RequestMetrics | None = METRICS) -> FakeEngine:
    engine = FakeEngine(script or ("a", "bc"), finish_reason=FinishReason.STOP)
    engine.metrics = metrics
    return engine


async def answered(
    path: str, settings: ResponseSettings, engine: FakeEngine, **fields: object
) -> Any:
    """Returns the response, or the events of a stream."""
    whole = ServerSettings(
        responses=settings, replies=ReplySettings(tool_call_parser="hermes")
    )
    async with client_of(engine, whole) as client:
        response = await client.post(path, json={**BODIES[path], **fields})
        text = await response.text()
    assert response.status == 200, text
    if "stream" not in fields:
        return json.loads(text)
    events = text.removesuffix("data: [DONE]\n\n").split("\n\n")[:-1]
    return [json.loads(each.removeprefix("data: ")) for each in events]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_responses_have_metrics(path: str, *, stream: bool) -> None:
    """
    A stream has them beside the usage.
    """
    options = {"stream": True, "stream_options": {"include_usage": True}}

    answer = await answered(path, ALL, engine_of(), **(options if stream else {}))

    if stream:
        assert not any("metrics" in each for each in answer[:-1])
        answer = answer[-1]
    assert answer["metrics"] == {**TIMES, "speculative_decoding": DRAFTS}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (ResponseSettings(enable_per_request_metrics=True), TIMES),
        (
            ResponseSettings(per_request_spec_decode_metrics=SpecDecodeMetrics.SUMMARY),
            {"speculative_decoding": DRAFTS},
        ),
    ],
)
async def test_each_part_has_an_option(
    path: str, settings: ResponseSettings, expected: dict[str, Any]
) -> None:
    """
    Without either there is nothing.
    """
    bare = await answered(path, ResponseSettings(), engine_of())
    answer = await answered(path, settings, engine_of())

    assert "metrics" not in bare
    assert answer["metrics"] == expected


async def test_requests_without_drafts_or_tokens_have_none() -> None:
    """
    What was not reached or done is null.
    """
    metrics = RequestMetrics(
        arrival_time=1.0,
        queue_seconds=0.25,
        prefill_seconds=None,
        decode_seconds=None,
        inference_seconds=None,
        ttft_seconds=None,
        tpot_seconds=None,
        e2e_seconds=3.0,
        preemptions=0,
    )

    answer = await answered(CHAT, ALL, engine_of(metrics=metrics))

    others = dict.fromkeys(TIMES)
    expected = {**others, "queue_time_ms": 250.0, "speculative_decoding": None}
    assert answer["metrics"] == expected


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {"n": 2}),
        ("/v1/completions", {"n": 2}),
        ("/v1/completions", {"prompt": ["a", "b"]}),
    ],
)
async def test_several_choices_have_no_metrics(
    path: str, fields: dict[str, Any]
) -> None:
    """
    As in vLLM: the times would be those of one of them.
    """
    assert (await answered(path, ALL, engine_of(), **fields))["metrics"] is None


@pytest.mark.parametrize(
    ("script", "fields", "reason"),
    [
        (("a", "bc"), {}, "stop"),
        (("a", "bc"), {"logprobs": True, "return_token_ids": True}, "stop"),
        (("a", "bc"), {"n": 2}, "stop"),
        (("a", CALL), {"tools": TOOLS}, "tool_calls"),
    ],
)
async def test_finish_reason_comes_with_the_last_token(
    script: tuple[str, ...], fields: dict[str, Any], reason: str
) -> None:
    """
    By option; the chunks are otherwise the same, without the empty one at the end.
    """
    option = ResponseSettings(finish_reason_with_last_token=True)
    usual = await answered(
        CHAT, ResponseSettings(), engine_of(*script), stream=True, **fields
    )
    short = await answered(CHAT, option, engine_of(*script), stream=True, **fields)

    for index in range(int(fields.get("n", 1))):
        *others, last = _choices(usual, index)
        assert (last["delta"], last["finish_reason"]) == ({}, reason)
        others[-1] |= {key: last[key] for key in ("finish_reason", "stop_reason")}
        assert _without_ids(_choices(short, index)) == _without_ids(others)


async def test_an_end_without_text_has_its_own_chunk() -> None:
    """
    Where the last output has nothing to say.
    """
    option = ResponseSettings(finish_reason_with_last_token=True)

    *_, last = await answered(CHAT, option, engine_of("a", ""), stream=True)

    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["choices"][0]["delta"] == {}


def _choices(events: list[Any], index: int) -> list[Any]:
    found = [each["choices"][0] for each in events]
    return [each for each in found if each["index"] == index]


def _without_ids(choices: list[Any]) -> list[Any]:
    """Ids of calls are random."""
    for choice in choices:
        for call in choice["delta"].get("tool_calls", ()):
            call.pop("id", None)
    return choices
