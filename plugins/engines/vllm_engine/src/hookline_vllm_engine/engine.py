"""An engine core of vLLM, driven like Hookline's own, by one thread."""

import heapq
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from hookline.clock import NANOSECONDS, SystemClock
from hookline.config.engine import EngineConfig
from hookline.engine.commands import (
    Add,
    Call,
    Command,
    EngineMessage,
    Finish,
    IsSleeping,
    Reply,
    ResetPrefixCache,
    Sleep,
    SleepMode,
    WakeUp,
)
from hookline.engine.commands import (
    Told as ToldExtensions,
)
from hookline.engine.engine_loop import Receive
from hookline.engine.tap import Tap
from hookline.events import ClockPair, Finished, StepOutput, VerifiedDrafts
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import Aborted, Failed, FinishCause, Rejected, TimedOut
from hookline.frozen import EMPTY
from hookline.payloads import EngineFacts
from hookline.request import GenerateRequest
from hookline.sampling_values import SamplingValues
from hookline.stats.scheduler_stats import (
    EngineTotals,
    PrefixCacheCounts,
    SchedulerStats,
)
from hookline.transport.engine_client import refusal
from hookline_vllm.engine_account import DEFERRED
from hookline_vllm_engine.binding import Binding
from hookline_vllm_engine.embedding import with_vectors
from hookline_vllm_engine.refusals import NAME
from hookline_vllm_engine.sleep import SleepControl
from hookline_vllm_engine.stepping import Stepper
from hookline_vllm_engine.steps import OwnSteps, Told, follow, no_events
from hookline_vllm_engine.translation import new_tokens, translated

_PAUSE_SECONDS = 0.001
"""Between two looks while all requests wait for something outside of vLLM."""
_REFUSED = "invalid_grammar"


class _Ended(NamedTuple):
    """A step that has ended, of which clients have not been told.

    Attributes:
        outputs: Each client's, as vLLM's.
        place: Index of the output that has the step's record; -1 if there is none.
    """

    outputs: Iterable[Any]
    place: int


_NOTHING = _Ended((), -1)


