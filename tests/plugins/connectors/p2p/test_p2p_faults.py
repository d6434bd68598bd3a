"""Under network and peer faults tokens are right and no block or request is lost."""

import socket
from collections.abc import Callable, Sequence

import pytest

from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
)
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_faults.p2p_transport import Wire, flipped, prefilled
from hookline_kv_transfer.blocks import Bytes
from hookline_metrics.transfer_stats import transfers_of
from hookline_p2p.wire import Blocks, decode
from hookline_testing.driven_engine import DrivenEngine, rest, turn_for, turn_until
from hookline_testing.essential import essential
from hookline_testing.own_time import Took

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]
Sent = list[tuple[bytes, Sequence[Bytes]]]
Spoil = Callable[[bytes, Sequence[Bytes]], Sent]

PROMPT = list(range(3, 44))
"""Ten full blocks, and a token; five messages of blocks."""


@pytest.fixture
def right(make_engine: MakeEngine) -> list[int]:
    """Returns the output of an engine that computes everything itself."""
    engine, _ = make_engine()
    request = engine.add(PROMPT, 6)
    rest([engine])
    return engine.tokens[request]


class Pair:
    """A producer with a kept prompt, and a consumer."""

    def __init__(self, make_engine: MakeEngine, **options: object) -> None:
        self.producer, self.giving = make_engine(**options)
        self.consumer, self.taking = make_engine(**options)
        self.told = prefilled(self.producer, PROMPT)
        self.both = [self.producer, self.consumer]

    def serve(
        self, *, lets_go: bool = True
    ) -> tuple[list[int], SchedulerStats, SchedulerStats, Took]:
        """The consumer's tokens, and the stats of both; and the time until its end.

        `lets_go`: whether the producer is to come to rest, too.
        """
        request = self.consumer.add(PROMPT, 6, self.told)
        took = turn_until(self.both, lambda: request in self.consumer.ended)
        giving, taking = (
            rest(self.both)
            if lets_go
            else (self.producer.stats, *rest([self.consumer]))
        )
        return self.consumer.tokens[request], giving, taking, took


def is_of(header: bytes, *kinds: type) -> bool:
    return isinstance(decode(header), kinds)


def lose_first() -> Spoil:
    """Every message is lost when it is sent for the first time."""
    said = set[bytes]()

    def spoil(header: bytes, frames: Sequence[Bytes]) -> Sent:
        if header in said:
            return [(header, frames)]
        said.add(header)
        return []

    return spoil


def say_twice(header: bytes, frames: Sequence[Bytes]) -> Sent:
    return [(header, frames), (header, frames)]


def shuffle() -> Spoil:
    """Each message comes behind the next one."""
    held: Sent = []

    def spoil(header: bytes, frames: Sequence[Bytes]) -> Sent:
        held.append((header, frames))
        return [held.pop(), held.pop()] if len(held) == 2 else []

    return spoil


def add_garbage(header: bytes, frames: Sequence[Bytes]) -> Sent:
    return [(b"\xc1garbage", frames), (header, frames)]


HARMLESS: dict[str, Callable[[], Spoil]] = {
    "first": lose_first,
    "twice": lambda: say_twice,
    "shuffle": shuffle,
    "garbage": lambda: add_garbage,
}


@pytest.mark.parametrize("fault", sorted(HARMLESS))
def test_lossy_wire_costs_time_alone(
    make_engine: MakeEngine, right: list[int], fault: str
) -> None:
    """What is lost is asked for again; what comes twice or late is nothing."""
    pair = Pair(make_engine)
    pair.giving.spoil = HARMLESS[fault]()
    pair.taking.spoil = HARMLESS[fault]()

    tokens, giving, taking, took = pair.serve()

    assert tokens == right
    assert transfers_of(taking).transferred_tokens == 40
    assert transfers_of(taking).loads == transfers_of(giving).saves == 1
    assert took.own_seconds < 1.4
    for stats in (giving, taking):
        expected = {"malformed"} if fault == "garbage" else set()
        assert set(transfers_of(stats).failures.get("incident", {})) == expected
        assert "load" not in transfers_of(stats).failures
        assert transfers_of(stats).expired_blocks == 0


def spoil_blocks(change: Spoil, first: int) -> Spoil:
    """Changes the message with the block of this index."""

    def spoil(header: bytes, frames: Sequence[Bytes]) -> Sent:
        said = decode(header)
        if isinstance(said, Blocks) and said.first == first:
            return change(header, frames)
        return [(header, frames)]

    return spoil


