"""Splits an engine's outputs among several clients: each gets its own requests."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from hookline.events import (
    Finished,
    NewTokens,
    Pooled,
    Preempted,
    Queued,
    Scheduled,
    StepOutput,
)
from hookline.request_ids import client_of

E = TypeVar("E", Queued, Scheduled, Preempted, NewTokens, Finished, Pooled)


def split_output(
    output: StepOutput, clients: Sequence[int]
) -> Iterator[tuple[int, StepOutput]]:
    """Yields each client's part of an output.

    The first client gets what belongs to the engine as a whole, too: the step's record,
    evictions, loads, events of the KV connector and changes of the prefix cache. So
    sums over clients count nothing twice. Every client gets the engine's state.
    """
    for place, client in enumerate(clients):
        is_first = place == 0
        yield (
            client,
            StepOutput(
                engine_index=output.engine_index,
                at=output.at,
                cause=output.cause,
                stats=output.stats,
                record=output.record if is_first else None,
                queued=_of_client(client, output.queued),
                scheduled=_of_client(client, output.scheduled),
                preempted=_of_client(client, output.preempted),
                new_tokens=_of_client(client, output.new_tokens),
                finished=_of_client(client, output.finished),
                evictions=output.evictions if is_first else [],
                clock=output.clock,
                cache_changes=output.cache_changes if is_first else None,
                loads=output.loads if is_first else [],
                connector_events=output.connector_events if is_first else [],
                pooled=_of_client(client, output.pooled),
                compilings=output.compilings if is_first else [],
            ),
        )


def _of_client(client: int, events: Iterable[E]) -> list[E]:
    return [event for event in events if client_of(event.request_id) == client]
