"""Messages between connectors and engines besides loads and saves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hookline_kv_transfer import (
    ConnectorMetadata,
    ConnectorRequest,
    PlannedStep,
    TransferResults,
)
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.connected_core import BLOCK, connected_core
from hookline_testing.connectors import DictScheduler, DictStore, DictWorker
from hookline_testing.simulation import engine_request


class Complaining(DictWorker):
    """Reports events that belong to no transfer, once."""

    told = False

    def get_finished(self) -> TransferResults:
        results = super().get_finished()
        if self.told:
            return results
        self.told = True
        return replace(results, incidents={"stranger": 3})


class Counting(DictScheduler):
    """Knows which requests had ended when orders were asked for."""

    def __init__(self, store: DictStore) -> None:
        super().__init__(store, BLOCK)
        self.ended: list[int] = []
        self.ordered: list[int] = []

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        self.ordered += self.ended
        self.ended = []
        return super().build_connector_meta(step)

    def request_finished(
        self, request: ConnectorRequest, block_ids: Sequence[int], transfer_id: int
    ) -> tuple[bool, Mapping[str, object] | None]:
        self.ended.append(request.request_id)
        return super().request_finished(request, block_ids, transfer_id)


def test_events_without_a_transfer_are_counted_separately() -> None:
    """They are counted by reason, each time."""
    engine = connected_core(
        DictStore(),
        sides=lambda store, _: (DictScheduler(store, BLOCK), Complaining(store)),
    )

    engine.core.add(engine_request(1, [5, 6, 7], 2))
    engine.run()

    assert transfers_of(engine.core.report("test").stats).failures == {
        "incident": {"stranger": 3}
    }


def test_orders_are_asked_for_after_the_last_end() -> None:
    """What a request's end makes a connector want is not left until the next one."""
    store = DictStore()
    scheduler = Counting(store)
    engine = connected_core(store, sides=lambda *_: (scheduler, DictWorker(store)))

    engine.core.add(engine_request(1, [5, 6, 7], 2))
    engine.run()

    assert scheduler.ordered == [1]
    assert not engine.core.has_work
