"""Model family `sample`: how models of this `model_type` attend over a paged cache."""

from typing import TYPE_CHECKING

from hookline import hookimpl

if TYPE_CHECKING:  # torch is imported when a model is loaded
    from transformers import PreTrainedModel


class SampleFamily:
    """Models whose attention modules call what is registered with `transformers`.

    Attributes:
        attention: Name of the attention implementation to load them with.
    """

    def __init__(self, attention: str) -> None:
        self.attention = attention

    def replace_attention(self, model: "PreTrainedModel") -> None:
        """Replaces no module, as they call the registered attention already."""


@hookimpl
def model_family() -> SampleFamily:
    """Called when a model of this type is loaded."""
    from hookline_models.forwards.attention import IMPLEMENTATION  # noqa: PLC0415

    return SampleFamily(IMPLEMENTATION)
