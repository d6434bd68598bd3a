"""An executor that answers with the results of a recording."""

from collections.abc import Callable
from typing import Protocol

from hookline.config.extensions import KV_TRANSFER
from hookline.engine.worker.executor import DeferredStep
from hookline.finish_cause import Corrupted, Failed, FinishCause
from hookline.pooling import POOLING
from hookline.request import Origin
from hookline.step import ModelShape, SleepLevel, StepPlan, StepResult
from hookline_recording.schema import Computed, Gated, Published
from hookline_replay.clock import RecordedClock
from hookline_replay.requests import MOST_TOKENS
from hookline_replay.script import END, Script


class Report(Protocol):
    """Returns the section of transfers of a result; None without one."""

    def __call__(self, *, is_poll: bool) -> object | None: ...


class EndOfRecordingError(Exception):
    """A step was planned whose result the recording does not have.

    Attributes:
        step: Its number.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"the recording ends before the result of step {step}")
        self.step = step


class RecordedExecutor:
    """Implements `Executor`: computes nothing, and sets the clock.

    Attributes:
        has_waited: Whether the engine has polled in vain since the last output.
    """

    pids: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()

    def __init__(
        self,
        script: Script,
        clock: RecordedClock,
        shape: ModelShape,
        report: Report | None = None,
    ) -> None:
        """Creates it.

        Args:
            script: The recording.
            clock: The engine's clock.
            shape: The recorded model.
            report: Returns what a KV connector's worker reported; None without one.
        """
        self.shape = shape
        self._script, self._clock, self._report = script, clock, report
        self.has_waited = False
        self._has_news: Callable[[], bool] = bool
        self._num_outputs: dict[int, int] = {}

    def listen(self, has_news: Callable[[], bool]) -> None:
        """Takes what tells whether the engine has an output to send in any case."""
        self._has_news = has_news

    def resume(self, num_outputs: dict[int, int]) -> None:
        """Takes how many tokens live requests have generated at a checkpoint."""
        self._num_outputs.update(num_outputs)

    def start(self, plan: StepPlan) -> DeferredStep:
        return DeferredStep(self._result, plan)

    def check(self) -> None:
        """Has no processes that could have ended."""

    def sleep(self, level: SleepLevel) -> None:
        """Has nothing to release."""

    def wake_up(self) -> None:
        """Has nothing to load."""

    def close(self) -> None:
        """Has nothing to close."""

    def _result(self, plan: StepPlan) -> StepResult:
        if not plan.request_ids:
            return StepResult(sections=self._polled())
        for each in plan.admitted:
            outputs = len(each.token_ids) - each.num_prompt_tokens
            self._num_outputs[each.request_id] = outputs
        computed = self._script.computed.get(plan.step)
        if computed is None:
            raise EndOfRecordingError(plan.step)
        self._clock.at = computed.at
        return StepResult(
            tokens=self._tokens(plan, computed),
            failed=_failed(computed),
            drafts={
                each: drafts
                if isinstance(drafts, list)
                else [0] * min(drafts, MOST_TOKENS)
                for each, drafts in (computed.drafts or {}).items()
            },
            sections=self._sections(),
        )

    def _polled(self) -> dict[str, object]:
        """Returns the sections of a poll, at its time."""
        if self._report is None or not (self.has_waited or self._has_news()):
            return {}  # what is past its deadline ends before the worker is heard
        if (told := self._report(is_poll=True)) is None:
            return {}
        if isinstance(record := self._script.next, Gated | Published):
            self._clock.at = record.at
        return {KV_TRANSFER: told}

    def _tokens(self, plan: StepPlan, computed: Computed) -> dict[int, list[int]]:
        if computed.tokens is not None and self._script.has_tokens:
            return {each: list(new) for each, new in computed.tokens.items()}
        counts = computed.counts
        if computed.tokens is not None:
            counts = {each: len(new) for each, new in computed.tokens.items()}
        elif counts is None:
            counts = dict.fromkeys(plan.request_ids, 1)
        known = self._num_outputs
        tokens = {}
        for request_id, count in counts.items():
            before = known.get(request_id, 0)
            tokens[request_id] = self._output(request_id, before, count)
            known[request_id] = before + count
        return tokens

    def _output(self, request_id: int, before: int, count: int) -> list[int]:
        """Returns new tokens, with a stop token where the recorded output has one."""
        tokens = [0] * min(count, MOST_TOKENS)
        ended = self._script.ended.get(request_id)
        if ended is not None and ended.kind == "StoppedByToken":
            last = ended.output_tokens - 1 - before
            if 0 <= last < len(tokens):
                tokens[last] = END
        return tokens

    def _sections(self) -> dict[str, object]:
        """Returns which requests have their vectors, and which transfers have ended."""
        sections: dict[str, object] = {}
        if self._report is not None and (told := self._report(is_poll=False)):
            sections[KV_TRANSFER] = told
        output = self._script.next_output
        if output is None or output.events is None:
            return sections
        ended = output.events.finished
        found = [each.request_id for each in ended if each.kind == "Embedded"]
        if found:
            sections[POOLING] = found
        return sections


def _failed(computed: Computed) -> dict[int, FinishCause]:
    corrupted = computed.corrupted or {}
    failed: dict[int, FinishCause] = {}
    for each in computed.failed or {}:
        failed[each] = Failed("")
        if each in corrupted:
            origin, is_served = corrupted[each]
            failed[each] = Corrupted("", Origin(origin), is_served)
    return failed
