"""Runs a model over a step's flattened batch and samples from its logits."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch

from hookline.engine.decoder.forward_batch import ForwardOutput
from hookline.engine.worker.extension import WorkerStep
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.forward import Feed, Forward
from hookline.engine.worker.input_batch import InputBatch, StepInputs
from hookline.engine.worker.sampling.prompt_scores import (
    corrupted_prompts,
    logits_indices,
)
from hookline.engine.worker.sampling.sampling_state import SamplingState
from hookline.engine.worker.step_sampling import Sampled, StepSampling
from hookline.finish_cause import Failed, FinishCause
from hookline.request import TokenLogprobs
from hookline.stats.step_work import Execution
from hookline.step import NO_LOGPROBS, StepLogprobs, StepPlan, StepResult
from hookline_kernels.runtime.stopwatch import Stopwatch
from hookline_registry.isolation import Failure, isolate

_log = logging.getLogger(__name__)
_NO_RESULT = StepResult()


class _Computed(NamedTuple):
    """What a forward pass gives.

    Attributes:
        logits: [W, vocabulary].
        output: Hidden states, if they are needed.
        scores: Log-probabilities of prompt tokens by request id.
        taken: Waits for its end, and returns its duration, ns.
    """

    logits: torch.Tensor
    output: ForwardOutput | None
    scores: dict[int, list[TokenLogprobs]]
    taken: Callable[[], int]


@dataclass(slots=True)
class BegunStep:
    """A step whose layers are computed, if only soon and on a device.

    Attributes:
        end: Samples its tokens or waits for them; None afterwards, to free the logits.
        is_drawn: Whether the device draws them by itself.
        ended: Its result, once it has been asked for.
    """

    end: Callable[[], StepResult] | None
    is_drawn: bool = False
    ended: StepResult = _NO_RESULT

    def result(self) -> StepResult:
        """Implements `StartedStep`."""
        if self.end is not None:
            self.ended, self.end = self.end(), None
        return self.ended


class ModelRunner:
    """Keeps the batch between steps and computes one step at a time.

    Attributes:
        draws_ahead: Whether `start` may return before the device has computed a step.
    """

    def __init__(
        self,
        forward: Forward,
        batch: InputBatch,
        sampling: SamplingState,
        samples: StepSampling,
        *,
        feed: Feed,
        stopwatch: Stopwatch,
        needs_hidden_states: bool = False,
        extensions: FollowedRows | None = None,
    ) -> None:
        """Joins the parts of a worker.

        Args:
            forward: Computes logits; bound to a cache.
            batch: Rows of the running requests.
            sampling: Sampling parameters by row.
            samples: Samples from logits, or knows what another rank samples.
            feed: Brings inputs to the model's device.
            stopwatch: Measures forward passes.
            needs_hidden_states: Compute hidden states in all steps.
            extensions: The worker's sides of extensions; None without any.
        """
        self._forward, self._batch = forward, batch
        self._sampling, self._samples = sampling, samples
        sampler = samples.sampler
        self._prepare = sampler.prepare if sampler.prepares else None
        self._score_prompts = sampler.score_prompts
        self._feed, self._stopwatch = feed, stopwatch
        self._needs_hidden_states = needs_hidden_states
        self._extensions = extensions or None
        self._starts = () if extensions is None else extensions.starts
        self._ends = () if extensions is None else extensions.ends
        allows = extensions is None or extensions.allows_ahead
        self.draws_ahead = samples.draws_ahead and allows
        self._last: BegunStep | None = None

    def execute(self, plan: StepPlan) -> StepResult:
        """Applies the plan's changes to the batch, then computes its tokens."""
        return self.start(plan).result()

    @torch.inference_mode()
    def start(self, plan: StepPlan) -> BegunStep:
        """Begins a step, and ends the one before it where it must.

        Waits for the device only if tokens must be known, or to sample those of the
        step before it.
        """
        if (last := self._last) is not None and not last.is_drawn:
            last.result()
        for start in self._starts:
            start(plan)
        sections: dict[str, object] = {}
        if not plan.request_ids:
            self._last = BegunStep(partial(self._poll, sections))
            return self._last
        failed: dict[int, FinishCause] = {}
        if plan.released or plan.admitted or plan.new_block_ids:
            failed = self._change_batch(plan)
        inputs = self._batch.inputs(plan)
        waits = self._waits(inputs, last)
        computed = self._compute(inputs)
        if computed.scores:
            failed |= corrupted_prompts(computed.scores)
        for ended in self._ends:
            ended(sections)
        extensions, seen = self._extensions, None
        if extensions is not None and extensions.is_active:
            seen = _seen(plan, inputs, failed, computed.output, sections)
            extensions.computed(seen)
        logits = computed.logits[: len(inputs.samples.rows)]
        sample = partial(self._samples.sample, inputs, logits)
        if not waits:
            sample = partial(self._samples.drawn, *self._samples.draw(inputs, logits))
        end = partial(self._end, sample, computed, failed, seen, sections)
        self._last = BegunStep(end, not waits)
        return self._last

    @torch.inference_mode()
    def _end(
        self,
        sample: Callable[[], Sampled],
        computed: "_Computed",
        failed: dict[int, FinishCause],
        seen: WorkerStep | None,
        sections: dict[str, object],
    ) -> StepResult:
        """Returns the result of a step, by sampling it or waiting for its tokens."""
        sampled, scores = sample(), computed.scores
        if seen is not None and self._extensions is not None:
            seen.rows, seen.tokens = seen.inputs.samples.rows, sampled.tokens
            seen.verified = sampled.verified
            self._extensions.sampled(seen)
        return StepResult(
            tokens=sampled.tokens,
            logprobs=StepLogprobs(sampled.logprobs, scores)
            if sampled.logprobs or scores
            else NO_LOGPROBS,
            failed={**failed, **sampled.failed} if failed else sampled.failed,
            execution=Execution(computed.taken()),
            drafts={} if seen is None else seen.drafts,
            sections=sections,
        )

    def _waits(self, inputs: StepInputs, last: BegunStep | None) -> bool:
        """Waits for the last step's tokens, and uses them, if this one needs them."""
        if not self._needs_tokens(inputs):
            return False
        if last is not None:
            last.result()
        if self._prepare is not None:
            self._prepare(inputs)
        return True

    def _needs_tokens(self, inputs: StepInputs) -> bool:
        """Whether this step's samples take more than their logits."""
        if not self.draws_ahead or inputs.num_drafts is not None:
            return True
        if self._batch.scored_rows:
            return True
        if self._extensions is not None and self._extensions.is_active:
            return True
        return bool(self._sampling.needs_change[inputs.samples.rows].any())

    def _poll(self, sections: dict[str, object]) -> StepResult:
        """Computes nothing, for extensions that have been called for the plan."""
        for ended in self._ends:
            ended(sections)
        return StepResult(sections=sections)

    def _change_batch(self, plan: StepPlan) -> dict[int, FinishCause]:
        """Releases and admits requests, and adds blocks.

        Returns:
            Causes by id of the requests whose sampling parameters raised an error. They
            end with this step, and are computed in it as if they were greedy.
        """
        failed: dict[int, FinishCause] = {}
        for request_id in plan.released:
            row = self._batch.remove_request(request_id)
            self._sampling.clear_row(row)
            if self._extensions is not None and self._extensions.is_active:
                self._extensions.left(row)
        for sequence in plan.admitted:
            row = self._batch.admit(sequence)
            if self._extensions is not None:
                self._extensions.joined(row, sequence)
            outcome = isolate(self._sampling.admit, row, sequence)
            if isinstance(outcome, Failure):
                self._sampling.reset(row)
                reason = f"sampling failed: {outcome.summary}"
                failed[sequence.request_id] = Failed(reason)
                _log.error(
                    "request %d ends: its sampling parameters cannot be used",
                    sequence.request_id,
                    exc_info=outcome.error,
                )
        self._batch.grow(plan)
        return failed

    def _compute(self, inputs: StepInputs) -> "_Computed":
        """Runs the model."""
        indices, output = inputs.samples.indices, None
        prompts: list[tuple[int, int, int]] = []
        if self._batch.scored_rows:
            indices, prompts = logits_indices(self._batch, inputs)
        batch = self._feed.batch(inputs, indices)
        self._stopwatch.start()
        extensions = self._extensions
        if self._needs_hidden_states or (
            extensions is not None and extensions.needs_states
        ):
            output = self._forward.with_hidden(batch)
            logits = output.logits
        else:
            logits = self._forward(batch)
        taken = self._stopwatch.stop()
        scores: dict[int, list[TokenLogprobs]] = {}
        if prompts:
            scores = self._score_prompts(inputs, prompts, logits)
        return _Computed(logits, output, scores, taken)


def _seen(
    plan: StepPlan,
    inputs: StepInputs,
    failed: dict[int, FinishCause],
    output: ForwardOutput | None,
    sections: dict[str, object],
) -> WorkerStep:
    """Returns the step as extensions see it once its layers are computed."""
    final = features = None
    if output is not None:
        final, features = output.final, output.features
    return WorkerStep(plan, inputs, failed, final, features, sections=sections)
