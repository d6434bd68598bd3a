"""Which layers a model of `transformers` has, and how those are called."""

from collections.abc import Callable

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline.engine.decoder.forward_batch import IntermediateTensors


class LayerSpan:
    """The layers that a model has of the whole model's; here all of them.

    The models of pipeline stages have another one.

    Attributes:
        start: Index of the first layer in the whole model.
        is_first: The model begins with tokens.
        is_last: The model ends with logits.
        identity: Tells spans of one model apart; empty for all layers.
    """

    start = 0
    is_first = True
    is_last = True
    identity = ""

    def of(self, count: int) -> range:
        """Returns the indices of its layers, of `count` that the whole model has."""
        return range(count)

    def run(
        self,
        compute: Callable[[], torch.Tensor],
        intermediate: IntermediateTensors | None,
    ) -> torch.Tensor:
        """Calls the modules.

        Args:
            compute: Calls the model, and returns its logits.
            intermediate: What the layers before have computed; None for a first span.

        Returns:
            Logits [W, vocabulary]; hidden states [T, hidden] of a span that is not the
            last.

        Raises:
            ValueError: The model is whole, and its modules begin with tokens only.
        """
        if intermediate is not None:
            raise ValueError("only a stage can begin from intermediate tensors")
        return compute()


ALL_LAYERS = LayerSpan()
"""The span of a whole model."""
_ATTRIBUTE = "hookline_span"
_LISTS = ("layers", "h", "blocks")


def span_of(model: PreTrainedModel) -> LayerSpan:
    """Returns which layers a model has."""
    span = getattr(model, _ATTRIBUTE, ALL_LAYERS)
    assert isinstance(span, LayerSpan)
    return span


def set_span(model: PreTrainedModel, span: LayerSpan) -> None:
    """Notes which layers a model has."""
    object.__setattr__(model, _ATTRIBUTE, span)


def layers_of(model: PreTrainedModel) -> nn.ModuleList | None:
    """Returns the decoder's layers; None if no list has a name that families share."""
    children = dict(model.get_decoder().named_children())
    layers = next((children[name] for name in _LISTS if name in children), None)
    return layers if isinstance(layers, nn.ModuleList) else None


def call_model(
    model: PreTrainedModel,
    token_ids: torch.Tensor,
    positions: torch.Tensor,
    *,
    intermediate: IntermediateTensors | None = None,
    logits_indices: torch.Tensor | None = None,
) -> torch.Tensor:
    """Runs the modules over T tokens.

    Args:
        model: The model, whose attention has its slot.
        token_ids: [T].
        positions: [T].
        intermediate: What the stage before has computed; None for the first.
        logits_indices: [W] of the tokens whose logits are computed; None for all.

    Returns:
        Logits [W, vocabulary]; hidden states [T, hidden] behind the last layer of a
        stage that is not the last.

    Raises:
        ValueError: The model is whole, and its modules begin with tokens only.
    """
    kept = {} if logits_indices is None else {"logits_to_keep": logits_indices}

    def compute() -> torch.Tensor:
        logits = model(
            input_ids=token_ids[None],
            position_ids=positions[None],
            use_cache=False,
            **kept,
        ).logits[0]
        assert isinstance(logits, torch.Tensor)
        return logits

    span = span_of(model)
    if span is ALL_LAYERS and intermediate is None:
        return compute()
    return span.run(compute, intermediate)
