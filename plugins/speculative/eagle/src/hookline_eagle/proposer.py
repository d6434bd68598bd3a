"""Drafts a chain of tokens autoregressively with an EAGLE or EAGLE-3 head.

See Li et al. 2024 and 2025. The head's layer reads the target's state at position p and
the token at p + 1, and stores its keys and values at p in the request's blocks. Further
drafts are made from the head's own features.
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
from hookline.sampling_values import SamplingValues
from hookline_drafting import (
    DraftLayer,
    DraftRequest,
    Drafts,
    HiddenStates,
    ProposerCapabilities,
    ProposerContext,
    TargetModel,
)
from hookline_drafting.draft_cache import DraftCache, Span
from hookline_eagle.checkpoint import Checkpoint, load_head
from hookline_eagle.head import Output, Sides, angles_at, output_of
from hookline_eagle.options import OPTION, PROBABILISTIC, EagleOptions
from hookline_eagle.rotary import angle_table
from hookline_kernels.modules.adapting import adapt
from hookline_kernels.modules.linears import FastLinear
from hookline_kernels.sampling import argmax_reference, choose_sampling

_NONE = Drafts(token_ids=())
_LEAST_LAYERS = 3
"""Minimum depth of a target to choose low, middle and high layers from."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A request with hidden states to read.

    Attributes:
        request: The request.
        states: Hidden states of its new positions.
        block_ids: Ids of its KV blocks.
        index: Index of the request in the batch.
        draws: Whether its drafts are sampled; otherwise they are greedy.
    """

    request: DraftRequest
    states: HiddenStates
    block_ids: npt.NDArray[np.int32]
    index: int
    draws: bool

    @property
    def count(self) -> int:
        """Number of new positions."""
        return len(self.states.final)


class EagleProposer:
    """Drafts by a head; per-request state is kept only in the request's blocks."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        draws: bool = False,
        seed: int = 0,
        may_compile: bool = True,
    ) -> None:
        """Creates the proposer; `prepare` moves the head to its device.

        Args:
            checkpoint: The head, owned by the proposer.
            draws: Whether to sample the drafts of requests that sample.
            seed: Seed of the drafts' random numbers.
            may_compile: Whether to use kernels, not only plain torch.
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
        """Loads the head that the configuration names.

        Raises:
            ConfigError: The head is missing or not supported.
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
        """Moves the head to the target's device and dtype.

        Raises:
            ConfigError: The head was made for another model.
        """
        shape = self._head.shape
        sizes = [
            ("hidden states", shape.target_size, target.hidden_size),
            ("vocabulary", shape.vocab_size, target.vocab_size),
        ]
        if not shape.own_embedding:
            sizes.append(("embedding", shape.hidden_size, target.embedding.shape[1]))
        for what, found, right in sizes:
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
        """Binds the KV cache of the head's layer and warms up.

        Raises:
            ConfigError: The kind of rotary embedding is not supported.
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
        """Compiles and loads all that drafting needs, before the first step.

        Drafts for a prompt of two tokens, then for one token, in a free block.
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
                        params=SamplingValues(temperature=0.0),
                        hidden_states=HiddenStates(
                            start=start, final=final, features=features
                        ),
                        block_ids=np.zeros(2, np.int32),
                    )
                ]
            )

    @torch.inference_mode()
    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        """Returns up to `max_drafts` drafts per request; reads all new positions."""
        shown = self._shown(requests)
        found = [_NONE] * len(requests)
        if not shown:
            return found
        features = self._read(shown)
        # Sorted by number of drafts, so that each pass is over a prefix of the batch.
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
        """Does nothing: state is kept only in the requests' blocks."""

    def _shown(self, requests: Sequence[DraftRequest]) -> list[_Shown]:
        """Returns the requests with states; those with one new position come first."""
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
        """Runs the head over all new positions; returns features [T, hidden size]."""
        assert self._cache is not None
        spans = [Span(each.states.start, each.count, each.block_ids) for each in shown]
        following = np.concatenate(
            [
                each.request.token_ids[span.start + 1 : span.start + span.count + 1]
                for each, span in zip(shown, spans, strict=True)
            ]
        )
        states = torch.cat([self._input_states(each.states) for each in shown])
        tokens = torch.from_numpy(following.astype(np.int64)).to(states.device)
        return self._pass(spans, tokens, self._head.fused(states))

    def _input_states(self, states: HiddenStates) -> torch.Tensor:
        if not self.capabilities.feature_layers:
            return states.final
        assert states.features is not None
        return states.features

    def _go_on(self, chain: "_Chain", place: int, alive: int) -> None:
        """Runs the head over the last drafts of the first `alive` requests."""
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
        """Chooses the next draft of the first `alive` requests.

        Where logits are not finite, a draft without any chance costs only its request.
        """
        assert self._output is not None
        logits = self._head.logits(self._output, chain.features)
        drafted = self._argmax(logits)
        is_none = drafted < 0
        if bool(is_none.any()):
            logits = logits.masked_fill(is_none[:, None], 0.0)
            drafted = drafted.clamp(min=0)
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
        """Maps probabilities [draft vocabulary] to [vocabulary]."""
        shape = self._head.shape
        if not shape.is_third:
            return shares
        ids = self._head.tokens(torch.arange(len(shares), device=shares.device))
        return shares.new_zeros(shape.vocab_size).index_copy(0, ids, shares)


class _Chain:
    """The drafts of a batch while they are made.

    Attributes:
        shown: The requests, by descending number of drafts.
        block_ids: Block ids of each request, followed by spare ones.
        features: [alive, hidden size] the head's latest features.
        token_ids: Drafts of each position in the chain, [alive] int64.
        shares: Distributions [vocabulary] that the drafts of each position were sampled
            from; None for greedy ones.
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
        """Yields the drafts of each request."""
        token_ids = [place.tolist() for place in self.token_ids]
        for row, each in enumerate(self.shown):
            count = each.request.max_drafts
            own = [place[row] for place in token_ids[:count]]
            shares = [place[row] for place in self.shares[:count]]
            known = [each for each in shares if each is not None]
            rows = torch.stack(known).cpu().numpy() if known else None
            yield Drafts(token_ids=own, probabilities=rows)


def _layers(given: tuple[int, ...] | None, count: int) -> tuple[int, ...]:
    """Returns the layers that an EAGLE-3 head reads of a target with `count` layers."""
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
