"""Drafts the next tokens from the hidden state of the last accepted token.

Medusa (Cai et al. 2024): the target's output layer predicts the token after a state,
and head i the token i + 2 after it. Drafts are a chain of each head's most likely token
or a tree of likely tokens.
"""

from collections.abc import Sequence
from typing import Self

import torch

from hookline.exceptions import ConfigError
from hookline_drafting import (
    DraftRequest,
    Drafts,
    ProposerCapabilities,
    ProposerContext,
    TargetModel,
)
from hookline_medusa.checkpoint import load_heads
from hookline_medusa.choices import Choices
from hookline_medusa.heads import Head, SharedOutput, likeliest, ranked
from hookline_medusa.options import OPTION, MedusaOptions

_NONE = Drafts(token_ids=())


class MedusaProposer:
    """Drafts by Medusa heads; keeps no per-request state."""

    def __init__(self, heads: Sequence[Head], choices: Choices | None = None) -> None:
        """Creates a proposer of a tree of choices, or of a chain without them."""
        self._heads = tuple(heads)
        self._choices = choices
        self.capabilities = ProposerCapabilities(
            needs_hidden_states=True,
            draft_parents=None if choices is None else choices.parents,
        )
        self._shared: SharedOutput | None = None

    @classmethod
    def load(cls, context: ProposerContext) -> Self:
        """Loads the heads that the configuration names.

        Raises:
            ConfigError: The heads are missing, not supported or fewer than the drafts.
        """
        options = MedusaOptions.from_mapping(context.options)
        folder = options.folder(context.config.model.model)
        heads = load_heads(folder)
        if options.choices is not None:
            options.choices.check_heads(len(heads))
            return cls(heads, options.choices)
        count = context.num_speculative_tokens
        if isinstance(count, int) and count > len(heads):
            raise ConfigError(
                OPTION,
                f"num_speculative_tokens is {count}, and {folder} has {len(heads)} "
                "heads, each of which drafts one token",
            )
        return cls(heads)

    def prepare(self, target: TargetModel) -> None:
        """Moves the heads to the target's device and dtype.

        Raises:
            ConfigError: The heads were made for another model.
        """
        width, vocabulary = target.hidden_size, target.vocab_size
        if self._choices is not None:
            self._choices.check_vocabulary(vocabulary)
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
        """Returns the first `max_drafts` drafts of each request's chain or tree."""
        states = [
            request.hidden_states.final[-1]
            for request in requests
            if request.max_drafts and request.hidden_states is not None
        ]
        if not states:
            return [_NONE] * len(requests)
        most = max(request.max_drafts for request in requests)
        drafts = iter(self._guess(torch.stack(states), most))
        return [
            Drafts(token_ids=next(drafts)[: request.max_drafts])
            if request.max_drafts and request.hidden_states is not None
            else _NONE
            for request in requests
        ]

    def _guess(self, states: torch.Tensor, most: int) -> list[list[int]]:
        """Returns at most `most` drafts for each of n states [n, hidden size]."""
        if (choices := self._choices) is None:
            return likeliest(self._heads[:most], self._shared, states).T.tolist()
        heads, ranks = zip(*choices.places[:most], strict=True)
        used = self._heads[: max(heads) + 1]
        found = ranked(used, self._shared, states, choices.ranks)
        return found[list(heads), :, list(ranks)].T.tolist()

    def release(self, request_ids: Sequence[int]) -> None:
        """Does nothing: no per-request state is kept."""


def _check(what: str, found: torch.Tensor, expected: tuple[int, ...]) -> None:
    if tuple(found.shape) != expected:
        raise ConfigError(
            OPTION,
            f"the heads were made for another model: their weights for its {what} have "
            f"the shape {tuple(found.shape)}, not {expected}",
        )
