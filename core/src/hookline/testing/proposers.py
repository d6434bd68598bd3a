"""Proposers whose guesses a test decides."""

import random
from collections.abc import Callable, Sequence

import numpy as np

from hookline.spec_decode import DraftRequest, Drafts


class ScriptedProposer:
    """Knows how texts go on, and says it with errors.

    Attributes:
        released: Ids of requests that it was told to forget.
        calls: How often it was asked.
    """

    needs_hidden_states = False

    def __init__(
        self,
        texts: Sequence[Sequence[int]],
        *,
        errors: float = 0.0,
        vocab_size: int = 320,
        with_probabilities: bool = False,
    ) -> None:
        """Drafts the rest of whatever text begins like a request.

        Args:
            texts: Prompts with their outputs.
            errors: Share of the drafts that are another token, 0 to 1.
            vocab_size: Of the target.
            with_probabilities: Tell a distribution, in which the draft is likely.
        """
        self._texts = [list(text) for text in texts]
        self._errors = errors
        self._vocab_size = vocab_size
        self._with_probabilities = with_probabilities
        self._random = random.Random(1)  # noqa: S311 - a test
        self.released: list[int] = []
        self.calls = 0

    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        self.calls += 1
        return [self._draft(request) for request in requests]

    def release(self, request_ids: Sequence[int]) -> None:
        self.released += request_ids

    def _draft(self, request: DraftRequest) -> Drafts:
        known = request.token_ids.tolist()
        count = len(known)
        rest = next((text[count:] for text in self._texts if text[:count] == known), [])
        tokens = [self._spoilt(token) for token in rest[: request.max_drafts]]
        if not self._with_probabilities:
            return Drafts(token_ids=tokens)
        rows = np.full((len(tokens), self._vocab_size), 0.4 / self._vocab_size)
        rows[np.arange(len(tokens)), tokens] += 0.6
        return Drafts(token_ids=tokens, probabilities=rows.astype(np.float32))

    def _spoilt(self, token: int) -> int:
        if self._random.random() >= self._errors:
            return token
        return (token + self._random.randrange(1, self._vocab_size)) % self._vocab_size


class RandomProposer:
    """Guesses anything, and seldom the same number of tokens."""

    needs_hidden_states = False

    def __init__(self, vocab_size: int = 320) -> None:
        self._vocab_size = vocab_size
        self._random = random.Random(2)  # noqa: S311 - a test

    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        return [
            Drafts(
                token_ids=[
                    self._random.randrange(self._vocab_size)
                    for _ in range(self._random.randint(0, request.max_drafts))
                ]
            )
            for request in requests
        ]

    def release(self, request_ids: Sequence[int]) -> None:
        """Keeps nothing."""


class HostileProposer:
    """Does what it was made for, whatever it is asked."""

    needs_hidden_states = False

    def __init__(self, act: Callable[[Sequence[DraftRequest]], object]) -> None:
        self._act = act

    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        return self._act(requests)  # type: ignore[return-value]

    def release(self, request_ids: Sequence[int]) -> None:
        """Keeps nothing."""
