"""Whatever is evicted, preempted, aborted or lost: right tokens, and no block leaks."""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import SchedulerConfig
from hookline.engine.engine_core import WAIT
from hookline.events import StepOutput
from hookline.stats.scheduler_stats import Residue
from hookline_cpu_offload import OffloadOptions, SchedulerSide, WorkerSide
from hookline_cpu_offload.options import DiskOptions
from hookline_cpu_offload.tasks import Move
from hookline_kv_transfer import (
    ConnectorMetadata,
    KVTransferConfig,
    PlannedStep,
    SchedulerConnector,
    WorkerConnector,
)
from hookline_metrics.connector_events import (
    ConnectorLookup,
    TierAllocation,
    TierLookup,
    TierMove,
)
from hookline_metrics.transfer_stats import TierStats, transfers_of
from hookline_testing.connected_core import (
    BLOCK,
    ConnectedCore,
    connected_core,
    news_of,
    tokens_by_request,
)
from hookline_testing.connected_traffic import (
    random_prompts,
    run_alone,
    run_disturbed,
)
from hookline_testing.connectors import DictStore
from hookline_testing.essential import examples
from hookline_testing.simulation import engine_request

BLOCK_BYTES = BLOCK * 8


class LosingScheduler(SchedulerSide):
    """Some of its orders never reach the worker's side."""

    def __init__(self, options: OffloadOptions, lost: float) -> None:
        super().__init__(options)
        self.lost = lost
        self._source = random.Random(1)  # noqa: S311 - a test

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        orders = super().build_connector_meta(step)
        is_lost = orders is not None and self._source.random() < self.lost
        return None if is_lost else orders


class LosingWorker(WorkerSide):
    """Some of what it should take it does not."""

    def __init__(self, options: OffloadOptions, lost: float) -> None:
        super().__init__(options)
        self._share_lost = lost
        self._source = random.Random(2)  # noqa: S311 - a test

    def _take(self, moves: list[Move]) -> None:
        if self._source.random() < self._share_lost:
            self._lose(moves)
            raise RuntimeError("as the test wants it")
        super()._take(moves)


def engine_with(
    options: OffloadOptions,
    *,
    num_blocks: int,
    scheduler: SchedulerConfig | None = None,
    lost: float = 0.0,
    timeout_seconds: float = 1000.0,
    scheduler_side: SchedulerSide | None = None,
    worker_side: WorkerSide | None = None,
) -> ConnectedCore:
    """An engine core without a model, with this connector."""

    def sides(
        store: DictStore,  # noqa: ARG001 - another connector's
        clock: VirtualClock,  # noqa: ARG001
    ) -> tuple[SchedulerConnector, WorkerConnector]:
        mine = scheduler_side or LosingScheduler(options, lost)
        return mine, worker_side or LosingWorker(options, lost)

    return connected_core(
        DictStore(),
        sides=sides,
        num_blocks=num_blocks,
        transfer=KVTransferConfig(
            kv_connector="cpu_offload", kv_load_timeout_seconds=timeout_seconds
        ),
        scheduler=scheduler,
    )


def right_tokens(prompts: list[list[int]]) -> dict[int, list[int]]:
    """Of all prompts, where nothing is ever evicted."""
    options = OffloadOptions(cpu_bytes_to_use=BLOCK_BYTES)
    return run_alone(engine_with(options, num_blocks=512), prompts)


def check_tiers(output: StepOutput) -> None:
    """No tier is ever too full."""
    cpu = transfers_of(output.stats).tiers["cpu"]
    assert cpu.blocks <= cpu.max_blocks
    assert cpu.bytes <= cpu.max_bytes


def moved_bytes(outputs: Iterable[StepOutput]) -> dict[tuple[str, str], int]:
    """Bytes of all moves that were told, by tier and direction."""
    moved: Counter[tuple[str, str]] = Counter()
    for output in outputs:
        for event in news_of(output).events:
            if isinstance(event, TierMove):
                moved[event.tier, event.direction] += event.bytes
    return {key: count for key, count in moved.items() if count}


def counted_bytes(tiers: Mapping[str, TierStats]) -> dict[tuple[str, str], int]:
    """Totals of the tiers, by tier and direction."""
    totals = {(name, "in"): tier.in_bytes for name, tier in tiers.items()}
    totals |= {(name, "out"): tier.out_bytes for name, tier in tiers.items()}
    return {key: count for key, count in totals.items() if count}


