"""Replaying the cache events gives the engine's prefix index."""

import hashlib
import random
from array import array
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookline.config import SchedulerConfig
from hookline.engine.engine_core import WAIT
from hookline.events import (
    BlocksRemoved,
    BlocksStored,
    CacheChanges,
    CacheCleared,
    CacheEvent,
    StepOutput,
)
from hookline.finish_cause import Aborted
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.connected_core import BLOCK, ConnectedCore, connected_core
from hookline_testing.connectors import DictStore, Faults
from hookline_testing.essential import examples
from hookline_testing.simulation import engine_request

VOCAB_SIZE = 1000


class Reader:
    """A router's picture of the cache, made of changes alone."""

    def __init__(self) -> None:
        self.hashes: set[bytes] = set()
        self.sequence = 0

    def take(self, changes: CacheChanges | None) -> None:
        if changes is None:
            return
        assert changes.sequence == self.sequence + 1
        assert changes.events
        self.sequence += 1
        for event in changes.events:
            self._apply(event)

    def _apply(self, event: CacheEvent) -> None:
        match event:
            case CacheCleared():
                self.hashes.clear()
            case BlocksRemoved():
                assert self.hashes.issuperset(event.block_hashes)
                self.hashes.difference_update(event.block_hashes)
            case BlocksStored():
                assert self.hashes.isdisjoint(event.block_hashes)
                assert hashes_of(event) == event.block_hashes
                self.hashes.update(event.block_hashes)


def hashes_of(event: BlocksStored) -> list[bytes]:
    """What its tokens and its parent come to."""
    parent, found = event.parent_hash, []
    if parent is None:
        extra = msgspec.msgpack.encode((event.lora, event.cache_salt))
        parent = hashlib.sha256(extra).digest()
    for start in range(0, len(event.token_ids), BLOCK):
        tokens = array("q", event.token_ids[start : start + BLOCK]).tobytes()
        parent = hashlib.sha256(parent + tokens).digest()
        found.append(parent)
    return found


def index_of(engine: ConnectedCore) -> set[bytes]:
    return set(engine.core._scheduler._cache.pool._by_hash)


def some_prompts(source: random.Random, count: int) -> list[list[int]]:
    stems = [[source.randrange(3, VOCAB_SIZE) for _ in range(40)] for _ in range(4)]
    return [
        [
            *source.choice(stems)[: source.randint(0, 40)],
            *(source.randrange(3, VOCAB_SIZE) for _ in range(source.randint(1, 8))),
        ]
        for _ in range(count)
    ]


@given(
    store=st.builds(
        DictStore,
        is_async=st.booleans(),
        saves_evicted=st.booleans(),
        delay_seconds=st.sampled_from([0.0, 0.03]),
        faults=st.builds(Faults, fails=st.sampled_from([0.0, 0.4])),
    ),
    scheduler=st.builds(
        SchedulerConfig,
        max_num_seqs=st.sampled_from([2, 8]),
        max_num_batched_tokens=st.sampled_from([9, 64]),
        async_scheduling=st.booleans(),
    ),
    num_blocks=st.sampled_from([16, 24, 96]),
    seed=st.integers(0, 1000),
)
@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_replay_is_the_index(
    store: DictStore, scheduler: SchedulerConfig, num_blocks: int, seed: int
) -> None:
    """After every output, whatever is loaded, evicted, preempted, aborted or reset."""
    source = random.Random(seed)  # noqa: S311 - a test
    engine = connected_core(
        store, num_blocks=num_blocks, scheduler=scheduler, follows_cache=True
    )
    reader = Reader()
    coming = list(enumerate(some_prompts(source, 40)))
    while coming or engine.core.has_work:
        while coming and source.random() < 0.5:
            at, prompt = coming.pop(0)
            engine.core.add(engine_request(at, prompt, source.randint(1, 8)))
        if source.random() < 0.05:
            engine.core.finish([source.randrange(40)], Aborted("gone"))
        if source.random() < 0.02:
            engine.core.reset_prefix_cache()
        if engine.core.has_work:
            output = engine.step()
            # What waits tells nothing, so that it can be left out.
            assert output.cause != WAIT or output.events.cache_changes is None
            reader.take(output.events.cache_changes)
            assert reader.hashes == index_of(engine)
    reader.take(engine.core.report("test").events.cache_changes)
    assert reader.hashes == index_of(engine)


