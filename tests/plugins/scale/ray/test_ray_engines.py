"""Engines on a Ray cluster of two nodes: they serve, die and are replaced."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hookline import LLM, AsyncEngine, EngineDeadError, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import EngineRestartingError
from hookline.frontend.output_stream import OutputStream
from hookline_cluster.scaling.scaling import DRAIN_SECONDS
from hookline_server.engine_number import EngineNumber, StartFailedError
from hookline_simulated.config import SimulationConfig
from hookline_testing.changed_cluster import changed
from hookline_testing.own_time import Deadline

if TYPE_CHECKING:
    from .conftest import Nodes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

StartEngine = Callable[[EngineConfig], Awaitable[AsyncEngine]]

PROMPT = [1, 2, 3]
LONG = SamplingParams(max_tokens=200, ignore_eos=True)
WAIT_SECONDS = 60.0


async def until(holds: Callable[[], bool]) -> None:
    deadline = Deadline(WAIT_SECONDS)
    while not holds():
        assert deadline.is_ahead
        await asyncio.sleep(0.05)


async def length_of(stream: OutputStream, taken: int = 0) -> int:
    """Number of tokens of a request that nothing disturbs, with those taken before."""
    return taken + sum([len(each.outputs[0].token_ids) async for each in stream])


async def error_of(stream: OutputStream) -> str:
    with pytest.raises(EngineDeadError) as caught:
        async for _ in stream:
            pass
    return caught.value.reason


async def submit_once_it_runs(engine: AsyncEngine, index: int) -> OutputStream:
    deadline = Deadline(WAIT_SECONDS)
    while True:
        try:
            return await engine.submit(PROMPT, LONG, data_parallel_rank=index)
        except EngineRestartingError:
            assert deadline.is_ahead
            await asyncio.sleep(0.1)


def shown_in(name: str) -> Iterator[bytes]:
    """What all processes show under a name in /proc."""
    for path in Path("/proc").glob(f"[0-9]*/{name}"):
        with suppress(OSError):
            yield path.read_bytes()


async def start_both(engine: AsyncEngine) -> list[tuple[OutputStream, int]]:
    """A request on each engine, and how many of its tokens have come."""
    streams = [
        await engine.submit(PROMPT, LONG, data_parallel_rank=index) for index in (0, 1)
    ]
    return [
        (stream, len((await anext(stream)).outputs[0].token_ids)) for stream in streams
    ]


async def test_engines_are_spread_over_the_nodes(
    start_engine: StartEngine, on_ray: EngineConfig, nodes: "Nodes", tmp_path: Path
) -> None:
    """Each node runs an engine, both serve, and none is left after the end.

    No process shows the secret of their connections.
    """
    secret = secrets.token_hex()
    file = tmp_path / "secret"
    file.write_text(secret)
    engine = await start_engine(changed(on_ray, secret_file=str(file)))
    streams = await start_both(engine)
    engines = nodes.engines
    shown = [each for pattern in ("cmdline", "environ") for each in shown_in(pattern)]

    lengths = await asyncio.gather(*[length_of(*each) for each in streams])
    await engine.close()

    assert not any(secret.encode() in each for each in shown)
    assert lengths == [200, 200]
    assert sorted(engines) == [0, 1]
    assert len({id(node) for node, _, _ in engines.values()}) == 2
    await until(lambda: not nodes.engines)


def test_output_is_that_of_an_engine_in_this_process(nodes: "Nodes") -> None:
    """Where the engine runs makes no difference to the tokens."""
    greedy = SamplingParams(max_tokens=12, temperature=0.0)
    prompts = ["def add(a, b):", "class Stack:"]
    with LLM("demo", num_kv_blocks=256, threads=1) as here:
        expected = [
            each.outputs[0].token_ids for each in here.generate(prompts, greedy)
        ]

    with LLM(
        "demo",
        num_kv_blocks=256,
        threads=1,
        data_parallel_size=2,
        data_parallel_backend="ray",
        ray_address=nodes.address,
    ) as there:
        found = [each.outputs[0].token_ids for each in there.generate(prompts, greedy)]

    assert found == expected


@pytest.mark.parametrize("victim", ["actor", "engine"])
async def test_a_killed_engine_is_replaced_and_disturbs_nobody(
    start_engine: StartEngine, on_ray: EngineConfig, nodes: "Nodes", victim: str
) -> None:
    """Its request ends with an error, the other's goes on, and a new one is served."""
    engine = await start_engine(on_ray)
    streams = await start_both(engine)
    _, actor, process = nodes.engines[0]

    os.kill(actor if victim == "actor" else process, signal.SIGKILL)
    error, length = await asyncio.gather(
        error_of(streams[0][0]), length_of(*streams[1])
    )
    again = await submit_once_it_runs(engine, 0)

    assert error
    assert length == 200
    assert await length_of(again) == 200
    assert nodes.engines[0][2] != process
    assert engine.failure is None


