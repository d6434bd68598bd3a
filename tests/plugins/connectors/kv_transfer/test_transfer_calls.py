"""What clients tell the extension: tiers to empty, and transfers to release."""

from collections.abc import Mapping

import msgspec
import pytest

from hookline.clock import VirtualClock
from hookline.config.extensions import KV_TRANSFER
from hookline.engine.commands import TellExtensions
from hookline.events import PreemptionCause, StepOutput
from hookline.request import GenerateRequest
from hookline_kv_transfer import (
    KVTransferConfig,
    SchedulerCapabilities,
    SchedulerConnector,
    WorkerConnector,
)
from hookline_metrics.transfer_calls import (
    TierReset,
    release_command,
    released_blocks,
    reset_command,
    tiers_of,
)
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.connected_core import (
    BLOCK,
    ConnectedCore,
    connected_core,
    dict_sides,
    tokens_by_request,
)
from hookline_testing.connectors import DictScheduler, DictStore
from hookline_testing.simulation import engine_request

PROMPT = list(range(3, 24))
"""Five full blocks, and a token."""
LONG = KVTransferConfig(kv_connector="dict", kv_save_timeout_seconds=400)


def asking(request_id: int, **params: object) -> GenerateRequest:
    request = engine_request(request_id, PROMPT, 3)
    return msgspec.structs.replace(request, sections={KV_TRANSFER: params})


def keeping() -> ConnectedCore:
    """An engine whose ended requests' blocks are kept for longer than the test."""
    return connected_core(DictStore(keeps=True, delay_seconds=300.0), transfer=LONG)


def run_to_end(engine: ConnectedCore) -> list[StepOutput]:
    """While saves are open, the engine has work for ever."""
    outputs = []
    while engine.core.has_work and not engine.transfers._saves:
        outputs.append(engine.step())
    return outputs


def release(engine: ConnectedCore, transfer_id: str) -> int | None:
    return released_blocks([engine.core.tell(release_command(transfer_id))])


def test_released_blocks_are_free_once_the_worker_has_closed_them() -> None:
    """All that the request has kept under the name, and nothing of others."""
    engine = keeping()
    for request_id, name in enumerate("ab", 1):
        engine.core.add(asking(request_id, transfer_id=name))
        while request_id in engine.core._scheduler.requests:
            engine.step()
    kept = engine.core.report("test").stats

    released = release(engine, "a"), release(engine, "a"), release(engine, "c")
    engine.step()
    stats = engine.core.report("test").stats

    assert released == (6, 0, 0)
    held = [transfers_of(each).held_blocks for each in (kept, stats)]
    assert held[0] - held[1] == 6
    assert transfers_of(stats).released_blocks == 6
    assert transfers_of(stats).failures == {}
    assert transfers_of(stats).saving == 1
    assert stats.totals.residue.blocks == 0


def test_release_may_come_before_the_end() -> None:
    """Then the next request of this name keeps nothing; later ones do."""
    engine = keeping()

    released = release(engine, "a")
    for request_id in (1, 2):
        engine.core.add(asking(request_id, transfer_id="a"))
        run_to_end(engine)
    stats = engine.core.report("test").stats

    assert released == 0
    assert transfers_of(stats).saving == 1


@pytest.mark.parametrize("section", [{}, {"type": "other"}, [], {"type": "release"}])
def test_what_is_no_call_is_not_answered(section: object) -> None:
    """Nor does it harm the engine."""
    engine = keeping()

    told = engine.core.tell(TellExtensions(sections={KV_TRANSFER: section, "no": 1}))

    assert told.sections == {}
    assert released_blocks([told]) is None


class Resettable(DictScheduler):
    """Offers nothing any more once it was reset."""

    capabilities = SchedulerCapabilities(resets_cache=True)
    is_empty = False
    answer: Mapping[str, TierReset] | None = None

    def reset_cache(self, *, external: bool | None) -> Mapping[str, TierReset]:
        self.is_empty = external is not False
        if self.answer is not None:
            return self.answer
        if not self.is_empty:
            return dict.fromkeys(("near", "far"), TierReset.KEPT)
        kept = TierReset.RESET if external else TierReset.KEPT
        return {"near": TierReset.RESET, "far": kept}

    def get_num_new_matched_tokens(
        self, request: object, num_computed_tokens: int
    ) -> tuple[int, bool]:
        if self.is_empty:
            return 0, False
        return super().get_num_new_matched_tokens(request, num_computed_tokens)  # type: ignore[arg-type]


def resettable(
    store: DictStore, clock: VirtualClock
) -> tuple[SchedulerConnector, WorkerConnector]:
    _, worker = dict_sides(store, clock)
    return Resettable(store, BLOCK), worker


def reset(
    engine: ConnectedCore, external: bool | None, *, running: bool = False
) -> dict[str, TierReset]:
    command = reset_command(reset_running_requests=running, external=external)
    return tiers_of([engine.core.tell(command)])


def filled(store: DictStore) -> None:
    """Another engine has computed and saved the prompt."""
    engine = connected_core(store)
    engine.core.add(engine_request(9, PROMPT, 1))
    engine.run()


