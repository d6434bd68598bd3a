"""A usual decoder as a whole."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch.nn import functional
from transformers import PreTrainedModel

from hookline.models.adapt.normed import Normed
from hookline.models.adapt.pages import give_back_clean_pages
from hookline.models.attention import KeysAndValues
from hookline.models.decoder.layer import DecoderLayer, Step, kernel_norm
from hookline.models.decoder.layer_ops import Kit, LayersAgain
from hookline.models.decoder.parts import NotDecoder, find_parts
from hookline.models.forward_output import WithHidden, side_by_side
from hookline.models.probe import Probed
from hookline_kernels import PagedMetadata
from hookline_kernels.head_shape import HeadShape


class WrittenLayers(Protocol):
    """A paged cache.

    Attributes:
        is_called_around: Something else is called before and after attention.
    """

    is_called_around: bool

    def written_layers(self) -> Sequence[KeysAndValues]:
        """Of each layer."""
        ...


class Decoder:
    """Computes logits of a flattened batch; one thread calls it at a time.

    It keeps the weights, and of a model's modules only those it has no own form of.

    Attributes:
        feature_layers: The layers whose input `with_hidden` tells; set from outside.
        is_capturable: No layer has a module that may wait for a device, so that
            `hidden` can be captured in a graph.
    """

    name = "decoder"
    reason = ""

    def __init__(
        self,
        model: PreTrainedModel,
        probed: Probed,
        kit: Kit,
        *,
        block_size: int,
        max_model_len: int,
    ) -> None:
        """Takes a model apart, whose modules go on to compute what they did.

        Raises:
            NotDecoder: The model is another structure.
            KernelError: There are no kernels for it on this machine.
        """
        parts = find_parts(model)
        shapes = {(each.key_dim, each.value_dim) for each in probed.layers}
        if len(shapes) > 1 or any(key != value for key, value in shapes):
            raise NotDecoder("its heads differ in width")
        [(dim, _)] = shapes
        self._embedding, self._kit = parts.embedding, kit
        self._again: LayersAgain | None = None
        like = parts.embedding.new_empty(1, dtype=model.dtype)
        self._angles = kit.angles(parts.rotary, like, dim, max_model_len)
        self._layers = [
            DecoderLayer(
                layer,
                HeadShape(
                    num_heads=cache.num_heads,
                    num_kv_heads=cache.num_kv_heads,
                    dim=dim,
                    block_size=block_size,
                    dtype=model.dtype,
                ),
                attention,
                kit,
            )
            for layer, cache, attention in zip(
                parts.layers, probed.layers, probed.attention, strict=True
            )
        ]
        self._norm = kernel_norm(kit, parts.norm)
        self._output = kit.product([parts.output])
        self._logits = Normed(self._norm, self._output)
        self.feature_layers: tuple[int, ...] = ()
        self.is_capturable = all(layer.is_capturable for layer in self._layers)
        give_back_clean_pages()

    def bind(self, cache: WrittenLayers) -> None:
        """Gives each layer its part of a cache."""
        for layer, part in zip(self._layers, cache.written_layers(), strict=True):
            layer.bind(*part)
        self._again = None
        if not cache.is_called_around:
            self._again = self._kit.layers_again(self._layers, self._embedding)

    def __call__(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        wanted: torch.Tensor,
        metadata: PagedMetadata,
    ) -> torch.Tensor:
        """Computes T tokens.

        Args:
            token_ids: [T] int64.
            positions: [T] int64 in their sequences.
            wanted: [W] int64, indices of tokens.
            metadata: Of the batch.

        Returns:
            [W, vocabulary].
        """
        hidden = self.hidden(token_ids, positions, metadata)
        return self.logits(hidden.index_select(0, wanted))

    def hidden(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        metadata: PagedMetadata,
        read: dict[int, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """What the layers make of T tokens: [T, hidden]; as of a call.

        It may lie in memory that the next call writes to.

        `read` gets a copy of what each of `feature_layers` reads.
        """
        angles = self._angles.of(positions, max(metadata.seq_lens))
        step = Step(positions, angles, metadata)
        hidden = functional.embedding(token_ids, self._embedding)
        if read is None and self._again is not None:
            found = self._again(hidden, step)
            if found is not None:
                return found
        for index, layer in enumerate(self._layers):
            if read is not None and index in self.feature_layers:
                read[index] = hidden.clone()  # a layer uses up what it is given
            hidden = layer(hidden, step)
        if read is not None and len(self._layers) in self.feature_layers:
            read[len(self._layers)] = hidden
        return hidden

    def with_hidden(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        wanted: torch.Tensor,
        metadata: PagedMetadata,
    ) -> WithHidden:
        """As a call, the [T, hidden] states of which logits are made, and features."""
        read: dict[int, torch.Tensor] | None = {} if self.feature_layers else None
        states = self.states(self.hidden(token_ids, positions, metadata, read))
        logits = self.logits_of(states.index_select(0, wanted))
        return WithHidden(logits, states, side_by_side(read or {}, self.feature_layers))

    def states(self, hidden: torch.Tensor) -> torch.Tensor:
        """[T, hidden] of `hidden` → the same after the final norm, in new memory."""
        return self._norm(hidden)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[W, hidden] of `hidden` → [W, vocabulary]."""
        return self._logits(hidden)

    def logits_of(self, states: torch.Tensor) -> torch.Tensor:
        """[W, hidden] of `states` → [W, vocabulary]."""
        return self._output(states)
