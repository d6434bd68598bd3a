"""What a rank has of a model; here all of it."""

from collections.abc import Callable, Sequence

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from hookline_models.checkpoints.cut import ALL, Cut


class ModelPart:
    """What a rank has of a model whose configuration is known; here all of it.

    Distributions that divide models among ranks have others. Implements `WeightPlan`.

    Attributes:
        is_whole: The rank has everything.
        has_all_layers: The rank has every layer, or a part of it.
        num_parts: Number of ranks, each of which initializes all random weights before
            it keeps its part.
    """

    is_whole = True
    has_all_layers = True
    num_parts = 1

    def has(self, name: str) -> bool:
        """Whether the rank has any part of a tensor, by its name in a file."""
        del name
        return True

    def cut(self, name: str, shape: Sequence[int]) -> Cut:
        """Returns the rank's part of a tensor, by its name in a file or a model.

        Raises:
            ValueError: The ranks cannot divide it evenly.
        """
        del name, shape
        return ALL

    def kind(self, kind: type[PreTrainedModel]) -> type[PreTrainedModel]:
        """Returns the class to make, of this rank's sizes and layers."""
        return kind

    def finish(self, model: PreTrainedModel) -> None:
        """Wraps modules of a loaded model whose results ranks have to join."""


WHOLE = ModelPart()
"""The part of a rank without others."""

DivideModel = Callable[[PreTrainedConfig], ModelPart | None]
"""Plans a rank's part of a model, whose configuration becomes that of the part if its
family's modules can be made from it; None is all of it. May raise `ConfigError`."""


class MissingModule(nn.Module):
    """A module that another rank has; it keeps its place, without its contents."""


class WrappedModule(nn.Module):
    """A module around one of which ranks have a part each.

    Attributes:
        inner: The module that computes this rank's part; may be replaced.
        bytes_factor: What ranks have of its weights on average, over what it has.
        products_factor: Likewise what they compute with them for a token.
    """

    inner: nn.Module
    bytes_factor = 1.0
    products_factor = 1.0


def plain(module: nn.Module) -> nn.Module:
    """Returns the module that a rank computes, without what joins the results."""
    return module.inner if isinstance(module, WrappedModule) else module
