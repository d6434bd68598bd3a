"""Requests of an engine that has ended move to engines that work."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, cast

import pytest

from hookline.clock import NANOSECONDS, SystemClock
from hookline.config import EngineConfig
from hookline.engine.commands import Add
from hookline.engine.engine_loop import EngineLoop
from hookline.engine_setup.building import build_core, build_loop
from hookline.exceptions import EngineDeadError
from hookline.frontend.client_request import ClientRequest, Delivery
from hookline.frontend.engine_vitals import Stall
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.observation import Observers
from hookline.outputs import RequestOutput
from hookline.sampling_params import SamplingParams
from hookline.stats.scheduler_stats import Residue
from hookline.tokenizer import Tokenizer
from hookline.transport.engine_client import DeathKind, EngineDied, EngineInfo
from hookline.transport.inproc_client import EngineTurn, InprocClient
from hookline_cluster.capabilities import EngineLinks, RemoteEngines
from hookline_cluster.config.cluster import local_engines
from hookline_cluster.extension import ClusterExtension, extend
from hookline_metrics import Recorder
from hookline_metrics.front_end_parts import EngineLink, LinkStats
from hookline_process_engine.capabilities import EngineReplaced
from hookline_testing.oracle import Oracle

WHY = "it fell"
FAULTS = [DeathKind.FAILED, DeathKind.CRASHED, DeathKind.STALLED]
MOST_MESSAGES = 5000
T = TypeVar("T")


class Mortal(InprocClient):
    """Engines in this process, which the test ends."""

    def end(self, index: int, kind: DeathKind, *, is_replaced: bool) -> EngineDied:
        self._driven[index].death = WHY
        self._turns.remove(index)
        return EngineDied(index, WHY, kind, is_replaced)

    def replace(self, index: int, loop: EngineLoop) -> EngineReplaced:
        """Puts a new engine into the place of one that has ended."""
        self._driven[index] = EngineTurn(loop)
        self._turns.append(index)
        core = loop.core
        self.engines[index] = info = EngineInfo(core.facts, core.clock_pair())
        return EngineReplaced(index, info)

    def waiting_adds(self, index: int) -> list[Add]:
        """Takes the commands that an engine has not taken, all of them additions."""
        commands = self._driven[index].commands
        found = [commands.get_nowait() for _ in range(commands.qsize())]
        assert all(isinstance(each, Add) for each in found)
        return [each for each in found if isinstance(each, Add)]


class Scattered(Mortal):
    """Engine 0 is here, 1 and 2 are on one other machine, and 3 on another one."""

    hosts = MappingProxyType({1: "a", 2: "a", 3: "b"})

    @property
    def links(self) -> LinkStats:
        return LinkStats(
            engines=tuple(
                EngineLink(engine_index=index, host=host)
                for index, host in self.hosts.items()
            )
        )

    def returns(self, engine_index: int) -> bool:
        return engine_index in self.hosts

    def capability(self, kind: type[T]) -> T | None:
        return cast("T", self) if kind in {EngineLinks, RemoteEngines} else None


@dataclass
class Cluster:
    """A front end and its engines; the news of each request are kept."""

    client: Mortal
    front_end: FrontEnd
    recorder: Recorder
    make_loop: Callable[[int], EngineLoop]
    news: list[list[Delivery]] = field(default_factory=list)
    replaced: set[int] = field(default_factory=set)

    def submit(
        self,
        to: int | None = None,
        *,
        seconds_ago: float = 0.0,
        timeout_seconds: float | None = None,
        is_streamed: bool = False,
        prompt: Sequence[int] = (3, 4, 5),
        **params: object,
    ) -> ClientRequest:
        given = {"max_tokens": 30, "ignore_eos": True} | params
        self.news.append([])
        arrived_at = SystemClock().now() - round(seconds_ago * NANOSECONDS)
        limit = (
            None if timeout_seconds is None else round(timeout_seconds * NANOSECONDS)
        )
        request = self.front_end.submit(
            self.front_end.prepare(prompt, SamplingParams(**given)),  # type: ignore[arg-type]
            self.news[-1].append,
            arrived_at=arrived_at,
            is_streamed=is_streamed,
            ends_at=None if limit is None else arrived_at + limit,
            to=to,
        )
        request.is_named = False  # `to` only fixes where the test begins
        return request

    def end(
        self,
        index: int,
        kind: DeathKind = DeathKind.EXITED,
        *,
        is_replaced: bool = False,
    ) -> None:
        self.front_end.on_message(self.client.end(index, kind, is_replaced=is_replaced))

    def replace(self, index: int) -> None:
        """Lets an engine that has ended live again, without requests."""
        self.replaced.add(index)
        replaced = self.client.replace(index, self.make_loop(index))
        self.front_end.on_message(replaced)

    def take(self, number: int) -> None:
        """Takes some messages of engines."""
        for _ in range(number):
            if (received := self.client.receive(0.01)) is not None:
                self.front_end.on_message(received)

    def drive(self) -> None:
        """Takes messages until no request is open."""
        for _ in range(MOST_MESSAGES):
            if not self.front_end.engines.num_unconfirmed:
                return
            self.take(1)
        raise AssertionError("requests are left")

    def tokens(self, number: int) -> list[int]:
        """The tokens of a request with one completion, which ended well."""
        outputs = self.outputs(number)
        assert outputs[-1].finished
        return [token for each in outputs for token in each.outputs[0].token_ids]

    def outputs(self, number: int) -> list[RequestOutput]:
        found = [each for each in self.news[number] if isinstance(each, RequestOutput)]
        assert len(found) == len(self.news[number])
        return found

    def error(self, number: int) -> type[Delivery]:
        return type(self.news[number][-1])

    def assert_books_balance(self, received: int) -> None:
        """In each engine, in the front end, in the metrics, and in sum."""
        assert self.front_end.engines.residue == 0
        total = 0
        for engine in self.front_end.engines:
            books, index = engine.accounting, str(engine.index)
            assert engine.stats.totals.residue == Residue()
            counts = {
                name: self.metric(f"hookline_requests_{name}", index)
                for name in ("received", "taken_over", "moved", "finished")
            }
            assert counts["received"] == books.received
            if engine.index not in self.replaced:  # else it counts them again
                assert books.received == engine.stats.totals.received
            assert counts["taken_over"] == books.migrated_in
            assert counts["moved"] == books.moved
            came = counts["received"] + counts["taken_over"]
            assert came == counts["finished"] + counts["moved"] + books.num_in_flight
            total += books.received
        assert total == received

    def metric(self, name: str, engine: str) -> float:
        values = [
            sample.value
            for family in self.recorder.snapshot()
            if family.name == name
            for sample in family.samples
            if sample.labels[family.label_names.index("engine")] == engine
        ]
        return sum(each for each in values if isinstance(each, int | float))

    @property
    def placed(self) -> Counter[tuple[str, str]]:
        stats = self.front_end.router.stats
        return Counter({(index, why): count for index, why, count in stats.requests})


StartCluster = Callable[..., Cluster]


@pytest.fixture
def start(llama: Oracle) -> Iterator[StartCluster]:
    """Starts engines in this process; without a model unless asked otherwise."""
    made: list[Cluster] = []

    def start(engines: int, kind: type[Mortal] = Mortal, **options: object) -> Cluster:
        given: dict[str, object] = {"executor": "simulated", "num_kv_blocks": 64}
        config = EngineConfig.from_options(
            model=str(llama.folder),
            data_parallel_size=engines,
            in_process=True,
            **given | options,
        )
        configs: Sequence[EngineConfig] = local_engines(config)

        def make_loop(index: int) -> EngineLoop:
            return build_loop(build_core(configs[index], SystemClock()))

        client = kind(*map(make_loop, range(engines)))
        recorder = Recorder(config)
        front_end = FrontEnd(
            client,
            Tokenizer.load(Path(config.model.model)),
            Observers(config, recorder),
            extend=partial(extend, config),
        )
        made.append(Cluster(client, front_end, recorder, make_loop))
        return made[-1]

    yield start
    for each in made:
        each.front_end.close()


@pytest.mark.parametrize("messages", [0, 12])
def test_untouched_requests_move(start: StartCluster, *, messages: int) -> None:
    """Waiting or running, with all their completions; each is received once."""
    cluster = start(2)
    for number in range(4):
        cluster.submit(to=number % 2, n=1 + number % 3)
    cluster.take(messages)

    cluster.end(0)
    assert cluster.front_end.engines.residue == 0
    cluster.drive()

    for number in range(4):
        [output] = cluster.outputs(number)
        assert output.finished
        assert [len(each.token_ids) for each in output.outputs] == [30] * (
            1 + number % 3
        )
    first, second = cluster.front_end.engines
    assert (first.accounting.moved, second.accounting.migrated_in) == (4, 4)
    assert first.accounting.finished == {}
    assert second.accounting.finished == {"length": 7}
    assert second.stats.totals.migrated_in == 4
    cluster.assert_books_balance(received=7)
    assert cluster.placed == {("0", "named"): 2, ("1", "named"): 2, ("1", "moved"): 2}


def test_what_a_client_has_seen_or_named_does_not_move(start: StartCluster) -> None:
    """A stream that has begun, and a request for this engine, end with an error."""
    cluster = start(2)
    begun = cluster.submit(to=0, is_streamed=True)
    named = cluster.submit(to=0)
    named.is_named = True
    cluster.submit(to=0)
    while not begun.has_delivered:
        cluster.take(1)

    cluster.end(0)
    cluster.drive()

    assert [cluster.error(number) for number in (0, 1)] == [EngineDeadError] * 2
    assert len(cluster.tokens(2)) == 30
    cluster.assert_books_balance(received=3)


@pytest.mark.parametrize("kind", FAULTS)
def test_the_last_engine_gets_nothing_that_may_have_failed_another(
    start: StartCluster, kind: DeathKind
) -> None:
    """A request that ends each engine that it reaches leaves the last one."""
    cluster = start(2)
    cluster.submit(to=0)

    cluster.end(0, kind)

    assert cluster.error(0) is EngineDeadError
    cluster.submit()
    cluster.drive()
    assert len(cluster.tokens(1)) == 30
    cluster.assert_books_balance(received=2)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_request_moves_once_from_engines_that_failed(
    start: StartCluster, kind: DeathKind
) -> None:
    """One that was there when two engines failed may be the reason."""
    cluster = start(4)
    poison = cluster.submit(to=0)

    cluster.end(0, kind)
    reached = poison.engine_index
    innocent = cluster.submit(to=reached)
    cluster.end(reached, kind)
    cluster.drive()

    assert reached != 0
    assert cluster.error(0) is EngineDeadError
    assert len(cluster.tokens(1)) == 30
    assert innocent.engine_index not in (0, reached)
    assert len(cluster.front_end.engines.running) == 2
    cluster.assert_books_balance(received=2)


@pytest.mark.parametrize("kind", [DeathKind.EXITED, DeathKind.LOST])
def test_a_request_moves_twice_from_engines_that_were_ended(
    start: StartCluster, kind: DeathKind
) -> None:
    """What ends an engine from outside may be the request, too, but seldom is."""
    cluster = start(4)
    moved = cluster.submit(to=0)

    for _ in range(2):
        cluster.end(moved.engine_index, kind)
    reached = moved.engine_index
    assert cluster.news[0] == []
    cluster.end(reached, kind)

    assert cluster.error(0) is EngineDeadError
    assert moved.engine_index == reached
    cluster.assert_books_balance(received=1)


@pytest.mark.parametrize("messages", [0, 12])
def test_they_move_to_whichever_engine_lives_first(
    start: StartCluster, *, messages: int
) -> None:
    """Those of both engines begin again there, and nothing is left for the other."""
    cluster = start(2)
    for number in range(6):
        cluster.submit(to=number % 2)
    cluster.take(messages)
    cluster.end(1, is_replaced=True)  # those that it has move
    cluster.end(0, is_replaced=True)

    cluster.replace(0)
    cluster.drive()
    cluster.replace(1)

    assert [len(cluster.tokens(number)) for number in range(6)] == [30] * 6
    assert cluster.client.waiting_adds(1) == []
    cluster.assert_books_balance(received=6)


def test_what_waits_for_another_engine_moves_in_turn(start: StartCluster) -> None:
    """What had come first is sent first, whichever engine it waited for."""
    cluster = start(3)
    for number in range(6):
        cluster.submit(to=number % 2)
    cluster.front_end.engines[2].is_leaving = True
    cluster.front_end.engines[0].is_leaving = True
    cluster.end(1, is_replaced=True)  # nobody takes them
    cluster.end(0, is_replaced=True)

    cluster.replace(0)

    adds = [each.request.request_id for each in cluster.client.waiting_adds(0)]
    assert len(adds) == 6
    assert adds == sorted(adds)


@pytest.mark.parametrize("kind", FAULTS)
def test_what_may_have_failed_an_engine_waits_for_it(
    start: StartCluster, kind: DeathKind
) -> None:
    """Otherwise it might end the first one that lives again, and all that is there."""
    cluster = start(2)
    suspect, other = cluster.submit(to=1), cluster.submit(to=0)
    cluster.end(1, kind, is_replaced=True)
    cluster.end(0, is_replaced=True)

    cluster.replace(0)
    assert (suspect.engine_index, other.engine_index) == (1, 0)
    cluster.replace(1)
    cluster.drive()

    assert [len(cluster.tokens(number)) for number in (0, 1)] == [30, 30]
    cluster.assert_books_balance(received=2)


def test_they_move_to_an_engine_that_works_again(start: StartCluster) -> None:
    """A stall that ends, too, gives an engine to those that wait for another one."""
    cluster = start(2)
    cluster.submit(to=0)
    stall = Stall("it sends nothing", 9.0, is_final=False)
    front_end = cluster.front_end
    cluster.front_end.engines[1].stall = stall
    cluster.end(0, is_replaced=True)
    assert isinstance(front_end.extension, ClusterExtension)

    front_end.extension.ending.take_stall(1, None)
    cluster.drive()

    assert len(cluster.tokens(0)) == 30
    cluster.assert_books_balance(received=1)


def test_they_are_spread_by_load(start: StartCluster) -> None:
    """What has moved counts for what moves next."""
    cluster = start(3)
    for _ in range(6):
        cluster.submit(to=0)

    cluster.end(0)

    assert cluster.placed["1", "moved"] == cluster.placed["2", "moved"] == 3
    cluster.drive()
    cluster.assert_books_balance(received=6)


def test_they_move_to_another_machine(start: StartCluster) -> None:
    """The engines of a machine that is lost are told of one after the other."""
    cluster = start(4, Scattered)
    for _ in range(6):
        cluster.submit(to=1)

    cluster.end(1, DeathKind.LOST)
    cluster.end(2, DeathKind.LOST)
    cluster.drive()

    assert cluster.placed["0", "moved"] == cluster.placed["3", "moved"] == 3
    assert [len(cluster.tokens(number)) for number in range(6)] == [30] * 6
    cluster.assert_books_balance(received=6)


@pytest.mark.parametrize("ailment", ["stalled", "leaving"])
def test_only_engines_that_work_get_them(start: StartCluster, ailment: str) -> None:
    """Without one they end with an error."""
    cluster = start(2)
    cluster.submit(to=0)
    other = cluster.front_end.engines[1]
    if ailment == "stalled":
        other.stall = Stall("it sends nothing", 9.0, is_final=False)
    else:
        other.is_leaving = True

    cluster.end(0)

    assert cluster.error(0) is EngineDeadError
    cluster.assert_books_balance(received=1)


def test_deadlines_run_on(start: StartCluster) -> None:
    """The other engine gets the time that is left, and all else as it was."""
    cluster = start(2)
    cluster.submit(to=0, seconds_ago=20.0, timeout_seconds=30.0, seed=5)
    [before] = cluster.client.waiting_adds(0)

    cluster.end(0)

    [after] = cluster.client.waiting_adds(1)
    left, less = before.request.timeout_seconds, after.request.timeout_seconds
    assert left is not None
    assert less is not None
    assert 0 < less < left <= 10
    assert after.request.params == before.request.params
    assert after.request.facts == before.request.facts
    assert after.request.is_moved
    assert not before.request.is_moved


def test_an_abort_reaches_the_new_engine(start: StartCluster) -> None:
    """It ends there, and is counted there."""
    cluster = start(2)
    request = cluster.submit(to=0)
    cluster.take(3)
    cluster.end(0)

    cluster.front_end.abort(request, "went away")
    cluster.drive()

    assert cluster.front_end.engines[1].accounting.finished == {"abort": 1}
    cluster.assert_books_balance(received=1)


def test_what_left_before_stays(start: StartCluster) -> None:
    """An abort that the dead engine had not confirmed is closed in its books."""
    cluster = start(2)
    request = cluster.submit(to=0)
    cluster.front_end.abort(request, "went away")

    cluster.end(0)

    assert cluster.front_end.engines[0].accounting.finished == {"abort": 1}
    assert cluster.placed["1", "moved"] == 0
    cluster.assert_books_balance(received=1)


def test_one_that_the_new_engine_has_not_seen_is_not_received_again(
    start: StartCluster,
) -> None:
    """Both engines end before the second has told of it."""
    cluster = start(3)
    request = cluster.submit(to=0)
    cluster.end(0)

    cluster.end(request.engine_index)
    cluster.drive()

    assert len(cluster.tokens(0)) == 30
    cluster.assert_books_balance(received=1)


def test_a_seed_gives_the_same_answer(start: StartCluster) -> None:
    """Sampled at one engine, or at two one after the other."""
    cluster = start(2, executor="uniproc", num_kv_blocks=32)

    def submit(to: int) -> ClientRequest:
        return cluster.submit(to, temperature=1.0, seed=11, max_tokens=12)

    submit(to=1)
    cluster.drive()
    moved = submit(to=0)
    while not moved.completions[0].account.timeline.output_tokens:
        cluster.take(1)

    cluster.end(0)
    cluster.drive()

    assert cluster.tokens(1) == cluster.tokens(0)
    cluster.assert_books_balance(received=2)
