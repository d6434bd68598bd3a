"""Tells the decisions of a recording in lines, to read and to compare as text."""

from collections.abc import Iterator, Sequence

from hookline_recording.recording import obstacle_name
from hookline_recording.schema import (
    Blocked,
    Events,
    Gated,
    Planned,
    Published,
    Record,
)


def decisions(records: Sequence[Record]) -> Iterator[str]:
    """Yields a line for each decision, without times."""
    ids: Sequence[int] = ()
    for record in records:
        match record:
            case Planned():
                if record.request_ids is not None:
                    ids = record.request_ids
                yield _plan(record, ids)
            case Published():
                yield from _output(record)
            case Blocked():
                yield f"  nothing can be planned: {obstacle_name(record.obstacle)}"
            case Gated():
                told = f"waits for {record.gate}" if record.gate else "need not wait"
                yield f"  request {record.request_id} {told}"
            case _:
                pass


def _plan(plan: Planned, ids: Sequence[int]) -> str:
    counts = plan.num_tokens or [1] * len(ids)
    parts = [f"{each}×{count}" for each, count in zip(ids, counts, strict=False)]
    told = [f"step {plan.step}: {' '.join(parts)}"]
    told += (f"admits {each} at {at}" for each, at in plan.admitted or ())
    if plan.drafts:
        told.append(f"drafts {plan.drafts}")
    if plan.new_blocks:
        told.append(f"blocks {plan.new_blocks}")
    if plan.released:
        told.append(f"releases {plan.released}")
    if plan.obstacle:
        told.append(f"stopped by {obstacle_name(plan.obstacle)}")
    return "; ".join(told)


def _output(output: Published) -> Iterator[str]:
    events = output.events or Events()
    for queued in events.queued:
        yield f"  request {queued.request_id} is queued"
    for found in events.scheduled:
        if cached := found.local_cached_tokens + found.external_cached_tokens:
            yield f"  request {found.request_id} finds {cached} tokens"
    for lost in events.preempted:
        yield (
            f"  request {lost.request_id} is preempted ({lost.cause}) for "
            f"{lost.beneficiary_id}"
        )
    for end in events.finished:
        yield (
            f"  request {end.request_id} ends: {end.kind}, {end.output_tokens} tokens"
        )
    held = f", held {output.held}" if output.held else ""
    evicted = f", {output.evicted_blocks} evicted" if output.evicted_blocks else ""
    yield (
        f"  {output.cause}: {output.running} running, {output.waiting} waiting, "
        f"{output.kv_blocks_used} blocks used, {output.kv_blocks_cached} cached"
        f"{evicted}{held}"
    )
