"""A usual decoder, computed layer by layer with kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from hookline.engine.decoder.forward_batch import (
    ForwardBatch,
    ForwardOutput,
    IntermediateTensors,
    concat_features,
    features_before,
)
from hookline.engine.decoder.layer import DecoderLayer, kernel_norm
from hookline.engine.decoder.layer_shapes import KeysAndValues, ModelLayers
from hookline.engine.decoder.parts import DecoderParts, NotDecoder
from hookline_kernels.head_shape import HeadShape
from hookline_kernels.layer_ops import LayerOps, StepReplay
from hookline_kernels.metadata import Layer
from hookline_kernels.modules.norms import FastNorm
from hookline_kernels.modules.pre_norm import PreNorm, Product


class WrittenLayers(Protocol):
    """A paged cache.

    Attributes:
        is_called_around: Callbacks run before and after each layer's attention.
    """

    is_called_around: bool

    def written_layers(self) -> Sequence[KeysAndValues]:
        """Returns each layer's cache and attention."""
        ...


class AdaptedParts(Protocol):
    """Those parts of a step that adapters change; `layers` are in place of a decoder's.

    `embed` may change [T, hidden]; `logits` are of `states` at `logits_indices`.
    """

    layers: Sequence[Layer]

    def embed(self, hidden: torch.Tensor, batch: ForwardBatch) -> torch.Tensor: ...

    def logits(self, states: torch.Tensor, batch: ForwardBatch) -> torch.Tensor: ...


