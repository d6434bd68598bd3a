"""KV that was computed with one adapter is never used with another one."""

from collections.abc import Mapping

import msgspec
import pytest

from hookline.clock import VirtualClock
from hookline.config.extensions import KV_TRANSFER
from hookline.request import GenerateRequest
from hookline_kv_transfer import SchedulerConnector, WorkerConnector
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.connected_core import (
    BLOCK,
    ConnectedCore,
    connected_core,
    dict_sides,
)
from hookline_testing.connectors import DictScheduler, DictStore
from hookline_testing.simulation import engine_request

PROMPT = list(range(3, 24))
"""Five full blocks, and a token."""


class Producer(DictScheduler):
    """Hands each prompt over to another engine."""

    def request_finished(self, *_: object) -> tuple[bool, Mapping[str, object] | None]:
        return False, {"do_remote_prefill": True}


def producing(store: DictStore) -> ConnectedCore:
    def sides(
        store: DictStore, clock: VirtualClock
    ) -> tuple[SchedulerConnector, WorkerConnector]:
        return Producer(store, BLOCK), dict_sides(store, clock)[1]

    return connected_core(store, sides=sides)


def handed_over(store: DictStore, adapter: str | None) -> dict[str, object]:
    """Has a prompt computed; returns what the other engine is told."""
    engine = producing(store)
    engine.core.add(asking(9, adapter, {"do_remote_decode": True}))
    [end] = [each for output in engine.run() for each in output.events.finished]
    params = end.sections[KV_TRANSFER]
    assert isinstance(params, dict)
    return params


def asking(
    request_id: int, adapter: str | None, params: Mapping[str, object]
) -> GenerateRequest:
    request = engine_request(request_id, PROMPT, 1, lora=adapter)
    return msgspec.structs.replace(request, sections={KV_TRANSFER: params})


@pytest.mark.parametrize("adapter", [None, "digest"])
def test_the_same_adapter_continues_the_prompt(adapter: str | None) -> None:
    """Its digest is told where there is one, and compared."""
    store = DictStore()
    params = handed_over(store, adapter)
    consumer = connected_core(store)

    consumer.core.add(asking(1, adapter, params))
    outputs = consumer.run()

    assert params.get("remote_adapter") == adapter
    [event] = [event for output in outputs for event in output.events.scheduled]
    assert event.transferred_tokens == 20


@pytest.mark.parametrize(
    ("before", "after"), [(None, "new"), ("old", None), ("old", "new")]
)
def test_another_adapter_computes_the_prompt_again(
    before: str | None, after: str | None
) -> None:
    """The connector is not even asked, and nothing counts as a failure."""
    store = DictStore()
    params = handed_over(store, before)
    consumer = connected_core(store)

    consumer.core.add(asking(1, after, params))
    outputs = consumer.run()

    [event] = [event for output in outputs for event in output.events.scheduled]
    assert event.transferred_tokens == event.external_cached_tokens == 0
    told = transfers_of(outputs[-1].stats)
    assert (told.loads, told.failures) == (0, {})
    assert told.external_cache.hit_tokens == 0


def test_blocks_of_another_adapter_are_not_found_in_the_same_store() -> None:
    """Their hashes differ, whatever clients say."""
    store = DictStore()
    params = handed_over(store, "old")
    consumer = connected_core(store)

    consumer.core.add(asking(1, "new", {**params, "remote_adapter": "new"}))
    outputs = consumer.run()

    [event] = [event for output in outputs for event in output.events.scheduled]
    assert event.transferred_tokens == 0
