"""The records of a recording, and how each is framed in a file.

A file is a header of `HEADER_BYTES`, then frames, one for each record: a mark, the
record's length, its number and a checksum, then the record in msgpack. Nothing but the
header is needed to read any of them. In a ring the newest frames take the place of the
oldest; whoever reads it sorts them by their numbers and skips what is torn.

Each version of this schema can be read from here on: fields are added at the end, with
defaults, and none is removed, renamed or given another meaning. What readers of an
older version would misread needs a new `VERSION`, which they refuse.
"""

import struct

import msgspec

from hookline_recording.checkpoint_schema import Checkpoint
from hookline_recording.front_end_schema import Answered, Served
from hookline_recording.needs import Needs

VERSION = 1
MAGIC = b"hookrec\n"
FORMER_MAGIC = b"hkrc"
HEADER_BYTES = 16 * 1024
PREFIX = struct.Struct("<8sIII")
"""Magic, version, length and checksum of the header's msgpack, which follows."""
STATE_AT = HEADER_BYTES - 64
STATE = struct.Struct("<QQQQ")
"""What a watch reads of a ring: time of the last record, begin of the oldest step in
flight or 0, number of open requests, number of steps begun; times in monotonic ns."""
FRAME = struct.Struct("<HIQI")
MARK = 0xF71E
MOST_RECORD_BYTES = 16 * 1024 * 1024


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a recording is of.

    Attributes:
        version: Version of the schema.
        wire_version: Version of the commands' encoding, for `Command.body`.
        hookline: Version of Hookline.
        engine_index: Index of the engine.
        pid, owner_pid: Its process, and the server's.
        model: Name of the model in the API.
        config_hash: Short hash of all options.
        block_size, num_kv_blocks: Tokens per KV block, and number of these.
        max_num_seqs, max_num_batched_tokens: Most requests, and most tokens, per step.
        executor: Name of the executor.
        content, salt: What it has of prompts and outputs, and the salt of hashes.
        wall: Wall clock at the start, ns since the epoch.
        monotonic: The engine's monotonic clock at that moment, ns.
        heartbeat_ns: Maximum time between two records of a healthy engine.
        facts: The engine's facts in JSON; they may be cut off: then empty.
        config: The engine's configuration in JSON, likewise; only with tokens.
        scheduling: A `Scheduling` in msgpack, from which decisions can be repeated;
            empty in recordings before it was there.
    """

    version: int = VERSION
    wire_version: int = 0
    hookline: str = ""
    engine_index: int = 0
    pid: int = 0
    owner_pid: int = 0
    model: str = ""
    config_hash: str = ""
    block_size: int = 0
    num_kv_blocks: int = 0
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    executor: str = ""
    content: str = "none"
    salt: bytes = b""
    wall: int = 0
    monotonic: int = 0
    heartbeat_ns: int = 0
    facts: bytes = b""
    config: bytes = b""
    scheduling: bytes = b""


class Arrived(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A request that the engine got; repeated in key frames while it is live.

    Attributes:
        at: When the engine took it, ns.
        request_id: Internal id.
        client_id, tenant: The client's own id, and whom it is accounted to.
        priority: Lower runs first under the priority policy.
        prompt_tokens, max_tokens: Length of the prompt, and limit of the output.
        params_digest: Salted hash of its parameters: equal ones have equal digests.
        completion_index: Index among the completions of the client's request.
        response_id, trace_id: Id of the client's response, and trace of its spans.
        block_hashes: Salted hashes of the prompt's full blocks, eight bytes each; each
            covers all tokens up to its block's end.
        is_repeated: Whether this is part of a key frame.
        slo: Its objectives for ttft, tpot and e2e in seconds, None without; None if it
            has none.
        adapter: Name of its adapter.
        needs: What else the scheduler reads of it; None if there is nothing.
    """

    at: int
    request_id: int
    client_id: str = ""
    tenant: str | None = None
    priority: int = 0
    prompt_tokens: int = 0
    max_tokens: int | None = None
    params_digest: bytes = b""
    completion_index: int = 0
    response_id: str = ""
    trace_id: str = ""
    block_hashes: bytes = b""
    is_repeated: bool = False
    slo: tuple[float | None, float | None, float | None] | None = None
    adapter: str | None = None
    needs: Needs | None = None