@given(
    num_slots=st.sampled_from([1, 3, 10, 30, 200]),
    scheduler=st.builds(
        SchedulerConfig,
        max_num_seqs=st.sampled_from([2, 8]),
        max_num_batched_tokens=st.sampled_from([9, 64]),
        async_scheduling=st.booleans(),
    ),
    num_blocks=st.sampled_from([16, 20, 40]),
    has_disk=st.booleans(),
    lost=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 1000),
)
@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_nothing_is_wrong_and_nothing_is_left(
    num_slots: int,
    scheduler: SchedulerConfig,
    num_blocks: int,
    lost: float,
    seed: int,
    *,
    has_disk: bool,
) -> None:
    """Tiny pools, one slot or many, orders that are lost: thirty requests, twice."""
    source = random.Random(seed)  # noqa: S311 - a test
    prompts = random_prompts(source, 30, num_stems=5, least_shared=8)
    right = right_tokens(prompts)
    with ExitStack() as stack:
        disk = None
        if has_disk:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            disk = DiskOptions(path=Path(folder), max_bytes=20_000)
        size = num_slots * BLOCK_BYTES + 3
        engine = engine_with(
            OffloadOptions(cpu_bytes_to_use=size, disk=disk),
            num_blocks=num_blocks,
            scheduler=scheduler,
            lost=lost,
            timeout_seconds=0.3,
        )
        stack.callback(engine.core.close)
        moved: Counter[tuple[str, str]] = Counter()
        for _ in range(2):
            outputs = run_disturbed(engine, source, prompts, check_tiers)
            outputs.append(engine.core.report("test"))

            for at, found in tokens_by_request(outputs).items():
                assert found == right[at][: len(found)]
            stats = outputs[-1].stats
            tiers = transfers_of(stats).tiers
            moved.update(moved_bytes(outputs))
            assert moved == counted_bytes(tiers)
            assert stats.totals.residue == Residue()
            assert stats.kv_blocks_used == stats.held.get("remote_kv", 0) == 0
            rest = transfers_of(stats).at_rest()
            if lost:  # lost orders are forgotten when later ones are executed
                rest = msgspec.structs.replace(rest, tiers=tiers)
            assert transfers_of(stats) == rest
            assert sum(stats.totals.finished.values()) == stats.totals.received
            assert tiers["cpu"].max_blocks == num_slots
            hits = transfers_of(stats).tier_hits
            assert sum(hits.values()) == transfers_of(stats).external_cache.hit_tokens
            assert all(hits[tier] <= tiers[tier].hit_tokens for tier in hits)
            if not lost and not has_disk:  # disks may be late, by a virtual clock
                assert transfers_of(stats).failures == {}


def prompt_of(number: int, length: int = 41) -> list[int]:
    return [3 + number * 100 + at for at in range(length)]


def ask(engine: ConnectedCore, number: int) -> Mapping[str, TierStats]:
    """One request; gives the tiers afterwards."""
    engine.core.add(engine_request(0, prompt_of(number), 1))
    return transfers_of(run(engine)[-1].stats).tiers


def run(engine: ConnectedCore) -> list[StepOutput]:
    """Until it rests; disks take real time."""
    outputs = []
    while engine.core.has_work:
        outputs.append(engine.step())
        if outputs[-1].cause == WAIT:
            time.sleep(0.001)
    return outputs


def test_evicted_blocks_come_back_from_memory() -> None:
    """What three prompts evict from each other is not computed again."""
    engine = engine_with(
        OffloadOptions(cpu_bytes_to_use=40 * BLOCK_BYTES), num_blocks=16
    )
    for number in range(3):
        ask(engine, number)
    before = engine.core.report("test").stats

    tiers = ask(engine, 0)

    after = engine.core.report("test").stats
    assert after.totals.computed_tokens - before.totals.computed_tokens == 1
    assert transfers_of(after).external_cache.hit_tokens == 40
    assert transfers_of(after).tier_hits == {"cpu": 40}
    cpu = tiers["cpu"]
    assert (cpu.hit_tokens, cpu.missed_tokens) == (40, 3 * 40)
    assert cpu.out_bytes == 10 * BLOCK_BYTES
    assert cpu.in_bytes == cpu.bytes == cpu.blocks * BLOCK_BYTES
    assert cpu.evicted_blocks == cpu.dropped_blocks == 0


