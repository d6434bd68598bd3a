"""The layers of a base model that adapters may change."""

from collections.abc import Iterable
from typing import Self

import msgspec

from hookline.sections import Section, Sections
from hookline_metrics.adapters import LORA


class LoraTargets(msgspec.Struct, frozen=True, kw_only=True):
    """Section of a rank's model, for whoever checks adapters before they are read.

    Attributes:
        shapes: Inputs and outputs of the whole model's layers, by full name. Those of
            an embedding are the number of tokens and the width.
        dtype: Data type of the model's activations, in which adapters are kept.
    """

    shapes: dict[str, tuple[int, int]]
    dtype: str

    @classmethod
    def joined(cls, rank_sections: Iterable[Sections]) -> Self | None:
        """Returns the targets of the model that all ranks have; None of no ranks."""
        section = Section(LORA, cls)
        found = [section.read(sections) for sections in rank_sections]
        known = [each for each in found if each is not None]
        if not known:
            return None
        shapes = {name: shape for each in known for name, shape in each.shapes.items()}
        return cls(shapes=shapes, dtype=known[0].dtype)
