"""Proposers with scripted drafts."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from hookline_drafting import (
    DraftRequest,
    Drafts,
    Proposer,
    ProposerCapabilities,
    TargetModel,
)

Seen = tuple[list[int], dict[int, torch.Tensor]]


class ScriptedProposer:
    """Drafts the continuation of known texts, with a share of errors.

    Attributes:
        released: Ids of released requests.
        calls: How often it was asked.
    """

    capabilities = ProposerCapabilities()

    def __init__(
        self,
        texts: Sequence[Sequence[int]],
        *,
        errors: float = 0.0,
        vocab_size: int = 320,
        with_probabilities: bool = False,
    ) -> None:
        """Drafts the rest of the text that starts with a request's tokens.

        Args:
            texts: Prompts with their outputs.
            errors: Fraction of wrong draft tokens, 0 to 1.
            vocab_size: Of the target.
            with_probabilities: Whether to return distributions that favour the draft.
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


class ScriptedTreeProposer:
    """Drafts the continuation of known texts within a tree of drafts.

    Attributes:
        calls: How often it was asked.
    """

    def __init__(
        self,
        texts: Sequence[Sequence[int]],
        draft_parents: tuple[int | None, ...],
        *,
        errors: float = 0.0,
        vocab_size: int = 320,
    ) -> None:
        """Drafts the rest of the text that starts with a request's tokens.

        Args:
            texts: Prompts with their outputs.
            draft_parents: As in `ProposerCapabilities`.
            errors: Fraction of nodes on the correct path without a correct child.
            vocab_size: Of the target.
        """
        self._texts = [list(text) for text in texts]
        self._parents = draft_parents
        self.capabilities = ProposerCapabilities(draft_parents=draft_parents)
        self._errors = errors
        self._vocab_size = vocab_size
        self._random = random.Random(4)  # noqa: S311 - a test
        self.calls = 0

    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        self.calls += 1
        return [self._draft(request) for request in requests]

    def release(self, request_ids: Sequence[int]) -> None:
        """Keeps nothing."""

    def _draft(self, request: DraftRequest) -> Drafts:
        known = request.token_ids.tolist()
        count = len(known)
        rest = next((text[count:] for text in self._texts if text[:count] == known), [])
        tokens = [0] * len(self._parents)
        right: int | None = None
        depth = 0
        for node in (None, *range(len(tokens))):
            children = [at for at, parent in enumerate(self._parents) if parent == node]
            others = self._random.sample(range(self._vocab_size), len(children))
            for child, other in zip(children, others, strict=True):
                tokens[child] = other
            if node != right or not children or depth >= len(rest):
                continue
            if rest[depth] not in others and self._random.random() >= self._errors:
                right = self._random.choice(children)
                tokens[right] = rest[depth]
                depth += 1
        return Drafts(token_ids=tokens[: request.max_drafts])


class RandomProposer:
    """Drafts random tokens, of varying number."""

    capabilities = ProposerCapabilities()

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
    """Calls a function for every proposal."""

    capabilities = ProposerCapabilities()

    def __init__(self, act: Callable[[Sequence[DraftRequest]], object]) -> None:
        self._act = act

    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        return self._act(requests)  # type: ignore[return-value]

    def release(self, request_ids: Sequence[int]) -> None:
        """Keeps nothing."""


class WatchingProposer:
    """Records the hidden states that it receives, and delegates drafting.

    Attributes:
        target: The target model received at the start.
        ended: Of released requests, their last known tokens and their hidden states by
            position, [hidden size] each.
        chunks: Number of times that it received an incomplete prompt.
        skipped: Positions of requests' first states, if not 0.
        wrong: Violations of the interface's contract.
        features: States of the feature layers, by tokens up to a position.
    """

    def __init__(
        self,
        inner: Proposer,
        feature_layers: tuple[int, ...] = (),
        *,
        drafts_always: bool = True,
    ) -> None:
        """Creates a recorder around another proposer."""
        self._inner = inner
        self.capabilities = replace(
            inner.capabilities, needs_hidden_states=True, feature_layers=feature_layers
        )
        self.features: dict[tuple[int, ...], torch.Tensor] = {}
        self._drafts_always = drafts_always
        self._running: dict[int, Seen] = {}
        self.target: TargetModel | None = None
        self.ended: list[Seen] = []
        self.chunks = 0
        self.skipped: list[int] = []
        self.wrong: list[str] = []

    @property
    def seen(self) -> list[Seen]:
        """Returns the same as `ended`, for all requests."""
        return [*self.ended, *self._running.values()]

    def prepare(self, target: TargetModel) -> None:
        self.target = target

    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        for request in requests:
            self._note(request)
        return list(self._inner.propose(requests))

    def release(self, request_ids: Sequence[int]) -> None:
        for request_id in request_ids:
            if request_id in self._running:
                self.ended.append(self._running.pop(request_id))
        self._inner.release(request_ids)

    def _note(self, request: DraftRequest) -> None:
        states, text = request.hidden_states, request.token_ids.tolist()
        if states is None:
            self.wrong.append("no states")
            return
        if request.request_id not in self._running and states.start:
            self.skipped.append(states.start)
        before, known = self._running.get(request.request_id, (text, {}))
        self._running[request.request_id] = (text, known)
        self.chunks += request.max_drafts == 0
        # The newest token is not computed yet, unless the prompt is incomplete; if only
        # its last token is missing, the next call shows which case it is.
        is_behind = states.start + len(states.final) == len(text) - 1
        may_draft = request.max_drafts > 0
        must_draft = self._drafts_always and len(text) > len(before)
        if (may_draft and not is_behind) or (must_draft and not may_draft):
            self.wrong.append(f"states up to {states.start + len(states.final)}")
        if (states.features is not None) != bool(self.capabilities.feature_layers):
            self.wrong.append("features other than those requested")
        if states.features is not None:
            for end, feature in enumerate(states.features, states.start + 1):
                self.features[tuple(text[:end])] = feature
        # Not copied, so that a later write to it would be noticed.
        for place, state in enumerate(states.final, states.start):
            if place in known:
                self.wrong.append(f"position {place} once more")
            known[place] = state