def test_kept_blocks_are_not_copied_again() -> None:
    """A block that came from memory leaves the cache without a copy."""
    engine = engine_with(
        OffloadOptions(cpu_bytes_to_use=40 * BLOCK_BYTES), num_blocks=16
    )
    for number in (0, 1, 2, 0, 1, 2):
        ask(engine, number)
    copied = ask(engine, 0)["cpu"].in_bytes

    for number in (1, 2, 0):
        ask(engine, number)

    tiers = ask(engine, 1)
    assert tiers["cpu"].in_bytes == copied == 30 * BLOCK_BYTES


def test_lost_orders_cost_a_load_and_no_token() -> None:
    """What should have been kept, and was not, is found out, and kept the next time."""
    scheduler = LosingScheduler(OffloadOptions(cpu_bytes_to_use=40 * BLOCK_BYTES), 0.0)
    engine = engine_with(scheduler._options, num_blocks=16, scheduler_side=scheduler)
    right = right_tokens([prompt_of(0)])
    scheduler.lost = 1.0
    for number in range(3):
        ask(engine, number)
    scheduler.lost = 0.0

    engine.core.add(engine_request(0, prompt_of(0), 8))
    outputs = run(engine)
    failures = transfers_of(outputs[-1].stats).failures
    ask(engine, 1)
    before = ask(engine, 2)["cpu"].out_bytes
    after = ask(engine, 0)["cpu"].out_bytes

    assert tokens_by_request(outputs) == right
    assert failures == {"load": {"missing": 1}}
    assert after - before == 10 * BLOCK_BYTES


def test_disk_takes_what_memory_has_no_room_for(tmp_path: Path) -> None:
    """And gives it back; another engine finds it there, too."""
    disk = DiskOptions(path=tmp_path)
    options = OffloadOptions(cpu_bytes_to_use=10 * BLOCK_BYTES, disk=disk)
    engine = engine_with(options, num_blocks=16)
    for number in (0, 1, 2, 3):
        ask(engine, number)
    engine.core.close()  # all is written
    engine = engine_with(options, num_blocks=16)

    tiers = ask(engine, 0)

    assert tiers["disk"].hit_tokens == 40
    assert tiers["disk"].missed_tokens == 0
    assert tiers["disk"].out_bytes == 10 * BLOCK_BYTES
    engine.core.close()


class TickingClock(VirtualClock):
    """A second passes between any two looks at it."""

    def now(self) -> int:
        self.sleep(1.0)
        return super().now()


def test_each_move_is_told_with_its_size_and_time() -> None:
    """One store a step and one load a request; a second passes at each look."""
    clock = TickingClock()
    options = OffloadOptions(cpu_bytes_to_use=40 * BLOCK_BYTES)
    engine = engine_with(
        options,
        num_blocks=16,
        scheduler_side=SchedulerSide(options, clock),
        worker_side=WorkerSide(options, clock),
    )
    before = [ask(engine, number)["cpu"] for number in range(3)][-1]
    engine.core.add(engine_request(0, prompt_of(0), 1))

    outputs = run(engine)

    events = [event for output in outputs for event in news_of(output).events]
    cpu = transfers_of(outputs[-1].stats).tiers["cpu"]
    stored = (cpu.in_bytes - before.in_bytes) // BLOCK_BYTES
    assert [each for each in events if not isinstance(each, ConnectorLookup)] == [
        TierLookup("cpu", NANOSECONDS),
        TierAllocation("cpu", stored),
        TierMove("cpu", "in", stored * BLOCK_BYTES, NANOSECONDS),
        TierMove("cpu", "out", 10 * BLOCK_BYTES, NANOSECONDS),
    ]
    assert len([each for each in events if isinstance(each, ConnectorLookup)]) == 1


def test_planned_copies_hold_memory_until_they_are_done() -> None:
    """As long as the worker's side has not reported the step that makes them."""
    options = OffloadOptions(cpu_bytes_to_use=40 * BLOCK_BYTES)
    scheduler = SchedulerSide(options)
    engine = engine_with(options, num_blocks=16, scheduler_side=scheduler)
    for number in range(3):
        ask(engine, number)
    engine.core.add(engine_request(0, prompt_of(0), 1))
    step = engine.core._schedule_and_start()
    assert step is not None

    before = scheduler.tier_stats()["cpu"]
    after = transfers_of(run(engine)[-1].stats).tiers["cpu"]

    assert (before.loading, before.loading_blocks, before.storing) == (1, 10, 1)
    assert before.storing_blocks > 0
    assert after == after.at_rest()


