"""Copies what an engine tells into records, without texts of its clients."""

from collections.abc import Callable
from typing import Any

import msgspec

from hookline.engine.commands import Call, TellExtensions
from hookline.events import Finished, StepEvents
from hookline.request import GenerateRequest
from hookline.sections import NO_SECTIONS
from hookline_recording import schema
from hookline_recording.needs import NO_NEEDS, Needs


def copied_events(
    events: StepEvents, output_hashes: Callable[[Finished], bytes]
) -> schema.Events:
    """Copies events of requests, but for new tokens, which the result has."""
    return schema.Events(
        [schema.Queued(each.request_id, each.at) for each in events.queued],
        [
            schema.Scheduled(
                each.request_id,
                each.at,
                each.local_cached_tokens,
                each.external_cached_tokens,
                each.transferred_tokens,
                each.recomputed_tokens,
                each.is_resumed,
                each.remote_kv,
            )
            for each in events.scheduled
        ],
        [
            schema.Preempted(
                each.request_id,
                each.at,
                str(each.cause),
                each.beneficiary_id,
                each.computed_tokens,
                each.output_tokens,
            )
            for each in events.preempted
        ],
        [
            schema.Finished(
                each.request_id,
                each.at,
                str(each.reason),
                type(each.cause).__name__,
                each.output_tokens,
                output_hashes(each),
            )
            for each in events.finished
        ],
    )


def without_sections(call: Call) -> Call:
    """Returns a call without what it tells extensions, which may be a client's."""
    if not isinstance(call.command, TellExtensions):
        return call
    command = msgspec.structs.replace(call.command, sections=NO_SECTIONS)
    return msgspec.structs.replace(call, command=command)


def needs_of(request: GenerateRequest) -> Needs | None:
    facts = request.facts
    needs = Needs(
        request.timeout_seconds,
        request.is_prefill_only,
        request.skip_reading_prefix_cache or request.params.prompt_logprobs is not None,
        facts.client,
        facts.weight,
        request.is_moved,
    )
    return None if needs == NO_NEEDS else needs


def without_text(data: object) -> Any:
    """Returns plain data with its texts emptied; names of fields and keys stay."""
    match data:
        case str() | bytes():
            return ""
        case dict():
            return {key: without_text(each) for key, each in data.items()}
        case list() | tuple():
            return [without_text(each) for each in data]
        case _:
            return data
