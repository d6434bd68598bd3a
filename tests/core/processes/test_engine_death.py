"""If the engine dies, open requests end with an error and loggers are notified."""

import asyncio
import os
import select
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hookline import LLM, AsyncEngine, EngineDeadError, SamplingParams
from hookline.config import EngineConfig
from hookline.engine.worker.executor import DeferredStep
from hookline.frontend.output_stream import OutputStream
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    RequestsFinished,
    StateChanged,
)
from hookline.request import FinishReason
from hookline.stats.scheduler_stats import Residue
from hookline.step import StepPlan, StepResult
from hookline.transport.inproc_client import InprocClient
from hookline_process_engine.process_client import ProcessClient
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_testing import PluginSite
from hookline_testing.paced_client import core_of
from hookline_testing.wrapped_executor import WrappedExecutor

StartEngine = Callable[[EngineConfig], Awaitable[AsyncEngine]]

PROMPT = [1, 2, 3]
LONG = SamplingParams(max_tokens=250)
WAIT_SECONDS = 30.0
KILLED = "its process was killed by SIGKILL"

BREAK_EXECUTOR = """
from hookline_simulated.executor import SimulatedExecutor

execute = SimulatedExecutor._execute

def break_in_time(self, plan):
    if plan.step > 3:
        raise RuntimeError("the device fell off")
    return execute(self, plan)

SimulatedExecutor._execute = break_in_time
"""


class Breaking(WrappedExecutor):
    """An executor that fails in its fourth step."""

    def start(self, plan: StepPlan) -> DeferredStep:
        return DeferredStep(self._execute, plan)

    def _execute(self, plan: StepPlan) -> StepResult:
        if plan.step > 3:
            raise RuntimeError("the device fell off")
        return self._inner.start(plan).result()


def pid_of(client: object) -> int:
    assert isinstance(client, ProcessClient)
    return client.pids[0]


def kill(client: object) -> None:
    """Kills an engine process and waits until it is gone."""
    process = os.pidfd_open(pid_of(client))
    poller = select.poll()
    poller.register(process, select.POLLIN)
    os.kill(pid_of(client), signal.SIGKILL)
    assert poller.poll(WAIT_SECONDS * 1000)
    os.close(process)


async def error_of(stream: OutputStream) -> str:
    """Reads until the error comes."""
    with pytest.raises(EngineDeadError) as caught:
        async for _ in stream:
            pass
    return caught.value.reason


def told(site: PluginSite, kind: type) -> list[object]:
    return [payload for _, payload in site.calls() if isinstance(payload, kind)]


async def test_a_killed_process_ends_every_stream(
    start_engine: StartEngine, slow_process: EngineConfig, site: PluginSite
) -> None:
    """Each open stream gets the reason, readiness turns false, loggers hear of all."""
    engine = await start_engine(slow_process)
    streams = [await engine.submit(PROMPT, LONG) for _ in range(4)]
    for stream in streams:
        await anext(stream)
    streams[3].abort("went away")
    readers = [asyncio.create_task(error_of(stream)) for stream in streams[:2]]

    await asyncio.to_thread(kill, engine._front_end.engines.client)
    await asyncio.wait_for(engine.failed.wait(), WAIT_SECONDS)

    reasons = [*await asyncio.gather(*readers), await error_of(streams[2])]
    assert set(reasons) == {KILLED}
    assert engine.failure == reasons[0]
    assert not engine.is_ready
    assert await engine.drain(WAIT_SECONDS)
    with pytest.raises(EngineDeadError, match="SIGKILL"):
        await engine.submit(PROMPT, LONG)

    assert await asyncio.to_thread(engine._front_end.observers.flush, WAIT_SECONDS)
    [failed] = told(site, EngineFailed)
    assert isinstance(failed, EngineFailed)
    assert failed.reason == reasons[0]
    assert failed.open_requests == 3
    ends = [
        event.reason
        for payload in told(site, RequestsFinished)
        if isinstance(payload, RequestsFinished)
        for event in payload.events
    ]
    assert sorted(ends) == [FinishReason.ABORT, *[FinishReason.ERROR] * 3]
    state = told(site, StateChanged)[-1]
    assert isinstance(state, StateChanged)
    assert state.cause == "failed"
    assert state.scheduler.running == state.scheduler.waiting == 0
    assert len(state.iteration.finished) >= 3


async def test_a_request_to_a_dead_process_does_not_hang(
    start_engine: StartEngine, slow_process: EngineConfig, site: PluginSite
) -> None:
    """Sent before the death was noticed, it ends with the same error."""
    engine = await start_engine(slow_process)

    await asyncio.to_thread(kill, engine._front_end.engines.client)

    async def ask() -> str:
        try:
            stream = await engine.submit(PROMPT, LONG)
        except EngineDeadError as error:
            return error.reason
        return await error_of(stream)

    reason = await asyncio.wait_for(ask(), WAIT_SECONDS)
    assert reason == KILLED
    await asyncio.wait_for(engine.failed.wait(), WAIT_SECONDS)
    assert await asyncio.to_thread(engine._front_end.observers.flush, WAIT_SECONDS)
    assert len(told(site, EngineFailed)) == 1


def test_offline_requests_end_with_the_process(
    slow_process: EngineConfig, site: PluginSite
) -> None:
    """Killed before or during a request: one error, reported once, and no leftovers."""
    with LLM.from_config(slow_process) as llm:
        killer = threading.Timer(0.3, kill, [llm.front_end.engines.client])
        killer.start()
        with pytest.raises(EngineDeadError, match="SIGKILL"):
            llm.generate([PROMPT] * 3, LONG)
        killer.join()
        with pytest.raises(EngineDeadError, match="SIGKILL"):
            llm.generate([PROMPT], LONG)

        assert llm.flush()
        assert len(told(site, EngineFailed)) == 1
        assert llm.front_end.engines.residue == 0
        assert llm.front_end.engines.num_unconfirmed == 0


