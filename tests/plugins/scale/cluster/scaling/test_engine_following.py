"""A front end follows the engines that another process brings and takes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import pytest

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, EngineConfig, ExecutorConfig, ModelConfig
from hookline.engine.commands import ResetPrefixCache, Told
from hookline.events import StepOutput
from hookline.exceptions import EngineDeadError, RequestError
from hookline.frontend.client_request import Delivery
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.observation import Observers
from hookline.outputs import RequestOutput
from hookline.sampling_params import SamplingParams
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.tokenizer import Tokenizer
from hookline.transport.engine_client import EngineDied
from hookline_cluster.capabilities import EngineAttachments
from hookline_cluster.extension import ClusterExtension, extend
from hookline_cluster.news import (
    EngineAvailable,
    EngineDraining,
    EngineJoined,
    EngineLeft,
)
from hookline_cluster.scaling.engine_following import SETTLE_SECONDS, EngineFollowing
from hookline_server.engine_number import ScalingState
from hookline_simulated.config import SimulationConfig
from hookline_testing.elastic_engines import InprocElasticClient
from hookline_testing.oracle import Oracle

T = TypeVar("T")
MOST_TURNS = 20_000


class VisitingClient(InprocElasticClient):
    """A client whose engines the test owns.

    Attributes:
        left: Engines that the front end has left, with the number of the wish.
        returned: Engines to which it has come back.
    """

    owns_engines = False

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.left: list[tuple[int, int]] = []
        self.returned: list[int] = []

    def capability(self, kind: type[T]) -> T | None:
        return cast("T", self) if kind is EngineAttachments else None

    def leave(self, engine_index: int, number: int) -> None:
        self.left.append((engine_index, number))

    def come_back(self, engine_index: int) -> None:
        self.returned.append(engine_index)


class SecondaryClient:
    """A front end that does not own its engines, driven by a test."""

    def __init__(self, folder: Path) -> None:
        simulation = SimulationConfig(step_seconds=0.0002, decode_request_seconds=0.0)
        config = EngineConfig(
            model=ModelConfig(model=str(folder)),
            cache=CacheConfig(num_kv_blocks=64),
            executor=ExecutorConfig(name="simulated"),
            sections={"simulated": simulation},
        )
        self.client = VisitingClient(config)
        self.front_end = FrontEnd(
            self.client,
            Tokenizer.load(folder),
            Observers(config, None),
            extend=partial(extend, config),
        )
        assert isinstance(self.front_end.extension, ClusterExtension)
        assert isinstance(self.front_end.extension.scaling, EngineFollowing)
        self.following = self.front_end.extension.scaling
        self.clock = VirtualClock()
        self.following._clock = self.clock
        self.news: list[list[Delivery]] = []

    def join(self, *indices: int) -> None:
        """Engines join, as their owner has started them."""
        for index in indices:
            self.client.add(index, 64)
        self.client.get_ready()
        for _ in indices:
            self.turn()

    def submit(self, max_tokens: int = 4, to: int | None = None) -> int:
        """Submits a request; returns the index of its engine."""
        self.news.append([])
        prepared = self.front_end.prepare(
            [3 + len(self.news), *[4] * 40],
            SamplingParams(max_tokens=max_tokens, ignore_eos=True),
        )
        return self.front_end.submit(
            prepared, self.news[-1].append, arrived_at=0, is_streamed=False, to=to
        ).engine_index

    def turn(self) -> None:
        if (received := self.client.receive(0.001)) is not None:
            self.front_end.on_message(received)

    def drive(self) -> None:
        """Takes everything in until all requests have ended."""
        for _ in range(MOST_TURNS):
            if not self.front_end.engines.num_unconfirmed:
                return
            self.turn()
        raise AssertionError("requests go on")

    def settle(self) -> None:
        """Looks, lets the time pass, and looks again."""
        self.following.look()
        self.clock.sleep(2 * SETTLE_SECONDS)
        self.following.look()

    @property
    def ends(self) -> list[type]:
        return [type(each[-1]) for each in self.news]

    @property
    def indices(self) -> list[int]:
        return [each.index for each in self.front_end.engines]


@pytest.fixture
def secondary(llama: Oracle) -> Iterator[SecondaryClient]:
    made = SecondaryClient(llama.folder)
    yield made
    made.front_end.close()


def test_engines_that_join_get_requests(secondary: SecondaryClient) -> None:
    """Whoever waits for a change learns of them."""
    seen: list[int] = []
    secondary.following.changed = lambda: seen.append(secondary.front_end.engines.most)
    secondary.join(1, 2)
    chosen = {secondary.submit() for _ in range(9)}
    secondary.drive()

    assert chosen == {0, 1, 2}
    assert seen == [2, 3]
    assert set(secondary.ends) == {RequestOutput}


def test_an_engine_that_is_not_wanted_is_left_after_its_requests(
    secondary: SecondaryClient,
) -> None:
    """It gets nothing new; the owner learns when nothing of here is open there."""
    secondary.join(1)
    secondary.submit(60, to=1)
    for _ in range(6):
        secondary.turn()
    secondary.front_end.on_message(EngineDraining(1, 7))
    later = [secondary.submit() for _ in range(4)]
    with pytest.raises(EngineDeadError, match="fewer engines are wanted"):
        secondary.submit(to=1)
    secondary.news.pop()
    secondary.settle()
    while_busy = list(secondary.client.left), secondary.following.state
    secondary.drive()
    secondary.following.look()
    at_once = list(secondary.client.left)
    secondary.settle()

    assert later == [0] * 4
    assert while_busy == ([], ScalingState((0,), (), (1,)))
    assert at_once == []
    assert secondary.client.left == [(1, 7)]
    assert secondary.indices == [0]
    assert set(secondary.ends) == {RequestOutput}
    with pytest.raises(RequestError, match="must be 0 to 0"):
        secondary.submit(to=1)


def test_an_open_call_is_answered_before_it_leaves(secondary: SecondaryClient) -> None:
    """The reply would find nobody."""
    secondary.join(1)
    replies = secondary.front_end.call(ResetPrefixCache())
    secondary.front_end.on_message(EngineDraining(1, 1))
    secondary.settle()
    before = list(secondary.client.left)
    while not all(each.done() for each in replies):
        secondary.turn()
    secondary.settle()

    assert before == []
    assert secondary.client.left == [(1, 1)]
    assert [each.result() for each in replies] == [Told(), Told()]


def test_an_engine_that_stays_after_all_gets_requests_again(
    secondary: SecondaryClient,
) -> None:
    """Whether the front end is still there, or has left and comes back."""
    secondary.join(1)
    secondary.front_end.on_message(EngineDraining(1, 1))
    secondary.front_end.on_message(EngineAvailable(1))
    secondary.settle()
    still_there = secondary.submit(to=1)
    secondary.drive()
    secondary.front_end.on_message(EngineDraining(1, 2))
    secondary.settle()
    secondary.front_end.on_message(EngineAvailable(1))
    back = list(secondary.client.returned)
    secondary.front_end.on_message(EngineJoined(1, secondary.client.engines[1]))
    again = secondary.submit(to=1)
    secondary.drive()

    assert (still_there, again) == (1, 1)
    assert secondary.client.left == [(1, 2)]
    assert back == [1]
    assert set(secondary.ends) == {RequestOutput}


def test_a_wish_that_comes_before_the_engine_is_kept(
    secondary: SecondaryClient,
) -> None:
    """The engine gets no request when it joins, and is left at once."""
    secondary.front_end.on_message(EngineDraining(1, 3))
    secondary.join(1)
    chosen = {secondary.submit() for _ in range(4)}
    secondary.drive()
    secondary.settle()

    assert chosen == {0}
    assert secondary.client.left == [(1, 3)]


def test_the_last_engine_is_not_left(secondary: SecondaryClient) -> None:
    """Another one has joined for its owner, and will for this front end."""
    secondary.front_end.on_message(EngineDraining(0, 1))
    secondary.settle()
    alone = list(secondary.client.left), secondary.submit()
    secondary.drive()
    secondary.join(1)
    secondary.settle()

    assert alone == ([], 0)
    assert secondary.client.left == [(0, 1)]
    assert secondary.indices == [1]


def test_what_comes_of_an_engine_that_was_left_is_ignored(
    secondary: SecondaryClient,
) -> None:
    """States that were on their way, and news of its end."""
    secondary.join(1)
    secondary.front_end.on_message(EngineDraining(1, 1))
    secondary.settle()
    secondary.front_end.on_message(StepOutput(1, 10, "idle", SchedulerStats()))
    secondary.front_end.on_message(EngineDied(1, "it ended", is_replaced=False))
    secondary.front_end.on_message(EngineLeft(1))

    assert secondary.indices == [0]
    assert secondary.front_end.engines.failure is None


def test_an_engine_that_dies_while_it_drains_is_forgotten(
    secondary: SecondaryClient,
) -> None:
    """Its requests end, or move; the owner expects nothing from it."""
    secondary.join(1)
    secondary.submit(200, to=1)
    for _ in range(6):
        secondary.turn()
    secondary.front_end.on_message(EngineDraining(1, 1))
    secondary.client.kill(1)
    secondary.client._news.clear()
    secondary.front_end.on_message(EngineDied(1, "it was killed", is_replaced=False))
    secondary.front_end.on_message(EngineLeft(1))

    assert secondary.ends == [EngineDeadError]
    assert secondary.client.left == []
    assert secondary.indices == [0]
    assert secondary.front_end.engines.residue == 0


def test_requests_of_an_engine_that_is_gone_do_not_hang(
    secondary: SecondaryClient,
) -> None:
    """Even if nothing was said of its death before."""
    secondary.join(1)
    secondary.submit(200, to=1)
    secondary.front_end.on_message(EngineLeft(1))

    assert secondary.ends == [EngineDeadError]
    assert secondary.indices == [0]


def test_the_index_of_a_dead_engine_is_used_again(secondary: SecondaryClient) -> None:
    """The new engine takes the place of the old one."""
    secondary.join(1)
    secondary.client.kill(1)
    secondary.turn()
    secondary.join(1)

    assert secondary.submit(to=1) == 1
    secondary.drive()
    assert secondary.ends == [RequestOutput]
