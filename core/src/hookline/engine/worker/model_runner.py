"""Runs a model over a step's flattened batch and samples from its logits."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from hookline.engine.decoder.forward_batch import ForwardOutput
from hookline.engine.worker.extension import WorkerStep
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.forward import Feed, Forward
from hookline.engine.worker.input_batch import (
    InputBatch,
    Int64,
    SamplePlaces,
    StepInputs,
)
from hookline.engine.worker.sampling.prompt_scores import (
    corrupted_prompts,
    logits_indices,
)
from hookline.engine.worker.sampling.sampler import Samples, StepSampler
from hookline.engine.worker.sampling.sampling_state import SamplingState
from hookline.engine.worker.verification import DraftTree
from hookline.finish_cause import Failed, FinishCause
from hookline.request import TokenLogprobs
from hookline.stats.step_work import Execution
from hookline.step import NO_LOGPROBS, StepLogprobs, StepPlan, StepResult
from hookline_kernels.draft_verification import Verified, verify
from hookline_kernels.runtime.stopwatch import Stopwatch
from hookline_registry.isolation import Failure, isolate

_log = logging.getLogger(__name__)


class _Sampled(NamedTuple):
    """Samples by request id, and which were kept of a step with drafts."""

    tokens: dict[int, list[int]]
    logprobs: dict[int, list[TokenLogprobs]]
    failed: dict[int, FinishCause]
    verified: Verified | None = None


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


DrawAhead = Callable[[torch.Tensor, Int64], Callable[[], Samples]]
"""Has the device draw for S rows from their logits [S, vocabulary] alone; returns what
waits for the tokens. Until then −1 − i stands for token i in the next step's inputs."""


@dataclass(slots=True)
class BegunStep:
    """A step whose layers are computed, if only soon and on a device.

    Attributes:
        end: Samples its tokens, or waits for them.
        is_drawn: Whether the device draws them by itself.
        ended: The result, once it has been asked for.
    """

    end: Callable[[], StepResult]
    is_drawn: bool = False
    ended: StepResult | None = None

    def result(self) -> StepResult:
        """Implements `StartedStep`."""
        if self.ended is None:
            self.ended = self.end()
        return self.ended