def test_full_memory_and_a_full_queue_of_writes_drop_whole_stores(
    tmp_path: Path,
) -> None:
    """Counted as stores and as blocks, and not as failures."""
    disk = DiskOptions(path=tmp_path, max_pending_bytes=1)
    options = OffloadOptions(cpu_bytes_to_use=2 * BLOCK_BYTES, disk=disk)
    engine = engine_with(options, num_blocks=16)

    tiers = [ask(engine, number) for number in range(3)][-1]

    for tier in tiers.values():
        assert tier.dropped_blocks >= tier.dropped_stores > 0
        assert tier.failed_blocks == tier.failed_stores == tier.failed_loads == 0
    assert tiers["disk"].in_bytes == 0
    engine.core.close()


def test_failed_writes_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk costs the blocks of the write, and the engine sees its end."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hookline_shared_storage.BlockStore.write", fail)
    disk = DiskOptions(path=tmp_path)
    options = OffloadOptions(cpu_bytes_to_use=10 * BLOCK_BYTES, disk=disk)
    engine = engine_with(options, num_blocks=16)
    outputs = []
    for number in range(4):
        engine.core.add(engine_request(0, prompt_of(number), 1))
        outputs += run(engine)

    outputs.append(engine.core.report("test"))
    tier = transfers_of(outputs[-1].stats).tiers["disk"]
    moves = [
        event
        for output in outputs
        for event in news_of(output).events
        if isinstance(event, TierMove) and event.tier == "disk"
    ]
    assert tier.failed_stores == len(moves) > 0
    assert not any(move.is_good or move.bytes for move in moves)
    assert tier.failed_blocks == tier.dropped_blocks > 0
    assert (tier.dropped_stores, tier.in_bytes, tier.storing) == (0, 0, 0)
    engine.core.close()


def test_copies_from_and_to_memory_are_timed() -> None:
    """Each copy takes its time; what was not copied took none."""
    options = OffloadOptions(cpu_bytes_to_use=40 * BLOCK_BYTES)
    worker = WorkerSide(options, TickingClock())
    engine = engine_with(options, num_blocks=16, worker_side=worker)
    before = ask(engine, 0)["cpu"]

    told = [ask(engine, number)["cpu"] for number in (1, 2, 0)]

    assert (before.in_ns, before.out_ns) == (0, 0)
    assert [each.out_ns for each in told] == [0, 0, NANOSECONDS]
    assert [each.in_ns > 0 for each in told] == [each.in_bytes > 0 for each in told]
    assert told[-1].in_ns % NANOSECONDS == 0
    assert told[-1].in_ns > told[0].in_ns


def test_writes_to_disk_and_reads_are_timed(tmp_path: Path) -> None:
    """In the threads that do them, so that waiting for a thread is no part."""
    disk = DiskOptions(path=tmp_path)
    options = OffloadOptions(cpu_bytes_to_use=10 * BLOCK_BYTES, disk=disk)
    worker = WorkerSide(options, TickingClock())
    engine = engine_with(options, num_blocks=16, worker_side=worker)
    for number in (0, 1, 2, 3):
        ask(engine, number)
    assert worker._disk is not None
    worker._disk._writer.submit(int).result()  # all is written

    told = [ask(engine, 0)["disk"] for _ in range(2)][-1]

    assert told.in_bytes > 0
    assert told.in_ns >= NANOSECONDS
    assert told.out_bytes > 0
    assert told.out_ns >= NANOSECONDS
    engine.core.close()


@pytest.mark.parametrize("spoils", [True, False])
def test_spoilt_file_is_found(tmp_path: Path, *, spoils: bool) -> None:
    """One bit: the tokens are right, and the failure has its reason."""
    disk = DiskOptions(path=tmp_path)
    options = OffloadOptions(cpu_bytes_to_use=10 * BLOCK_BYTES, disk=disk)
    engine = engine_with(options, num_blocks=16)
    for number in (0, 1, 2, 3):
        ask(engine, number)
    engine.core.close()
    files = sorted(tmp_path.rglob("*.safetensors"))
    assert len(files) >= 8
    for path in files if spoils else ():
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    engine = engine_with(options, num_blocks=16)

    engine.core.add(engine_request(0, prompt_of(0), 4))
    outputs = run(engine)

    failures = transfers_of(outputs[-1].stats).failures
    assert failures == ({"load": {"corrupt": 1}} if spoils else {})
    engine.core.close()
    alone = engine_with(OffloadOptions(cpu_bytes_to_use=BLOCK_BYTES), num_blocks=64)
    alone.core.add(engine_request(0, prompt_of(0), 4))
    assert tokens_by_request(outputs) == tokens_by_request(alone.run())
