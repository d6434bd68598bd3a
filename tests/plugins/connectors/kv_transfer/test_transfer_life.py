"""Loads and saves from their begin to their end, one at a time."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hookline.clock import VirtualClock
from hookline.config import SchedulerConfig
from hookline.config.extensions import KV_TRANSFER
from hookline.events import PreemptionCause, StepOutput
from hookline.finish_cause import Aborted, Failed
from hookline.outputs import RequestOutput
from hookline.sampling_params import SamplingParams
from hookline.stats.scheduler_stats import Residue, SchedulerStats
from hookline_kv_transfer import (
    KVLayout,
    KVRole,
    Load,
    LoadFailurePolicy,
    SchedulerCapabilities,
    SchedulerConnector,
    TransferClosedError,
    TransferResults,
    WorkerConnector,
)
from hookline_kv_transfer.blocks import KVBlocks
from hookline_kv_transfer.connector_thread import ConnectorThread
from hookline_kv_transfer.kv_memory import layers_of
from hookline_kv_transfer.orders import TransferOrders
from hookline_metrics.transfer_stats import TierStats, transfers_of
from hookline_simulated.memory import SimulatedMemory
from hookline_testing.connected_core import (
    BLOCK,
    SHORT,
    ConnectedCore,
    connected_core,
    dict_sides,
    tokens_by_request,
)
from hookline_testing.connectors import (
    DictScheduler,
    DictStore,
    DictWorker,
    Faults,
)
from hookline_testing.observed import ObservedEngine
from hookline_testing.simulation import engine_request

PROMPT = list(range(3, 24))
"""Five full blocks, and a token."""


def stats_of(engine: ConnectedCore) -> SchedulerStats:
    """Once it rests: nothing is left of any request or transfer."""
    stats = engine.core.report("test").stats
    assert stats.totals.residue == Residue()
    assert stats.kv_blocks_used == 0
    assert transfers_of(stats) == transfers_of(stats).at_rest()
    return stats


def filled(store: DictStore) -> list[int]:
    """Has another engine compute and save the prompt; gives its tokens."""
    faults, store.faults = store.faults, Faults()
    engine = connected_core(store)
    engine.core.add(engine_request(1, PROMPT, 3))
    tokens = tokens_by_request(engine.run())[1]
    store.faults = faults
    assert len(store.content) == 5
    return tokens


def run(engine: ConnectedCore, max_tokens: int = 3) -> list[StepOutput]:
    engine.core.add(engine_request(1, PROMPT, max_tokens))
    return engine.run()


@pytest.mark.parametrize("is_async", [False, True])
def test_loaded_tokens_are_reported(*, is_async: bool) -> None:
    """Of the prompt's 21 tokens 20 were loaded, and one was computed."""
    store = DictStore(is_async=is_async, delay_seconds=0.02)
    tokens = filled(store)
    engine = connected_core(store)

    outputs = run(engine)

    assert tokens_by_request(outputs)[1] == tokens
    [scheduled] = [event for output in outputs for event in output.events.scheduled]
    assert (scheduled.local_cached_tokens, scheduled.external_cached_tokens) == (0, 20)
    assert (scheduled.remote_kv is not None) == is_async
    if scheduled.remote_kv is not None:
        [queued] = [event for output in outputs for event in output.events.queued]
        began, ended = scheduled.remote_kv
        assert queued.at <= began < ended <= scheduled.at
    stats = stats_of(engine)
    assert stats.totals.computed_tokens == 1 + 2
    assert transfers_of(stats).external_cache.queried_tokens == 21
    assert transfers_of(stats).external_cache.hit_tokens == 20
    assert (
        stats.totals.prefix_cache.queried_tokens,
        stats.totals.prefix_cache.hit_tokens,
    ) == (21, 0)
    assert (transfers_of(stats).loads, transfers_of(stats).failures) == (1, {})
    assert transfers_of(stats).loaded_bytes == 5 * 4 * 8
    assert transfers_of(stats).load_ns >= 0


