"""`AsyncEngine`: streams whose pieces add up, aborts, drains, and ends."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from hookline import AsyncEngine, EngineDeadError, RequestError, SamplingParams
from hookline.config import ExecutorConfig
from hookline.config.extensions import KV_TRANSFER
from hookline.finish_cause import Rejected
from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import FinishReason, GenerateRequest, RequestFacts

StartEngine = Callable[..., Awaitable[AsyncEngine]]

PROMPT = [10, 20, 30]
SLOW_SECONDS = 0.02


def params(max_tokens: int = 30, **more: object) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, ignore_eos=True, **more)  # type: ignore[arg-type]


def merged(outputs: list[RequestOutput]) -> RequestOutput:
    whole = outputs[0]
    for output in outputs[1:]:
        whole = whole.followed_by(output)
    return whole


def without_identity(output: RequestOutput) -> RequestOutput:
    """What two runs of one request have in common."""
    return replace(output, request_id="", metrics=None)


async def collect(engine: AsyncEngine, **more: object) -> list[RequestOutput]:
    stream = await engine.submit(PROMPT, params(**more))  # type: ignore[arg-type]
    return [output async for output in stream]


async def test_deltas_add_up_to_the_whole(start_engine: StartEngine) -> None:
    """Text, tokens, log-probabilities and counts are those of a whole output."""
    engine = await start_engine()

    pieces = await collect(engine, n=3, logprobs=0)
    stream = await engine.submit(PROMPT, params(n=3, logprobs=0), is_streamed=False)
    whole = [output async for output in stream]

    assert len(whole) == 1
    assert len(pieces) > 1
    assert without_identity(merged(pieces)) == without_identity(whole[0])
    assert [piece.finished for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    for completion in whole[0].outputs:
        assert len(completion.token_ids) == completion.output_tokens == 30
        assert len(completion.logprobs or []) == 30


async def test_every_output_has_the_cached_tokens(
    start_engine: StartEngine,
) -> None:
    """The number of cached tokens is known from the first output on."""
    engine = await start_engine()
    prompt = list(range(40))

    streams = []
    for _ in range(2):
        stream = await engine.submit(prompt, params(5))
        streams.append([output async for output in stream])

    assert {output.cached_tokens for output in streams[0]} == {0}
    assert {output.cached_tokens for output in streams[1]} == {32}


async def test_a_slow_reader_gets_merged_outputs(start_engine: StartEngine) -> None:
    """What piles up comes as one piece; nothing is lost."""
    engine = await start_engine()
    stream = await engine.submit(PROMPT, params(50))
    other = await engine.submit(PROMPT, params(50))

    fast = [output async for output in other]
    await engine.drain(10)
    slow = [output async for output in stream]

    assert len(fast) > 1
    assert len(slow) == 1
    assert slow[0].finished
    assert slow[0].outputs == merged(fast).outputs


async def test_many_streams_at_once(start_engine: StartEngine) -> None:
    """A hundred concurrent streams end, each with its own number of tokens."""
    engine = await start_engine()

    async def count(max_tokens: int) -> int:
        pieces = await collect(engine, max_tokens=max_tokens)
        return merged(pieces).outputs[0].output_tokens

    counts = await asyncio.gather(*map(count, range(1, 101)))

    assert counts == list(range(1, 101))


async def test_an_abort_in_mid_stream_frees_the_blocks(
    start_engine: StartEngine,
) -> None:
    """The stream ends at once, and the engine gives the blocks back."""
    engine = await start_engine(SLOW_SECONDS)
    stream = await engine.submit(PROMPT, params(200))
    await anext(stream)

    stream.abort("the client went away")
    rest = [output async for output in stream]

    assert rest == []
    await asyncio.wait_for(engine._is_quiet.wait(), 10)
    stats = engine._front_end.engines[0].stats
    assert stats.totals.finished == {FinishReason.ABORT: 1}
    assert stats.kv_blocks_used == 0


async def test_an_abort_wakes_a_waiting_reader(start_engine: StartEngine) -> None:
    """A waiting reader ends, even if an output arrived just before the abort."""
    engine = await start_engine(SLOW_SECONDS)
    stream = await engine.submit(PROMPT, params(200))
    first = await anext(stream)

    async def read() -> list[RequestOutput]:
        return [output async for output in stream]

    reader = asyncio.create_task(read())
    await asyncio.sleep(0)
    stream.deliver(first)
    stream.abort("enough")

    assert await asyncio.wait_for(reader, 10) == [first]


async def test_abort_after_the_end_does_nothing(start_engine: StartEngine) -> None:
    """A finished stream can be aborted any number of times."""
    engine = await start_engine()
    stream = await engine.submit(PROMPT, params(3))
    pieces = [output async for output in stream]

    stream.abort("late")
    stream.abort("later")

    assert merged(pieces).outputs[0].finish_reason is FinishReason.LENGTH
    assert engine._front_end.engines[0].stats.totals.finished == {
        FinishReason.LENGTH: 1
    }


async def test_aborting_one_leaves_the_others(start_engine: StartEngine) -> None:
    """Half of the streams are aborted; the other half is as if alone."""
    engine = await start_engine(0.003)
    alone = merged(await collect(engine, max_tokens=40))
    streams = [await engine.submit(PROMPT, params(40)) for _ in range(8)]

    for stream in streams[::2]:
        await anext(stream)
        stream.abort("no more")

    for stream in streams[1::2]:
        whole = merged([output async for output in stream])
        assert whole.outputs == alone.outputs


async def test_a_stop_string_ends_the_stream(start_engine: StartEngine) -> None:
    """The stream ends with it, and the engine ends the request too."""
    engine = await start_engine()
    [completion] = merged(await collect(engine, max_tokens=60)).outputs
    stop = completion.text[10:13]

    [stopped] = merged(await collect(engine, max_tokens=60, stop=(stop,))).outputs

    assert stopped.text == completion.text[: completion.text.index(stop)]
    assert stopped.stop_reason == stop
    await asyncio.wait_for(engine._is_quiet.wait(), 10)


async def test_a_refused_request_changes_nothing(start_engine: StartEngine) -> None:
    """The error comes from `submit`, and running streams do not notice."""
    engine = await start_engine()
    stream = await engine.submit(PROMPT, params(20))

    with pytest.raises(RequestError, match="empty"):
        await engine.submit("", params())
    engine.reject(RequestFacts(), Rejected("invalid_request", "empty prompt"))

    assert merged([output async for output in stream]).finished
    assert engine._front_end.engines[0].accounting.finished == {
        FinishReason.LENGTH: 1,
        FinishReason.REJECTED: 1,
    }


async def test_drain_waits_for_running_requests(start_engine: StartEngine) -> None:
    """The engine is not ready, refuses new requests, and ends after the last one."""
    engine = await start_engine(0.002)
    stream = await engine.submit(PROMPT, params(40))
    assert engine.is_ready

    draining = asyncio.create_task(engine.drain(20))
    await asyncio.sleep(0)

    assert not engine.is_ready
    with pytest.raises(EngineDeadError, match="being stopped"):
        await engine.submit(PROMPT, params())
    assert await draining
    assert merged([output async for output in stream]).finished


async def test_drain_has_a_timeout(start_engine: StartEngine) -> None:
    """It returns that requests remain."""
    engine = await start_engine(SLOW_SECONDS)
    stream = await engine.submit(PROMPT, params(250))

    assert not await engine.drain(0.01)
    stream.abort("drained")


async def test_drain_of_an_idle_engine_is_at_once(start_engine: StartEngine) -> None:
    """There is nothing to wait for, also not the second time."""
    engine = await start_engine()

    assert await engine.drain(0.5)
    assert await engine.drain(0.5)


async def test_closing_ends_open_streams(start_engine: StartEngine) -> None:
    """Each gets an error, in the event loop's own thread, though none is read."""
    engine = await start_engine(SLOW_SECONDS)
    streams = [await engine.submit(PROMPT, params(250)) for _ in range(4)]
    readers = [asyncio.create_task(anext_error(stream)) for stream in streams[:2]]
    await asyncio.sleep(0)
    threads = []
    deliver = streams[3].deliver

    def note(news: object) -> None:
        threads.append(threading.current_thread())
        deliver(news)  # type: ignore[arg-type]

    for completion in engine._front_end.engines[0].outputs._completions.values():
        if completion.request.deliver == streams[3].deliver:
            completion.request.deliver = note
    await engine.close()

    reasons = await asyncio.wait_for(asyncio.gather(*readers), 10)
    reasons += [await anext_error(stream) for stream in streams[2:]]
    assert set(reasons) == {"the engine was closed"}
    assert set(threads) == {threading.main_thread()}
    assert engine._front_end.engines[0].accounting.finished == {FinishReason.ABORT: 4}


