"""Samplers of ranks: one rank has logits and samples, the others follow it."""

from collections.abc import Callable, Sequence

import torch

from hookline.engine.worker.input_batch import Int64, StepInputs
from hookline.engine.worker.sampling.sampler import DrawnDrafts, Samples, StepSampler
from hookline.request import TokenLogprobs

Send = Callable[[Int64], None]
"""Sends the sampled tokens [S] to the other ranks."""
Receive = Callable[[int], Int64]
"""Waits for this many tokens of the rank that samples."""


class SharingSampler:
    """Samples, and tells the other ranks the tokens."""

    def __init__(self, own: StepSampler, send: Send) -> None:
        self._own, self._send = own, send
        self.prepares, self.prepare = own.prepares, own.prepare
        self.score_prompts = own.score_prompts

    def sample(
        self,
        logits: torch.Tensor,
        rows: Int64,
        ends: Int64 | None = None,
        drawn: DrawnDrafts | None = None,
        nodes: Int64 | None = None,
    ) -> Samples:
        """Implements `StepSampler`."""
        samples = self._own.sample(logits, rows, ends, drawn, nodes)
        if len(rows):
            self._send(samples.token_ids)
        return samples


class FollowingSampler:
    """Takes the tokens that another rank has sampled; looks at no logits."""

    prepares = False

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    def prepare(self, inputs: StepInputs) -> None:
        """Implements `StepSampler`: the other rank prepares."""

    def score_prompts(
        self,
        inputs: StepInputs,  # noqa: ARG002
        prompts: Sequence[tuple[int, int, int]],  # noqa: ARG002
        logits: torch.Tensor,  # noqa: ARG002
    ) -> dict[int, list[TokenLogprobs]]:
        """Implements `StepSampler`: the other rank reports them."""
        return {}

    def sample(
        self,
        logits: torch.Tensor,  # noqa: ARG002
        rows: Int64,
        ends: Int64 | None = None,  # noqa: ARG002
        drawn: DrawnDrafts | None = None,  # noqa: ARG002
        nodes: Int64 | None = None,  # noqa: ARG002
    ) -> Samples:
        """Implements `StepSampler`."""
        return Samples(self._receive(len(rows)) if len(rows) else rows)
