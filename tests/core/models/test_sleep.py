"""Executors that sleep: what they give back, and what they compute after waking."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch

from hookline.clock import SystemClock, VirtualClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    SchedulerConfig,
)
from hookline.engine.engine_core import EngineCore
from hookline.engine.worker.executor import Executor, ExecutorContext
from hookline.engine_setup.building import build_core
from hookline.engine_setup.engine_facts import engine_facts
from hookline.engine_setup.executor_factory import load_executor_factory
from hookline.engine_setup.making import make_scheduler_parts
from hookline.exceptions import ModelLoadError
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline.startup_timer import StartupTimer
from hookline.step import SleepLevel
from hookline_kernels.layout import new_keys, new_values
from hookline_kernels.runtime.cache_memory import CacheMemory
from hookline_testing.connected_core import connected_core
from hookline_testing.connectors import DictStore
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle
from hookline_testing.simulation import engine_request, run_to_end, tokens_of

from .conftest import Damage

PROMPTS = ([5, 6, 7] * 9, [9], list(range(3, 60)))
TOKENS = 6

MEASURE = """
import json, sys
from hookline.clock import SystemClock
from hookline.config import CacheConfig, EngineConfig, LoadFormat, ModelConfig
from hookline.step import SleepLevel
from hookline.engine.worker.executor import ExecutorContext
from hookline.engine_setup.executor_factory import load_executor_factory
from hookline_kernels.runtime.kv_cache_prefaulter import wait_until_prefaulted
from hookline.startup_timer import StartupTimer

def resident():
    lines = open("/proc/self/status").read().splitlines()
    [line] = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024

