"""Makes what loggers get unchangeable: tuples for lists, read-only views for maps.

Events come from the wire, or from an engine in this process, with lists and dicts. They
are replaced in place, once a step, after everybody else has taken the step's output;
what no logger asks for is left as it is.
"""

from collections.abc import Sequence
from types import MappingProxyType

from msgspec.structs import force_setattr, replace

from hookline.events import (
    BlocksRemoved,
    BlocksStored,
    CacheChanges,
    Finished,
    NewTokens,
    StepRecord,
)
from hookline.frozen import frozen_json, frozen_map
from hookline.request import TokenLogprobs
from hookline.stats.scheduler_stats import SchedulerStats


def freeze_record(record: StepRecord) -> None:
    """Freezes a step's record."""
    force_setattr(record, "request_tokens", tuple(record.request_tokens))
    if not isinstance(record.sections, MappingProxyType):  # from another process
        force_setattr(record, "sections", frozen_json(record.sections))


def freeze_stats(stats: SchedulerStats) -> None:
    """Freezes an engine's state."""
    totals = stats.totals
    force_setattr(totals, "finished", frozen_map(totals.finished))
    force_setattr(stats, "held", frozen_map(stats.held))
    force_setattr(stats, "tenants", frozen_map(stats.tenants))
    if not isinstance(stats.sections, MappingProxyType):
        force_setattr(stats, "sections", frozen_json(stats.sections))


def freeze_tokens(events: Sequence[NewTokens]) -> tuple[NewTokens, ...]:
    """Freezes the new tokens of a step."""
    for event in events:
        force_setattr(event, "token_ids", tuple(event.token_ids))
        force_setattr(event, "logprobs", _frozen(event.logprobs))
        force_setattr(event, "prompt_logprobs", _frozen(event.prompt_logprobs))
    return tuple(events)


def frozen_finished(events: Sequence[Finished]) -> tuple[Finished, ...]:
    """Returns frozen events."""
    for event in events:
        if not isinstance(event.sections, MappingProxyType):
            force_setattr(event, "sections", frozen_json(event.sections))
    return tuple(events)


def freeze_changes(changes: CacheChanges) -> None:
    """Freezes changes of the prefix cache."""
    for event in changes.events:
        if isinstance(event, BlocksStored | BlocksRemoved):
            force_setattr(event, "block_hashes", tuple(event.block_hashes))
        if isinstance(event, BlocksStored):
            force_setattr(event, "token_ids", tuple(event.token_ids))
    force_setattr(changes, "events", tuple(changes.events))


def _frozen(entries: Sequence[TokenLogprobs] | None) -> Sequence[TokenLogprobs] | None:
    if entries is None:
        return None
    return tuple(  # the originals are for the response to the client
        replace(entry, token_ids=tuple(entry.token_ids), logprobs=tuple(entry.logprobs))
        for entry in entries
    )
