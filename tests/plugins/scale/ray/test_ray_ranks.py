"""Ranks of one engine on a Ray cluster of two nodes: they serve, die and come back."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hookline import LLM, AsyncEngine, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import (
    ConfigError,
    EngineDeadError,
    EngineRestartingError,
)
from hookline_testing.changed_cluster import changed
from hookline_testing.own_time import Deadline

from .conftest import children_of, command_of

if TYPE_CHECKING:
    from .conftest import Nodes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

StartEngine = Callable[[EngineConfig], Awaitable[AsyncEngine]]

PROMPT = [1, 2, 3]
LONG = SamplingParams(max_tokens=400, ignore_eos=True)
SHORT = SamplingParams(max_tokens=4, ignore_eos=True)
GREEDY = SamplingParams(max_tokens=12, temperature=0.0)
PROMPTS = ["def add(a, b):", "class Stack:"]
WAIT_SECONDS = 60.0


async def until(holds: Callable[[], bool]) -> None:
    deadline = Deadline(WAIT_SECONDS)
    while not holds():
        assert deadline.is_ahead
        await asyncio.sleep(0.05)


def texts(llm: LLM) -> list[list[int]]:
    found = llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    return [each.outputs[0].token_ids for each in found]


async def length_once_it_runs(engine: AsyncEngine) -> int:
    """Number of tokens of a request, sent until an engine takes it."""
    deadline = Deadline(WAIT_SECONDS)
    while True:
        with suppress(EngineRestartingError):
            stream = await engine.submit(PROMPT, SHORT)
            return sum([len(each.outputs[0].token_ids) async for each in stream])
        assert deadline.is_ahead
        await asyncio.sleep(0.1)


async def error_of(engine: AsyncEngine, hurt: Callable[[], object]) -> str:
    """The error of a request that is hurt after its first token."""
    stream = await engine.submit(PROMPT, LONG)
    await anext(stream)
    hurt()
    with pytest.raises(EngineDeadError) as caught:
        async for _ in stream:
            pass
    return caught.value.reason


def engine_of(server: int) -> int:
    """Process id of a server's engine."""
    [found] = [
        pid
        for pid in children_of(server)
        if "hookline_process_engine.engine_process" in command_of(pid)
    ]
    return found


@pytest.fixture
def on_ranks(nodes: "Nodes") -> EngineConfig:
    """One engine of two ranks, one on each node."""
    return EngineConfig.from_options(
        model="demo",
        num_kv_blocks=256,
        threads=1,
        tensor_parallel_size=2,
        executor="ray",
        ray_address=nodes.address,
        data_parallel_join_timeout=60.0,
        engine_restart=10,
        in_process=False,
    )


@pytest.fixture
async def engine(on_ranks: EngineConfig) -> AsyncIterator[AsyncEngine]:
    made = await AsyncEngine.start(on_ranks)
    yield made
    await asyncio.wait_for(made.close(), 60)


@pytest.mark.parametrize(
    "division",
    [{"tensor_parallel_size": 2}, {"pipeline_parallel_size": 2}],
    ids=["TP 2", "PP 2"],
)
def test_output_is_that_of_one_process(
    nodes: "Nodes", division: dict[str, Any]
) -> None:
    """Token for token; each node computes a rank, and none is left after the end."""
    with LLM("demo", dtype="float32", num_kv_blocks=256, threads=1) as here:
        expected = texts(here)

    with LLM(
        "demo",
        dtype="float32",
        num_kv_blocks=256,
        threads=1,
        distributed_executor_backend="ray",
        ray_address=nodes.address,
        **division,
    ) as there:
        running = nodes.ranks
        found = [texts(there) for _ in range(2)]
        facts = there.front_end.facts

    assert found == [expected, expected]
    assert facts.executor == "ray"
    assert facts.rank_pids == tuple(running[rank][2] for rank in (0, 1))
    assert len({id(node) for node, _, _ in running.values()}) == 2
    assert nodes.ranks == {}


@pytest.mark.parametrize("victim", ["rank", "actor"])
async def test_a_killed_rank_is_named_and_replaced(
    engine: AsyncEngine, nodes: "Nodes", victim: str
) -> None:
    """With all ranks of its engine, by new actors."""
    before = nodes.ranks
    _, actor, process = before[1]
    killed = process if victim == "rank" else actor

    error = await error_of(engine, lambda: os.kill(killed, signal.SIGKILL))

    assert await length_once_it_runs(engine) == 4
    after = nodes.ranks
    pids = {pid for _, _, pid in before.values()}
    assert pids.isdisjoint(pid for _, _, pid in after.values())
    assert "rank 1: " in error


