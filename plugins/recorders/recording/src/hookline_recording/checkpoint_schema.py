"""The record of a checkpoint: what a scheduler knows, for a replay to begin there."""

import msgspec


class LiveRequest(msgspec.Struct, frozen=True, array_like=True):
    """A live request at a checkpoint, as the scheduler has it.

    Attributes:
        request_id: Its id; an `Arrived` before has its facts.
        sequence: Its place in the order of arrival.
        queued_at: When it was queued, ns.
        status: Where it is.
        output_tokens: Tokens that it has generated.
        computed: Tokens whose keys and values are in its blocks.
        most_computed: The most that there were.
        pending: Tokens that steps in flight sample.
        drafts: Drafts that a step in flight verifies.
        cached: Prompt tokens that were cached at its first admission.
        block_ids: Its KV blocks.
        hashed_blocks: How many of them the prefix cache has seen.
        rank: Its place in the order of admission.
        is_follower: Whether it queued behind another choice.
        last_step: The last step that was planned to compute it.
        gate: Gate that it waits at; empty if at none.
        output_hashes: Hashes of its full blocks after those of its prompt.
        next_drafts: Drafts that its next step may verify.
        is_preempted: Whether it has been preempted and not admitted again.
    """

    request_id: int
    sequence: int
    queued_at: int
    status: str
    output_tokens: int = 0
    computed: int = 0
    most_computed: int = 0
    pending: int = 0
    drafts: int = 0
    cached: int | None = None
    block_ids: list[int] = []
    hashed_blocks: int = 0
    rank: tuple[int, int, int] | None = None
    is_follower: bool = False
    last_step: int = 0
    gate: str = ""
    output_hashes: bytes = b""
    next_drafts: int = 0
    is_preempted: bool = False


class InFlight(msgspec.Struct, frozen=True, array_like=True):
    """A step in flight at a checkpoint.

    Attributes:
        step: Its number.
        request_ids: Its requests.
        num_tokens: Tokens that it computes of each.
        at: When the executor got it, ns.
    """

    step: int
    request_ids: list[int]
    num_tokens: list[int]
    at: int = 0


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """All that the scheduler knows after an output, so that a replay can begin here.

    Attributes:
        at: When, ns.
        step: Number of the last step planned.
        last_ended: Number of the last step that has ended.
        arrivals: Number of requests that were queued so far.
        requests: The live ones, in the order of their arrival.
        running: Ids of those in the batch, in the order of their admission.
        released: Ids of requests that have left it and are still in the worker.
        in_flight: Steps in flight, oldest first.
        free_blocks: The free KV blocks in the order in which they are allocated next,
            four bytes each.
        cached_blocks: KV blocks in the prefix cache, likewise, in any order.
        cached_hashes: Their hashes, as in `Arrived`.
        proven_blocks: KV blocks whose content is known to be good, four bytes each.
        sides: What extensions know, by their names.
    """

    at: int
    step: int = 0
    last_ended: int = 0
    arrivals: int = 0
    requests: list[LiveRequest] = []
    running: list[int] = []
    released: list[int] = []
    in_flight: list[InFlight] = []
    free_blocks: bytes = b""
    cached_blocks: bytes = b""
    cached_hashes: bytes = b""
    proven_blocks: bytes = b""
    sides: dict[str, object] = {}
