"""The tap that turns what an engine does into records.

A step is two records: its plan before the executor gets it, so that a step that never
ends is known, and its end. A plan that has the requests of the one before leaves them
out, which is most plans. All runs on the engine's thread.
"""

import logging
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from hookline.engine.commands import Add, Command, EngineMessage, Finish, Reply
from hookline.engine_setup.failure import describe_failure
from hookline.events import StepEvents
from hookline.frozen import plain
from hookline.request import GenerateRequest
from hookline.sampling_values import SamplingValues
from hookline.sections import Sections
from hookline.stats.step_work import NO_RANKS, Obstacle
from hookline.step import StepPlan, StepResult
from hookline_recording import schema
from hookline_recording.config import Content
from hookline_recording.schema import OBSTACLES, Record

KEY_FRAME_BYTES = 1024 * 1024
"""Most bytes between two key frames; a smaller ring has 16 of them."""
MOST_REPEATED = 1024
"""Maximum number of requests that a key frame repeats."""
DIGEST_BYTES = 8

_OBSTACLES = {name: number for number, name in enumerate(OBSTACLES)}
_BETWEEN_STEPS: tuple[int | None, int, int, int, int, int] = (None, 0, 0, 0, 0, 0)
_log = logging.getLogger(__name__)


class Store(Protocol):
    """Where records go.

    Attributes:
        key_frame_bytes: Bytes after which records need a key frame.
    """

    key_frame_bytes: int

    @property
    def written(self) -> int:
        """Bytes of all records so far."""

    def write(self, number: int, body: bytes) -> None:
        """Writes a record; nothing may be waited for."""

    def show(self, at: int, busy_since: int, num_open: int, num_steps: int) -> None:
        """Tells a watch how the engine is."""

    def close(self, error: BaseException | None) -> None:
        """The engine ends."""


