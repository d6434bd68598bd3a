"""Samples tokens from a step's logits, all requests of the step at once.

Logits processors come first, then for requests that are not greedy temperature, top-k,
top-p and min-p. Log-probabilities are those of the unmodified logits. Drafts with
probabilities are sampled by rejection. Where logits are not finite, whoever draws gives
`NO_TOKEN`: that the tokens tell costs no pass over the logits, and no wait of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from hookline.engine.worker.input_batch import InputBatch, Int64, StepInputs
from hookline.engine.worker.sampling.logits_processor import SampledPositions
from hookline.engine.worker.sampling.logprobs import (
    log_probabilities,
    prompt_logprobs,
    top_logprobs,
)
from hookline.engine.worker.sampling.sampling_state import SamplingState
from hookline.finish_cause import Corrupted, FinishCause
from hookline.request import Origin, TokenLogprobs
from hookline_kernels import CPU
from hookline_kernels.drawing import NEGATIVE_INFINITY, NO_TOKEN
from hookline_kernels.row_drawing import RowDrawing
from hookline_kernels.sampling import ChosenSampling


@dataclass(frozen=True, slots=True)
class Samples:
    """Tokens sampled at S positions.

    Attributes:
        token_ids: [S].
        logprobs: By index into S, for requests with `logprobs`.
        failed: By batch row, why a plugin's logits processor failed for its request;
            tokens of such a request mean nothing.
        corrupted: By index into S, whose output was not finite there.
    """

    token_ids: Int64
    logprobs: dict[int, TokenLogprobs] = field(default_factory=dict)
    failed: dict[int, FinishCause] = field(default_factory=dict)
    corrupted: dict[int, Corrupted] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DrawnDrafts:
    """N drafts that were drawn from a distribution.

    Attributes:
        sequences: Sorted indices into S: for each request with such drafts all its
            positions, one more than it has drafts.
        probabilities: [N, vocabulary] float32.
    """

    sequences: Int64
    probabilities: npt.NDArray[np.float32]


class StepSampler(Protocol):
    """Samples from a step's logits; called once a step, in this order.

    Attributes:
        prepares: Whether `prepare` is called.
    """

    @property
    def prepares(self) -> bool: ...

    def prepare(self, inputs: StepInputs) -> None:
        """Starts what can be computed before there are logits."""
        ...

    def score_prompts(
        self,
        inputs: StepInputs,
        prompts: Sequence[tuple[int, int, int]],
        logits: torch.Tensor,
    ) -> dict[int, list[TokenLogprobs]]:
        """Returns log-probabilities of prompt tokens, by request id.

        Called in steps in which a request wants any.

        Args:
            inputs: The step, before the batch is advanced.
            prompts: Places of the prompts, see `logits_indices`.
            logits: [W, vocabulary] all logits of the step.
        """
        ...

    def sample(
        self,
        logits: torch.Tensor,
        rows: Int64,
        ends: Int64 | None = None,
        drawn: DrawnDrafts | None = None,
        nodes: Int64 | None = None,
    ) -> Samples:
        """Samples one token at each of S positions.

        Args:
            logits: [S, vocabulary]; may be overwritten.
            rows: [S] batch row of each position's request.
            ends: [S] number of tokens before the sampled one; None means all that the
                row has. Tokens of a row beyond that are drafts.
            drawn: Drafts with probabilities.
            nodes: [S] node of the request's draft tree; None without trees.
        """
        ...


class Sampler:
    """Samples for the rows of an input batch.

    Attributes:
        prepares: Whether `prepare` has anything to do.
    """

    def __init__(
        self,
        batch: InputBatch,
        state: SamplingState,
        chosen: ChosenSampling | None = None,
        device: torch.device = CPU.device,
        *,
        allows: bool = False,
    ) -> None:
        """Creates a sampler.

        Args:
            batch: Tokens of all requests, in main memory.
            state: Their sampling parameters, in main memory.
            chosen: Kernels that pick tokens; None chooses those for float32.
            device: Device of the logits.
            allows: Whether requests go on whose logits are not finite: what is not
                counts as −∞, and token 0 is sampled if nothing is.
        """
        self._batch, self._state, self._allows = batch, state, allows
        self._drawing = RowDrawing(
            state.drawing, batch.token_ids, batch.num_prompt_tokens, chosen, device
        )
        self._tensor = self._drawing.tensor
        self.prepares = state.processors.prepares

    def sample(
        self,
        logits: torch.Tensor,
        rows: Int64,
        ends: Int64 | None = None,
        drawn: DrawnDrafts | None = None,
        nodes: Int64 | None = None,
    ) -> Samples:
        """Implements `StepSampler`; overwrites the logits."""
        if ends is None:
            ends = self._batch.num_tokens[rows]
        given = None
        if self._state.needs_change[rows].any():
            logits = logits.float()
            given = logits.amax(-1).isfinite()
            wanted = np.flatnonzero(self._state.num_logprobs[rows] >= 0)
            raw = logits[self._tensor(wanted)] if len(wanted) else None
            failed = self._process(logits, rows, ends, nodes)
        token_ids = self._drawing.draw(logits, rows, ends)
        if drawn is not None:
            drafts = drawn.sequences, drawn.probabilities
            self._drawing.reject(logits, rows, ends, *drafts, token_ids)
        if given is not None:  # a processor may have hidden it
            token_ids = token_ids.masked_fill(~given, NO_TOKEN)
        tokens, corrupted = token_ids.cpu().numpy(), {}
        if tokens.min(initial=0) < 0:
            corrupted = self._settle(tokens, logits, rows, ends, given)
        if given is None:
            return Samples(tokens, corrupted=corrupted)
        logprobs = self._logprobs(raw, wanted, rows, tokens)
        return Samples(tokens, logprobs, failed, corrupted)

    def _settle(
        self,
        tokens: Int64,
        logits: torch.Tensor,
        rows: Int64,
        ends: Int64,
        given: torch.Tensor | None,
    ) -> dict[int, Corrupted]:
        """Puts tokens in place of `NO_TOKEN`; returns why there was none, by index.

        `given` tells where the model's logits were good, [S]; None: where these are.
        """
        places = np.flatnonzero(tokens < 0)
        at = self._tensor(places)
        if self._allows:
            own = logits[at].float().nan_to_num_(*[NEGATIVE_INFINITY] * 3)
            tokens[places] = self._drawing.draw(own, rows[places], ends[places]).cpu()
        np.maximum(tokens, 0, out=tokens)
        was_good = [False] * len(places) if given is None else given[at].tolist()
        return {
            place: Corrupted.logits(
                Origin.LOGITS_PROCESSOR if is_changed else Origin.MODEL,
                is_served=self._allows,
            )
            for place, is_changed in zip(places.tolist(), was_good, strict=True)
        }

    def score_prompts(
        self,
        inputs: StepInputs,
        prompts: Sequence[tuple[int, int, int]],
        logits: torch.Tensor,
    ) -> dict[int, list[TokenLogprobs]]:
        """Implements `StepSampler`."""
        allows = self._allows
        return prompt_logprobs(self._batch, inputs, prompts, logits, allows=allows)

    def prepare(self, inputs: StepInputs) -> None:
        """Starts what logits processors compute ahead for the step's `sample`."""
        places, nodes = inputs.samples, inputs.nodes
        if not self._state.processors.is_active[places.rows].any():
            return
        if nodes is not None:
            nodes = nodes[places.indices]
        positions = self._positions(places.rows, places.ends, nodes)
        self._state.processors.prepare(positions)

    def _process(
        self, logits: torch.Tensor, rows: Int64, ends: Int64, nodes: Int64 | None
    ) -> dict[int, FinishCause]:
        """Applies the logits processors; returns failures by batch row."""
        processors = self._state.processors
        if not processors.is_active[rows].any():
            return {}
        return processors.apply(logits, self._positions(rows, ends, nodes))

    def _positions(
        self, rows: Int64, ends: Int64, nodes: Int64 | None
    ) -> SampledPositions:
        return SampledPositions(
            indices=np.arange(len(rows)),
            rows=rows,
            ends=ends,
            nodes=nodes,
            batch=self._batch,
        )

    def _logprobs(
        self, raw: torch.Tensor | None, wanted: Int64, rows: Int64, tokens: Int64
    ) -> dict[int, TokenLogprobs]:
        if raw is None:
            return {}
        counts = self._state.num_logprobs[rows[wanted]]
        found = log_probabilities(raw, allows=self._allows)
        entries = top_logprobs(found, self._tensor(tokens[wanted]), counts.tolist())
        return dict(zip(wanted.tolist(), entries, strict=True))
