"""Commands with replies: deadlines, refusals, and callers that do not wait."""

import os
import signal
from concurrent.futures import Future

import pytest

from hookline import AsyncEngine, SamplingParams
from hookline.engine.commands import Reply, ResetPrefixCache, Told
from hookline.exceptions import (
    CommandError,
    CommandTimeoutError,
    EngineDeadError,
)
from hookline.frontend.calls import PendingCalls
from hookline_process_engine.process_client import ProcessClient


def test_a_reply_settles_its_own_call() -> None:
    """Replies may come in any order; errors are typed."""
    calls = PendingCalls(client_index=2)
    first, settled = calls.open(0, ResetPrefixCache())
    second, refused = calls.open(1, ResetPrefixCache())

    calls.settle(Reply(second.client, second.number, error="not now"))
    calls.settle(Reply(first.client, first.number, Told()))

    assert (first.client, second.client) == (2, 2)
    assert settled.result(0) == Told()
    with pytest.raises(CommandError, match="ResetPrefixCache failed: not now") as found:
        refused.result(0)
    assert (found.value.command, found.value.reason) == ("ResetPrefixCache", "not now")


def test_a_late_reply_is_ignored() -> None:
    """An abandoned call leaves nothing behind, and its reply changes nothing."""
    calls = PendingCalls(client_index=0)
    call, future = calls.open(0, ResetPrefixCache())

    calls.abandon([future])
    calls.settle(Reply(call.client, call.number, Told()))

    assert future.cancelled()
    assert calls._pending == {}


def test_a_death_fails_the_calls_of_its_engine() -> None:
    """Calls to other engines wait on."""
    calls = PendingCalls(client_index=0)
    futures: list[Future[Told]] = [
        calls.open(index, ResetPrefixCache())[1] for index in range(2)
    ]

    calls.fail(1, EngineDeadError("it broke"))

    assert isinstance(futures[1].exception(0), EngineDeadError)
    assert not futures[0].done()


@pytest.mark.parametrize("in_process", [True, False])
async def test_a_call_returns_the_reply(start_engine, *, in_process: bool) -> None:  # type: ignore[no-untyped-def]
    """The reply comes behind the state that shows the command's effect."""
    engine: AsyncEngine = await start_engine(in_process=in_process)
    stream = await engine.submit(list(range(3, 40)), SamplingParams(max_tokens=2))
    async for _ in stream:
        pass
    state = engine._front_end.engines[0]
    cached = state.stats.kv_blocks_cached

    replies = await engine.call(ResetPrefixCache())

    assert replies == (Told(),)
    assert cached > 0
    assert state.stats.kv_blocks_cached == 0


async def test_a_call_has_a_deadline(start_engine) -> None:  # type: ignore[no-untyped-def]
    """An engine that stands still replies too late: one typed error."""
    engine: AsyncEngine = await start_engine(in_process=False)
    client = engine._front_end.engines.client
    assert isinstance(client, ProcessClient)
    os.kill(client.pids[0], signal.SIGSTOP)

    try:
        with pytest.raises(CommandTimeoutError, match=r"no reply within 0.05 s"):
            await engine.call(ResetPrefixCache(), timeout_seconds=0.05)
    finally:
        os.kill(client.pids[0], signal.SIGCONT)

    assert engine._front_end._calls._pending == {}
    assert engine.failure is None


async def test_a_closed_engine_takes_no_call(start_engine) -> None:  # type: ignore[no-untyped-def]
    """After its end a call is an `EngineDeadError`."""
    engine: AsyncEngine = await start_engine()
    await engine.close()

    with pytest.raises(EngineDeadError, match="it was closed"):
        await engine.call(ResetPrefixCache())
