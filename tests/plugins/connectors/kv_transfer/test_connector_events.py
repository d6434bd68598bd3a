"""Look-ups and tiers of a connector, told with the engine's outputs."""

from collections.abc import Sequence

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.engine.engine_core import WAIT
from hookline_kv_transfer import (
    ConnectorRequest,
    SchedulerCapabilities,
    SchedulerConnector,
    WorkerConnector,
)
from hookline_kv_transfer.orders import TransferReport
from hookline_metrics.connector_events import (
    MOST_EVENTS,
    ConnectorEvent,
    ConnectorLookup,
    TierAllocation,
    TierEvent,
    TierLookup,
    TierMove,
)
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.connected_core import (
    BLOCK,
    ConnectedCore,
    connected_core,
    news_of,
)
from hookline_testing.connectors import DictScheduler, DictStore, DictWorker
from hookline_testing.simulation import engine_request


class EventfulScheduler(DictScheduler):
    """Looks up for a millisecond, and tells what the test has given."""

    capabilities = SchedulerCapabilities(tells_tier_events=True)

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(DictStore(), BLOCK)
        self.clock = clock
        self.events: object = ()
        self.asked = self.num_moving = 0

    def get_num_new_matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        self.clock.sleep(0.001)
        return super().get_num_new_matched_tokens(request, num_computed_tokens)

    def take_tier_events(self) -> Sequence[TierEvent]:
        self.asked += 1
        if isinstance(self.events, Exception):
            raise self.events
        events, self.events = self.events, ()
        return events  # type: ignore[return-value]

    def is_moving(self) -> bool:
        self.num_moving -= 1
        return self.num_moving > 0


def eventful() -> tuple[ConnectedCore, EventfulScheduler]:
    made: list[EventfulScheduler] = []

    def sides(
        store: DictStore, clock: VirtualClock
    ) -> tuple[SchedulerConnector, WorkerConnector]:
        made.append(EventfulScheduler(clock))
        return made[0], DictWorker(store)

    return connected_core(DictStore(), sides=sides), made[0]


def events_of(engine: ConnectedCore) -> list[ConnectorEvent]:
    """Events of all outputs of a request."""
    engine.core.add(engine_request(0, list(range(3, 20)), 3))
    return [event for output in engine.run() for event in news_of(output).events]


def test_each_event_is_told_once() -> None:
    """The engine's own look-up, and what the connector gives."""
    engine, scheduler = eventful()
    given = [
        TierLookup("attic", 5),
        TierAllocation("attic", 2),
        TierMove("attic", "in", 30, 7),
        TierMove("attic", "out", 0, 8, is_good=False),
    ]
    scheduler.events = given

    found = events_of(engine)

    assert found == [ConnectorLookup(NANOSECONDS // 1000), *given]


@pytest.mark.parametrize(
    "events",
    [
        RuntimeError("as the test wants it"),
        [3],
        [TierMove("attic", "up", 1, 1)],  # type: ignore[arg-type]
        [TierLookup("attic", "long")],  # type: ignore[arg-type]
        [ConnectorLookup(3)],
        7,
    ],
)
def test_malformed_events_are_asked_for_once(events: object) -> None:
    """One failure is counted; the engine's own look-ups are still told."""
    engine, scheduler = eventful()
    scheduler.events = events

    found = events_of(engine)

    stats = engine.core.report("test").stats
    assert scheduler.asked == 1
    assert found == [ConnectorLookup(NANOSECONDS // 1000)]
    assert transfers_of(stats).failures == {"poll": {"malformed": 1}}
    assert stats.totals.finished == {"length": 1}


def test_number_of_events_and_their_names_are_bounded() -> None:
    """Whatever a connector tells at once."""
    engine, scheduler = eventful()
    scheduler.events = [TierLookup("a" * 100, 1)] * (MOST_EVENTS + 5)

    found = [each for each in events_of(engine) if isinstance(each, TierLookup)]

    assert len(found) == MOST_EVENTS
    assert {len(each.tier) for each in found} == {40}


def test_engine_without_requests_polls_while_blocks_move() -> None:
    """And rests when they do not."""
    engine, scheduler = eventful()
    events_of(engine)
    scheduler.num_moving = 4

    causes = []
    while engine.core.has_work:
        causes.append(engine.core.step().cause)

    assert causes == [WAIT] * 3


def test_hung_connector_is_not_polled() -> None:
    """What it moved when it hung never ends."""
    engine, scheduler = eventful()
    scheduler.num_moving = 1000
    assert engine.core.has_work
    report = TransferReport(failures={"poll": {"hung": 1}})

    engine.transfers.update(report, engine.clock.now())

    assert not engine.core.has_work
