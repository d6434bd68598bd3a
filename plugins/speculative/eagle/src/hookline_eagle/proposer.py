"""Drafts one token after another from features that a small head says.

EAGLE (Li et al. 2024) and EAGLE-3 (Li et al. 2025), as one chain. The head's layer
reads what the target said at position p and the token at p + 1, and its keys and values
lie at p in the request's own blocks. The target is never asked: what is drafted next is
made of the head's own feature.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from hookline.config import Kernels
from hookline.exceptions import ConfigError
from hookline.models.adapt import adapt
from hookline.models.adapt.linears import FastLinear
from hookline.payloads import ProposerContext
from hookline.sampling_params import SamplingParams
from hookline.spec_decode import (
    DraftLayer,
    DraftRequest,
    Drafts,
    HiddenStates,
    ProposerCapabilities,
    TargetModel,
)
from hookline.spec_decode.draft_cache import DraftCache, Span
from hookline_eagle.checkpoint import Checkpoint, load_head
from hookline_eagle.head import Output, Sides, angles_at, output_of
from hookline_eagle.options import OPTION, PROBABILISTIC, EagleOptions
from hookline_eagle.rotary import angle_table
from hookline_kernels.sampling import argmax_reference, choose_sampling

_NONE = Drafts(token_ids=())
_LEAST_LAYERS = 3
"""Of a target whose low, middle and high layers are chosen for it."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A request, and what is drafted for it.

    Attributes:
        request: As it was given.
        states: Of its new positions.
        block_ids: Its blocks.
        index: Its place in what is returned.
        draws: Its drafts are drawn, not the likeliest.
    """

    request: DraftRequest
    states: HiddenStates
    block_ids: npt.NDArray[np.int32]
    index: int
    draws: bool

    @property
    def count(self) -> int:
        """Of new positions."""
        return len(self.states.final)


class EagleProposer:
    """It keeps nothing of a request outside of the request's blocks."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        draws: bool = False,
        seed: int = 0,
        may_compile: bool = True,
    ) -> None:
        """Of a head that is on no device yet.

        Args:
            checkpoint: The head; it is taken over.
            draws: Draw the drafts of requests that sample.
            seed: Of the random numbers for that.
            may_compile: Use kernels, not only plain torch.
        """
        self._checkpoint, self._head = checkpoint, checkpoint.head
        self._draws, self._seed, self._may_compile = draws, seed, may_compile
        self._random: torch.Generator | None = None
        self._embedding: torch.Tensor | None = None
        self._output: Output | None = None
        self._argmax: Callable[[torch.Tensor], torch.Tensor] = argmax_reference
        self._cache: DraftCache | None = None
        self._table: Sides | None = None
        shape = self._head.shape
        layer = DraftLayer(
            num_heads=shape.num_heads,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
        )
        self.capabilities = ProposerCapabilities(
            needs_hidden_states=True, kv_layers=(layer,)
        )

    @classmethod
    def load(cls, context: ProposerContext) -> Self:
        """The head that a configuration names.

        Raises:
            ConfigError: It cannot be had.
        """
        options = EagleOptions.from_mapping(context.options)
        model = context.config.model
        return cls(
            load_head(options.folder(model.model)),
            draws=options.draft_sample_method == PROBABILISTIC,
            seed=model.seed,
            may_compile=context.config.executor.kernels is not Kernels.TORCH,
        )

    def prepare(self, target: TargetModel) -> None:
        """Brings the head where the states will be.

        Raises:
            ConfigError: It was made for another model.
        """
        shape = self._head.shape
        wanted = [
            ("hidden states", shape.target_size, target.hidden_size),
            ("vocabulary", shape.vocab_size, target.vocab_size),
        ]
        if not shape.own_embedding:
            wanted.append(("embedding", shape.hidden_size, target.embedding.shape[1]))
        for what, found, right in wanted:
            if found != right:
                raise ConfigError(
                    OPTION,
                    f"the head was made for another model: its {what} are of size "
                    f"{found}, the model's of {right}",
                )
        if shape.is_third:
            layers = _layers(self._checkpoint.layers, target.num_layers)
            self.capabilities = replace(self.capabilities, feature_layers=layers)
        self._head = self._head.to(target.output)
        self._embedding = target.embedding
        self._output = output_of(target)
        if self._may_compile and target.output.device.type == "cpu":
            adapt(self._head)
            self._argmax = choose_sampling(target.output.dtype).argmax
            if not shape.is_third:
                self._output = FastLinear(target.output, target.output_bias)
        self._random = torch.Generator(target.output.device).manual_seed(self._seed)

    def bind(self, cache: DraftCache) -> None:
        """Takes the cache of its layer.

        Raises:
            ConfigError: The kind of rotary embedding is unknown.
        """
        assert self._embedding is not None
        self._cache = cache
        self._table = angle_table(
            self._checkpoint.config,
            self._head.shape.head_dim,
            cache.max_model_len,
            self._embedding[:0],
        )
        self._start_up()

    def _start_up(self) -> None:
        """Has all that drafting compiles and loads there before a step waits for it.

        Over a block that nobody holds yet: a prompt of two tokens, then one alone.
        """
        assert self._embedding is not None
        shape = self._head.shape
        for start, count in ((0, 2), (1, 1)):
            final = self._embedding.new_zeros(count, shape.target_size)
            features = final.repeat(1, len(self.capabilities.feature_layers))
            self.propose(
                [
                    DraftRequest(
                        request_id=-1,
                        token_ids=np.zeros(start + count + 1, np.int32),
                        max_drafts=1,
                        params=SamplingParams(temperature=0.0),
                        hidden_states=HiddenStates(
                            start=start, final=final, features=features
                        ),
                        block_ids=np.zeros(2, np.int32),
                    )
                ]
            )

    @torch.inference_mode()
    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        """As many drafts as are wanted, for requests whose prompt is complete."""
        shown = self._shown(requests)
        found = [_NONE] * len(requests)
        if not shown:
            return found
        features = self._read(shown)
        # Those that want most come first, so that each pass has those before it.
        order = sorted(
            (at for at, each in enumerate(shown) if each.request.max_drafts),
            key=lambda at: -shown[at].request.max_drafts,
        )
        if not order:
            return found
        chosen = [shown[at] for at in order]
        ends = torch.tensor([each.count for each in shown]).cumsum(0)[order] - 1
        assert self._cache is not None
        block_ids = [
            self._cache.with_spare(each.block_ids, row)
            for row, each in enumerate(chosen)
        ]
        chain = _Chain(chosen, block_ids, features[ends.to(features.device)])
        for place in range(chosen[0].request.max_drafts):
            alive = sum(each.request.max_drafts > place for each in chosen)
            if place:
                self._go_on(chain, place, alive)
            self._pick(chain, alive)
        for each, drafts in zip(chosen, chain.drafts(), strict=True):
            found[each.index] = drafts
        return found

    def release(self, request_ids: Sequence[int]) -> None:
        """What it kept lies in the requests' blocks."""

    def _shown(self, requests: Sequence[DraftRequest]) -> list[_Shown]:
        """Requests with states; those with one come first."""
        shown = [
            _Shown(
                request,
                request.hidden_states,
                request.block_ids,
                index,
                self._draws and not request.params.is_greedy,
            )
            for index, request in enumerate(requests)
            if request.hidden_states is not None
            and request.block_ids is not None
            and len(request.hidden_states.final)
        ]
        return sorted(shown, key=lambda each: each.count > 1)

    def _read(self, shown: Sequence[_Shown]) -> torch.Tensor:
        """Has the layer read all new positions: features [T, hidden size]."""
        assert self._cache is not None
        spans = [Span(each.states.start, each.count, each.block_ids) for each in shown]
        following = np.concatenate(
            [
                each.request.token_ids[span.start + 1 : span.start + span.count + 1]
                for each, span in zip(shown, spans, strict=True)
            ]
        )
        told = torch.cat([self._told(each.states) for each in shown])
        tokens = torch.from_numpy(following.astype(np.int64)).to(told.device)
        return self._pass(spans, tokens, self._head.fused(told))

    def _told(self, states: HiddenStates) -> torch.Tensor:
        if not self.capabilities.feature_layers:
            return states.final
        assert states.features is not None
        return states.features

    def _go_on(self, chain: "_Chain", place: int, alive: int) -> None:
        """A pass over what was drafted last, for the first `alive` requests."""
        spans = [
            Span(each.states.start + each.count - 1 + place, 1, block_ids)
            for each, block_ids in zip(
                chain.shown[:alive], chain.block_ids[:alive], strict=True
            )
        ]
        tokens = chain.token_ids[-1][:alive]
        chain.features = self._pass(spans, tokens, chain.features[:alive])

    def _pass(
        self, spans: Sequence[Span], tokens: torch.Tensor, features: torch.Tensor
    ) -> torch.Tensor:
        assert self._cache is not None
        assert self._embedding is not None
        assert self._table is not None
        positions = self._cache.begin(spans)
        found: torch.Tensor = self._head(
            self._head.embed(self._embedding, tokens),
            features,
            angles_at(positions, self._table),
            partial(self._cache.attend, 0),
        )
        return found

    def _pick(self, chain: "_Chain", alive: int) -> None:
        """The next token of the first `alive` requests."""
        assert self._output is not None
        logits = self._head.logits(self._output, chain.features)
        drafted = self._argmax(logits)
        rows: list[torch.Tensor | None] = [None] * alive
        for row, each in enumerate(chain.shown[:alive]):
            if each.draws:
                scaled = logits[row].float() / each.request.params.temperature
                shares = scaled.softmax(-1)
                drafted[row] = torch.multinomial(shares, 1, generator=self._random)[0]
                rows[row] = self._spread(shares)
        chain.token_ids.append(self._head.tokens(drafted))
        chain.shares.append(rows)

    def _spread(self, shares: torch.Tensor) -> torch.Tensor:
        """[draft vocabulary] → [vocabulary]."""
        shape = self._head.shape
        if not shape.is_third:
            return shares
        ids = self._head.tokens(torch.arange(len(shares), device=shares.device))
        return shares.new_zeros(shape.vocab_size).index_copy(0, ids, shares)