DAMAGES = {
    "bit": (lambda header, frames: [(header, flipped(frames, 40))], "checksum", 5),
    "first bit": (lambda header, frames: [(header, flipped(frames, 0))], "checksum", 4),
    "short": (lambda header, frames: [(header, [frames[0][:1]])], "malformed", 4),
    "no frame": (lambda header, _: [(header, [])], "malformed", 4),
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_damage_is_found(
    make_engine: MakeEngine, right: list[int], damage: str
) -> None:
    """Blocks before it are used; those behind it are computed."""
    change, reason, good = DAMAGES[damage]
    pair = Pair(make_engine)
    pair.giving.spoil = spoil_blocks(change, 4)  # type: ignore[arg-type]

    tokens, giving, taking, took = pair.serve()

    assert tokens == right
    assert transfers_of(taking).failures == {"load": {reason: 1}}
    assert transfers_of(taking).transferred_tokens == good * 4
    assert transfers_of(taking).recomputed_tokens == (10 - good) * 4
    assert transfers_of(giving).saves == 1
    assert took.own_seconds < 1.4


def test_partition_heals(make_engine: MakeEngine, right: list[int]) -> None:
    """Shorter than the time-out: what was under way is asked for again."""
    pair = Pair(make_engine)
    request = pair.consumer.add(PROMPT, 6, pair.told)
    pair.taking.is_cut = True

    turn_for(pair.both, 0.3)
    pair.taking.is_cut = False
    took = turn_until(pair.both, lambda: request in pair.consumer.ended)
    giving, taking = rest(pair.both)

    assert pair.consumer.tokens[request] == right
    assert (transfers_of(giving).failures, transfers_of(taking).failures) == ({}, {})
    assert transfers_of(taking).transferred_tokens == 40
    assert took.own_seconds < 1.4


def test_silent_peer_times_out(make_engine: MakeEngine, right: list[int]) -> None:
    """For longer: long before the load's own deadline."""
    pair = Pair(make_engine)
    pair.giving.is_cut = True

    tokens, giving, taking, took = pair.serve()

    assert tokens == right
    assert transfers_of(taking).failures == {"load": {"peer": 1}}
    assert took.seconds > 0.5
    assert transfers_of(giving).expired_blocks == 11  # nobody told it


def test_slow_peer_meets_the_deadline(
    make_engine: MakeEngine, right: list[int]
) -> None:
    """It answers without blocks, and is notified when the load is given up."""
    pair = Pair(make_engine)
    pair.giving.spoil = lambda header, frames: (
        [] if is_of(header, Blocks) else [(header, frames)]
    )

    tokens, giving, taking, took = pair.serve()

    assert tokens == right
    assert transfers_of(taking).failures == {"load": {"deadline": 1}}
    assert took.seconds > 1.4
    assert took.own_seconds < 3.0
    assert (transfers_of(giving).saves, transfers_of(giving).failures) == (1, {})


def test_abort_during_a_load_frees_both_sides(make_engine: MakeEngine) -> None:
    """The producer is notified at once."""
    pair = Pair(make_engine)
    pair.giving.spoil = lambda header, frames: (
        [] if is_of(header, Blocks) else [(header, frames)]
    )
    request = pair.consumer.add(PROMPT, 6, pair.told)
    turn_until(pair.both, lambda: transfers_of(pair.consumer.stats).loading == 1)
    stopwatch = pair.consumer.pace.stopwatch()

    pair.consumer.abort(request)
    giving, taking = rest(pair.both)
    took = stopwatch.took()

    assert took.own_seconds < 1.0
    assert transfers_of(taking).failures == {"load": {"aborted": 1}}
    assert (transfers_of(giving).saves, transfers_of(giving).failures) == (1, {})


def test_abort_before_the_load_frees_the_producer(make_engine: MakeEngine) -> None:
    """A request that never asked for its blocks lets them go, too."""
    pair = Pair(make_engine)
    request = pair.consumer.add(PROMPT, 6, pair.told)

    pair.consumer.abort(request)
    giving, taking = rest(pair.both)

    assert (transfers_of(giving).saves, transfers_of(taking).loads) == (1, 0)


def test_cached_blocks_are_not_requested(make_engine: MakeEngine) -> None:
    """The second request finds the first one's blocks; both producers' are let go."""
    pair = Pair(make_engine)
    pair.serve()
    pair.told = prefilled(pair.producer, PROMPT)

    _, giving, taking, _ = pair.serve()

    assert (transfers_of(giving).saves, transfers_of(taking).loads) == (2, 1)
    assert (transfers_of(giving).failures, transfers_of(taking).failures) == ({}, {})


@pytest.mark.exhaustive
def test_unrequested_blocks_expire(make_engine: MakeEngine) -> None:
    """The producer's own deadline gives them back."""
    pair = Pair(make_engine)

    giving, _ = rest(pair.both)

    assert transfers_of(giving).expired_blocks == 11  # the last one is not full
    assert transfers_of(giving).failures == {"save": {"deadline": 1}}


@pytest.mark.exhaustive
def test_late_consumer_learns_that_blocks_expired(
    make_engine: MakeEngine, right: list[int]
) -> None:
    """After the producer's deadline."""
    pair = Pair(make_engine)
    rest(pair.both)

    tokens, _, taking, took = pair.serve()

    assert tokens == right
    assert transfers_of(taking).failures == {"load": {"gone": 1}}
    assert took.own_seconds < 1.4


def test_early_consumer_waits(make_engine: MakeEngine, right: list[int]) -> None:
    """It asks before the producer's worker knows that the blocks are kept."""
    pair = Pair(make_engine)
    request = pair.consumer.add(PROMPT, 6, pair.told)
    turn_for([pair.consumer], 0.3)

    turn_until(pair.both, lambda: request in pair.consumer.ended)
    giving, taking = rest(pair.both)

    assert pair.consumer.tokens[request] == right
    assert (transfers_of(giving).failures, transfers_of(taking).failures) == ({}, {})


def test_restarted_producer_has_nothing(
    make_engine: MakeEngine, right: list[int]
) -> None:
    """Another engine listens at the given address."""
    pair = Pair(make_engine)
    pair.told = {**pair.told, "remote_engine_id": "another"}

    tokens, _, taking, took = pair.serve(lets_go=False)

    assert tokens == right
    assert transfers_of(taking).failures == {"load": {"gone": 1}}
    assert took.own_seconds < 1.4


def test_blocks_of_another_model_are_refused(make_engine: MakeEngine) -> None:
    """Here: other blocks."""
    producer, _ = make_engine()
    config = EngineConfig(
        model=ModelConfig(max_model_len=512),
        cache=CacheConfig(block_size=8, num_kv_blocks=256),
        executor=ExecutorConfig(name="simulated"),
    )
    consumer, _ = make_engine(config)
    alone = consumer.add(PROMPT, 6)
    rest([consumer])
    consumer.core.reset_prefix_cache()
    told = prefilled(producer, PROMPT)

    request = consumer.add(PROMPT, 6, told)
    took = turn_until([producer, consumer], lambda: request in consumer.ended)
    [taking] = rest([consumer])

    assert consumer.tokens[request] == consumer.tokens[alone]
    assert transfers_of(taking).failures == {"load": {"foreign": 1}}
    assert took.own_seconds < 1.4


def test_dead_producer_is_unreachable(
    make_engine: MakeEngine, right: list[int]
) -> None:
    """The producer has died: its request is computed."""
    pair = Pair(make_engine)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        pair.told = {**pair.told, "remote_port": taken.getsockname()[1]}

        tokens, _, taking, took = pair.serve(lets_go=False)

    assert tokens == right
    assert transfers_of(taking).failures == {"load": {"peer": 1}}
    assert took.own_seconds < 1.4


WRONG: list[dict[str, object]] = [
    {"remote_host": "no host at all"},
    {"remote_host": "192.0.2.1"},  # another machine, and there is no secret
    {"remote_port": "80"},
    {"remote_engine_id": None},
    {"remote_request_id": "-1"},
    {"remote_num_tokens": None},
]


@pytest.mark.parametrize("wrong", essential(WRONG, WRONG[0], WRONG[2], slow=WRONG))
def test_wrong_params_are_counted(
    make_engine: MakeEngine, right: list[int], wrong: dict[str, object]
) -> None:
    """The request is computed as if it had none."""
    pair = Pair(make_engine)
    pair.told = {**pair.told, **wrong}

    tokens, _, _, took = pair.serve(lets_go=False)
    turn_for([pair.consumer], 0.05)
    pair.consumer.add([1, 2, 3], 1)
    [taking] = rest([pair.consumer])

    assert tokens == right
    assert transfers_of(taking).failures == {"incident": {"bad_params": 1}}
    assert transfers_of(taking).loads == 0
    assert took.own_seconds < 1.4
