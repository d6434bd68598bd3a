"""How long sampled blocks stay in the prefix cache, to the nanosecond."""

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.config.engine import EngineConfig
from hookline.engine.kv_cache.block_pool import BlockPool
from hookline.engine_setup.making import make_scheduler_parts
from hookline.engine_setup.residency import MeasuredBlockPool
from hookline.exceptions import ConfigError
from hookline.stats.step_work import BlockEviction
from hookline.step import ModelShape
from hookline_testing.simulation import engine_request, run_to_end, simulated_core


class Measured:
    """A pool that measures all of its blocks, on a clock moved by hand."""

    def __init__(self, num_blocks: int = 1, share: float = 1.0) -> None:
        self.clock = VirtualClock()
        self.pool = MeasuredBlockPool(num_blocks, share=share, clock=self.clock)

    def take(self, block_hash: bytes | None = None) -> int:
        (block_id,) = self.pool.allocate(1)
        if block_hash is not None:
            self.pool.cache_block(block_id, block_hash)
        return block_id

    def wait(self, nanoseconds: int) -> None:
        self.clock.sleep(nanoseconds / NANOSECONDS)


def drained(pool: BlockPool) -> list[BlockEviction]:
    measured, pool.measured = pool.measured, []
    return measured


def test_eviction_has_lifetime_and_idle_time() -> None:
    """A block held for 5 s and free for 7 s lived 12 s, of which it was idle 7 s."""
    measured = Measured()
    block_id = measured.take(b"a")
    measured.wait(5)
    measured.pool.free([block_id])
    measured.wait(7)

    measured.take()

    assert drained(measured.pool) == [BlockEviction(12, 7, ())]


def test_gaps_lie_between_the_moments_when_requests_took_it() -> None:
    """Its allocation counts as the first use, also if it is shared."""
    measured = Measured()
    block_id = measured.take(b"a")
    measured.wait(3)
    measured.pool.touch([block_id])
    measured.wait(1)
    measured.pool.free([block_id])
    measured.pool.free([block_id])
    measured.wait(9)
    measured.pool.touch([block_id])
    measured.pool.free([block_id])

    measured.take()

    assert drained(measured.pool) == [BlockEviction(13, 0, (3, 10))]


def test_only_the_last_four_uses_count() -> None:
    """However often a block is used, only the latest three gaps are reported."""
    measured = Measured()
    block_id = measured.take(b"a")
    measured.pool.free([block_id])
    for nanoseconds in (1, 2, 4, 8, 16):
        measured.wait(nanoseconds)
        measured.pool.touch([block_id])
        measured.pool.free([block_id])
    measured.wait(32)

    measured.take()

    assert drained(measured.pool) == [BlockEviction(63, 32, (4, 8, 16))]


def test_idle_begins_when_the_last_holder_leaves() -> None:
    """A block that one of two requests gave back is still in use."""
    measured = Measured()
    block_id = measured.take(b"a")
    measured.pool.touch([block_id])
    measured.pool.free([block_id])
    measured.wait(50)
    measured.pool.free([block_id])
    measured.wait(1)

    measured.take()

    assert drained(measured.pool) == [BlockEviction(51, 1, (0,))]


def test_each_lifetime_is_reported_once() -> None:
    """Earlier content of a block does not affect the next lifetime."""
    measured = Measured()
    for nanoseconds in (10, 20, 30):
        block_id = measured.take(b"%d" % nanoseconds)
        measured.wait(nanoseconds)
        measured.pool.free([block_id])
    measured.take()

    evictions = drained(measured.pool)

    assert [each.lifetime for each in evictions] == [10, 20, 30]
    assert drained(measured.pool) == []


def test_uncached_block_is_not_an_eviction() -> None:
    """A block freed before it was full reports nothing."""
    measured = Measured()
    measured.pool.free([measured.take()])
    measured.wait(5)

    measured.pool.free([measured.take(b"a")])
    measured.wait(2)
    measured.take()

    assert drained(measured.pool) == [BlockEviction(2, 2, ())]


def test_reset_is_not_an_eviction() -> None:
    """A reset ends the lifetimes of cached blocks, held or not, and reports none."""
    measured = Measured(2)
    held = measured.take(b"held")
    measured.pool.free([measured.take(b"free")])

    measured.pool.reset()
    measured.pool.free([held])
    measured.pool.allocate(2)

    assert drained(measured.pool) == []