class VllmEngine:
    """vLLM's scheduler and workers; Hookline's commands in, its events out.

    Attributes:
        facts: The model, sizes and limits.
        bell: None: only commands bring work.
    """

    bell: int | None = None

    def __init__(
        self,
        core: Any,
        facts: EngineFacts,
        config: EngineConfig,
        vllm: Binding,
        *,
        tokenizer: Any = None,
        adapters: Mapping[str, Any] = EMPTY,
        tap: Tap | None = None,
    ) -> None:
        self.facts = facts
        self._core, self._vllm, self._tokenizer = core, vllm, tokenizer
        self._adapters, self._sleep = adapters, SleepControl(core, vllm)
        self._clock = SystemClock()
        self._heartbeat = round(config.observers.heartbeat_seconds * NANOSECONDS)
        self._last_state = self._clock.now()
        self._told = Told(tap)
        self._steps, self._ended = Stepper(core), _NOTHING
        follow(
            core.scheduler,
            OwnSteps(self._told, core.scheduler, facts.engine_index, self._stats),
            self._told,
            overlaps=self._steps.overlaps,
        )
        self._open: dict[int, SamplingValues] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._replies: list[Reply] = []
        self._changed = ""
        self._totals = EngineTotals()
        self._has_failed = False
        core.model_executor.register_failure_callback(self._fail)

    @property
    def has_work(self) -> bool:
        return self._sleep.level is None and self._steps.has_work

    def clock_pair(self) -> ClockPair:
        return ClockPair(self._clock.wall(), self._clock.now())

    def run_once(self, receive: Receive, timeout_seconds: float) -> list[EngineMessage]:
        """Takes all waiting commands, then steps, or waits in `receive`.

        What came while workers computed a step counts before its result, as in vLLM:
        who has left gets no more tokens, and who has come is in the next step. The
        workers have that one before what is returned is made of the last.

        Raises:
            EngineDeadError: A worker has ended.
        """
        if self._has_failed:
            raise EngineDeadError("a worker of vLLM has ended")
        if self._steps.overlaps:
            self._told.catch_up()  # what has been sent, while the workers compute
            self._steps.wait()
        while (command := receive(0)) is not None:
            self._take(command)
        self._expire()
        self._end_step()
        if (asleep := self._sleep.advance()) is not None:
            self._reply_with_state("sleep", asleep)
        if self.has_work:
            if self._steps.overlaps:
                self._steps.dispatch()
            else:
                self._take_in(*self._steps.run())
        elif not (self._told.has_news or self._replies):
            self._told.catch_up()
            wait = max(0.0, min(timeout_seconds, self._seconds_to_next()))
            if (command := receive(wait)) is not None:
                self._take(command)
        (outputs, place), self._ended = self._ended, _NOTHING
        for each in outputs:
            self._take_outputs(each, place)
        return self._messages()

    def close(self) -> None:
        """Ends vLLM's workers."""
        self._told.close(None)
        self._core.shutdown()

    def _fail(self) -> None:
        """Called by vLLM, in a thread of its own."""
        self._has_failed = True

    # -- commands ------------------------------------------------------------------

    def _take(self, command: Command) -> None:
        at = self._clock.now()
        self._told.tell_late(lambda tap: tap.command(at, command))
        if isinstance(command, Add):
            for request in (command.request, *command.siblings()):
                self._add(request)
        elif isinstance(command, Finish):
            self._finish(command.request_ids, command.cause)
        else:
            self._end_step()  # nothing is in flight while it is carried out
            self._call(command)

    def _add(self, request: GenerateRequest) -> None:
        number = request.request_id
        self._told.queued(number, len(request.prompt_token_ids))
        try:
            made = translated(request, self._vllm, self._adapters)
            self._verify(made)
            found, wave = self._core.preprocess_add_request(made)
        except (self._vllm.VLLMError, ValueError, TypeError) as error:
            self._refuse(request, str(error))
            return
        self._open[number] = request.params
        if request.timeout_seconds is not None:
            ends_at = self._clock.now() + round(request.timeout_seconds * NANOSECONDS)
            heapq.heappush(self._deadlines, (ends_at, number))
        self._core.add_request(found, wave)
        if self._sleep.level is not None:  # no step tells that it waits
            self._changed = "sleep"

    def _verify(self, made: Any) -> None:
        config = self._core.vllm_config
        if made.pooling_params is not None:
            made.pooling_params.verify(config.model_config)
            return
        made.sampling_params.verify(
            config.model_config,
            config.speculative_config,
            config.structured_outputs_config,
            self._tokenizer,
        )

    def _refuse(self, request: GenerateRequest, reason: str) -> None:
        """Ends a request that vLLM does not take: most have a wrong grammar."""
        cause: FinishCause = Failed(f"vLLM: {reason}")
        if request.params.structured_outputs is not None:
            cause = Rejected(_REFUSED, reason)
        events = no_events()
        events.finished.append(
            Finished(request.request_id, self._clock.now(), cause, 0)
        )
        self._told.add(self._state("abort", events=events))

    def _finish(self, request_ids: Iterable[int], cause: FinishCause) -> None:
        known = [each for each in request_ids if each in self._open]
        self._told.causes |= dict.fromkeys(known, cause)
        self._core.abort_requests(list(map(str, known)))

    def _expire(self) -> None:
        now, late = self._clock.now(), []
        while self._deadlines and self._deadlines[0][0] <= now:
            late.append(heapq.heappop(self._deadlines)[1])
        if late:
            self._finish(late, TimedOut())

    def _call(self, call: Call) -> None:
        client, number = call.client, call.number
        match call.command:
            case ResetPrefixCache(sections={}, reset_running_requests=running):
                reply = self._reset(client, number, running=running)
                self._reply_with_state("reset", reply)
            case Sleep() as command:
                if (refused := self._sleep.start_sleeping(call, command)) is not None:
                    self._replies.append(refused)
                elif command.mode is SleepMode.ABORT:
                    self._finish(list(self._open), Aborted("sleep"))
            case WakeUp():
                if (cancelled := self._sleep.wake_up()) is not None:
                    self._replies.append(cancelled)
                reply = Reply(client, number, self._sleep.state)
                self._reply_with_state("wake_up", reply)
            case IsSleeping():
                self._replies.append(Reply(client, number, self._sleep.state))
            case _:
                self._replies.append(refusal(call, NAME))

    def _reply_with_state(self, cause: str, reply: Reply) -> None:
        """Replies after a state that has what was done."""
        self._changed = cause
        self._replies.append(reply)

    def _reset(self, client: int, number: int, *, running: bool) -> Reply:
        try:
            is_done = self._core.reset_prefix_cache(reset_running_requests=running)
        except RuntimeError:  # blocks that even preempted requests hold
            is_done = False
        if is_done:
            return Reply(client, number, ToldExtensions())
        return Reply(client, number, error="vLLM's blocks are in use")

    # -- steps ---------------------------------------------------------------------

    def _end_step(self) -> None:
        if (step := self._steps.collect()) is not None:
            self._take_in(*step)

    def _take_in(self, outputs: Mapping[int, Any], is_executed: bool) -> None:
        if not is_executed and self._core.scheduler.has_requests():
            time.sleep(_PAUSE_SECONDS)  # for threads that bring what requests wait for
        self._ended = _Ended(outputs.values(), len(self._told.outputs) - 1)

    def _take_outputs(self, told: Any, place: int) -> None:
        """Adds the tokens of a step to what the scheduler has told of it.

        Args:
            told: Outputs of vLLM for a client.
            place: Index of the step's output; -1 if there is none.
        """
        if (found := told.scheduler_stats) is not None:
            self._count_lookups(found.prefix_cache_stats)
        tokens, pooled = new_tokens(
            told.outputs, self._open, self._told.drafts, self._clock.now()
        )
        outputs = self._told.outputs
        if pooled and place >= 0:
            finished = outputs[place].events.finished
            finished[:] = [
                with_vectors(each, pooled[each.request_id])
                if each.request_id in pooled
                else each
                for each in finished
            ]
        if not tokens:
            return
        if place < 0:
            self._told.add(self._state("transfer"))
        outputs[place].events.new_tokens.extend(tokens)
        if not self._told.drafts:
            return
        verified = [
            (each.draft_tokens, each.accepted_tokens)
            for each in tokens
            if each.draft_tokens
        ]
        if verified and (record := outputs[place].record) is not None:
            record = replace(record, verified=VerifiedDrafts.of(verified))
            outputs[place] = replace(outputs[place], record=record)

    def _count_lookups(self, found: Any) -> None:
        if found is None or not found.requests:
            return
        before = self._totals.prefix_cache
        counts = PrefixCacheCounts(
            before.requests + found.requests,
            before.queried_tokens + found.queries,
            before.hit_tokens + found.hits,
        )
        self._totals = replace(self._totals, prefix_cache=counts)

    # -- outputs -------------------------------------------------------------------

    def _messages(self) -> list[EngineMessage]:
        now, told = self._clock.now(), self._told
        if now - self._last_state >= self._heartbeat:
            self._last_state = now
            told.add(self._state("heartbeat", clock=self.clock_pair()))
        elif self._changed:
            told.add(self._state(self._changed))
        self._changed = ""
        outputs = [self._counted(each) for each in told.drain()]
        for output in outputs:
            for event in output.events.finished:
                self._open.pop(event.request_id, None)
                told.causes.pop(event.request_id, None)  # one that came too late
            told.tell_output(output)
        replies, self._replies = self._replies, []
        return [*outputs, *replies]

    def _counted(self, output: StepOutput) -> StepOutput:
        """Returns an output whose state has the totals with it."""
        if output.record is not None:
            computed = self._totals.computed_tokens + output.record.work.tokens
            self._totals = replace(self._totals, computed_tokens=computed)
        return replace(output, stats=replace(output.stats, totals=self._totals))

    def _state(self, cause: str, **parts: Any) -> StepOutput:
        return StepOutput(
            self.facts.engine_index,
            self._clock.now(),
            cause,
            self._stats(),
            **{"events": no_events(), **parts},
        )

    def _stats(self) -> SchedulerStats:
        scheduler = self._core.scheduler
        running, waiting = scheduler.get_request_counts()
        deferred = len(scheduler.deferred_waiting)
        pool = scheduler.kv_cache_manager.block_pool
        blocks = pool.num_gpu_blocks - 1  # one stands for what is no token
        held: Mapping[str, int] = {DEFERRED: deferred} if deferred else {}
        return SchedulerStats(
            running=running,
            waiting=waiting - deferred,
            held=held,
            kv_blocks=blocks,
            kv_blocks_used=blocks - pool.get_num_free_blocks(),
            sleep_level=int(self._sleep.level or 0),
            totals=self._totals,
        )

    def _seconds_to_next(self) -> float:
        """Seconds to the next state, or to the first deadline."""
        due = self._last_state + self._heartbeat
        if self._deadlines:
            due = min(due, self._deadlines[0][0])
        return (due - self._clock.now()) / NANOSECONDS
