"""The cost of a model in parts."""

from collections.abc import Sequence

import msgspec

from hookline.step import ModelCost


def sum_of_costs(parts: Sequence[ModelCost]) -> ModelCost:
    """Returns the cost of a model whose parts, or ranks, have these costs."""
    costs = [msgspec.structs.asdict(each) for each in parts]
    names = ModelCost.__struct_fields__
    return ModelCost(**{name: sum(each[name] for each in costs) for name in names})