def test_block_under_way_outlives_a_reset() -> None:
    """A used block that is cached after a reset was there all the time."""
    measured = Measured()
    block_id = measured.take()
    measured.wait(4)
    measured.pool.reset()
    measured.pool.cache_block(block_id, b"a")
    measured.pool.free([block_id])
    measured.wait(1)

    measured.take()

    assert drained(measured.pool) == [BlockEviction(5, 1, ())]


def test_configured_share_is_sampled() -> None:
    """Of 10 000 lifetimes a tenth is sampled, evenly and reproducibly."""

    def told() -> list[int]:
        measured = Measured(100, share=0.1)
        sizes = []
        for number in range(101):
            for block_id in (taken := measured.pool.allocate(100)):
                measured.pool.cache_block(block_id, b"%d-%d" % (number, block_id))
            measured.pool.free(taken)
            sizes.append(len(measured.pool._lives))
        assert max(sizes) <= 100
        return [each.lifetime for each in drained(measured.pool)]

    first, again = told(), told()

    assert 850 < len(first) < 1150
    assert first == again


def test_memory_is_bounded_by_the_blocks() -> None:
    """A life that ends leaves nothing behind, and uses are forgotten."""
    measured = Measured(3)

    for number in range(50):
        block_id = measured.take(b"%d" % number)
        for _ in range(20):
            measured.pool.touch([block_id])
            measured.pool.free([block_id])
        measured.pool.free([block_id])

    assert len(measured.pool._lives) == 3
    assert all(len(life.uses) == 4 for life in measured.pool._lives.values())


@pytest.mark.parametrize(
    ("share", "pool"), [(0.0, BlockPool), (0.5, MeasuredBlockPool)]
)
def test_off_is_the_plain_pool(share: float, pool: type[BlockPool]) -> None:
    """Without a share there is nothing that measures."""
    config = EngineConfig(cache=CacheConfig(residency_sample=share))
    shape = ModelShape(
        architecture="Simulated",
        dtype="float32",
        cache_dtype="float32",
        vocab_size=8,
        max_model_len=16,
        num_kv_blocks=4,
        eos_token_ids=(),
    )

    cache = make_scheduler_parts(config, shape, VirtualClock()).cache

    assert type(cache.pool) is pool
    assert isinstance(cache.pool, MeasuredBlockPool) == (share > 0.0)


@pytest.mark.parametrize(
    ("share", "is_caching"), [(-0.1, True), (1.5, True), (1.0, False)]
)
def test_share_that_cannot_be_is_refused(share: float, is_caching: bool) -> None:
    """A share is 0 to 1, and needs a prefix cache to measure."""
    with pytest.raises(ConfigError, match="kv-cache-metrics-sample"):
        CacheConfig(residency_sample=share, enable_prefix_caching=is_caching)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_share_beyond_all_is_refused(share: float) -> None:
    """The error names the option."""
    with pytest.raises(ConfigError) as e:
        CacheConfig(residency_sample=share)

    assert e.value.option == "kv-cache-metrics-sample"


def test_evictions_are_reported_with_their_step() -> None:
    """Three requests a second each: the first's blocks go when the third comes.

    The first two leave two full blocks each in a pool of four; the third shares the
    first block with the first request, and takes three others.
    """
    cache = CacheConfig(block_size=2, num_kv_blocks=4, residency_sample=1.0)
    core = simulated_core(
        cache=cache, scheduler=SchedulerConfig(max_num_seqs=1), max_model_len=8
    )
    core.add(engine_request(1, [3, 4, 5, 6], 1))
    core.add(engine_request(2, [7, 8, 9, 10], 1))
    core.add(engine_request(3, [3, 4, 11, 12, 13, 14], 2))
    outputs = run_to_end(core)
    core.reset_prefix_cache()
    after = core.report("end")

    second = NANOSECONDS
    assert [output.events.evictions for output in outputs] == [
        [],
        [],
        [
            BlockEviction(2 * second, 1 * second, ()),
            BlockEviction(1 * second, 0, ()),
        ],
        [BlockEviction(2 * second, 1 * second, ())],
    ]
    assert after.events.evictions == []
