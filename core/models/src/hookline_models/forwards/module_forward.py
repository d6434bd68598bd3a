"""Runs a model as the modules of `transformers`."""

import torch
from transformers import PreTrainedModel

from hookline.engine.decoder.forward_batch import (
    ForwardBatch,
    ForwardOutput,
    IntermediateTensors,
    features_before,
)
from hookline.engine.worker.paged_cache import PagedCache
from hookline_models.forwards.attention import AttentionSlot
from hookline_models.forwards.hidden_state_hook import FeatureHook, HiddenStateHook
from hookline_models.forwards.layer_span import call_model


class ModuleForward:
    """Runs a model of `transformers`, its attention over the paged cache."""

    def __init__(
        self,
        model: PreTrainedModel,
        slot: AttentionSlot,
        *,
        name: str,
        reason: str,
        hook: HiddenStateHook | None = None,
    ) -> None:
        """Takes a model as it is; `with_hidden` needs a hook."""
        self._model, self._slot, self._hook = model, slot, hook
        self._features: FeatureHook | None = None
        self.name, self.reason = name, reason

    def bind(self, cache: PagedCache) -> None:
        self._slot.attend = self._cache = cache

    def __call__(self, batch: ForwardBatch) -> torch.Tensor:
        self._cache.batch = batch
        return call_model(
            self._model,
            batch.token_ids,
            batch.positions,
            intermediate=batch.intermediate,
            logits_indices=batch.logits_indices,
        )

    def with_hidden(self, batch: ForwardBatch) -> ForwardOutput:
        assert self._hook is not None
        before = features_before(batch.intermediate)
        logits = self(batch)
        return ForwardOutput(logits, self._hook.pop(), self._hook.take_features(before))

    def read_features(self, layers: tuple[int, ...]) -> None:
        self._features = FeatureHook(self._model, layers)

    def passed_on(self, batch: ForwardBatch) -> IntermediateTensors:
        features = features_before(batch.intermediate)
        hidden = self(batch)
        if self._features is not None:
            features |= self._features.pop()
        return IntermediateTensors(hidden, features)