def test_waiting_request_blocks_no_other() -> None:
    """It is counted as waiting for KV, and one behind it runs to its end."""
    store = DictStore(is_async=True, delay_seconds=0.04)
    filled(store)
    engine = connected_core(store)
    engine.core.add(engine_request(1, PROMPT, 3))
    engine.core.add(engine_request(2, [5, 6], 2))

    engine.step()
    stats = engine.core.report("test").stats
    outputs = engine.run()

    assert (stats.running, stats.waiting, stats.held.get("remote_kv", 0)) == (1, 0, 1)
    assert transfers_of(stats).loading == 1
    assert transfers_of(stats).oldest_load_at is not None
    assert stats.oldest_waiting_at is not None
    assert stats.totals.residue == Residue()
    ended = [event.request_id for output in outputs for event in output.events.finished]
    assert ended == [2, 1]
    stats_of(engine)


@pytest.mark.parametrize("lead", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_failed_load_is_computed(*, is_async: bool, lead: bool) -> None:
    """What is good of it is kept; and the connector is not asked a second time."""
    store = DictStore(is_async=is_async, faults=Faults(fails=1.0))
    tokens = filled(store)
    engine = connected_core(store, scheduler=SchedulerConfig(async_scheduling=lead))

    outputs = run(engine)
    again = run(engine)

    assert tokens_by_request(outputs)[1] == tokens_by_request(again)[1] == tokens
    stats = stats_of(engine)
    assert transfers_of(stats).failures == {"load": {"as_wanted": 1}}
    good = transfers_of(stats).external_cache.hit_tokens
    spoilt = 0 if is_async else 1 + (1 if lead else 0)
    assert transfers_of(stats).recomputed_tokens == 20 - good + spoilt
    assert stats.totals.discarded_tokens == spoilt
    assert stats.totals.preemptions == (0 if is_async else 1)
    # What was computed after all is found by the second request.
    assert stats.totals.prefix_cache.hit_tokens >= 20
    lost = [event for output in outputs for event in output.events.preempted]
    assert [event.failed_external_tokens for event in lost] == (
        [] if is_async else [20 - good]
    )
    assert {event.cause for event in lost} <= {PreemptionCause.LOAD_FAILED}
    *_, last = [event for output in outputs for event in output.events.scheduled]
    assert last.local_cached_tokens + last.external_cached_tokens == good > 0


@pytest.mark.parametrize("is_async", [False, True])
def test_failed_load_may_end_the_request(*, is_async: bool) -> None:
    """With the policy `fail` the client gets the reason and no token."""
    store = DictStore(is_async=is_async, faults=Faults(fails=1.0))
    filled(store)
    transfer = replace(SHORT, kv_load_failure_policy=LoadFailurePolicy.FAIL)
    engine = connected_core(store, transfer=transfer)

    outputs = run(engine)

    [end] = [event for output in outputs for event in output.events.finished]
    assert end.cause == Failed("KV load failed: as_wanted")
    assert tokens_by_request(outputs) == {}
    assert stats_of(engine).totals.finished == {"error": 1}


def test_late_load_finds_its_blocks_closed() -> None:
    """Past its deadline the request goes on; blocks are free once they are closed."""
    store = DictStore(is_async=True, faults=Faults(late=1.0, late_seconds=0.2))
    tokens = filled(store)
    engine = connected_core(store)

    outputs = run(engine)
    before = engine.core.report("test").stats
    engine.clock.sleep(0.3)
    again = run(engine)

    assert tokens_by_request(outputs)[1] == tokens_by_request(again)[1] == tokens
    assert transfers_of(before).failures == {"load": {"deadline": 1}}
    assert (transfers_of(before).closing, before.kv_blocks_used) == (0, 0)
    assert store.refused == 1
    assert transfers_of(stats_of(engine)).late_reports == 1


def test_blocks_of_an_aborted_load_are_closed_first() -> None:
    """They are held until the worker has confirmed it, then freed."""
    store = DictStore(is_async=True, delay_seconds=0.02)
    filled(store)
    engine = connected_core(store)
    engine.core.add(engine_request(1, PROMPT, 3))
    engine.step()

    engine.core.finish([1], Aborted("gone"))
    held = engine.core.report("test").stats
    engine.step()
    freed = engine.core.report("test").stats

    assert (transfers_of(held).closing, held.kv_blocks_used) == (1, 5)
    assert held.totals.residue == freed.totals.residue == Residue()
    assert (transfers_of(freed).closing, freed.kv_blocks_used) == (0, 0)
    assert transfers_of(freed).failures == {"load": {"aborted": 1}}
    assert not engine.core.has_work


def test_load_cancelled_before_it_began_writes_nothing() -> None:
    """Steps overlap: the order to begin and the order to end come together."""
    store = DictStore(is_async=True, delay_seconds=0.02)
    filled(store)
    lead = SchedulerConfig(async_scheduling=True)
    engine = connected_core(store, scheduler=lead)
    engine.core.add(engine_request(1, [5, 6], 1))
    engine.step()
    engine.core.add(engine_request(2, PROMPT, 3))
    engine.step()  # takes the first one's step; the load is ordered with the next

    engine.core.finish([2], Aborted("gone"))
    engine.run()
    engine.clock.sleep(0.1)
    run(engine)

    assert store.refused == 1
    assert transfers_of(stats_of(engine)).failures == {"load": {"aborted": 1}}


@pytest.mark.parametrize("fault", ["hides", "forgets"])
def test_load_is_complete_as_far_as_it_was_written(fault: str) -> None:
    """Not all blocks written, or not reported: a synchronous load has failed."""
    store = DictStore(faults=Faults(**{fault: 1.0}))
    tokens = filled(store)
    engine = connected_core(store)

    outputs = run(engine)

    reason = "incomplete" if fault == "hides" else "unreported"
    assert tokens_by_request(outputs)[1] == tokens
    assert transfers_of(stats_of(engine)).failures == {"load": {reason: 1}}


def test_kept_blocks_are_freed_when_they_are_saved() -> None:
    """Until then the ended request's blocks are held, and can be read."""
    store = DictStore(keeps=True, delay_seconds=0.02)
    engine = connected_core(store)

    engine.core.add(engine_request(1, PROMPT, 1))
    end = engine.step()
    held = engine.core.report("test").stats
    engine.run()

    assert end.events.finished[0].sections[KV_TRANSFER] == {"request": 1}
    assert (transfers_of(held).saving, held.kv_blocks_used) == (1, 6)
    assert held.totals.residue == Residue()
    assert store.saved == 6
    stats = stats_of(engine)
    assert (transfers_of(stats).saves, transfers_of(stats).expired_blocks) == (1, 0)


@pytest.mark.parametrize("stop", [(), ("c",)])
def test_client_gets_the_parameters_at_its_end(stop: tuple[str, ...]) -> None:
    """Once, with the last news, also where a stop string was the end of it."""
    engine = connected_core(DictStore(keeps=True))
    front_end = ObservedEngine(engine.core, engine.clock)

    front_end.submit(PROMPT, SamplingParams(max_tokens=1, n=2, stop=stop))
    front_end.run()

    [*before, last] = front_end.news
    assert isinstance(last, RequestOutput)
    assert last.finished
    assert last.kv_transfer_params in ({"request": 1}, {"request": 2})
    assert not [each for each in before if getattr(each, "kv_transfer_params", None)]
    assert last.followed_by(last).kv_transfer_params == last.kv_transfer_params


def test_kept_blocks_expire() -> None:
    """Past their deadline they are closed to the connector, and freed."""
    store = DictStore(keeps=True, delay_seconds=0.2)
    engine = connected_core(store)

    run(engine, max_tokens=1)
    stats = stats_of(engine)
    engine.clock.sleep(0.3)
    run(engine, max_tokens=1)

    assert transfers_of(stats).expired_blocks == 6
    assert transfers_of(stats).failures == {"save": {"deadline": 1}}
    assert store.refused >= 1
    assert store.saved == 0


def held_core(store: DictStore, *, grace_seconds: float) -> ConnectedCore:
    """Of 16 blocks, two ended requests hold 12 for saves that take long."""
    transfer = replace(
        SHORT, kv_save_timeout_seconds=500.0, kv_save_grace_seconds=grace_seconds
    )
    engine = connected_core(store, num_blocks=16, transfer=transfer)
    for request_id in (1, 2):
        prompt = [request_id * 100 + each for each in range(21)]
        engine.core.add(engine_request(request_id, prompt, 1))
        assert engine.step().events.finished
    return engine


def test_a_waiting_request_gets_the_oldest_held_blocks() -> None:
    """Once their grace is over, and only as many saves as it needs."""
    store = DictStore(keeps=True, delay_seconds=400.0)
    engine = held_core(store, grace_seconds=0.3)
    engine.core.add(engine_request(3, [5] * 30, 1))

    waits = [engine.step().events.finished for _ in range(20)]
    engine.clock.sleep(0.3)
    ends = [each for _ in range(20) for each in engine.step().events.finished]
    stats = engine.core.report("test").stats

    assert not any(waits)
    assert [each.request_id for each in ends] == [3]
    assert transfers_of(stats).reclaimed_blocks == 6
    assert transfers_of(stats).failures == {"save": {"reclaimed": 1}}
    assert (transfers_of(stats).saving, stats.totals.residue) == (2, Residue())


def test_held_blocks_that_are_read_are_left_alone() -> None:
    """The grace begins again with each read; a save that nobody reads goes first."""
    engine = held_core(DictStore(keeps=True, delay_seconds=400.0), grace_seconds=0.3)
    engine.core.step()
    saves = engine.transfers._saves
    engine.clock.sleep(0.4)
    first, second = (each.save for each in saves)
    saves.read([first.transfer_id, 999], engine.clock.now())

    saves.reclaim(100, engine.clock.now())

    assert [each.save for each in saves] == [first]
    assert set(engine.transfers._outbox.closing) == {second.transfer_id}


def test_reads_are_reported() -> None:
    """The scheduler learns which saves a connector has read, each time once."""
    layers = layers_of(SimulatedMemory(8, BLOCK))
    layout = KVLayout(
        fingerprint="f",
        num_blocks=8,
        block_size=BLOCK,
        dtype="int64",
        block_bytes=(layers[0].block_bytes,),
    )
    blocks = KVBlocks(layout, layers)
    blocks.open_save(7, [1, 2])

    blocks.read_blocks(0, [2], transfer_id=7)

    assert blocks.take_read() == [7]
    assert blocks.take_read() == []


def test_evicted_blocks_are_seen_before_they_are_overwritten() -> None:
    """A second tier saves what falls out of a small cache, and brings it back."""
    store = DictStore(saves_evicted=True)
    engine = connected_core(store, num_blocks=16)
    first = tokens_by_request(run(engine))[1]
    assert not store.content

    for other in range(2):
        engine.core.add(engine_request(2, [other + 100] * 50, 1))
        engine.run()
    again = run(engine)

    assert len(store.content) >= 5
    assert tokens_by_request(again)[1] == first
    assert transfers_of(stats_of(engine)).external_cache.hit_tokens == 20


@pytest.mark.parametrize(
    ("role", "saved", "loaded"),
    [(KVRole.PRODUCER, 5, 0), (KVRole.CONSUMER, 0, 20)],
)
def test_role_selects_loads_and_saves(role: KVRole, saved: int, loaded: int) -> None:
    """A producer loads nothing, a consumer saves nothing and keeps nothing."""
    store = DictStore(keeps=True)
    if role is KVRole.CONSUMER:
        filled(DictStore(content=store.content))
    before = len(store.content)
    engine = connected_core(store, transfer=replace(SHORT, kv_role=role))
    engine.core.add(engine_request(1, [*PROMPT, 99, 98, 97, 96], 1))

    engine.run()

    stats = stats_of(engine)
    assert transfers_of(stats).external_cache.hit_tokens == loaded
    assert (len(store.content) - before >= saved) if saved else store.saved == 0
    assert (transfers_of(stats).saves > 0) == (role is KVRole.PRODUCER)


class Broken:
    """A side of a connector of which one method does what a test wants."""

    def __init__(self, inner: object, method: str, act: Callable[[], object]) -> None:
        self._inner, self._method, self._act = inner, method, act

    def __getattr__(self, name: str) -> object:
        if name == self._method:
            return lambda *_: self._act()
        return getattr(self._inner, name)


def fail() -> object:
    raise SystemExit("a plugin's own idea")


METHODS = {
    "get_num_new_matched_tokens": "lookup",
    "update_state_after_alloc": "allocate",
    "build_connector_meta": "metadata",
    "request_finished": "finish",
    "start_load_kv": "load",
    "wait_for_layer_load": "load",
    "save_kv_layer": "save",
    "wait_for_save": "save",
    "get_finished": "poll",
}
WRONG = {
    "get_num_new_matched_tokens": (-4, False),
    "build_connector_meta": "bytes",
    "request_finished": (1, {"a": object()}),
    "get_finished": [1, 2],
}


def broken_run(
    method: str, act: Callable[[], object], *, is_async: bool
) -> tuple[list[int], list[int], SchedulerStats]:
    """The right tokens, those of an engine with a broken connector, and its state."""
    store = DictStore(is_async=is_async)
    tokens = filled(store)

    def sides(
        store: DictStore, clock: VirtualClock
    ) -> tuple[SchedulerConnector, WorkerConnector]:
        made = dict_sides(store, clock)
        first, second = (Broken(side, method, act) for side in made)
        return first, second  # type: ignore[return-value]

    engine = connected_core(store, sides=sides)
    found = tokens_by_request(run(engine))[1]
    return tokens, found, stats_of(engine)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_whatever_raises_is_contained(method: str, *, is_async: bool) -> None:
    """The request is served, and the failure counted under its stage."""
    tokens, found, stats = broken_run(method, fail, is_async=is_async)

    assert found == tokens
    assert stats.totals.finished == {"length": 1}
    if not (is_async and method == "wait_for_layer_load"):  # which is never called
        assert transfers_of(stats).failures[METHODS[method]]["raised"] >= 1


@pytest.mark.parametrize("method", sorted(WRONG))
def test_whatever_is_malformed_is_contained(method: str) -> None:
    """The same of answers that are none."""
    tokens, found, stats = broken_run(method, lambda: WRONG[method], is_async=False)

    assert found == tokens
    assert transfers_of(stats).failures[METHODS[method]]["malformed"] >= 1


def test_wrong_kind_of_end_is_a_failure() -> None:
    """A synchronous load that is reported as saved has not been loaded."""
    store = DictStore()
    tokens = filled(store)

    class Confused(DictWorker):
        def get_finished(self) -> TransferResults:
            found = super().get_finished()
            return TransferResults(saved=found.loaded)

    def sides(
        store: DictStore, clock: VirtualClock
    ) -> tuple[SchedulerConnector, WorkerConnector]:
        return dict_sides(store, clock)[0], Confused(store)

    engine = connected_core(store, sides=sides)

    assert tokens_by_request(run(engine))[1] == tokens
    assert transfers_of(stats_of(engine)).failures == {"load": {"malformed": 1}}


def test_connector_is_asked_again_after_a_preemption() -> None:
    """Whose KV came well, and was used, may load it once more."""
    store = DictStore(is_async=True)
    filled(store)
    engine = connected_core(store)
    engine.core.add(engine_request(1, PROMPT, 9))
    request = engine.core._scheduler._lifecycle.requests[1]

    engine.step()
    state = engine.transfers._states.of(request)
    while_waiting = state.may_load
    while not request.num_output_tokens:
        engine.step()

    assert (while_waiting, state.may_load) == (False, True)
    engine.run()


def test_failing_loads_open_the_breaker() -> None:
    """After five in a row no more is loaded, for a while."""
    store = DictStore(is_async=True, faults=Faults(hides=1.0))
    prompts = [[at + 3] * 9 for at in range(8)]
    faults, store.faults = store.faults, Faults()
    saving = connected_core(store)
    for at, prompt in enumerate(prompts):
        saving.core.add(engine_request(at, prompt, 1))
    saving.run()
    store.faults = faults
    engine = connected_core(store)

    opened = []
    for at, prompt in enumerate(prompts):
        engine.core.add(engine_request(at, prompt, 1))
        engine.run()
        opened.append(transfers_of(stats_of(engine)).breaker_open)

    assert transfers_of(stats_of(engine)).failures == {"load": {"incomplete": 5}}
    assert opened == [False] * 4 + [True] * 4


def test_breaker_disables_a_broken_connector() -> None:
    """After five failures in a row it is not asked any more, for thirty seconds."""
    store = DictStore(faults=Faults(raises=1.0))
    engine = connected_core(store)
    for at in range(8):
        engine.core.add(engine_request(at, [at + 3] * 9, 1))

    engine.run()

    failures = transfers_of(stats_of(engine)).failures
    assert failures["lookup"]["raised"] <= 5


def test_load_cancelled_before_its_plan_is_sent_is_closed() -> None:
    """An abort can arrive between a plan with a load and the next plan."""
    blocks = KVBlocks(
        KVLayout(
            fingerprint="00",
            num_blocks=4,
            block_size=4,
            dtype="int64",
            block_bytes=(32,),
        ),
        layers_of(SimulatedMemory(4, 4)),
    )
    worker = DictWorker(DictStore())
    worker.register_kv_caches(blocks)
    connector_thread = ConnectorThread(worker, "dict", blocks, timeout_seconds=60)
    load = Load(
        transfer_id=7, request_id=1, block_ids=(2,), block_hashes=(b"x",), is_async=True
    )

    connector_thread.start_step(TransferOrders(loads=[load], cancelled=[7]))
    report = connector_thread.finish_step()

    assert list(report.closed) == [7]
    assert not report.ended
    with pytest.raises(TransferClosedError):
        blocks.write_blocks(7, 0, [2], np.zeros((1, 32), np.uint8))


class TellingWorker(DictWorker):
    """Reports something with every step."""

    payload: object = b"news"

    def get_finished(self) -> TransferResults:
        results = super().get_finished()
        return TransferResults(loaded=results.loaded, payload=self.payload)  # type: ignore[arg-type]


class TieredScheduler(DictScheduler):
    """Receives the worker's payloads, and has a tier."""

    capabilities = SchedulerCapabilities(receives_payloads=True, has_tiers=True)

    def __init__(self, store: DictStore) -> None:
        super().__init__(store, BLOCK)
        self.heard: list[bytes] = []
        self.tiers: object = {"attic": TierStats(blocks=3)}
        self.asked = 0

    def update_connector_output(self, payload: bytes) -> None:
        self.heard.append(payload)
        if payload == b"bad":
            raise RuntimeError("as the test wants it")

    def tier_stats(self) -> dict[str, TierStats]:
        self.asked += 1
        if self.tiers is None:
            raise RuntimeError("as the test wants it")
        return self.tiers  # type: ignore[return-value]


def telling(
    scheduler: TieredScheduler, worker: TellingWorker
) -> tuple[SchedulerStats, int]:
    """Statistics of one request, and the number of turns that it took."""

    def sides(
        store: DictStore,  # noqa: ARG001
        clock: VirtualClock,  # noqa: ARG001
    ) -> tuple[SchedulerConnector, WorkerConnector]:
        return scheduler, worker

    engine = connected_core(DictStore(), sides=sides)
    run(engine)
    return stats_of(engine), engine.num_turns


def test_worker_reports_to_the_scheduler() -> None:
    """A payload per step and the connector's tiers are reported."""
    scheduler, worker = TieredScheduler(DictStore()), TellingWorker(DictStore())

    stats, turns = telling(scheduler, worker)

    assert scheduler.heard == [b"news"] * turns
    assert transfers_of(stats).tiers == {"attic": TierStats(blocks=3)}
    assert transfers_of(stats).failures == {}


@pytest.mark.parametrize(
    ("payload", "reason"), [(b"bad", "raised"), ("text", "malformed")]
)
def test_invalid_reports_are_counted(payload: object, reason: str) -> None:
    """And the request goes on."""
    scheduler, worker = TieredScheduler(DictStore()), TellingWorker(DictStore())
    worker.payload = payload

    stats, turns = telling(scheduler, worker)

    assert transfers_of(stats).failures == {"poll": {reason: turns}}
    assert stats.totals.finished == {"length": 1}


@pytest.mark.parametrize(
    "tiers", [None, 3, {"attic": 3}, {str(n): TierStats() for n in range(9)}]
)
def test_failing_tier_statistics_are_disabled(tiers: object) -> None:
    """One failure, and no tiers."""
    scheduler, worker = TieredScheduler(DictStore()), TellingWorker(DictStore())
    scheduler.tiers = tiers

    stats, turns = telling(scheduler, worker)

    assert turns > 1
    assert scheduler.asked == 1
    assert transfers_of(stats).tiers == {}
    assert transfers_of(stats).failures == {"poll": {"malformed": 1}}