clock = SystemClock()
config = EngineConfig(
    model=ModelConfig(model=sys.argv[1], load_format=LoadFormat.DUMMY),
    cache=CacheConfig(kv_cache_memory=48 << 20),
)
executor = load_executor_factory(config.executor_name)(
    ExecutorContext(config=config, clock=clock, timer=StartupTimer(clock))
)
wait_until_prefaulted()
found = {"weights": executor.shape.cost.weight_bytes, "awake": resident()}
executor.sleep(SleepLevel.KV_CACHE)
found["light"] = resident()
executor.sleep(SleepLevel.WEIGHTS)
found["deep"] = resident()
executor.wake_up()
wait_until_prefaulted()
executor.sleep(SleepLevel.WEIGHTS)
found["again"] = resident()
print(json.dumps(found))
"""


def config_of(folder: Path) -> EngineConfig:
    return EngineConfig(
        model=ModelConfig(model=str(folder)),
        cache=CacheConfig(num_kv_blocks=32),
        scheduler=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=32),
    )


def greedy(request_id: int, prompt: Sequence[int]) -> GenerateRequest:
    params = SamplingParams(temperature=0.0, max_tokens=TOKENS)
    return msgspec.structs.replace(engine_request(request_id, prompt), params=params)


def generate(
    core: EngineCore, first_id: int = 1, prompts: Sequence[list[int]] = PROMPTS
) -> list[list[int]]:
    for offset, prompt in enumerate(prompts):
        core.add(greedy(first_id + offset, prompt))
    tokens = tokens_of(run_to_end(core))
    return [tokens[first_id + offset] for offset in range(len(prompts))]


def sleep(core: EngineCore, level: SleepLevel) -> Executor:
    """Puts the executor of a core without requests to sleep."""
    core.reset_prefix_cache()
    executor = core._executor
    executor.sleep(level)
    return executor


@pytest.mark.parametrize("overlaps", essential([False, True], False))
@pytest.mark.parametrize("level", SleepLevel)
def test_outputs_after_waking_equal_those_before(
    llama: Oracle, level: SleepLevel, *, overlaps: bool
) -> None:
    """Twice in a row, also where another thread computes."""
    config = config_of(llama.folder)
    scheduler = replace(config.scheduler, async_scheduling=overlaps)
    core = build_core(replace(config, scheduler=scheduler), SystemClock())
    before = generate(core)

    for first_id in (10, 20):
        sleep(core, level).wake_up()
        assert generate(core, first_id) == before
    core.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "level"),
    [
        ("ngram", SleepLevel.WEIGHTS),
        ("medusa", SleepLevel.WEIGHTS),
        ("eagle", SleepLevel.KV_CACHE),
        ("eagle", SleepLevel.WEIGHTS),
    ],
)
def test_drafts_are_made_after_waking(method: str, level: SleepLevel) -> None:
    """Proposers get the new weights, and their layers the same memory."""
    speculative = {"method": method, "num_speculative_tokens": 2}
    config = config_of(Path("demo"))
    model = replace(config.model, max_model_len=256)
    config = replace(config, model=model, speculative=speculative)
    core = build_core(config, SystemClock())
    prompts = [[40, 41, 42, 43] * 5]
    before = generate(core, 1, prompts)

    sleep(core, level).wake_up()
    core.add(greedy(2, prompts[0]))
    outputs = run_to_end(core)
    core.close()

    assert tokens_of(outputs)[2] == before[0]
    assert sum(each.record.verified.draft_tokens for each in outputs if each.record) > 0


@pytest.mark.exhaustive
def test_deeper_sleep_may_follow_a_light_one(llama: Oracle) -> None:
    """Waking from both is one waking; a light one does not undo a deep one."""
    core = build_core(config_of(llama.folder), SystemClock())
    before = generate(core)

    executor = sleep(core, SleepLevel.KV_CACHE)
    executor.sleep(SleepLevel.WEIGHTS)
    executor.sleep(SleepLevel.KV_CACHE)
    executor.wake_up()

    assert generate(core, 10) == before
    core.close()


def test_no_step_is_executed_during_sleep(llama: Oracle) -> None:
    """It would write where there is no memory."""
    core = build_core(config_of(llama.folder), SystemClock())
    sleep(core, SleepLevel.KV_CACHE)
    core.add(engine_request(1, PROMPTS[0], TOKENS))

    with pytest.raises(AssertionError, match="sleep"):
        core.step()
    core.close()


def test_sleeping_executor_can_be_closed(llama: Oracle) -> None:
    """An engine may end before it wakes."""
    core = build_core(config_of(llama.folder), SystemClock())

    sleep(core, SleepLevel.WEIGHTS)

    core.close()


def test_unsuitable_weights_are_refused_and_sleep_continues(
    configured: Damage,
) -> None:
    """The folder changed meanwhile; once it is as it was, the engine wakes."""
    folder = configured()
    whole = (folder / "config.json").read_text()
    core = build_core(config_of(folder), SystemClock())
    before = generate(core)
    executor = sleep(core, SleepLevel.WEIGHTS)

    configured(num_hidden_layers=2)
    with pytest.raises(ModelLoadError, match="changed during sleep"):
        executor.wake_up()
    (folder / "config.json").write_text(whole)
    executor.wake_up()

    assert generate(core, 10) == before
    core.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.exhaustive
def test_memory_is_returned_to_the_system(configured: Damage) -> None:
    """Level 1 returns the cache of 48 MiB, level 2 also weights of over 40 MiB."""
    folder = configured(
        max_position_embeddings=64,
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=3,
        head_dim=None,
    )
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder)],
        check=True,
        capture_output=True,
        text=True,
    )

    found = json.loads(run.stdout)
    weights, mib = found["weights"], 1 << 20
    assert weights > 40 * mib
    assert found["awake"] - found["light"] > 40 * mib
    assert found["light"] - found["deep"] > 0.8 * weights
    assert found["again"] < found["deep"] + 20 * mib


def test_released_memory_is_zero_after_waking() -> None:
    """Every whole page of keys and values; their addresses stay."""
    tensors = [
        new(64, 16, 4, 32, torch.float32) for new in (new_keys, new_values, new_keys)
    ]
    for tensor in tensors:
        tensor.fill_(1.5)
    places = [tensor.data_ptr() for tensor in tensors]
    memory = CacheMemory(tensors)

    memory.free()
    memory.restore()

    assert [tensor.data_ptr() for tensor in tensors] == places
    assert not any(tensor.any() for tensor in tensors)


@pytest.mark.parametrize("resets", [True, False])
def test_simulated_cache_loses_its_contents(*, resets: bool) -> None:
    """Without a reset of the prefix cache zeros are read and tokens are wrong."""
    connected = connected_core(DictStore())
    connected.core.add(engine_request(1, PROMPTS[0], TOKENS))
    before = tokens_of(connected.run())[1]

    if resets:
        connected.core.reset_prefix_cache()
    connected.core._executor.sleep(SleepLevel.WEIGHTS)
    connected.core._executor.wake_up()
    connected.core.add(engine_request(2, PROMPTS[0], TOKENS))

    assert (tokens_of(connected.run())[2] == before) is resets


def test_simulated_executor_computes_nothing_during_sleep(llama: Oracle) -> None:
    """As one with a model."""
    clock = VirtualClock()
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        executor=ExecutorConfig(name="simulated"),
    )
    factory = load_executor_factory(config.executor_name)
    context = ExecutorContext(config=config, clock=clock, timer=StartupTimer(clock))
    executor = factory(context)
    facts = engine_facts(config, executor.shape)
    parts = make_scheduler_parts(config, executor.shape, clock)
    core = EngineCore(config, executor, clock, facts, parts)
    executor.sleep(SleepLevel.KV_CACHE)
    core.add(engine_request(1, PROMPTS[0], TOKENS))

    with pytest.raises(AssertionError, match="sleep"):
        core.step()
