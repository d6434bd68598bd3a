"""Tells taps, such as the flight recorder's, of the steps of vLLM's scheduler."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hookline.engine.commands import Add
from hookline.engine.tap import Tap
from hookline.events import (
    Finished,
    Preempted,
    PreemptionCause,
    Queued,
    Scheduled,
    StepEvents,
    StepOutput,
    StepRecord,
)
from hookline.finish_cause import Aborted
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_values import SamplingValues
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import Obstacle, StepWork
from hookline.step import AdmittedSequence, StepPlan, StepResult
from hookline_vllm.engine_events import cause_of, nanoseconds
from hookline_vllm.notices import now
from hookline_vllm.request_numbers import external_id, number_of

_PARAMS = SamplingValues()


@dataclass(slots=True)
class _Known:
    """A request that the scheduler has."""

    number: int
    prompt_tokens: int
    output_tokens: int = 0
    lost_tokens: int = 0


@dataclass(slots=True)
class _Step:
    """A step in flight."""

    plan: StepPlan
    started_at: int
    scheduled_at: int
    events: StepEvents = field(
        default_factory=lambda: StepEvents(
            queued=[], scheduled=[], preempted=[], finished=[]
        )
    )


class StepTeller:
    """Follows one scheduler, on its own thread.

    Under asynchronous scheduling plans run ahead: a result belongs to the plan that it
    comes with, whatever was planned since.
    """

    def __init__(self, tap: Tap, scheduler: Any, engine_index: int) -> None:
        self._tap = tap
        self._scheduler = scheduler
        self._index = engine_index
        self._known: dict[str, _Known] = {}
        self._in_flight: dict[int, _Step] = {}
        self._next = self._fresh()
        self._num_steps = self._executed_at = 0
        self._is_planning = False
        self._names: list[str] = []
        self._numbers: list[int] = []

    # -- what the scheduler does --------------------------------------------------

    def added(self, request: Any) -> None:
        name, at = request.request_id, now()
        if name in self._known:
            return  # more input of a request that has begun
        prompt = request.prompt_token_ids or [0] * request.num_prompt_tokens
        known = _Known(number_of(name), len(prompt))
        self._known[name] = known
        params, lora = request.sampling_params, request.lora_request
        made = GenerateRequest(
            request_id=known.number,
            prompt_token_ids=prompt,
            params=_PARAMS
            if params is None
            else SamplingValues(max_tokens=params.max_tokens),
            facts=RequestFacts(
                client_id=external_id(name),
                priority=request.priority,
                lora=None if lora is None else str(lora.lora_name),
            ),
            cache_salt=request.cache_salt,
        )
        self._tap.command(at, Add(made))
        self._next.queued.append(Queued(known.number, at, len(prompt)))

    def planning(self) -> None:
        self._is_planning = True

    def planned(self, started_at: int, out: Any, at: int) -> None:
        """Takes a plan, which was complete at `at`; one without tokens is none."""
        self._is_planning = False
        if not out.num_scheduled_tokens:
            return
        self._num_steps += 1
        if (plan := self._decodes_alone(out)) is None:
            computed = self._computed_before(out)
            self._add_scheduled(out, computed, at)
            plan = self._plan(out, computed)
        step = _Step(plan, started_at, at, self._next)
        self._next = self._fresh()
        self._in_flight[id(out)] = step
        self._tap.planned(at, plan)

    def preempted(self, request: Any, timestamp: float, computed: int) -> None:
        known = self._known[request.request_id]
        known.lost_tokens = computed
        cause = PreemptionCause.NO_FREE_BLOCKS
        if not self._is_planning:
            cause = PreemptionCause.RESET
        self._next.preempted.append(
            Preempted(
                known.number,
                nanoseconds(timestamp),
                computed,
                cause=cause,
                prompt_tokens=known.prompt_tokens,
                output_tokens=known.output_tokens,
            )
        )

    def updated(
        self,
        executed_at: int,
        out: Any,
        outputs: Mapping[Any, Any],
        at: int,
        state: SchedulerStats,
    ) -> None:
        """Takes a step's result, with the plan that it belongs to.

        Args:
            executed_at: When the workers had computed it.
            out: The plan.
            outputs: What the front ends get.
            at: When the scheduler had taken it in.
            state: The scheduler's, then.
        """
        step = self._in_flight.pop(id(out), None)
        tokens, ended = self._take(outputs, at)
        if step is None:
            if ended:
                self._between("transfer", at, ended)
            return
        plan, events = step.plan, step.events
        events.finished.extend(ended)
        record = StepRecord(
            plan.step,
            self._index,
            step.started_at,
            step.scheduled_at,
            executed_at,
            at,
            list(zip(plan.request_ids, plan.num_tokens, strict=True)),
            work=plan.work,
            sampled_requests=len(tokens),
            waited_ns=max(0, self._executed_at - step.scheduled_at),
        )
        self._executed_at = executed_at
        self._tap.computed(executed_at, plan, StepResult(tokens=tokens))
        output = StepOutput(self._index, at, "step", state, record, events)
        self._tap.output(at, output)

    def finished(self, requests: Iterable[Any]) -> None:
        """Takes requests that were ended from outside."""
        at, ended = now(), []
        for request in requests:
            if (known := self._known.pop(request.request_id, None)) is not None:
                cause = Aborted("client")
                ended.append(Finished(known.number, at, cause, known.output_tokens))
        if ended:
            self._between("abort", at, ended)

    def close(self, error: BaseException | None = None) -> None:
        self._tap.close(error)

    # -- parts --------------------------------------------------------------------

    def _take(
        self, outputs: Mapping[Any, Any], at: int
    ) -> tuple[dict[int, list[int]], list[Finished]]:
        """Returns the new tokens and the ends of what all front ends get."""
        tokens: dict[int, list[int]] = {}
        ended = []
        for each in outputs.values():
            for output in each.outputs:
                if (known := self._known.get(output.request_id)) is None:
                    continue
                if new := output.new_token_ids:
                    tokens[known.number] = new
                    known.output_tokens += len(new)
                if output.finish_reason is not None:
                    cause, total = cause_of(output), known.output_tokens
                    ended.append(Finished(known.number, at, cause, total))
                    del self._known[output.request_id]
        return tokens, ended

    def _computed_before(self, out: Any) -> dict[str, int]:
        cached = out.scheduled_cached_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for new in out.scheduled_new_reqs:
            computed[new.req_id] = new.num_computed_tokens
        return computed

    def _add_scheduled(self, out: Any, computed: Mapping[str, int], at: int) -> None:
        scheduled = self._next.scheduled
        for new in out.scheduled_new_reqs:
            known = self._known[new.req_id]
            found = min(computed[new.req_id], known.prompt_tokens)
            scheduled.append(Scheduled(known.number, at, found, 0, 0, False))
        for name in out.scheduled_cached_reqs.resumed_req_ids:
            known, found = self._known[name], computed[name]
            again = max(0, known.lost_tokens - found)
            local = min(found, known.prompt_tokens)
            scheduled.append(Scheduled(known.number, at, local, 0, again, True))

    def _decodes_alone(self, out: Any) -> StepPlan | None:
        """Returns the plan of a step that nobody joins, as most are."""
        cached, counts = out.scheduled_cached_reqs, out.num_scheduled_tokens
        if (
            out.scheduled_new_reqs
            or cached.resumed_req_ids
            or out.scheduled_spec_decode_tokens
            or sum(counts.values()) != len(counts)
        ):
            return None
        names, size = list(counts), len(counts)
        if names != self._names:
            self._names = names
            self._numbers = [self._known[name].number for name in names]
        context = sum(cached.num_computed_tokens)
        blocks = self._blocks(out) if any(cached.new_block_ids) else {}
        obstacle = self._obstacle(size)
        return StepPlan(
            step=self._num_steps,
            request_ids=self._numbers,
            num_tokens=[1] * size,
            new_block_ids={self._known[name].number: blocks[name] for name in blocks},
            released=[each.request_id for each in self._next.preempted],
            work=StepWork(0, 0, size, size, context, context + size, obstacle),
        )

    def _plan(self, out: Any, computed: Mapping[str, int]) -> StepPlan:
        numbers, counts = [], []
        prefills = prefill_tokens = decodes = decode_tokens = context = pairs = 0
        drafts = out.scheduled_spec_decode_tokens
        for name, count in out.num_scheduled_tokens.items():
            known, before = self._known[name], computed[name]
            numbers.append(known.number)
            counts.append(count)
            context += before
            pairs += count * before + count * (count + 1) // 2
            is_decode = count == 1 + len(drafts.get(name, ()))
            if is_decode and before >= known.prompt_tokens:
                decodes += 1
                decode_tokens += count
            else:
                prefills += 1
                prefill_tokens += count
        work = StepWork(
            prefills,
            prefill_tokens,
            decodes,
            decode_tokens,
            context,
            pairs,
            self._obstacle(prefill_tokens + decode_tokens),
        )
        blocks = self._blocks(out)
        return StepPlan(
            step=self._num_steps,
            request_ids=numbers,
            num_tokens=counts,
            admitted=self._admitted(out, blocks),
            new_block_ids={
                self._known[name].number: added for name, added in blocks.items()
            },
            released=[each.request_id for each in self._next.preempted],
            work=work,
        )

    def _admitted(self, out: Any, blocks: Mapping[str, Any]) -> list[AdmittedSequence]:
        """Those that join the batch, with all of their blocks."""
        cached = out.scheduled_cached_reqs
        known = zip(cached.req_ids, cached.num_computed_tokens, strict=True)
        joined = [
            (new.req_id, new.num_computed_tokens) for new in out.scheduled_new_reqs
        ]
        joined += [each for each in known if each[0] in cached.resumed_req_ids]
        return [
            AdmittedSequence(
                request_id=self._known[name].number,
                token_ids=(),
                num_prompt_tokens=self._known[name].prompt_tokens,
                num_computed_tokens=computed,
                block_ids=blocks.get(name, ()),
                params=_PARAMS,
                eos_token_ids=(),
                bad_words_token_ids=(),
            )
            for name, computed in joined
        ]

    def _blocks(self, out: Any) -> dict[str, list[int]]:
        """Blocks that the plan adds, of the first of the groups of layers."""
        cached, blocks = out.scheduled_cached_reqs, dict[str, list[int]]()
        for new in out.scheduled_new_reqs:
            blocks[new.req_id] = list(new.block_ids[0]) if new.block_ids else []
        for name, added in zip(cached.req_ids, cached.new_block_ids, strict=True):
            if added:
                blocks[name] = list(added[0])
        return blocks

    def _obstacle(self, tokens: int) -> Obstacle:
        """Why no more requests were admitted, as far as the scheduler's limits tell."""
        scheduler = self._scheduler
        if not len(scheduler.waiting):
            return Obstacle.NONE
        if len(scheduler.running) >= scheduler.max_num_running_reqs:
            return Obstacle.BATCH_SLOTS
        if tokens >= scheduler.max_num_scheduled_tokens:
            return Obstacle.TOKEN_BUDGET
        return Obstacle.KV_BLOCKS

    def _between(self, cause: str, at: int, ended: list[Finished]) -> None:
        events = self._fresh()
        events.finished.extend(ended)
        output = StepOutput(self._index, at, cause, self.state(), events=events)
        self._tap.output(at, output)

    def state(self) -> SchedulerStats:
        """Returns the scheduler's state."""
        scheduler = self._scheduler
        pool = scheduler.kv_cache_manager.block_pool
        blocks = pool.num_gpu_blocks - 1
        return SchedulerStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            kv_blocks=blocks,
            kv_blocks_used=blocks - pool.get_num_free_blocks(),
        )

    @staticmethod
    def _fresh() -> StepEvents:
        return StepEvents(queued=[], scheduled=[], preempted=[], finished=[])