async def anext_error(stream: object) -> str:
    """Reads until the error comes."""
    with pytest.raises(EngineDeadError) as caught:
        async for _ in stream:  # type: ignore[attr-defined]
            pass
    return caught.value.reason


async def test_a_closed_engine_refuses(start_engine: StartEngine) -> None:
    """It may be closed twice; every use afterwards is one kind of error."""
    engine = await start_engine()
    await engine.close()
    await engine.close()

    assert not engine.is_ready
    with pytest.raises(EngineDeadError, match="closed"):
        await engine.submit(PROMPT, params())
    with pytest.raises(EngineDeadError, match="closed"):
        await engine.submit([1], params())


def test_pieces_of_news_merge_by_index() -> None:
    """Later news adds to its own completion, and brings new ones in order."""

    def piece(index: int, text: str, count: int) -> CompletionOutput:
        return CompletionOutput(
            index=index,
            text=text,
            token_ids=[count],
            logprobs=None,
            finish_reason=None,
            stop_reason=None,
            output_tokens=count,
        )

    def news(*pieces: CompletionOutput) -> RequestOutput:
        return RequestOutput(
            prompt_token_ids=[1],
            outputs=list(pieces),
            prompt_logprobs=None,
            cached_tokens=0,
            finished=False,
        )

    both = news(piece(1, "b", 1)).followed_by(news(piece(0, "a", 1), piece(1, "c", 2)))

    assert [each.text for each in both.outputs] == ["a", "bc"]
    assert both.outputs[1].token_ids == [1, 2]
    assert both.outputs[1].output_tokens == 2