async def test_an_untouched_request_begins_again_on_another_node(
    start_engine: StartEngine, on_ray: EngineConfig, nodes: "Nodes"
) -> None:
    """A node ends; what its engine had not answered is served by the next actor."""
    from hookline_ray.two_nodes import add_node  # noqa: PLC0415 - it imports Ray

    slow = {**on_ray.sections, "simulated": SimulationConfig(step_seconds=8.0)}
    engine = await start_engine(replace(on_ray, sections=slow))
    head = nodes.cluster.head_node
    index, node = next(
        (index, node) for index, (node, *_) in nodes.engines.items() if node is not head
    )
    add_node(nodes.cluster)  # Ray sets signal handlers in it
    one = SamplingParams(max_tokens=1, ignore_eos=True)
    stream = await engine.submit(PROMPT, one, data_parallel_rank=index)

    nodes.kill_node(node)

    assert await length_of(stream) == 1
    assert nodes.engines[index][0] not in (node, head)


async def test_without_room_the_start_says_what_was_asked_for(
    start_engine: StartEngine, on_ray: EngineConfig
) -> None:
    """Three engines do not fit two nodes of one CPU: one error names both."""

    with pytest.raises(EngineDeadError) as caught:
        await start_engine(changed(on_ray, engines=3, join_timeout=3))

    assert "3 engines with 1 CPU each were asked for" in caught.value.reason
    assert "2 nodes with 1, 1 CPUs" in caught.value.reason


async def test_a_killed_head_node_leaves_no_engine(
    nodes: "Nodes", tmp_path: Path
) -> None:
    """The actors and their engines end with the process that asked for them."""
    command = [sys.executable, "-m", "hookline_server", "serve", "demo"]
    options = {
        "executor": "simulated",
        "num-kv-blocks": "256",
        "data-parallel-size": "2",
        "data-parallel-backend": "ray",
        "ray-address": nodes.address,
        "port": "0",
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    with (tmp_path / "log").open("wb") as log:
        head = await asyncio.create_subprocess_exec(
            *command, *arguments, stdout=log, stderr=log
        )
    try:
        await until(lambda: len(nodes.engines) == 2)
        await asyncio.sleep(2.0)
    finally:
        head.kill()
        await head.wait()

    await until(lambda: not nodes.engines)


async def test_engines_come_and_go(
    start_engine: StartEngine, on_ray: EngineConfig, nodes: "Nodes"
) -> None:
    """One that joins gets a place of its own; none of it is left when it has left.

    One too many has no place: the others serve on.
    """
    engine = await start_engine(changed(on_ray, engines=1, join_timeout=8.0))
    before = await engine.submit(PROMPT, LONG)
    number = engine.capability(EngineNumber)
    assert number is not None
    grown = await number.scale(2, drain_seconds=DRAIN_SECONDS)
    streams = [
        await engine.submit(PROMPT, LONG, data_parallel_rank=index) for index in (0, 1)
    ]
    running = nodes.engines
    shrinking = asyncio.create_task(number.scale(1, drain_seconds=DRAIN_SECONDS))
    lengths = await asyncio.gather(*map(length_of, [before, *streams]))
    shrunk = await shrinking
    await until(lambda: sorted(nodes.engines) == [0])
    with pytest.raises(StartFailedError, match="no place on the Ray cluster"):
        await number.scale(3, drain_seconds=DRAIN_SECONDS)
    last = await engine.submit(PROMPT, LONG)

    assert grown.serving == (0, 1)
    assert len({id(node) for node, _, _ in running.values()}) == 2
    assert lengths == [200] * 3
    assert shrunk.serving == (0,)
    assert await length_of(last) == 200
