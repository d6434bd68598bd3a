"""Puts an engine into the state of a checkpoint."""

from collections.abc import Sequence

from hookline.engine.kv_cache.block_pool import BlockPool
from hookline.engine.scheduler.readiness import ReadinessGate
from hookline.engine.scheduler.scheduler import Scheduler
from hookline.request import Request, RequestStatus
from hookline_recording import RecordingError
from hookline_recording.checkpoint_schema import Checkpoint, LiveRequest
from hookline_recording.checkpoints import CheckpointedSide, numbers
from hookline_replay.cache import divided
from hookline_replay.requests import request_of
from hookline_replay.script import Script


def restore(
    script: Script,
    checkpoint: Checkpoint,
    scheduler: Scheduler,
    gates: Sequence[ReadinessGate],
) -> None:
    """Puts a scheduler without requests into the state of a checkpoint.

    Args:
        script: The recording.
        checkpoint: The state.
        scheduler: The scheduler.
        gates: Its gates; a `BeginningGate` is the first of them.

    Raises:
        RecordingError: The checkpoint contradicts itself or the engine's options.
    """
    try:
        _restore_pool(checkpoint, scheduler.cache.pool)
        for live in checkpoint.requests:
            _restore_request(live, script, scheduler, gates)
        _restore_batch(checkpoint, scheduler)
        for name, state in checkpoint.sides.items():
            side = scheduler.extensions.sides.get(name)
            if isinstance(side, CheckpointedSide):
                side.restore(state)
    except (ValueError, KeyError, IndexError) as error:
        raise RecordingError(
            str(script.path), f"its checkpoint is damaged: {error!r}"
        ) from error
    scheduler.steps = checkpoint.step
    scheduler.last_ended = checkpoint.last_ended
    scheduler.lifecycle.arrivals = checkpoint.arrivals
    scheduler.take_events()


def _restore_pool(checkpoint: Checkpoint, pool: BlockPool) -> None:
    """Gives blocks their content and references, and the free list its order."""
    every = pool.allocate(pool.num_blocks)
    hashes = divided(checkpoint.cached_hashes)
    for block_id, block_hash in zip(
        numbers(checkpoint.cached_blocks), hashes, strict=True
    ):
        pool.cache_block(block_id, block_hash)
    pool.prove(numbers(checkpoint.proven_blocks))
    free = numbers(checkpoint.free_blocks)
    for block_id in free:
        pool.free([block_id])
    held = [each.block_ids for each in checkpoint.requests]
    seen: set[int] = set()
    for block_ids in held:
        pool.touch([each for each in block_ids if each in seen])
        seen.update(block_ids)
    if seen | set(free) != set(every) or seen & set(free):
        raise ValueError("blocks are neither free nor those of a request")


def _restore_request(
    live: LiveRequest,
    script: Script,
    scheduler: Scheduler,
    gates: Sequence[ReadinessGate],
) -> None:
    lifecycle = scheduler.lifecycle
    queues = lifecycle.queues
    inner = request_of(script.arrived[live.request_id])
    lifecycle.arrivals = live.sequence - 1
    lifecycle.add(inner, live.queued_at)
    request = scheduler.requests[live.request_id]
    queues.held.let_go(request, live.queued_at)
    _restore_fields(request, live)
    known = script.hashes.of(live.request_id)
    full = len(request.token_ids) // scheduler.cache.block_size
    request.block_hashes = known[:full]
    if live.is_preempted:
        queues.preempted.add(request.request_id)
    if request.status is RequestStatus.HELD:
        gate = next(each for each in gates if each.name == live.gate)
        queues.held.hold(request, gate, live.queued_at)
    elif request.status is not RequestStatus.RUNNING:
        if not live.is_preempted:
            request.rank = None  # so that others queue behind it in its line
        queues.waiting.push(request)
    if live.next_drafts:
        lifecycle.drafts[live.request_id] = [0] * live.next_drafts


def _restore_fields(request: Request, live: LiveRequest) -> None:
    request.rank, request.is_follower = live.rank, live.is_follower
    request.last_step = live.last_step
    request.status = RequestStatus(live.status)
    request.token_ids += [0] * live.output_tokens
    request.num_computed_tokens = live.computed
    request.max_computed_tokens = live.most_computed
    request.num_pending_tokens, request.num_drafts = live.pending, live.drafts
    request.num_cached_tokens = live.cached
    request.block_ids = list(live.block_ids)
    request.num_hashed_blocks = live.hashed_blocks


def _restore_batch(checkpoint: Checkpoint, scheduler: Scheduler) -> None:
    running = scheduler.lifecycle.queues.running
    for request_id in checkpoint.running:
        running.add(scheduler.requests[request_id])
    running.released = list(checkpoint.released)