class Planned(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A step's plan, as the executor gets it.

    Attributes:
        at: When that was, ns.
        step: Number of the step.
        request_ids: The requests; None if they are those of the plan before.
        num_tokens: Tokens to compute for each; None if it is one each.
        obstacle: Why no more were admitted, as an index into `OBSTACLES`.
        new_blocks: KV blocks added to requests, by request id; those of an admitted
            request are all of its blocks.
        admitted: (request id, tokens computed before) of those that join the batch.
        released: Requests that have left the batch since.
        drafts: Draft tokens to verify, by request id: their number, or themselves.
        context_tokens: Cached tokens that they attend to.
        attention_pairs: Number of pairs of a computed token and one it attends to.
        prefill_requests, prefill_tokens: Requests that compute prompt or recomputed
            tokens, and how many.
    """

    at: int
    step: int
    request_ids: list[int] | None = None
    num_tokens: list[int] | None = None
    obstacle: int = 0
    new_blocks: dict[int, list[int]] | None = None
    admitted: list[tuple[int, int]] | None = None
    released: list[int] | None = None
    drafts: dict[int, int | list[int]] | None = None
    context_tokens: int = 0
    attention_pairs: int = 0
    prefill_requests: int = 0
    prefill_tokens: int = 0


OBSTACLES = (
    *("", "token_budget", "batch_slots", "share", "kv_blocks"),
    *("gate", "pipeline", "sleep"),
)
"""New ones are added at the end."""


class Computed(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A step's result, as the executor gave it: part of its output.

    It stands alone if the engine fails before that.

    Attributes:
        at: When it was there, ns.
        step: Number of the step; of a poll, that of the last step.
        counts: Number of new tokens of each sampled request; None if it is one for each
            of the plan's requests.
        tokens: The tokens by request id, if the recording has tokens.
        failed: Reason of the end of requests that failed, by request id.
        drafts: Drafts for the next step by request id: their number, or themselves.
        forward_ns: Duration of the forward pass; 0 if not measured.
        threads: Fields of the threads' use, if measured.
        kernels_compiling: Its kernels were being compiled, so that it was slower.
        ranks: (exchange, handover, wait for experts) in ns, if ranks computed it.
        corrupted: Of failed requests whose output was corrupted: whose fault it was,
            and whether they are served nevertheless.
    """

    at: int
    step: int
    counts: dict[int, int] | None = None
    tokens: dict[int, list[int]] | None = None
    failed: dict[int, str] | None = None
    drafts: dict[int, int | list[int]] | None = None
    forward_ns: int = 0
    threads: tuple[int, ...] | None = None
    kernels_compiling: bool = False
    ranks: tuple[int, int, int] | None = None
    corrupted: dict[int, tuple[str, bool]] | None = None


class Queued(msgspec.Struct, frozen=True, array_like=True):
    """A request entered the waiting queue."""

    request_id: int
    at: int


class Scheduled(msgspec.Struct, frozen=True, array_like=True):
    """A request was admitted: what it found, and how long it waited for KV.

    Attributes:
        waited: (begin, end) of its wait for KV from elsewhere, ns.
    """

    request_id: int
    at: int
    local_cached_tokens: int = 0
    external_cached_tokens: int = 0
    transferred_tokens: int = 0
    recomputed_tokens: int = 0
    is_resumed: bool = False
    waited: tuple[int, int] | None = None


class Preempted(msgspec.Struct, frozen=True, array_like=True):
    """A request lost its KV blocks: why, and to whom."""

    request_id: int
    at: int
    cause: str = ""
    beneficiary_id: int | None = None
    computed_tokens: int = 0
    output_tokens: int = 0


class Finished(msgspec.Struct, frozen=True, array_like=True):
    """A request ended; `kind` is the cause's name, without details from its client.

    Attributes:
        output_hashes: Hashes of its full blocks after those of its prompt, as in
            `Arrived`; none without a prefix cache, or if the output has tokens.
    """

    request_id: int
    at: int
    reason: str = ""
    kind: str = ""
    output_tokens: int = 0
    output_hashes: bytes = b""


class Events(msgspec.Struct, frozen=True, array_like=True):
    """What happened to requests since the output before."""

    queued: list[Queued] = []
    scheduled: list[Scheduled] = []
    preempted: list[Preempted] = []
    finished: list[Finished] = []


class Published(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """An output: a step's end and the state after it, or a state between steps.

    Attributes:
        at: When it was sent, ns.
        cause: `step`, or the cause of the state change.
        running, waiting: Requests in the batch, and those that wait for capacity.
        waiting_tokens: Tokens that these have yet to compute.
        kv_blocks_used, kv_blocks_cached: KV blocks of requests, and reusable ones.
        step: Number of the step; None for a state between steps. What follows is its.
        started_at: Time before scheduling, ns.
        updated_ns: From its result to the end of the update.
        waited_ns: From its plan to the previous step's result.
        evicted_blocks, eviction_ns: Blocks evicted to make room for it, and the time.
        events: What happened to requests.
        held: Requests that stand aside, by their gate.
        wall, clock_at: Wall and monotonic clock at one moment, ns; 0 if not read.
        computed: The step's result.
        sleep_level: 0 while the engine is awake.
        preempted: Requests that were preempted and have not been admitted again.
        sections: What extensions did in the step, by their names: numbers, and texts
            only if the recording has tokens.
        news: What has happened to extensions since the output before, likewise, such
            as loads of a KV connector and compilings of grammars.
        answers: What extensions were told from outside since then, by their names.
    """

    at: int
    cause: str
    running: int = 0
    waiting: int = 0
    waiting_tokens: int = 0
    kv_blocks_used: int = 0
    kv_blocks_cached: int = 0
    step: int | None = None
    started_at: int = 0
    updated_ns: int = 0
    waited_ns: int = 0
    evicted_blocks: int = 0
    eviction_ns: int = 0
    events: Events | None = None
    held: dict[str, int] | None = None
    wall: int = 0
    clock_at: int = 0
    computed: Computed | None = None
    sleep_level: int = 0
    preempted: int = 0
    sections: dict[str, object] | None = None
    news: dict[str, object] | None = None
    answers: dict[str, list[object]] | None = None


class Command(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A command that the engine took.

    Attributes:
        at: When, ns.
        kind: Name of its type, such as `Finish`.
        request_ids: The requests that it concerns.
        body: The command in msgpack, of the header's `wire_version`; without tokens,
            only of calls, and without their sections.
        cause: Name of the cause with which a `Finish` ends requests.
    """

    at: int
    kind: str
    request_ids: list[int] = []
    body: bytes = b""
    cause: str = ""


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The engine ended by itself; `error` is empty if it was closed."""

    at: int
    error: str = ""


class KeyFrame(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The begin of a key frame: facts of `num_requests` live requests follow.

    Attributes:
        at: When, ns.
        num_requests: How many are repeated.
        num_live: How many there are.
    """

    at: int
    num_requests: int = 0
    num_live: int = 0


class Blocked(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Requests wait, and no step can be planned; until the next plan.

    Attributes:
        at: Since when, ns; it is written once, not with each try.
        obstacle: Why, as an index into `OBSTACLES`.
    """

    at: int
    obstacle: int = 0


class Gated(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """A request has to wait at a gate, or need not any more.

    Attributes:
        at: When, ns.
        request_id: The request.
        gate: Name of the gate, such as `grammar` or `remote_kv`; empty once it opens.
    """

    at: int
    request_id: int
    gate: str = ""


Record = (
    Arrived
    | Planned
    | Computed
    | Published
    | Command
    | Ended
    | KeyFrame
    | Blocked
    | Gated
    | Served
    | Answered
    | Checkpoint
)

_decode = msgspec.msgpack.Decoder(Record).decode


def decoded(body: bytes) -> Record | None:
    """Returns a frame's record; None if it is not of this version, or not ours."""
    try:
        record: Record = _decode(body)
    except (ValueError, RecursionError):
        return None
    return record