def cached(outputs: list[StepOutput]) -> list[tuple[int, int]]:
    """Local and external tokens at each admission."""
    return [
        (event.local_cached_tokens, event.external_cached_tokens)
        for output in outputs
        for event in output.events.scheduled
    ]


@pytest.mark.parametrize(
    ("external", "near", "far", "cached_tokens"),
    [
        (None, "reset", "kept", 0),
        (True, "reset", "reset", 0),
        (False, "kept", "kept", 20),
    ],
)
def test_reset_tells_what_was_done_to_each_tier(
    external: bool | None, near: str, far: str, cached_tokens: int
) -> None:
    """Without an explicit no the connector decides by what others share."""
    store = DictStore()
    filled(store)
    engine = connected_core(store, sides=resettable)

    tiers = reset(engine, external)
    engine.core.add(engine_request(1, PROMPT, 1))
    outputs = engine.run()

    assert tiers == {"device": "reset", "near": near, "far": far}
    assert cached(outputs) == [(0, cached_tokens)]


@pytest.mark.parametrize(
    "answer", [{"near": "gone"}, dict.fromkeys("abcdefghi", "reset"), 5]
)
def test_failed_reset_is_told(answer: object) -> None:
    """It is counted, and the tiers count as not reset."""
    engine = connected_core(DictStore(), sides=resettable)
    connector = engine.transfers._connector
    assert isinstance(connector, Resettable)
    connector.answer = answer  # type: ignore[assignment]

    tiers = reset(engine, None)

    assert tiers == {"device": "reset", "dict": "failed"}
    stats = engine.core.report("test").stats
    assert transfers_of(stats).failures == {"reset": {"malformed": 1}}


def test_connector_that_cannot_reset_says_what_is_kept() -> None:
    """Its blocks are found as before."""
    engine = connected_core(DictStore())

    assert reset(engine, True) == {"device": "reset", "dict": "kept"}


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_being_loaded_is_not_cached_after_a_reset(*, is_async: bool) -> None:
    """A request that waits for it computes; one that runs goes on with what it has."""
    store = DictStore(is_async=is_async, delay_seconds=0.02)
    filled(store)
    engine = connected_core(store, sides=resettable)
    engine.core.add(engine_request(1, PROMPT, 3))
    if is_async:
        engine.step()
    else:
        assert engine.core._schedule_and_start() is not None

    reset(engine, None)
    first = engine.run()
    engine.core.add(engine_request(2, PROMPT, 3))
    second = engine.run()

    tokens = tokens_by_request([*first, *second])
    assert tokens[1] == tokens[2]
    # What the first one has computed itself is cached, and nothing else.
    assert cached([*first, *second]) == [(0, 0 if is_async else 20), (20 * is_async, 0)]
    assert transfers_of(engine.core.report("test").stats).failures == {}


def test_running_requests_lose_theirs_if_that_is_asked_for() -> None:
    """They are preempted, computed again, and end as they would have."""
    alone, engine = connected_core(DictStore()), connected_core(DictStore())
    for each in (alone, engine):
        each.core.add(engine_request(1, PROMPT, 6))
    right = tokens_by_request(alone.run())
    begun = [engine.step(), engine.step()]

    reset(engine, None, running=True)
    outputs = [*begun, *engine.run()]

    events = [event for output in outputs for event in output.events.preempted]
    assert [event.cause for event in events] == [PreemptionCause.RESET]
    assert tokens_by_request(outputs) == right


@pytest.mark.parametrize(("remote", "external"), [(None, 0), (8, 8), (40, 20)])
def test_transferred_tokens_are_not_cached(remote: int | None, external: int) -> None:
    """But those that the other instance had cached are, as nobody computed them."""
    store = DictStore()
    filled(store)
    engine = connected_core(store)
    params: dict[str, object] = {"do_remote_prefill": True}
    if remote is not None:
        params["remote_num_cached_tokens"] = remote

    engine.core.add(asking(1, **params))
    outputs = engine.run()

    [event] = [event for output in outputs for event in output.events.scheduled]
    assert event.external_cached_tokens == external
    assert event.transferred_tokens == 20 - external
    lookups = transfers_of(outputs[-1].stats).external_cache
    assert (lookups.queried_tokens, lookups.hit_tokens) == (21, external)


def test_producer_tells_how_much_it_had_cached() -> None:
    """Among the parameters that go to the other instance, whatever the connector."""

    class Producer(DictScheduler):
        def request_finished(
            self, *_: object
        ) -> tuple[bool, Mapping[str, object] | None]:
            return False, {"do_remote_prefill": True}

    def sides(
        store: DictStore, clock: VirtualClock
    ) -> tuple[SchedulerConnector, WorkerConnector]:
        return Producer(store, BLOCK), dict_sides(store, clock)[1]

    engine = connected_core(DictStore(), sides=sides)
    told = []
    for request_id in (1, 2):
        engine.core.add(asking(request_id, do_remote_decode=True))
        [end] = [each for output in engine.run() for each in output.events.finished]
        told.append(end.sections[KV_TRANSFER])

    assert told == [
        {"do_remote_prefill": True, "remote_num_cached_tokens": cached_tokens}
        for cached_tokens in (0, 20)
    ]