async def test_the_real_model_streams_as_it_completes(
    start_engine: StartEngine,
) -> None:
    """With the model under it, a stream adds up to the whole as well."""
    engine = await start_engine(executor=ExecutorConfig())
    greedy = SamplingParams(temperature=0.0, max_tokens=30, prompt_logprobs=1)

    stream = await engine.submit("def add(", greedy)
    pieces = [output async for output in stream]
    stream = await engine.submit("def add(", greedy, is_streamed=False)
    whole = [output async for output in stream]

    assert without_identity(merged(pieces)) == without_identity(whole[0])
    assert len(pieces[0].prompt_logprobs or []) == 7
    assert all(piece.prompt_logprobs is None for piece in pieces[1:])


async def test_outputs_that_nobody_reads_are_merged(start_engine: StartEngine) -> None:
    """However many pile up, few are kept, and the reader gets all tokens at once."""
    engine = await start_engine()

    stream = await engine.submit(PROMPT, params(200, n=2, logprobs=0))
    await engine.drain(30)
    waiting = len(stream._deliveries)
    outputs = [output async for output in stream]

    assert waiting <= 64
    assert [len(each.token_ids) for each in outputs[0].outputs] == [200, 200]
    assert [len(each.logprobs or []) for each in outputs[0].outputs] == [200, 200]
    assert outputs[0].finished


async def test_a_reader_may_give_up_waiting_and_come_back(
    start_engine: StartEngine,
) -> None:
    """What is delivered after a wait was cancelled goes to the next one."""
    engine = await start_engine()

    stream = await engine.submit(PROMPT, params())
    waiting = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    outputs = [output async for output in stream]

    assert waiting.cancelled()
    assert len(merged(outputs).outputs[0].token_ids) == 30


async def test_a_request_that_cannot_be_sent_leaves_nothing_behind(
    start_engine: StartEngine,
) -> None:
    """An integer of more than 64 bits fits into JSON, and into no message."""
    engine = await start_engine()
    request = GenerateRequest(
        prompt_token_ids=[5], params=params(), sections={KV_TRANSFER: {"id": 2**70}}
    )

    with pytest.raises(RequestError, match="malformed"):
        engine.add(request, arrived_at=0)

    assert not engine._front_end.engines.num_unconfirmed
