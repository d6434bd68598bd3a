"""Runs a model over a step's flattened batch and samples from its logits."""

import logging
import time
from typing import NamedTuple

import numpy as np
import torch

from hookline.finish_cause import Failed, FinishCause
from hookline.models.forward_batch import ForwardBatch
from hookline.models.forward_output import ForwardOutput
from hookline.request import TokenLogprobs
from hookline.spec_decode.target import HiddenStates
from hookline.step.plan import SlotMoves, StepPlan, StepResult
from hookline.worker.drafting.computed_step import ComputedStep
from hookline.worker.drafting.draft_trees import TreeArrays, moves_of, verify_tree
from hookline.worker.drafting.drafter import Drafter, StepDrafts
from hookline.worker.drafting.verification import Verified, first_of_each, verify
from hookline.worker.extension import WorkerStep
from hookline.worker.feed import Feed
from hookline.worker.followed_rows import FollowedRows
from hookline.worker.forward import Forward
from hookline.worker.input_batch import InputBatch, Int64, StepInputs
from hookline.worker.paged_cache import PagedCache
from hookline.worker.sampling.prompt_logprobs import logits_indices
from hookline.worker.sampling.sampling_state import SamplingState
from hookline.worker.sampling.step_sampler import Samples, StepSampler
from hookline_kernels.runtime.stopwatch import Stopwatch
from hookline_registry import Failure, isolate

_log = logging.getLogger(__name__)

NO_DRAFTS = StepDrafts()


