"""The tap that turns what an engine does into records.

A step is two records: its plan before the executor gets it, so that a step that never
ends is known, and its end. A plan that has the requests of the one before leaves them
out, which is most plans. All runs on the engine's thread.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from hookline.engine.commands import (
    Add,
    Command,
    EngineMessage,
    Finish,
    IsSleeping,
    Reply,
)
from hookline.engine_setup.failure import describe_failure
from hookline.events import Finished, StepEvents
from hookline.finish_cause import Corrupted
from hookline.frozen import plain
from hookline.request import GenerateRequest, Request
from hookline.sampling_values import SamplingValues
from hookline.sections import Sections
from hookline.stats.step_work import NO_RANKS, Obstacle
from hookline.step import StepPlan, StepResult
from hookline_recording import schema
from hookline_recording.answers import answered_sides
from hookline_recording.checkpoints import Checkpoints
from hookline_recording.config import Content
from hookline_recording.copying import (
    copied_events,
    needs_of,
    without_sections,
    without_text,
)
from hookline_recording.hashing import PromptHasher
from hookline_recording.schema import OBSTACLES, Record

if TYPE_CHECKING:  # it is only read
    from hookline.engine.scheduler.scheduler import Scheduler

KEY_FRAME_BYTES = 1024 * 1024
"""Most bytes between two key frames; a smaller ring has 16 of them."""
MOST_REPEATED = 1024
"""Maximum number of requests that a key frame repeats."""

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
        self,
        store: Store,
        content: Content,
        hasher: PromptHasher,
        scheduler: "Scheduler | None" = None,
    ) -> None:
        """Begins a recording.

        Args:
            store: Where records go.
            content: What they have of prompts and outputs.
            hasher: Hashes the prompts' blocks.
            scheduler: What is recorded, to be read; None where there is none.
        """
        self._store = store
        self._content = content
        self._has_tokens = content is Content.TOKENS
        self._hasher = hasher
        self._scheduler = scheduler
        self._running: dict[int, Request] = {}
        self._answered = answered_sides(scheduler)
        for side in self._answered.values():
            side.keep_answers()
        self._checkpoints: Checkpoints | None = None
        if scheduler is not None and content is not Content.NONE:
            self._checkpoints = Checkpoints(scheduler, hasher, store.key_frame_bytes)
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
            ids, cause = list(command.request_ids), type(command.cause).__name__
            self._write(schema.Command(at, "Finish", ids, body, cause))
        else:
            name = type(command.command).__name__
            if self._checkpoints is not None and name != IsSleeping.__name__:
                self._checkpoints.owes_reply = True
            body = body or self._encode(without_sections(command))
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
            if self._scheduler is not None and self._content is not Content.NONE:
                live = self._scheduler.requests
                self._running.update((id_, live[id_]) for id_, _ in admitted)
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
        if self._checkpoints is not None:
            self._checkpoints.planned(plan, at)
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
        if self._checkpoints is not None:
            self._checkpoints.ended()
        tokens, counts = result.tokens, None
        if self._has_tokens:
            pass
        elif not (
            len(tokens) == len(plan.request_ids) == sum(map(len, tokens.values()))
        ):
            counts = {each: len(sampled) for each, sampled in tokens.items()}
        failed = corrupted = None
        if result.failed:
            failed = {each: str(cause.reason) for each, cause in result.failed.items()}
            corrupted = {
                each: (str(cause.origin), cause.is_served)
                for each, cause in result.failed.items()
                if isinstance(cause, Corrupted)
            }
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
            corrupted or None,
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
                self._answers() if self._answered else None,
            )
        )
        store, busy = self._store, self._busy_since
        store.show(at, busy[0] if busy else 0, len(self._open), self._num_steps)
        if store.written >= self._key_frame_due:
            self._write_key_frame(at)
        if self._checkpoints is not None:
            if record is None:
                self._checkpoints.owes_reply = False
            else:
                self._write_checkpoint(self._checkpoints, at)

    def close(self, error: BaseException | None) -> None:
        told = "" if error is None else type(error).__name__
        if error is not None and self._has_tokens:
            told = describe_failure(error)
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
            digest = self._hasher.digest(self._encode(request.params))
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
            needs=needs_of(request),
        )
        if self._content is not Content.NONE:
            hashes = self._hasher.of_prompt(request)
            arrived = msgspec.structs.replace(arrived, block_hashes=hashes)
        self._open[request.request_id] = arrived
        self._write(arrived)

    def _drafts(self, drafts: dict[int, list[int]]) -> dict[int, int | list[int]]:
        has_tokens = self._has_tokens
        return {each: it if has_tokens else len(it) for each, it in drafts.items()}

    def _plain(self, sections: Sections) -> dict[str, object]:
        """Turns sections into plain data, without what may be a client's text."""
        data = {
            name: msgspec.to_builtins(section, enc_hook=plain)
            for name, section in sections.items()
        }
        return data if self._has_tokens else without_text(data)

    def _copied(self, events: StepEvents) -> schema.Events:
        for end in events.finished:
            self._open.pop(end.request_id, None)
            self._gated.pop(end.request_id, None)
        return copied_events(events, self._output_hashes)

    def _answers(self) -> dict[str, list[object]] | None:
        """Takes what extensions were told."""
        sides = self._answered.items()
        taken = {name: list(each.take_answers()) for name, each in sides}
        return {name: told for name, told in taken.items() if told} or None

    def _output_hashes(self, end: Finished) -> bytes:
        """Tells the blocks that later prompts may find in the prefix cache."""
        request = self._running.pop(end.request_id, None)
        if request is None or not end.output_tokens:
            return b""
        return self._hasher.of_output(request)

    def _write(self, record: Record) -> None:
        self._number += 1
        self._last_at = record.at
        self._store.write(self._number, self._encode(record))

    def _write_checkpoint(self, checkpoints: Checkpoints, at: int) -> None:
        if not checkpoints.is_due(at):
            return
        gates = {each: gated.gate for each, gated in self._gated.items()}
        if (made := checkpoints.make(at, self._open, gates)) is not None:
            for each in self._open.values():
                self._write(msgspec.structs.replace(each, is_repeated=True))
            self._write(made)
            self._planned_ids, self._blocked = None, ""

    def _write_key_frame(self, at: int) -> None:
        """Repeats what a reader must know that begins here."""
        self._key_frame_due = self._store.written + self._store.key_frame_bytes
        self._planned_ids = None
        live = list(self._open.values())
        # Those of the batch are among the oldest, and so are those that wait longest.
        repeated: Sequence[schema.Arrived] = live[:MOST_REPEATED]
        self._write(schema.KeyFrame(at, len(repeated), len(live)))
        for each in repeated:
            told = msgspec.structs.replace(each, is_repeated=True, block_hashes=b"")
            self._write(told)
        for gated in list(self._gated.values())[:MOST_REPEATED]:
            self._write(gated)