class ModelRunner:
    """Keeps the batch between steps and computes one step at a time."""

    def __init__(
        self,
        forward: Forward,
        batch: InputBatch,
        sampling: SamplingState,
        sampler: StepSampler,
        *,
        feed: Feed,
        stopwatch: Stopwatch,
        needs_hidden_states: bool = False,
        tree: DraftTree | None = None,
        extensions: FollowedRows | None = None,
        draw_ahead: DrawAhead | None = None,
    ) -> None:
        """Joins the parts of a worker.

        Args:
            forward: Computes logits; bound to a cache.
            batch: Rows of the running requests.
            sampling: Sampling parameters by row.
            sampler: Samples from logits, or knows what another rank samples.
            feed: Brings inputs to the model's device.
            stopwatch: Measures forward passes.
            needs_hidden_states: Compute hidden states in all steps.
            tree: Shape of the drafts; None if they are chains.
            extensions: The worker's sides of extensions; None without any.
            draw_ahead: Draws without waiting for the device; None always waits.
        """
        self._forward, self._batch = forward, batch
        self._sampling, self._sampler = sampling, sampler
        self._prepare = sampler.prepare if sampler.prepares else None
        self._feed, self._stopwatch = feed, stopwatch
        self._needs_hidden_states, self._tree = needs_hidden_states, tree
        self._extensions = extensions or None
        self._starts = () if extensions is None else extensions.starts
        self._ends = () if extensions is None else extensions.ends
        self._drawn = None if extensions is None else extensions.drawn
        self.draw_ahead = None if self._starts or self._ends else draw_ahead
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
        sample = partial(self._sample, inputs, logits)
        if not waits:
            sample = partial(self._drawn_samples, *self._draw(inputs, logits))
        end = partial(self._end, sample, computed, failed, seen, sections)
        self._last = BegunStep(end, not waits)
        return self._last

    @torch.inference_mode()
    def _end(
        self,
        sample: Callable[[], "_Sampled"],
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
        if self.draw_ahead is None or inputs.num_drafts is not None:
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

    def _draw(
        self, inputs: StepInputs, logits: torch.Tensor
    ) -> tuple[SamplePlaces, list[int], Callable[[], Samples]]:
        """Has the device draw, and reserves the tokens' places.

        Returns:
            The places, the ids of their requests, and what waits for the tokens.
        """
        assert self.draw_ahead is not None
        samples = inputs.samples
        request_ids = [self._batch.request_ids[row] for row in samples.rows.tolist()]
        read = self.draw_ahead(logits, samples.rows)
        self._batch.advance(inputs, -1 - np.arange(len(request_ids)))
        return samples, request_ids, read

    def _drawn_samples(
        self,
        places: SamplePlaces,
        request_ids: list[int],
        read: Callable[[], Samples],
    ) -> "_Sampled":
        """Waits for the tokens that the device has drawn."""
        drawn = read()
        self._batch.fill(places, request_ids, drawn.token_ids)
        return self._named(drawn, request_ids)

    def _sample(self, inputs: StepInputs, logits: torch.Tensor) -> "_Sampled":
        """Samples at S places, whose logits are [S, vocabulary]."""
        if inputs.num_drafts is not None:
            return self._sample_verified(inputs, logits)
        rows = inputs.samples.rows
        samples = self._sampler.sample(logits, rows)
        self._batch.advance(inputs, samples.token_ids)
        request_ids = [self._batch.request_ids[row] for row in rows.tolist()]
        return self._named(samples, request_ids)

    def _named(self, samples: Samples, request_ids: list[int]) -> "_Sampled":
        """Returns one token of each of S requests."""
        tokens = [[token_id] for token_id in samples.token_ids.tolist()]
        return _Sampled(
            dict(zip(request_ids, tokens, strict=True)),
            {request_ids[at]: [own] for at, own in samples.logprobs.items()},
            self._failed(samples, request_ids)
            if samples.failed or samples.corrupted
            else {},
        )

    def _failed(
        self,
        samples: Samples,
        request_ids: list[int],
        verified: Verified | None = None,
    ) -> dict[int, FinishCause]:
        """Returns causes by request id, without those of samples that are dropped.

        Args:
            samples: S samples.
            request_ids: [S] whose they are.
            verified: Which are kept; None keeps all.
        """
        ids = self._batch.request_ids
        failed = {ids[row]: cause for row, cause in samples.failed.items()}
        for at, cause in samples.corrupted.items():
            if verified is None or verified.is_kept[at]:
                request_id = request_ids[at]
                if not (cause.is_served and request_id in failed):
                    failed[request_id] = cause
        return failed

    def _sample_verified(self, inputs: StepInputs, logits: torch.Tensor) -> "_Sampled":
        """Samples at S places, some of which verify drafts."""
        rows, ends = inputs.samples.rows, inputs.samples.ends
        if (tree := self._tree) is None:
            drawn = None if self._drawn is None else self._drawn(rows)
            samples = self._sampler.sample(logits, rows, ends, drawn)
            places = np.minimum(ends, self._batch.token_ids.shape[1] - 1)
            drafts = self._batch.token_ids[rows, places]
            verified = verify(rows, samples.token_ids, drafts.astype(np.int64))
        else:
            assert inputs.nodes is not None
            indices = inputs.samples.indices
            samples = self._sampler.sample(
                logits, rows, ends, nodes=inputs.nodes[indices]
            )
            verified = tree.verify(rows, samples.token_ids, inputs.token_ids[indices])
        self._batch.advance_verified(inputs, samples.token_ids, verified)
        request_ids = [self._batch.request_ids[row] for row in rows.tolist()]
        failed = self._failed(samples, request_ids, verified)
        sampled = _Sampled({}, {}, failed, verified)
        logprobs = samples.logprobs
        kept = np.flatnonzero(verified.is_kept).tolist()
        token_ids, start = samples.token_ids[kept].tolist(), 0
        for first, count in zip(
            verified.firsts.tolist(), verified.counts.tolist(), strict=True
        ):
            request_id = request_ids[first]
            end = start + count
            sampled.tokens[request_id] = token_ids[start:end]
            if first in logprobs:
                sampled.logprobs[request_id] = [logprobs[at] for at in kept[start:end]]
            start = end
        return sampled

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
            scores = self._sampler.score_prompts(inputs, prompts, logits)
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