class _Chain:
    """The drafts of some requests, as they are made.

    Attributes:
        shown: The requests; those that want most drafts come first.
        block_ids: Of each, with spare ones behind.
        features: [alive, hidden size] what the head said last.
        token_ids: Of each place, [alive] int64.
        shares: Of each place, what each draft was drawn from, [vocabulary]; or None.
    """

    def __init__(
        self,
        shown: Sequence[_Shown],
        block_ids: Sequence[npt.NDArray[np.int32]],
        features: torch.Tensor,
    ) -> None:
        self.shown, self.block_ids, self.features = shown, block_ids, features
        self.token_ids: list[torch.Tensor] = []
        self.shares: list[list[torch.Tensor | None]] = []

    def drafts(self) -> Iterator[Drafts]:
        """Of each request."""
        token_ids = [place.tolist() for place in self.token_ids]
        for row, each in enumerate(self.shown):
            count = each.request.max_drafts
            own = [place[row] for place in token_ids[:count]]
            shares = [place[row] for place in self.shares[:count]]
            known = [each for each in shares if each is not None]
            rows = torch.stack(known).cpu().numpy() if known else None
            yield Drafts(token_ids=own, probabilities=rows)


def _layers(given: tuple[int, ...] | None, count: int) -> tuple[int, ...]:
    """What an EAGLE-3 head reads of a target of so many layers."""
    if given is None:
        if count < _LEAST_LAYERS:
            raise ConfigError(
                OPTION, f"the head reads three layers, and the model has {count}"
            )
        return (2, count // 2, count - 3)
    if max(given) > count:
        raise ConfigError(
            OPTION,
            f"the head was made for another model: it reads layer {max(given)} of "
            f"{count}",
        )
    return given
