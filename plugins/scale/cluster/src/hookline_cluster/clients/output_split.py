"""Splits an engine's outputs among several clients: each gets its own requests."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from hookline.events import (
    Finished,
    NewTokens,
    Preempted,
    Queued,
    Scheduled,
    StepEvents,
    StepOutput,
)
from hookline.request_ids import client_of
from hookline_cluster.clients.other_clients_load import OTHERS_WORK
from hookline_metrics.saturation import OthersWork

E = TypeVar("E", Queued, Scheduled, Preempted, NewTokens, Finished)


def split_output(
    output: StepOutput,
    clients: Sequence[int],
    orphaned_by: Collection[int] = (),
    others: OthersWork | None = None,
) -> Iterator[tuple[int, StepOutput]]:
    """Yields each client's part of an output.

    The first client gets all else that belongs to the engine as a whole, too, such as
    the step's record and evictions, and `others`. So sums over clients count nothing
    twice. It also gets the ends of requests whose clients are in
    `orphaned_by`. Every client gets the engine's state, and changes of the prefix
    cache, by which it places requests.
    """
    events = output.events
    queued, scheduled = _by_client(events.queued), _by_client(events.scheduled)
    preempted, tokens = _by_client(events.preempted), _by_client(events.new_tokens)
    finished = _by_client(events.finished)
    shared = StepOutput(
        engine_index=output.engine_index,
        at=output.at,
        cause=output.cause,
        stats=output.stats,
        events=StepEvents(cache_changes=events.cache_changes),
        clock=output.clock,
    )
    first = output
    if others is not None:
        sections = {**output.sections, OTHERS_WORK.name: others}
        first = msgspec.structs.replace(output, sections=sections)
    for place, client in enumerate(clients):
        is_first = place == 0
        ended = finished.get(client, [])
        if is_first and orphaned_by:
            ended = ended + [
                event for orphan in orphaned_by for event in finished.get(orphan, ())
            ]
        whole = first if is_first else shared
        own = msgspec.structs.replace(
            whole.events,
            queued=queued.get(client, []),
            scheduled=scheduled.get(client, []),
            preempted=preempted.get(client, []),
            new_tokens=tokens.get(client, []),
            finished=ended,
        )
        yield client, msgspec.structs.replace(whole, events=own)


def _by_client(events: Iterable[E]) -> dict[int, list[E]]:
    groups: dict[int, list[E]] = {}
    for event in events:
        groups.setdefault(client_of(event.request_id), []).append(event)
    return groups
