"""Engines and traffic of a seed, which mix what the scenarios have one by one."""

import random
from pathlib import Path

import msgspec

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, Policy, SchedulerConfig
from hookline.engine.commands import Add, ResetPrefixCache, Sleep, SleepMode, WakeUp
from hookline.engine.engine_core import EngineCore
from hookline.engine.worker.executor import Executor
from hookline.request import GenerateRequest
from hookline_recording.config import Content
from hookline_testing.replay_corpus.recorded_engine import RecordedEngine, finish
from hookline_testing.replay_corpus.scenarios import SALT, TIMES
from hookline_testing.replay_corpus.stand_ins import (
    ChangedResults,
    TimedGate,
    failing,
    stopping,
)
from hookline_testing.replay_corpus.traffic import Arrivals, Load, arrivals, with_facts
from hookline_testing.simulation import simulated_core

MOST_TOKENS = 160


def record_fuzzed(path: Path, seed: int, *, requests: int = 60) -> None:
    """Makes the recording of a seed."""
    source = random.Random(seed)  # noqa: S311 - no secret
    engine = RecordedEngine(
        _core(source),
        path,
        content=source.choice((Content.HASHES, Content.HASHES, Content.TOKENS)),
        salt=SALT,
    )
    engine.serve(_commands(source, engine, requests))
    engine.close()


def _core(source: random.Random) -> EngineCore:
    size = source.choice((1, 4, 8, 16))
    needed = -(-MOST_TOKENS // size)
    seqs = source.randint(1, 12)
    stages = source.choice((1, 1, 1, 2, 3))
    chunks = source.random() < 0.8
    clock = VirtualClock()
    gated = source.random() < 0.4

    def wrap(inner: Executor) -> Executor:
        seed = source.randrange(1000)
        if source.random() < 0.5:
            inner = ChangedResults(inner, stopping(seed))
        return ChangedResults(inner, failing(seed)) if seed % 3 == 0 else inner

    return simulated_core(
        cache=CacheConfig(
            block_size=size,
            num_kv_blocks=needed + source.randrange(2 * needed),
            enable_prefix_caching=source.random() < 0.85,
        ),
        scheduler=SchedulerConfig(
            max_num_seqs=seqs,
            max_num_batched_tokens=source.randint(16, 96) if chunks else MOST_TOKENS,
            enable_chunked_prefill=chunks,
            policy=source.choice(list(Policy)),
            priority_aging=source.choice((0.0, 0.1, 30.0)),
            async_scheduling=source.random() < 0.4,
        ),
        max_model_len=MOST_TOKENS,
        simulation=TIMES,
        clock=clock,
        gates=[TimedGate(clock)] if gated else [],
        stages=stages,
        wrap=wrap,
    )


def _commands(source: random.Random, engine: RecordedEngine, requests: int) -> Arrivals:
    seconds = source.choice((0.5, 2.0, 6.0))
    load = Load(
        requests=requests,
        seconds=seconds,
        prompt_tokens=source.choice((10, 50, 90)),
        output_tokens=source.choice((5, 30, 60)),
    )
    commands = arrivals(load, source.randrange(1 << 30), _changed)
    for at, add in list(commands):
        assert isinstance(add, Add)
        if source.random() < 0.1:
            commands.append((at + source.random(), finish(add.request.request_id)))
    for _ in range(source.choice((0, 0, 3))):
        at = source.random() * seconds
        mode = source.choice(list(SleepMode))
        commands.append((at, engine.call(Sleep(mode=mode))))
        commands.append((at + 0.2, engine.call(WakeUp())))
    for _ in range(source.choice((0, 0, 3))):
        reset = ResetPrefixCache(reset_running_requests=source.random() < 0.5)
        commands.append((source.random() * seconds, engine.call(reset)))
    return commands


def _changed(request: GenerateRequest, source: random.Random) -> GenerateRequest:
    payer = source.choice("abc")
    request = with_facts(
        request,
        client_id=f"{request.request_id // 3}" if source.random() < 0.3 else "",
        tenant=payer,
        client=(payer, source.choice("xy")),
        weight={"a": 1.0, "b": 2.0, "c": 0.5}[payer],
        priority=source.randrange(-2, 3),
    )
    return msgspec.structs.replace(
        request,
        timeout_seconds=source.random() * 3 if source.random() < 0.15 else None,
        skip_reading_prefix_cache=source.random() < 0.1,
        cache_salt=source.choice((None, None, "a")),
    )