class Decoder:
    """Computes logits of a flattened batch; for one thread at a time.

    Keeps the weights, and only those of the model's modules that have no kernel.

    Attributes:
        feature_layers: Layers whose inputs `with_hidden` returns as features, by their
            index in the whole model.
        layers: Its layers.
        first_layer: Index of the first one in the whole model.
        adapted: Computes steps with adapters; set before a cache is bound.
        is_capturable: A CUDA graph can capture `hidden`: nothing waits for the device.
    """

    name = "decoder"

    def __init__(
        self,
        parts: DecoderParts,
        shapes: ModelLayers,
        ops: LayerOps,
        *,
        block_size: int,
        max_model_len: int,
        cache_dtype: torch.dtype | None = None,
        feature_layers: tuple[int, ...] = (),
    ) -> None:
        """Builds the decoder from a model's modules, which stay usable.

        The KV cache has the dtype of the model, or `cache_dtype`.

        Raises:
            NotDecoder: The model has another structure.
            KernelError: No kernels support it on this machine.
        """
        dtype, like = parts.like.dtype, parts.like
        heads = _head_shapes(shapes, block_size, dtype, cache_dtype)
        self._embed, self._ops = parts.embed, ops
        self._replay: StepReplay | None = None
        self._adapted_replay: StepReplay | None = None
        self.adapted: AdaptedParts | None = None
        self._like = like
        self._rotary = ops.rotary_table(
            parts.rotary, like[0, :1], heads[0].dim, max_model_len
        )
        self.layers = _layers(parts, heads, shapes, ops)
        self._head = _Head.of(parts, ops)
        self.feature_layers = feature_layers
        self.first_layer = parts.first_layer
        self.is_capturable = all(layer.is_capturable for layer in self.layers)

    @property
    def reason(self) -> str:
        """Why steps are not replayed, if one differed from its replay; else empty."""
        return "" if self._replay is None else self._replay.reason

    def bind(self, cache: WrittenLayers) -> None:
        """Sets each layer's part of a cache."""
        for layer, part in zip(self.layers, cache.written_layers(), strict=True):
            layer.bind(*part)
        self._replay = self._adapted_replay = None
        if not cache.is_called_around:
            self._replay = self._ops.step_replay(self.layers, self._like)
            if (own := self.adapted) is not None:
                self._adapted_replay = self._ops.step_replay(own.layers, self._like)

    def __call__(self, batch: ForwardBatch) -> torch.Tensor:
        """Returns logits [W, vocabulary] at the batch's `logits_indices`.

        Without an output layer, in a stage that is not the last, returns `hidden`.
        """
        if batch.adapters is not None and self._head is not None:
            return self.with_hidden(batch).logits
        hidden = self.hidden(batch)
        if self._head is None:
            return hidden
        return self._head.logits(hidden.index_select(0, batch.logits_indices))

    def hidden(
        self, batch: ForwardBatch, read: dict[int, torch.Tensor] | None = None
    ) -> torch.Tensor:
        """Returns the last layer's output [T, hidden], valid until the next call.

        Begins from the batch's intermediate tensors, if it has any.

        Args:
            batch: The step's.
            read: Receives a copy of the inputs of `feature_layers`, by index.
        """
        rotary = self._rotary.rows(batch.positions, max(batch.seq_lens))
        adapted = None if batch.adapters is None else self.adapted
        layers: Sequence[Layer] = self.layers if adapted is None else adapted.layers
        replay = self._replay if adapted is None else self._adapted_replay
        if batch.intermediate is None:
            assert self._embed is not None, "a later stage gets hidden states"
            hidden = self._embed(batch.token_ids)
            if adapted is not None:
                hidden = adapted.embed(hidden, batch)
        else:
            hidden = batch.intermediate.hidden_states
        if read is None and replay is not None:
            replayed = replay(hidden, batch, rotary)
            if replayed is not None:
                return replayed
        for index, layer in enumerate(layers, self.first_layer):
            if read is not None and index in self.feature_layers:
                read[index] = hidden.clone()  # a layer may overwrite its input
            hidden = layer(hidden, batch, rotary)
        end = self.first_layer + len(layers)
        if read is not None and self._head is not None and end in self.feature_layers:
            read[end] = hidden
        return hidden

    def with_hidden(self, batch: ForwardBatch) -> ForwardOutput:
        """Returns logits, the output layer's inputs, and features."""
        read = features_before(batch.intermediate) if self.feature_layers else None
        states = self.states(self.hidden(batch, read))
        chosen = states.index_select(0, batch.logits_indices)
        adapted = None if batch.adapters is None else self.adapted
        logits = (
            self.logits_of(chosen) if adapted is None else adapted.logits(chosen, batch)
        )
        features = concat_features(read or {}, self.feature_layers)
        return ForwardOutput(logits, states, features)

    def read_features(self, layers: tuple[int, ...]) -> None:
        """Has the next passes of a stage that is not the last return features."""
        self.feature_layers = layers

    def passed_on(self, batch: ForwardBatch) -> IntermediateTensors:
        """Returns what a stage that is not the last passes on."""
        if not self.feature_layers:
            return IntermediateTensors(self.hidden(batch))
        read = features_before(batch.intermediate)
        return IntermediateTensors(self.hidden(batch, read), read)

    def states(self, hidden: torch.Tensor) -> torch.Tensor:
        """Applies the final norm to [T, hidden] of `hidden`, in new memory."""
        return self._output_head.norm(hidden)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[W, hidden] of `hidden` → [W, vocabulary]."""
        return self._output_head.logits(hidden)

    def logits_of(self, states: torch.Tensor) -> torch.Tensor:
        """[W, hidden] of `states` → [W, vocabulary]."""
        return self._output_head.output(states)

    @property
    def _output_head(self) -> "_Head":
        assert self._head is not None, "the last stage computes logits"
        return self._head


@dataclass(frozen=True, slots=True)
class _Head:
    """Final norm and output layer, apart and as one."""

    norm: FastNorm
    output: Product
    logits: PreNorm

    @classmethod
    def of(cls, parts: DecoderParts, ops: LayerOps) -> "_Head | None":
        """Returns None for a stage that is not the last."""
        if parts.norm is None or parts.output is None:
            return None
        norm, output = kernel_norm(ops, parts.norm), ops.product([parts.output])
        return cls(norm, output, PreNorm(norm, output))


def _head_shapes(
    shapes: ModelLayers,
    block_size: int,
    dtype: torch.dtype,
    cache_dtype: torch.dtype | None,
) -> list[HeadShape]:
    """Returns the shape of each layer's heads.

    Raises:
        NotDecoder: They differ in width.
    """
    widths = {
        width for each in shapes.layers for width in (each.key_dim, each.value_dim)
    }
    if len(widths) > 1:
        raise NotDecoder("its heads differ in width")
    return [
        HeadShape(
            num_heads=cache.num_heads,
            num_kv_heads=cache.num_kv_heads,
            dim=cache.key_dim,
            block_size=block_size,
            dtype=dtype,
            cache_dtype=cache_dtype,
        )
        for cache in shapes.layers
    ]


def _layers(
    parts: DecoderParts, heads: Sequence[HeadShape], shapes: ModelLayers, ops: LayerOps
) -> list[DecoderLayer]:
    return [
        DecoderLayer(layer, shape, attention, ops)
        for layer, shape, attention in zip(
            parts.layers, heads, shapes.attention, strict=True
        )
    ]