def test_offline_requests_to_a_dead_process_end(
    slow_process: EngineConfig, site: PluginSite
) -> None:
    """A process that died while idle is noticed when it is needed, by loggers too."""
    with LLM.from_config(slow_process) as llm:
        kill(llm.front_end.engines.client)

        with pytest.raises(EngineDeadError, match="SIGKILL"):
            llm.generate([PROMPT] * 2, LONG)

        assert llm.flush()
        assert len(told(site, EngineFailed)) == 1
        assert llm.front_end.engines.residue == 0
        assert llm.front_end.engines.num_unconfirmed == 0


@pytest.mark.parametrize("in_process", [True, False])
def test_a_failing_step_is_one_clear_error(
    slow_process: EngineConfig,
    site: PluginSite,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    in_process: bool,
) -> None:
    """Kind and message of what was raised, here or over the wire, reach the caller."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/sitecustomize.py").write_text(BREAK_EXECUTOR)
    paths = [str(tmp_path / "broken"), os.environ.get("PYTHONPATH")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    with LLM.from_config(replace(slow_process, in_process=in_process)) as llm:
        client = llm.front_end.engines.client
        if isinstance(client, InprocClient):
            core = core_of(client)
            core._executor = Breaking(core._executor)

        with pytest.raises(EngineDeadError) as caught:
            llm.generate([PROMPT] * 2, LONG)

        assert caught.value.reason == "RuntimeError: the device fell off"
        assert llm.flush()
        [failed] = told(site, EngineFailed)
        assert isinstance(failed, EngineFailed)
        assert failed.open_requests == 2
        assert llm.front_end.engines.residue == 0
        with pytest.raises(EngineDeadError, match="fell off"):
            llm.generate(PROMPT, LONG)
    assert ("the engine has failed" in caplog.text) is in_process


async def test_a_failing_step_ends_streams(
    start_engine: StartEngine, slow_process: EngineConfig, site: PluginSite
) -> None:
    """On an event loop, each stream ends with the error of the step."""
    engine = await start_engine(replace(slow_process, in_process=True))
    client = engine._front_end.engines.client
    assert isinstance(client, InprocClient)
    core = core_of(client)
    core._executor = Breaking(core._executor)
    streams = [await engine.submit(PROMPT, LONG) for _ in range(3)]

    reasons = await asyncio.wait_for(
        asyncio.gather(*map(error_of, streams)), WAIT_SECONDS
    )

    assert set(reasons) == {"RuntimeError: the device fell off"}
    assert engine.failed.is_set()
    assert not engine.is_ready
    assert await asyncio.to_thread(engine._front_end.observers.flush, WAIT_SECONDS)
    assert len(told(site, EngineFailed)) == 1


async def test_requests_begin_again_at_a_new_process(
    start_engine: StartEngine, slow_process: EngineConfig, site: PluginSite
) -> None:
    """All that had not begun end as if nothing had happened, and are counted once."""
    supervised = SupervisionConfig(engine_restart=1)
    sections = {**slow_process.sections, "supervision": supervised}
    engine = await start_engine(replace(slow_process, sections=sections))
    begun = await engine.submit(PROMPT, LONG)
    await anext(begun)
    params = SamplingParams(max_tokens=5, n=2)
    others = [await engine.submit(PROMPT, params, is_streamed=False) for _ in range(3)]
    left = await engine.submit(PROMPT, LONG, is_streamed=False)

    await asyncio.to_thread(kill, engine._front_end.engines.client)
    reason = await asyncio.wait_for(error_of(begun), WAIT_SECONDS)
    left.abort("went away")  # while there is no process
    outputs = [[output async for output in stream] for stream in others]
    assert await engine.drain(WAIT_SECONDS)
    assert await asyncio.to_thread(engine._front_end.observers.flush, WAIT_SECONDS)

    assert reason == KILLED
    assert all(len(each) == 1 and each[0].finished for each in outputs)
    assert all(len(c.token_ids) == 5 for [each] in outputs for c in each.outputs)
    starts = told(site, EngineStarted)
    assert [each.restart_cause for each in starts] == ["", "exited"]  # type: ignore[attr-defined]
    assert starts[1].resubmitted == 6  # type: ignore[attr-defined]
    [state] = engine._front_end.engines
    assert state.accounting.received == 8
    assert state.accounting.finished == {"length": 6, "abort": 1, "error": 1}
    assert state.stats.totals.residue == Residue()


async def test_a_request_between_death_and_its_report_begins_again(
    start_engine: StartEngine, slow_process: EngineConfig, site: PluginSite
) -> None:
    """The client knows of the death before the front end does; nothing is lost."""
    supervised = SupervisionConfig(engine_restart=1)
    sections = {**slow_process.sections, "supervision": supervised}
    engine = await start_engine(replace(slow_process, sections=sections))
    front_end = engine._front_end
    client = front_end.engines.client
    assert isinstance(client, ProcessClient)
    prepared = front_end.prepare(PROMPT, SamplingParams(max_tokens=5))

    os.kill(client.pids[0], signal.SIGKILL)
    while not client._deaths:  # the event loop must not turn meanwhile
        time.sleep(0.01)  # noqa: ASYNC251
    submit = partial(front_end.submit, prepared, arrived_at=0, is_streamed=False)
    stream = OutputStream(front_end, submit)
    outputs = [output async for output in stream]

    assert [output.finished for output in outputs] == [True]
    assert front_end.engines.failure is None
    assert [each.is_final for each in told(site, EngineFailed)] == [False]  # type: ignore[attr-defined]