async def test_ranks_of_a_lost_node_find_another_one(
    engine: AsyncEngine, nodes: "Nodes"
) -> None:
    """All of them begin again, there and on the node that is left."""
    from hookline_ray.two_nodes import add_node  # noqa: PLC0415 - it imports Ray

    head = nodes.cluster.head_node
    rank, node = next(
        (rank, node) for rank, (node, *_) in nodes.ranks.items() if node is not head
    )
    add_node(nodes.cluster)

    error = await error_of(engine, lambda: nodes.kill_node(node))

    assert f"rank {rank}: " in error
    assert await length_once_it_runs(engine) == 4
    assert node not in [each for each, _, _ in nodes.ranks.values()]


async def test_a_stopped_rank_is_named_and_replaced(
    engine: AsyncEngine, nodes: "Nodes"
) -> None:
    """It gives no sign of life, however its machine is."""
    _, _, process = nodes.ranks[1]

    error = await error_of(engine, lambda: os.kill(process, signal.SIGSTOP))

    assert "rank 1: the connection to" in error
    assert await length_once_it_runs(engine) == 4
    assert not command_of(process)


async def test_without_room_the_start_says_what_was_asked_for(
    on_ranks: EngineConfig,
) -> None:
    """Three ranks do not fit two nodes of one CPU: one error names both."""
    parallel = replace(
        on_ranks.parallel, tensor_parallel_size=1, pipeline_parallel_size=3
    )

    given = changed(replace(on_ranks, parallel=parallel), join_timeout=3)
    with pytest.raises(EngineDeadError) as caught:
        await AsyncEngine.start(given)

    assert "3 ranks with 1 CPU each were asked for" in caught.value.reason
    assert "2 nodes with 1, 1 CPUs" in caught.value.reason


async def test_several_engines_have_ranks_of_their_own(
    on_ranks: EngineConfig, nodes: "Nodes"
) -> None:
    """Two engines of one rank each, one on each node."""
    parallel = replace(on_ranks.parallel, tensor_parallel_size=1)
    given = changed(replace(on_ranks, parallel=parallel), engines=2)
    engine = await AsyncEngine.start(given)
    streams = [
        await engine.submit(PROMPT, SHORT, data_parallel_rank=index) for index in (0, 1)
    ]
    lengths = [
        sum([len(each.outputs[0].token_ids) async for each in stream])
        for stream in streams
    ]
    await asyncio.wait_for(engine.close(), 60)

    assert lengths == [4, 4]
    await until(lambda: not nodes.ranks)


@pytest.mark.parametrize("victim", ["server", "engine"])
async def test_whoever_is_killed_leaves_no_rank(
    nodes: "Nodes", tmp_path: Path, victim: str
) -> None:
    """Nor an actor or a placement group, whose CPUs others can have."""
    command = [sys.executable, "-m", "hookline_server", "serve", "demo"]
    options = {
        "num-kv-blocks": "256",
        "tensor-parallel-size": "2",
        "distributed-executor-backend": "ray",
        "ray-address": nodes.address,
        "port": "0",
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    with (tmp_path / "log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(
            *command, *arguments, stdout=log, stderr=log
        )
    try:
        await until(lambda: len(nodes.ranks) == 2)
        killed = server.pid if victim == "server" else engine_of(server.pid)
        os.kill(killed, signal.SIGKILL)
        await until(lambda: not nodes.ranks)
    finally:
        with suppress(ProcessLookupError):
            server.kill()
        await server.wait()
    with LLM(
        "demo",
        num_kv_blocks=256,
        pipeline_parallel_size=2,
        executor="ray",
        ray_address=nodes.address,
    ) as llm:
        assert len(texts(llm)) == len(PROMPTS)


def test_engines_without_a_cluster_would_each_start_one() -> None:
    """They are refused, with the option that helps."""
    pytest.importorskip("ray", reason="Ray is not installed: make ray")
    with pytest.raises(ConfigError, match="ray-address: is required for 2 engines"):
        LLM("demo", num_kv_blocks=64, executor="ray", data_parallel_size=2)
