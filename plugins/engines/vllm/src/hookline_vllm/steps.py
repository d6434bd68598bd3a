"""Tells taps, such as the flight recorder's, of the steps of vLLM's scheduler."""

from collections.abc import Collection, Iterable, Mapping
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
from hookline.frozen import EMPTY
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_values import SamplingValues
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import Obstacle, StepWork
from hookline.step import AdmittedSequence, StepPlan, StepResult
from hookline_vllm.engine_events import cause_of, nanoseconds
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
        self._prefilling: set[str] = set()
        self._params = _PARAMS
        self._names: list[str] = []
        self._numbers: list[int] = []

    # -- what the scheduler does --------------------------------------------------

    def added(self, request: Any, at: int) -> None:
        name = request.request_id
        if name in self._known:
            return  # more input of a request that has begun
        prompt = request.prompt_token_ids or [0] * request.num_prompt_tokens
        known = _Known(number_of(name), len(prompt))
        self._known[name] = known
        lora = request.lora_request
        made = GenerateRequest(
            request_id=known.number,
            prompt_token_ids=prompt,
            params=self._params_of(request.sampling_params),
            facts=RequestFacts(
                client_id=external_id(name),
                priority=request.priority,
                lora=None if lora is None else str(lora.lora_name),
            ),
            cache_salt=request.cache_salt,
        )
        self._tap.command(at, Add(made))
        self._next.queued.append(Queued(known.number, at, len(prompt)))

    def _params_of(self, params: Any) -> SamplingValues:
        """Returns those of a request; the same object as for one before, if equal."""
        limit = _PARAMS.max_tokens if params is None else params.max_tokens
        if limit != self._params.max_tokens:
            self._params = SamplingValues(max_tokens=limit)
        return self._params

    def planned(
        self, started_at: int, out: Any, at: int, state: SchedulerStats
    ) -> None:
        """Takes a plan; one without tokens is none.

        Args:
            started_at: When the scheduler began it.
            out: The plan.
            at: When it was complete.
            state: The scheduler's, then.
        """
        if not out.num_scheduled_tokens:
            return
        self._num_steps += 1
        plan = self._plan(out, at, state)
        step = _Step(plan, started_at, at, self._next)
        self._next = self._fresh()
        self._in_flight[id(out)] = step
        self._tap.planned(at, plan)

    def preempted(
        self, request: Any, timestamp: float, computed: int, is_planning: bool
    ) -> None:
        known = self._known[request.request_id]
        known.lost_tokens = computed
        cause = PreemptionCause.NO_FREE_BLOCKS
        if not is_planning:
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
                self._between("transfer", at, state, ended)
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

    def finished(self, requests: Iterable[Any], at: int, state: SchedulerStats) -> None:
        """Takes requests that were ended from outside."""
        ended = []
        for request in requests:
            if (known := self._known.get(request.request_id)) is not None:
                self._forget(request.request_id)
                cause = Aborted("client")
                ended.append(Finished(known.number, at, cause, known.output_tokens))
        if ended:
            self._between("abort", at, state, ended)

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
                    self._forget(output.request_id)
        return tokens, ended

    def _joined(self, out: Any, at: int) -> dict[str, int]:
        """Returns those that join the batch, with their tokens computed before."""
        cached, scheduled = out.scheduled_cached_reqs, self._next.scheduled
        joined: dict[str, int] = {}
        for new in out.scheduled_new_reqs:
            name, computed = new.req_id, new.num_computed_tokens
            known, joined[name] = self._known[name], computed
            found = min(computed, known.prompt_tokens)
            scheduled.append(Scheduled(known.number, at, found, 0, 0, False))
        if cached.resumed_req_ids:
            before = _before(cached)
            for name in cached.resumed_req_ids:
                known = self._known[name]
                computed = joined[name] = before[name]
                again = max(0, known.lost_tokens - computed)
                local = min(computed, known.prompt_tokens)
                scheduled.append(Scheduled(known.number, at, local, 0, again, True))
        return joined

    def _plan(self, out: Any, at: int, state: SchedulerStats) -> StepPlan:
        """Returns a plan; in most steps nobody joins, and each decodes one token."""
        cached, counts, known = (
            out.scheduled_cached_reqs,
            out.num_scheduled_tokens,
            self._known,
        )
        joined: Mapping[str, int] = EMPTY
        if out.scheduled_new_reqs or cached.resumed_req_ids:
            joined = self._joined(out, at)
        names, total = list(counts), sum(counts.values())
        if names != self._names:
            self._numbers = [known[name].number for name in names]
            self._names = names
        blocks: Mapping[str, list[int]] = EMPTY
        if joined or any(cached.new_block_ids):
            blocks = self._blocks(out)
        return StepPlan(
            step=self._num_steps,
            request_ids=self._numbers,
            num_tokens=[1] * total if total == len(names) else list(counts.values()),
            admitted=[
                self._admitted(name, computed, blocks)
                for name, computed in joined.items()
            ],
            new_block_ids={known[name].number: blocks[name] for name in blocks},
            released=[each.request_id for each in self._next.preempted],
            work=self._work(out, joined, total, self._obstacle(total, state)),
        )

    def _work(
        self, out: Any, joined: Mapping[str, int], total: int, obstacle: Obstacle
    ) -> StepWork:
        """Sums up what there is to compute, as if each request computed one token.

        Those that perhaps compute something else correct the sums.
        """
        cached, counts = out.scheduled_cached_reqs, out.num_scheduled_tokens
        drafts, size = out.scheduled_spec_decode_tokens, len(counts)
        context = sum(cached.num_computed_tokens)
        for new in out.scheduled_new_reqs:
            context += new.num_computed_tokens
        pairs, prefills, prefill_tokens = context + size, 0, 0
        if total != size or joined or self._prefilling:
            others: Collection[str] = {*joined, *drafts, *self._prefilling}
            others &= counts.keys()
            if total - size != sum([counts[name] - 1 for name in others]):
                others = counts  # such as what is computed again, in parts
            before = {**_before(cached), **joined}
            for name in others:
                count, computed = counts[name], before[name]
                pairs += (count - 1) * computed + count * (count + 1) // 2 - 1
                prompt_tokens = self._known[name].prompt_tokens
                is_decode = count == 1 + len(drafts.get(name, ()))
                if computed < prompt_tokens or not is_decode:
                    prefills, prefill_tokens = prefills + 1, prefill_tokens + count
                if computed + count < prompt_tokens:
                    self._prefilling.add(name)
                else:
                    self._prefilling.discard(name)
        return StepWork(
            prefills,
            prefill_tokens,
            size - prefills,
            total - prefill_tokens,
            context,
            pairs,
            obstacle,
        )

    def _admitted(
        self, name: str, computed: int, blocks: Mapping[str, list[int]]
    ) -> AdmittedSequence:
        """Returns one that joins the batch, with all of its blocks."""
        known = self._known[name]
        return AdmittedSequence(
            request_id=known.number,
            token_ids=(),
            num_prompt_tokens=known.prompt_tokens,
            num_computed_tokens=computed,
            block_ids=blocks.get(name, ()),
            params=_PARAMS,
            eos_token_ids=(),
            bad_words_token_ids=(),
        )

    def _blocks(self, out: Any) -> dict[str, list[int]]:
        """Blocks that the plan adds, of the first of the groups of layers."""
        cached = out.scheduled_cached_reqs
        added = zip(cached.req_ids, cached.new_block_ids, strict=True)
        blocks = {name: list(each[0]) for name, each in added if each}
        for new in out.scheduled_new_reqs:
            blocks[new.req_id] = list(new.block_ids[0]) if new.block_ids else []
        return blocks

    def _obstacle(self, tokens: int, state: SchedulerStats) -> Obstacle:
        """Why no more requests were admitted, as far as the scheduler's limits tell."""
        scheduler = self._scheduler
        if not state.waiting:
            return Obstacle.NONE
        if state.running >= scheduler.max_num_running_reqs:
            return Obstacle.BATCH_SLOTS
        if tokens >= scheduler.max_num_scheduled_tokens:
            return Obstacle.TOKEN_BUDGET
        return Obstacle.KV_BLOCKS

    def _forget(self, name: str) -> None:
        del self._known[name]
        self._prefilling.discard(name)

    def _between(
        self, cause: str, at: int, state: SchedulerStats, ended: list[Finished]
    ) -> None:
        events = self._fresh()
        events.finished.extend(ended)
        output = StepOutput(self._index, at, cause, state, events=events)
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


def _before(cached: Any) -> dict[str, int]:
    """Returns the tokens that were computed before of those in the batch."""
    return dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