class Recorder:
    """Writes the records of one engine to a store.

    Without tokens, nothing that a client has written is recorded but its ids: neither
    texts of errors nor strings that ended an output.
    """

    def __init__(
        self, store: Store, content: Content, salt: bytes, block_size: int
    ) -> None:
        self._store = store
        self._content = content
        self._has_tokens = content is Content.TOKENS
        self._salt, self._block_size = salt, block_size
        self._encode = msgspec.msgpack.Encoder(enc_hook=plain).encode
        self._open: dict[int, schema.Arrived] = {}
        self._params: tuple[SamplingValues | None, bytes] = (None, b"")
        self._number = self._num_steps = self._last_at = 0
        self._key_frame_due = store.key_frame_bytes
        self._planned_ids: list[int] | None = None
        self._busy_since: list[int] = []
        self._blocked = ""
        self._gated: dict[int, schema.Gated] = {}
        self._computed: schema.Computed | None = None

    # -- what the engine tells ---------------------------------------------------

    def command(self, at: int, command: Command) -> None:
        body = self._encode(command) if self._has_tokens else b""
        if isinstance(command, Add):
            for request in (command.request, *command.siblings()):
                self._arrive(at, request)
            if body:
                ids = [command.request.request_id, *command.sibling_ids]
                self._write(schema.Command(at, "Add", ids, body))
        elif isinstance(command, Finish):
            ids = list(command.request_ids)
            self._write(schema.Command(at, "Finish", ids, body))
        else:
            name = type(command.command).__name__
            self._write(schema.Command(at, name, [], body))

    def planned(self, at: int, plan: StepPlan) -> None:
        request_ids, num_tokens, work = plan.request_ids, plan.num_tokens, plan.work
        told: list[int] | None = None
        if request_ids != self._planned_ids:
            told = self._planned_ids = list(request_ids)
        tokens = None if work.tokens == len(request_ids) else list(num_tokens)
        blocks, admitted = plan.new_block_ids, None
        if plan.admitted:
            blocks = {
                **blocks,
                **{each.request_id: each.block_ids for each in plan.admitted},
            }
            admitted = [
                (each.request_id, each.num_computed_tokens) for each in plan.admitted
            ]
        record = schema.Planned(
            at,
            plan.step,
            told,
            tokens,
            _OBSTACLES.get(work.obstacle, 0),
            blocks or None,  # type: ignore[arg-type]  # sequences, which become lists
            admitted,
            list(plan.released) if plan.released else None,
            self._drafts(plan.drafts) if plan.drafts else None,
            work.context_tokens,
            work.attention_pairs,
            work.prefill_requests,
            work.prefill_tokens,
        )
        self._num_steps += 1
        self._blocked = ""
        self._busy_since.append(at)
        self._write(record)
        store = self._store
        store.show(at, self._busy_since[0], len(self._open), self._num_steps)

    def blocked(self, at: int, obstacle: Obstacle) -> None:
        if obstacle != self._blocked:
            self._blocked = obstacle
            self._write(schema.Blocked(at, _OBSTACLES.get(obstacle, 0)))

    def gated(self, at: int, request_id: int, gate: str) -> None:
        told = schema.Gated(at, request_id, gate)
        if gate:
            self._gated[request_id] = told
        else:
            self._gated.pop(request_id, None)
        self._write(told)

    def computed(self, at: int, plan: StepPlan, result: StepResult) -> None:
        if not plan.request_ids and not result.tokens:
            return  # a poll
        tokens, counts = result.tokens, None
        if self._has_tokens:
            pass
        elif not (
            len(tokens) == len(plan.request_ids) == sum(map(len, tokens.values()))
        ):
            counts = {each: len(sampled) for each, sampled in tokens.items()}
        failed = None
        if result.failed:
            failed = {each: str(cause.reason) for each, cause in result.failed.items()}
        execution = result.execution
        use, ranks = execution.thread_use, execution.rank_use
        threads = None
        if use.running_ns or use.preempted_ns or use.throttled_ns:
            threads = msgspec.structs.astuple(use)
        if self._busy_since:
            del self._busy_since[0]
            if self._busy_since:  # it had to wait for the one that has just ended
                self._busy_since[0] = at
        self._computed = schema.Computed(
            at,
            plan.step,
            counts,
            tokens if self._has_tokens else None,
            failed,
            self._drafts(result.drafts) if result.drafts else None,
            execution.forward_ns,
            threads,
            execution.kernels_compiling,
            None
            if ranks is NO_RANKS
            else (ranks.exchange_ns, ranks.handover_ns, ranks.expert_wait_ns),
        )

    def output(self, at: int, message: EngineMessage) -> None:
        if isinstance(message, Reply):
            return
        stats, record, clock = message.stats, message.record, message.clock
        events = message.events
        has_events = (
            events.queued or events.scheduled or events.preempted or events.finished
        )
        step, started_at, updated_ns, waited_ns, blocks, eviction_ns = _BETWEEN_STEPS
        sections, news = None, message.sections
        if record is not None:
            step, started_at = record.step, record.started_at
            updated_ns, waited_ns = (
                record.ended_at - record.executed_at,
                record.waited_ns,
            )
            blocks, eviction_ns = record.evictions.blocks, record.evictions.nanoseconds
            sections = record.sections
        computed, self._computed = self._computed, None
        self._write(
            schema.Published(
                at,
                message.cause,
                stats.running,
                stats.waiting,
                stats.waiting_tokens,
                stats.kv_blocks_used,
                stats.kv_blocks_cached,
                step,
                started_at,
                updated_ns,
                waited_ns,
                blocks,
                eviction_ns,
                self._copied(events) if has_events else None,
                dict(stats.held) if stats.held else None,
                0 if clock is None else clock.wall,
                0 if clock is None else clock.monotonic,
                computed,
                stats.sleep_level,
                stats.preempted,
                self._plain(sections) if sections else None,
                self._plain(news) if news else None,
            )
        )
        store, busy = self._store, self._busy_since
        store.show(at, busy[0] if busy else 0, len(self._open), self._num_steps)
        if store.written >= self._key_frame_due:
            self._write_key_frame(at)

    def close(self, error: BaseException | None) -> None:
        told = ""
        if error is not None:
            told = describe_failure(error) if self._has_tokens else type(error).__name__
        try:
            if self._computed is not None:
                self._write(self._computed)
            self._write(schema.Ended(self._last_at, told))
        finally:
            self._store.close(error)

    # -- parts -------------------------------------------------------------------

    def _arrive(self, at: int, request: GenerateRequest) -> None:
        facts, prompt = request.facts, request.prompt_token_ids
        params, digest = self._params
        if params is not request.params:  # completions of one request share them
            digest = self._digest(self._encode(request.params))
            self._params = request.params, digest
        arrived = schema.Arrived(
            at,
            request.request_id,
            facts.client_id,
            facts.tenant,
            facts.priority,
            len(prompt),
            request.params.max_tokens,
            digest,
            request.completion_index,
            facts.response_id,
            facts.trace_id,
            slo=None if facts.slo is None else msgspec.structs.astuple(facts.slo),
            adapter=facts.lora,
        )
        self._open[request.request_id] = arrived
        if self._content is not Content.NONE:
            hashes = self._block_hashes(request)
            arrived = msgspec.structs.replace(arrived, block_hashes=hashes)
        self._write(arrived)

    def _block_hashes(self, request: GenerateRequest) -> bytes:
        """Hashes each full block of a prompt together with all before it."""
        size, salt = 4 * self._block_size, self._salt
        data = array("I", request.prompt_token_ids).tobytes()
        # Equal prompts whose salts differ share no blocks, and so no hashes.
        parent = self._digest((request.cache_salt or "").encode(errors="replace"))
        hashes = []
        for end in range(size, len(data) + 1, size):
            content = parent + data[end - size : end]
            parent = blake2b(content, digest_size=DIGEST_BYTES, key=salt).digest()
            hashes.append(parent)
        return b"".join(hashes)

    def _digest(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=DIGEST_BYTES, key=self._salt).digest()

    def _drafts(self, drafts: dict[int, list[int]]) -> dict[int, int | list[int]]:
        if self._has_tokens:
            return dict(drafts)
        return {each: len(tokens) for each, tokens in drafts.items()}

    def _plain(self, sections: Sections) -> dict[str, object]:
        """Turns sections into plain data, without what may be a client's text."""
        data = {
            name: msgspec.to_builtins(section, enc_hook=plain)
            for name, section in sections.items()
        }
        return data if self._has_tokens else _without_text(data)

    def _copied(self, events: StepEvents) -> schema.Events:
        """Copies events of requests, but for new tokens, which the result has."""
        for end in events.finished:
            self._open.pop(end.request_id, None)
            self._gated.pop(end.request_id, None)
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
                )
                for each in events.finished
            ],
        )

    def _write(self, record: Record) -> None:
        self._number += 1
        self._last_at = record.at
        self._store.write(self._number, self._encode(record))

    def _write_key_frame(self, at: int) -> None:
        """Repeats what a reader must know that begins here."""
        self._key_frame_due = self._store.written + self._store.key_frame_bytes
        self._planned_ids = None
        live = list(self._open.values())
        # Those of the batch are among the oldest, and so are those that wait longest.
        repeated: Sequence[schema.Arrived] = live[:MOST_REPEATED]
        self._write(schema.KeyFrame(at, len(repeated), len(live)))
        for each in repeated:
            self._write(msgspec.structs.replace(each, is_repeated=True))
        for gated in list(self._gated.values())[:MOST_REPEATED]:
            self._write(gated)


def _without_text(data: object) -> Any:
    """Returns plain data with its texts emptied; names of fields and keys stay."""
    match data:
        case str() | bytes():
            return ""
        case dict():
            return {key: _without_text(each) for key, each in data.items()}
        case list() | tuple():
            return [_without_text(each) for each in data]
        case _:
            return data