class _Sampled(NamedTuple):
    """Samples by request id, and what was moved in the cache because of them."""

    tokens: dict[int, list[int]]
    logprobs: dict[int, list[TokenLogprobs]]
    failed: dict[int, FinishCause]
    moves: SlotMoves | None = None


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
        cache: PagedCache,
        drafter: Drafter | None = None,
        needs_hidden_states: bool = False,
        tree: TreeArrays | None = None,
        extensions: FollowedRows | None = None,
    ) -> None:
        """Joins the parts of a worker.

        Args:
            forward: Computes logits; bound to `cache`.
            batch: Rows of the running requests.
            sampling: Sampling parameters by row.
            sampler: Samples from logits, or knows what another rank samples.
            feed: Brings inputs to the model's device.
            stopwatch: Measures forward passes.
            cache: The KV cache.
            drafter: Requests drafts; None without speculation.
            needs_hidden_states: Compute hidden states, for the drafter.
            tree: Shape of the drafts; None if they are chains.
            extensions: The worker's sides of extensions; None without any.
        """
        self._forward, self._batch = forward, batch
        self._sampling, self._sampler = sampling, sampler
        self._feed, self._stopwatch = feed, stopwatch
        self._drafter, self._needs_hidden_states = drafter, needs_hidden_states
        self._cache, self._tree = cache, tree
        self._extensions = extensions or None
        self._starts = () if extensions is None else extensions.starts
        self._ends = () if extensions is None else extensions.ends

    @torch.inference_mode()
    def execute(self, plan: StepPlan) -> StepResult:
        """Applies the plan's changes to the batch, then computes its tokens."""
        for start in self._starts:
            start(plan)
        started = time.perf_counter_ns()
        sections: dict[str, object] = {}
        if not plan.request_ids:
            for end in self._ends:
                end(sections)
            return StepResult(sections=sections)
        failed = self._change_batch(plan)
        inputs = self._batch.inputs(plan)
        self._sampler.prepare(inputs)
        indices, prompts = logits_indices(self._batch, inputs)
        logits, output = self._compute(self._feed.batch(inputs, indices))
        for end in self._ends:
            end(sections)
        scores = self._sampler.score_prompts(inputs, prompts, logits)
        extensions, seen = self._extensions, None
        if extensions is not None and extensions.is_active:
            final = None if output is None else output.final
            seen = WorkerStep(plan, inputs, final, failed, sections=sections)
            extensions.computed(seen)
        rows = inputs.samples.rows
        before = self._batch.num_computed[inputs.rows]
        if inputs.num_drafts is None:
            sampled = self._sample(inputs, logits[: len(rows)], rows)
        else:
            sampled = self._sample_verified(inputs, logits[: len(rows)], output)
        drafts = NO_DRAFTS
        if self._drafter is not None and not self._drafter.skips(plan):
            states = None if output is None else self._states(inputs, before, output)
            taken = time.perf_counter_ns() - started
            step = ComputedStep.of(plan, sampled.tokens, taken)
            drafts = self._drafter.propose(rows[first_of_each(rows)], step, states)
        if seen is not None and extensions is not None:
            seen.rows, seen.tokens = rows, sampled.tokens
            seen.drafts = drafts.token_ids
            extensions.sampled(seen)
        return StepResult(
            tokens=sampled.tokens,
            logprobs=sampled.logprobs,
            failed={**failed, **sampled.failed} if failed else sampled.failed,
            prompt_logprobs=scores,
            forward_ns=self._stopwatch.nanoseconds(),
            drafts=drafts.token_ids if seen is None else seen.drafts,
            draft_ns=drafts.nanoseconds,
            moves=sampled.moves,
            most_drafts=drafts.most_drafts,
            proposer_failures=drafts.failures,
            sections=sections,
        )

    def _sample(
        self, inputs: StepInputs, logits: torch.Tensor, rows: Int64
    ) -> "_Sampled":
        """Samples one token of each of S requests; `logits` are [S, vocabulary]."""
        samples = self._sampler.sample(logits, rows)
        self._batch.advance(inputs, samples.token_ids)
        request_ids = [self._batch.request_ids[row] for row in rows.tolist()]
        tokens = [[token_id] for token_id in samples.token_ids.tolist()]
        return _Sampled(
            dict(zip(request_ids, tokens, strict=True)),
            {request_ids[at]: [own] for at, own in samples.logprobs.items()},
            self._failed(samples),
        )

    def _failed(self, samples: Samples) -> dict[int, FinishCause]:
        ids = self._batch.request_ids
        return {ids[row]: cause for row, cause in samples.failed.items()}

    def _sample_verified(
        self, inputs: StepInputs, logits: torch.Tensor, output: ForwardOutput | None
    ) -> "_Sampled":
        """Samples at S places, some of which verify drafts."""
        rows, ends = inputs.samples.rows, inputs.samples.ends
        moves = None
        if self._tree is not None:
            samples, verified = self._verify_tree(self._tree, inputs, logits)
            moves = self._straighten(inputs, verified, output)
        else:
            drawn = None if self._drafter is None else self._drafter.drawn(rows)
            samples = self._sampler.sample(logits, rows, ends, drawn)
            places = np.minimum(ends, self._batch.token_ids.shape[1] - 1)
            drafts = self._batch.token_ids[rows, places]
            verified = verify(rows, samples.token_ids, drafts.astype(np.int64))
        self._batch.advance_verified(inputs, samples.token_ids, verified)
        sampled = _Sampled({}, {}, self._failed(samples), moves)
        logprobs = samples.logprobs
        kept = np.flatnonzero(verified.is_kept).tolist()
        token_ids, start = samples.token_ids[kept].tolist(), 0
        for first, count in zip(
            verified.firsts.tolist(), verified.counts.tolist(), strict=True
        ):
            request_id = self._batch.request_ids[rows[first]]
            end = start + count
            sampled.tokens[request_id] = token_ids[start:end]
            if first in logprobs:
                sampled.logprobs[request_id] = [logprobs[at] for at in kept[start:end]]
            start = end
        return sampled

    def _verify_tree(
        self, tree: TreeArrays, inputs: StepInputs, logits: torch.Tensor
    ) -> tuple[Samples, Verified]:
        """Samples after each node, and selects the samples that are kept."""
        assert inputs.nodes is not None
        places = inputs.samples
        samples = self._sampler.sample(
            logits, places.rows, places.ends, nodes=inputs.nodes[places.indices]
        )
        tokens = inputs.token_ids[places.indices]
        return samples, verify_tree(tree, places.rows, samples.token_ids, tokens)

    def _straighten(
        self, inputs: StepInputs, verified: Verified, output: ForwardOutput | None
    ) -> SlotMoves | None:
        """Moves keys, values and states of accepted paths to where chains have them.

        Returns:
            What other pipeline stages have to move as well.
        """
        sources, targets = moves_of(verified, inputs.samples.indices)
        if not len(sources):
            return None
        old, new = (torch.from_numpy(inputs.slots[at]) for at in (sources, targets))
        self._cache.move(old, new)
        if output is not None:
            for states in (output.final, output.features):
                if states is not None:
                    states[targets] = states[sources]
        return SlotMoves(old.tolist(), new.tolist())

    def _change_batch(self, plan: StepPlan) -> dict[int, FinishCause]:
        """Releases and admits requests.

        Returns:
            Causes by id of the requests whose sampling parameters raised an error. They
            end with this step, and are computed in it as if they were greedy.
        """
        failed: dict[int, FinishCause] = {}
        for request_id in plan.released:
            row = self._batch.release(request_id)
            self._sampling.release(row)
            if self._extensions is not None and self._extensions.is_active:
                self._extensions.left(row)
            if self._drafter is not None:
                self._drafter.release(request_id)
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

    def _compute(
        self, batch: ForwardBatch
    ) -> tuple[torch.Tensor, ForwardOutput | None]:
        """Logits [W, vocabulary] of the batch, and hidden states if needed."""
        output = None
        self._stopwatch.start()
        extensions = self._extensions
        if self._needs_hidden_states or (
            extensions is not None and extensions.needs_states
        ):
            output = self._forward.with_hidden(batch)
            logits = output.logits
        else:
            logits = self._forward(batch)
        self._stopwatch.stop()
        return logits, output

    def _states(
        self, inputs: StepInputs, before: Int64, output: ForwardOutput
    ) -> dict[int, HiddenStates]:
        """Hidden states of the positions that are kept, by row.

        Args:
            inputs: The step, once the batch has been advanced.
            before: [B] number of computed tokens before the step.
            output: Output of all tokens of the step.
        """
        kept = self._batch.num_computed[inputs.rows] - before
        features = output.features
        return {
            row: HiddenStates(
                start=start,
                final=output.final[first : first + count],
                features=None if features is None else features[first : first + count],
            )
            for row, start, first, count in zip(
                inputs.rows.tolist(),
                before.tolist(),
                inputs.query_starts.tolist()[:-1],
                kept.tolist(),
                strict=True,
            )
        }
