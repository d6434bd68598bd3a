"""Which part of each of a model's tensors a rank reads."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hookline_models.checkpoints.cut import ALL, Cut
from hookline_ranks.sharding.split import Split

_IN_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.\d+\.(.+)$")
_EXPERT = re.compile(r"\.experts\.(\d+)\.")
_OF_EXPERTS = re.compile(r"\.experts\.")
_TABLES = re.compile(
    r"(?:^|\.)(?:embed_tokens|embed_in|word_embeddings|wte|lm_head|embed_out)\.[^.]+$"
)
_TABLE = Split(is_padded=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingPlan:
    """Which part of each tensor a rank reads; by default all of every tensor.

    Tables of a row for each token, which the embedding and the output layer have, are
    divided by tokens, and padded with zeros if need be.

    Attributes:
        rank: Index of this rank.
        size: Number of ranks.
        splits: How tensors of layers are divided, by path within the layer; every rank
            reads the others whole.
        experts: The experts of each layer that the rank has whole, and besides which it
            has none; None if it has a part of each.
    """

    rank: int = 0
    size: int = 1
    splits: Mapping[str, Split] = field(default_factory=dict)
    experts: range | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the rank has all of the model."""
        return self.size == 1 and self.experts is None

    def has(self, name: str) -> bool:
        """Whether the rank has any part of a tensor, by its name in a file."""
        found = _EXPERT.search(name)
        return self.experts is None or found is None or int(found[1]) in self.experts

    def cut(self, name: str, shape: Sequence[int]) -> Cut:
        """Returns the rank's part of a tensor, by its name in a file or a model.

        Raises:
            ValueError: The ranks cannot divide it evenly.
        """
        if self.experts is not None and _OF_EXPERTS.search(name):
            return _whole(name, self.experts)
        if self.size == 1:
            return ALL
        split, part = self._find(name)
        if split is None:
            return ALL
        is_bias = part == "bias"
        try:
            return split.cut(shape, rank=self.rank, size=self.size, is_bias=is_bias)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    def _find(self, name: str) -> tuple[Split | None, str]:
        """Returns a tensor's split, and which part of its module it is."""
        if _TABLES.search(name):
            return _TABLE, name.rpartition(".")[2]
        found = _IN_LAYER.search(name)
        if found is None:
            return None, ""
        path = _EXPERT.sub(".experts.*.", found[1])
        if path in self.splits:
            return self.splits[path], "weight"
        if path.removesuffix("_bias") in self.splits:
            return self.splits[path.removesuffix("_bias")], "bias"
        module, _, part = path.rpartition(".")
        return self.splits.get(module), part


def _whole(name: str, experts: range) -> Cut:
    """Returns all of a single expert, or some of those that one tensor has."""
    if _EXPERT.search(name):
        return ALL
    return Cut(dim=0, pieces=((experts.start, experts.stop),))
