"""What a runner asks of whoever samples tokens from a step's logits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from hookline.engine.worker.input_batch import Int64, StepInputs
from hookline.finish_cause import Corrupted, FinishCause
from hookline.request import TokenLogprobs


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
