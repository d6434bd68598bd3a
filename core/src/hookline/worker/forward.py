"""Chooses the fastest way to run a model, and runs it."""

import logging
from typing import Protocol, runtime_checkable

import torch
from transformers import PreTrainedModel

from hookline.models.adapt import adapt
from hookline.models.attention import AttentionSlot
from hookline.models.decoder import Decoder, NotDecoder
from hookline.models.decoder.layer_ops import LayerOps
from hookline.models.decoder.reduction import Reduce
from hookline.models.forward_batch import ForwardBatch, IntermediateTensors
from hookline.models.forward_output import ForwardOutput, features_before
from hookline.models.layer_span import call_model
from hookline.models.probe import Probed
from hookline.worker.paged_cache import PagedCache
from hookline.worker.states_tap import FeatureTap, StatesTap
from hookline.worker.trial import try_forward
from hookline_kernels import CPU, KernelError, Platform, import_compiled

_log = logging.getLogger(__name__)


class Forward(Protocol):
    """Computes logits, or in a pipeline what the next stage begins with.

    Attributes:
        name: `decoder`, `adapted modules` or `modules`.
        reason: Why a faster way is not taken; empty for the fastest.
    """

    @property
    def name(self) -> str: ...

    @property
    def reason(self) -> str: ...

    def bind(self, cache: PagedCache) -> None:
        """Sets the cache that the next calls write and read."""
        ...

    def __call__(self, batch: ForwardBatch) -> torch.Tensor:
        """Returns logits [W, vocabulary] at the batch's `logits_indices`.

        A stage that is not the last returns hidden states [T, hidden] behind its last
        layer, valid until the next call.
        """
        ...

    def with_hidden(self, batch: ForwardBatch) -> ForwardOutput:
        """Returns logits and all tokens' hidden states, in memory of their own."""
        ...


@runtime_checkable
class PassingForward(Protocol):
    """The forward pass of a pipeline stage that is not the last."""

    def bind(self, cache: PagedCache) -> None:
        """As `Forward.bind`."""
        ...

    def read_features(self, layers: tuple[int, ...]) -> None:
        """Has `passed_on` return the inputs of those layers that the stage has.

        Args:
            layers: Indices in the whole model.

        Raises:
            ConfigError: The model does not show the inputs of its layers.
        """
        ...

    def passed_on(self, batch: ForwardBatch) -> IntermediateTensors:
        """Returns what the next stage begins with, valid until the next call."""
        ...


class ModuleForward:
    """Runs a model of `transformers`, its attention over the paged cache."""

    def __init__(
        self,
        model: PreTrainedModel,
        slot: AttentionSlot,
        *,
        name: str,
        reason: str,
        tap: StatesTap | None = None,
    ) -> None:
        """Takes a model as it is; `with_hidden` needs a tap."""
        self._model, self._slot, self._tap = model, slot, tap
        self._features: FeatureTap | None = None
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
        assert self._tap is not None
        before = features_before(batch.intermediate)
        logits = self(batch)
        return ForwardOutput(logits, self._tap.take(), self._tap.take_features(before))

    def read_features(self, layers: tuple[int, ...]) -> None:
        self._features = FeatureTap(self._model, layers)

    def passed_on(self, batch: ForwardBatch) -> IntermediateTensors:
        features = features_before(batch.intermediate)
        hidden = self(batch)
        if self._features is not None:
            features |= self._features.take()
        return IntermediateTensors(hidden, features)


def choose_forward(
    model: PreTrainedModel,
    probed: Probed,
    slot: AttentionSlot,
    *,
    block_size: int,
    cache_dtype: torch.dtype | None = None,
    max_model_len: int,
    may_compile: bool,
    why_torch: str = "kernels are torch",
    platform: Platform = CPU,
    states_option: str = "",
    feature_layers: tuple[int, ...] = (),
    reduce: Reduce | None = None,
) -> Forward:
    """Returns the fastest way that gives the logits that the probe saw.

    Takes the model over: its parts may be replaced. Logs why the decoder is not taken.

    Args:
        model: The loaded model.
        probed: Results of the probe.
        slot: Slot from which the model's modules call attention.
        block_size: Tokens in a block of the cache.
        cache_dtype: Data type of the cache; None is the model's.
        max_model_len: Largest number of tokens of a request.
        may_compile: Use kernels, not only plain torch.
        why_torch: Why not, in one clause, if it may not.
        platform: Platform of the model.
        states_option: The option for which `with_hidden` will be called; empty if it
            will not.
        feature_layers: Layers whose inputs are returned as features.
        reduce: Sums over the ranks that share the model; None if it is whole.

    Raises:
        ConfigError: Hidden states are needed, and the model does not show them.
    """

    def modules(name: str, reason: str) -> ModuleForward:
        tap = None
        if states_option:
            tap = StatesTap(model, feature_layers, option=states_option)
            _prove(tap, model, probed, slot, block_size, platform)
        return ModuleForward(model, slot, name=name, reason=reason, tap=tap)

    if not may_compile:
        return modules("modules", why_torch)
    try:
        decoder = Decoder(
            model,
            probed,
            _layer_ops(platform, reduce),
            block_size=block_size,
            cache_dtype=cache_dtype,
            max_model_len=max_model_len,
            feature_layers=feature_layers,
        )
        try_forward(
            decoder,
            probed,
            model.dtype,
            block_size,
            platform,
            cache_dtype=cache_dtype,
        )
    except (NotDecoder, KernelError) as error:
        reason = str(error)
        _log.info("the model runs as modules: %s", reason)
    else:
        return decoder
    if platform.is_gpu:
        return modules("modules", reason)
    forward = modules("adapted modules", reason)
    adapt(model)
    return forward


def _prove(  # noqa: PLR0917 - what `choose_forward` got
    tap: StatesTap,
    model: PreTrainedModel,
    probed: Probed,
    slot: AttentionSlot,
    block_size: int,
    platform: Platform,
) -> None:
    """Proves that a tap reads the right hidden states of the modules."""
    forward = ModuleForward(model, slot, name="modules", reason="", tap=tap)
    with tap.proof():
        try_forward(forward, probed, model.dtype, block_size, platform)


def _layer_ops(platform: Platform, reduce: Reduce | None) -> LayerOps:
    """Raises `KernelError` if the platform's compiler is not installed."""
    ops: LayerOps
    if platform.is_gpu:
        ops = import_compiled("hookline.models.decoder.gpu_layer_ops").GpuLayerOps(
            reduce
        )
    else:
        ops = import_compiled("hookline.models.decoder.cpu_layer_ops").CpuLayerOps(
            reduce
        )
    return ops
