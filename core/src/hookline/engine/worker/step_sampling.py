"""Samples the tokens of a step and assigns them to requests."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from hookline.engine.worker.input_batch import (
    InputBatch,
    Int64,
    SamplePlaces,
    StepInputs,
)
from hookline.engine.worker.sampling.sampler import DrawnDrafts, Samples, StepSampler
from hookline.engine.worker.verification import DraftTree
from hookline.finish_cause import FinishCause
from hookline.request import TokenLogprobs
from hookline_kernels.draft_verification import Verified, verify

DrawAhead = Callable[[torch.Tensor, Int64], Callable[[], Samples]]
"""Has the device draw for S rows from their logits [S, vocabulary] alone; returns what
waits for the tokens. Until then −1 − i stands for token i in the next step's inputs."""


class Sampled(NamedTuple):
    """Samples by request id, and which were kept of a step with drafts."""

    tokens: dict[int, list[int]]
    logprobs: dict[int, list[TokenLogprobs]]
    failed: dict[int, FinishCause]
    verified: Verified | None = None


class StepSampling:
    """Samples at the places of steps, and appends the tokens to the batch.

    Attributes:
        sampler: Samples from logits, or knows what another rank samples.
        draws_ahead: Whether `draw` may be called.
    """

    def __init__(
        self,
        batch: InputBatch,
        sampler: StepSampler,
        *,
        tree: DraftTree | None = None,
        drawn_drafts: Callable[[Int64], DrawnDrafts | None] | None = None,
        draw_ahead: DrawAhead | None = None,
    ) -> None:
        """Joins a sampler with the batch.

        Args:
            batch: Rows of the running requests.
            sampler: Samples from logits.
            tree: Shape of the drafts; None if they are chains.
            drawn_drafts: Returns the drafts with probabilities of S rows.
            draw_ahead: Draws without waiting for the device; None always waits.
        """
        self._batch, self.sampler, self._tree = batch, sampler, tree
        self._drawn_drafts, self._draw_ahead = drawn_drafts, draw_ahead
        self.draws_ahead = draw_ahead is not None

    def draw(
        self, inputs: StepInputs, logits: torch.Tensor
    ) -> tuple[SamplePlaces, list[int], Callable[[], Samples]]:
        """Has the device draw, and reserves the tokens' places.

        Returns:
            The places, the ids of their requests, and what waits for the tokens.
        """
        assert self._draw_ahead is not None
        samples = inputs.samples
        request_ids = [self._batch.request_ids[row] for row in samples.rows.tolist()]
        read = self._draw_ahead(logits, samples.rows)
        self._batch.advance(inputs, -1 - np.arange(len(request_ids)))
        return samples, request_ids, read

    def drawn(
        self,
        places: SamplePlaces,
        request_ids: list[int],
        read: Callable[[], Samples],
    ) -> Sampled:
        """Waits for the tokens that the device has drawn."""
        drawn = read()
        self._batch.fill(places, request_ids, drawn.token_ids)
        return self._named(drawn, request_ids)

    def sample(self, inputs: StepInputs, logits: torch.Tensor) -> Sampled:
        """Samples at S places, whose logits are [S, vocabulary]."""
        if inputs.num_drafts is not None:
            return self._verified(inputs, logits)
        rows = inputs.samples.rows
        samples = self.sampler.sample(logits, rows)
        self._batch.advance(inputs, samples.token_ids)
        request_ids = [self._batch.request_ids[row] for row in rows.tolist()]
        return self._named(samples, request_ids)

    def _named(self, samples: Samples, request_ids: list[int]) -> Sampled:
        """Returns one token of each of S requests."""
        tokens = [[token_id] for token_id in samples.token_ids.tolist()]
        return Sampled(
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

    def _verified(self, inputs: StepInputs, logits: torch.Tensor) -> Sampled:
        """Samples at S places, some of which verify drafts."""
        rows, ends = inputs.samples.rows, inputs.samples.ends
        if (tree := self._tree) is None:
            drawn = None if self._drawn_drafts is None else self._drawn_drafts(rows)
            samples = self.sampler.sample(logits, rows, ends, drawn)
            places = np.minimum(ends, self._batch.token_ids.shape[1] - 1)
            drafts = self._batch.token_ids[rows, places]
            verified = verify(rows, samples.token_ids, drafts.astype(np.int64))
        else:
            assert inputs.nodes is not None
            indices = inputs.samples.indices
            samples = self.sampler.sample(
                logits, rows, ends, nodes=inputs.nodes[indices]
            )
            verified = tree.verify(rows, samples.token_ids, inputs.token_ids[indices])
        self._batch.advance_verified(inputs, samples.token_ids, verified)
        request_ids = [self._batch.request_ids[row] for row in rows.tolist()]
        failed = self._failed(samples, request_ids, verified)
        sampled = Sampled({}, {}, failed, verified)
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
