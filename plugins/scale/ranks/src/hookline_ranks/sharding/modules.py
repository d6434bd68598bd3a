"""Modules that join a divided model's partial results, and where they are put."""

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline_models.checkpoints.model_part import MissingModule, WrappedModule
from hookline_models.forwards.layer_span import layers_of
from hookline_ranks.sharding.division import Division
from hookline_ranks.sharding.rank_reduction import RankReduction


class SummedModule(WrappedModule):
    """A module whose result is a part of a sum over ranks.

    Attributes:
        inner: The module, which may be replaced.
    """

    def __init__(self, inner: nn.Module, reduce: RankReduction) -> None:
        """Wraps a module; the first of several results is summed."""
        super().__init__()
        self.inner, self._reduce = inner, reduce

    def forward(
        self, *given: object, **named: object
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        found = self.inner(*given, **named)
        if isinstance(found, tuple):
            return self._reduce(found[0]), *found[1:]
        return self._reduce(found)


class VocabularyPart(WrappedModule):
    """An embedding of which each rank has the rows of some tokens.

    Attributes:
        inner: The rank's embedding, of [rows, hidden].
    """

    def __init__(
        self, inner: nn.Embedding, num_rows: int, reduce: RankReduction
    ) -> None:
        """Wraps an embedding of `num_rows` tokens."""
        super().__init__()
        self.inner, self._reduce, self._rows = inner, reduce, num_rows
        self._first = reduce.rank * num_rows

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Token ids of the whole vocabulary → [..., hidden], on all ranks."""
        if not self._reduce.is_on:  # no row may be zero, which nothing can normalise
            found = self.inner(token_ids % self._rows)
            assert isinstance(found, torch.Tensor)
            return found
        own = token_ids - self._first
        is_other = (own < 0) | (own >= self._rows)
        found = self.inner(own.masked_fill(is_other, 0))
        return self._reduce(found.masked_fill(is_other[..., None], 0.0))


def join_parts(
    model: PreTrainedModel,
    division: Division,
    reduce: RankReduction,
) -> None:
    """Puts sums over ranks where parts of the layers' results are made.

    Layers and embeddings of other pipeline stages are left alone.

    Args:
        model: This rank's part.
        division: How ranks divide it.
        reduce: Calls the other ranks.
    """
    layers = layers_of(model)
    assert layers is not None
    for layer in layers:
        if isinstance(layer, MissingModule):
            continue
        for path in division.family.summed:
            parent = layer.get_submodule(path.rpartition(".")[0])
            name = path.rpartition(".")[2]
            setattr(parent, name, SummedModule(parent.get_submodule(name), reduce))
    embedding = model.get_input_embeddings()
    if isinstance(embedding, MissingModule):
        return
    assert isinstance(embedding, nn.Embedding)
    model.set_input_embeddings(VocabularyPart(embedding, division.num_rows, reduce))
