"""Guesses the next tokens from the hidden state of the last accepted one.

Medusa (Cai et al. 2024): the target's own output layer says the token behind a state,
and head i guesses the one i + 2 behind it. Only what each head holds for the likeliest
is drafted, as one chain.
"""

from collections.abc import Sequence
from typing import Self

import torch

from hookline.exceptions import ConfigError
from hookline.payloads import ProposerContext
from hookline.spec_decode import DraftRequest, Drafts, TargetModel
from hookline_medusa.checkpoint import load_heads
from hookline_medusa.heads import Head, SharedOutput, likeliest
from hookline_medusa.options import OPTION, MedusaOptions

_NONE = Drafts(token_ids=())


class MedusaProposer:
    """It keeps nothing of a request: all that it needs is the newest state."""

    needs_hidden_states = True

    def __init__(self, heads: Sequence[Head]) -> None:
        self._heads = tuple(heads)
        self._shared: SharedOutput | None = None

    @classmethod
    def load(cls, context: ProposerContext) -> Self:
        """The heads that a configuration names.

        Raises:
            ConfigError: They cannot be had, or more drafts are wanted than there are.
        """
        options = MedusaOptions.from_mapping(context.options)
        folder = options.folder(context.config.model.model)
        heads = load_heads(folder)
        speculative = context.config.speculative
        wanted = None if speculative is None else speculative.num_speculative_tokens
        if isinstance(wanted, int) and wanted > len(heads):
            raise ConfigError(
                OPTION,
                f"num_speculative_tokens is {wanted}, and {folder} has {len(heads)} "
                "heads, each of which drafts one token",
            )
        return cls(heads)

    def prepare(self, target: TargetModel) -> None:
        """Brings the heads where the states will be.

        Raises:
            ConfigError: They were made for another model.
        """
        width, vocabulary = target.hidden_size, target.vocab_size
        for head in self._heads:
            for weight, bias in head.blocks:
                _check("hidden states", weight, (width, width))
                if bias is not None:
                    _check("hidden states", bias, (width,))
            if head.output is not None:
                _check("output layer", head.output, (vocabulary, width))
        self._heads = tuple(head.to(target.output) for head in self._heads)
        if any(head.output is None for head in self._heads):
            self._shared = SharedOutput(target.output, target.output_bias)

    @torch.inference_mode()
    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        """Certain drafts: one of each head, up to as many as are wanted."""
        states = [
            request.hidden_states.final[-1]
            for request in requests
            if request.max_drafts and request.hidden_states is not None
        ]
        if not states:
            return [_NONE] * len(requests)
        most = max(request.max_drafts for request in requests)
        found = likeliest(self._heads[:most], self._shared, torch.stack(states))
        drafts = iter(found.T.tolist())
        return [
            Drafts(token_ids=next(drafts)[: request.max_drafts])
            if request.max_drafts and request.hidden_states is not None
            else _NONE
            for request in requests
        ]

    def release(self, request_ids: Sequence[int]) -> None:
        """It keeps nothing of a request."""


def _check(what: str, found: torch.Tensor, wanted: tuple[int, ...]) -> None:
    if tuple(found.shape) != wanted:
        raise ConfigError(
            OPTION,
            f"the heads were made for another model: for its {what} they have weights "
            f"of shape {tuple(found.shape)}, where {wanted} is wanted",
        )