def told(outputs: Iterable[StepOutput]) -> list[CacheEvent]:
    changes = [output.events.cache_changes for output in outputs]
    return [event for each in changes if each is not None for event in each.events]


def test_run_of_blocks_is_one_event() -> None:
    """With its tokens and the block before it, and the request's salt."""
    engine = connected_core(DictStore(max_blocks=0), follows_cache=True)
    prompt = list(range(3, 17))
    engine.core.add(engine_request(1, prompt, 1))
    [first] = told(engine.run())

    engine.core.add(engine_request(2, [*prompt[:8], *range(50, 58), 9], 1))
    [second] = told(engine.run())

    assert isinstance(first, BlocksStored)
    assert isinstance(second, BlocksStored)
    assert first.parent_hash is None
    assert first.token_ids == prompt[:12]
    assert second.parent_hash == first.block_hashes[1]
    assert second.token_ids == list(range(50, 58))


def test_blocks_have_the_session_that_stored_them() -> None:
    """Blocks of two sessions are two events, even if one run follows the other."""
    engine = connected_core(DictStore(max_blocks=0), follows_cache=True)
    prompt = list(range(3, 11))
    engine.core.add(engine_request(1, [*prompt, 9], 1, session_id="a"))
    engine.core.add(engine_request(2, [*prompt, *range(20, 29)], 1, session_id="b"))
    engine.core.add(engine_request(3, [*range(50, 59)], 1))
    events = told(engine.run())

    assert [(each.session_id, each.token_ids) for each in stored(events)] == [
        ("a", prompt),
        ("b", list(range(20, 28))),
        (None, list(range(50, 58))),
    ]


def stored(events: Iterable[CacheEvent]) -> list[BlocksStored]:
    return [each for each in events if isinstance(each, BlocksStored)]


def test_evictions_for_a_load_are_reported_at_once() -> None:
    """They are sent although no step runs during the load."""
    store = DictStore(is_async=True, delay_seconds=0.03)
    engine = connected_core(store, num_blocks=16, follows_cache=True)
    reader, prompts = Reader(), [list(range(at, at + 41)) for at in (3, 103, 203)]
    causes = []
    for prompt in (*prompts, prompts[0]):
        engine.core.add(engine_request(1, prompt, 1))
        while engine.core.has_work:
            output = engine.step()
            if output.cause != WAIT:  # which nobody is told
                reader.take(output.events.cache_changes)
            causes.append(output.cause)
            assert reader.hashes == index_of(engine)

    assert WAIT in causes
    assert (
        transfers_of(engine.core.report("test").stats).external_cache.hit_tokens == 40
    )


def test_reset_is_reported() -> None:
    """A reset sends a state without reusable blocks."""
    engine = connected_core(DictStore(max_blocks=0), follows_cache=True)
    engine.core.add(engine_request(1, list(range(3, 17)), 1))
    engine.run()

    engine.core.reset_prefix_cache()

    changes = engine.core.report("reset").events.cache_changes
    assert changes == CacheChanges(2, [CacheCleared()])


@pytest.mark.parametrize("follows", [False, True])
def test_cache_events_are_off_by_default(*, follows: bool) -> None:
    """Without a subscriber no event is recorded or sent."""
    engine = connected_core(DictStore(max_blocks=0), follows_cache=follows)
    engine.core.add(engine_request(1, list(range(3, 17)), 1))

    outputs = engine.run()

    assert bool(told(outputs)) is follows
    assert len(engine.core._scheduler._cache.pool.listeners) == 1 + follows
