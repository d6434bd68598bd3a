"""Models of `transformers` with the layers of one pipeline stage.

A model is made with all its layers, without weights. What belongs to other stages then
loses its parameters, so that none of them is read, and keeps its place: layers know
their index, their kind and their window as in the whole model. The forward pass of a
later stage gets its hidden states in front of its first layer, whatever came before;
that of an earlier stage ends behind its last layer. No family needs code of its own.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from hookline.engine.decoder.forward_batch import IntermediateTensors
from hookline_models.checkpoints.model_part import MissingModule
from hookline_models.forwards.layer_span import LayerSpan, layers_of, set_span
from hookline_ranks.stages.stage import ONLY, Stage, divide_layers


class StageEnd(Exception):  # noqa: N818 - not an error: the rest is for other stages
    """The last layer of a stage has been computed.

    Attributes:
        hidden_states: [T, hidden] behind it.
    """

    def __init__(self, hidden_states: torch.Tensor) -> None:
        super().__init__("the stage's last layer has been computed")
        self.hidden_states = hidden_states


class StageSpan(LayerSpan):
    """The layers that one stage has.

    Attributes:
        stage: The stage.
        layers: Its layers, by their index in the whole model.
        hidden_states: [T, hidden] with which its first layer begins; set before the
            model is called. Unused in the first stage.
    """

    hidden_states: torch.Tensor

    def __init__(self, stage: Stage, layers: range) -> None:
        self.stage = stage
        self.layers = layers
        self.start = layers[0]
        self.is_first, self.is_last = stage.is_first, stage.is_last
        self.identity = f"{layers} in {stage}"

    def of(self, count: int) -> range:
        """Implements `LayerSpan`."""
        del count
        return self.layers

    def run(
        self,
        compute: Callable[[], torch.Tensor],
        intermediate: IntermediateTensors | None,
    ) -> torch.Tensor:
        """Implements `LayerSpan`."""
        if intermediate is not None:
            self.hidden_states = intermediate.hidden_states
        try:
            return compute()
        except StageEnd as end:
            return end.hidden_states


class OtherStages(MissingModule):
    """What other stages compute: a module that has lost its contents.

    Its result has the shape that the modules between expect, and nobody reads it.
    """

    hookline_span: StageSpan

    def forward(self, *_given: object, **_named: object) -> torch.Tensor:
        return self.hookline_span.hidden_states[None]


def staged(kind: type[PreTrainedModel], stage: Stage) -> type[PreTrainedModel]:
    """Returns a class that makes one stage's part of models.

    `transformers` finds what it knows of a class by its name and module, which stay.
    """
    if stage == ONLY:
        return kind

    def initialize(
        self: Any, config: PreTrainedConfig, *given: Any, **named: Any
    ) -> None:
        kind.__init__(self, config, *given, **named)
        keep_stage(self, stage)

    members = {"__init__": initialize, "__module__": kind.__module__}
    return type(kind.__name__, (kind,), members)


def keep_stage(model: PreTrainedModel, stage: Stage) -> None:
    """Empties what other stages compute.

    Raises:
        ValueError: There are fewer layers than stages, or their list is not found.
    """
    layers = layers_of(model)
    if layers is None:
        raise ValueError("its list of layers is not found, so no stages can be made")
    costs, last = [_size(each) for each in layers], model.get_output_embeddings()
    own = divide_layers(costs, _size(last), stage.size)[stage.index]
    span = StageSpan(stage, own)
    set_span(model, span)
    for module in _of_other_stages(model, layers, span):
        is_tied = stage.is_last and _is_tied(model, module)
        _empty(module, span, keeps_weights=is_tied)
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    model.all_tied_weights_keys = {
        target: source
        for target, source in model.all_tied_weights_keys.items()
        if {target, source} <= names
    }
    if not stage.is_first:
        begin = _begin_with(span)
        layers[own[0]].register_forward_pre_hook(begin, with_kwargs=True)
    if not stage.is_last:
        layers[own[-1]].register_forward_hook(_end_stage)


def _of_other_stages(
    model: PreTrainedModel, layers: nn.ModuleList, span: StageSpan
) -> Iterator[nn.Module]:
    """Yields layers, embeddings and what follows them, final norm and output layer."""
    for index, layer in enumerate(layers):
        if index not in span.layers:
            yield layer
    children = list(model.get_decoder().children())
    place = next(at for at, child in enumerate(children) if child is layers)
    ends = [] if span.is_first else children[:place]
    if not span.is_last:
        ends += [*children[place + 1 :], model.get_output_embeddings()]
    for module in ends:
        if isinstance(module, nn.Module) and _size(module):
            yield module


def _is_tied(model: PreTrainedModel, module: nn.Module) -> bool:
    """Whether it is an embedding whose weight the output layer has."""
    is_input = module is model.get_input_embeddings()
    return is_input and bool(model.all_tied_weights_keys)


def _empty(module: nn.Module, span: StageSpan, *, keeps_weights: bool) -> None:
    """Takes a module's contents, and leaves what else is known of it."""
    if not keeps_weights:
        for contents in (module._modules, module._parameters, module._buffers):  # noqa: SLF001
            contents.clear()
    module.__class__ = OtherStages
    object.__setattr__(module, "hookline_span", span)


def _size(module: nn.Module | None) -> int:
    return 0 if module is None else sum(each.numel() for each in module.parameters())


def _begin_with(span: StageSpan) -> Callable[..., object]:
    """Returns a hook that replaces the hidden states that a layer gets."""

    def begin(
        _module: nn.Module, given: tuple[object, ...], named: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        hidden = span.hidden_states[None]
        if given:
            return (hidden, *given[1:]), named
        return given, {**named, "hidden_states": hidden}

    return begin


def _end_stage(_module: nn.Module, _given: object, output: object) -> None:
    hidden = output[0] if isinstance(output, tuple) else output
    assert isinstance(hidden, torch.Tensor)
    raise StageEnd(hidden[0])
