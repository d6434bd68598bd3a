"""Reads hidden states of a model that runs as modules of `transformers`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline.config.extensions import SPECULATIVE_OPTION as OPTION
from hookline.engine.decoder.forward_batch import concat_features
from hookline.exceptions import ConfigError
from hookline_models.forwards.layer_span import layers_of, span_of


class FeatureHook:
    """Keeps the inputs of a model's layers, or of those that a stage has."""

    def __init__(self, model: PreTrainedModel, indices: tuple[int, ...]) -> None:
        """Hooks the layers.

        Args:
            model: The model.
            indices: The layers' indices in the whole model; behind the last one it is
                that one's output. Those of other stages are left out.

        Raises:
            ConfigError: The model has no such list of layers.
        """
        self._model = model
        self._hooked: set[int] = set()
        self._read: dict[int, torch.Tensor] = {}
        if not indices:
            return
        layers = layers_of(model)
        if layers is None:
            raise unknown(model, OPTION)
        own = span_of(model).of(len(layers))
        for index in indices:
            if index in own:
                self._hooked.add(index)
                hook = partial(self._keep_input, index)
                layers[index].register_forward_pre_hook(hook, with_kwargs=True)
            elif index == own.stop == len(layers):
                self._hooked.add(index)
                layers[-1].register_forward_hook(partial(self._keep_output, index))

    def pop(self) -> dict[int, torch.Tensor]:
        """Returns each layer's [T, hidden] of the model's last call."""
        read, self._read = self._read, {}
        if read.keys() != self._hooked:
            raise unknown(self._model, OPTION)
        return read

    def _keep_input(
        self,
        index: int,
        module: nn.Module,  # noqa: ARG002
        given: tuple[object, ...],
        named: dict[str, object],
    ) -> None:
        self._keep(index, given[0] if given else named.get("hidden_states"))

    def _keep_output(
        self,
        index: int,
        module: nn.Module,  # noqa: ARG002
        given: object,  # noqa: ARG002
        output: object,
    ) -> None:
        self._keep(index, output[0] if isinstance(output, tuple) else output)

    def _keep(self, index: int, hidden: object) -> None:
        if isinstance(hidden, torch.Tensor):
            self._read[index] = hidden[0]


class HiddenStateHook:
    """Keeps the output of a model's decoder until it is taken.

    The output layer reads only the tokens whose logits are computed, so the hook hooks
    the decoder. In nearly all models the decoder's output is the output layer's input;
    `proof` checks it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        feature_layers: tuple[int, ...] = (),
        *,
        option: str = OPTION,
    ) -> None:
        """Hooks the decoder, and the inputs of these layers.

        Errors name the option that needs the states.

        Raises:
            ConfigError: The model has no such list of layers.
        """
        self._model, self._option = model, option
        self._output: torch.Tensor | None = None
        self._feature_layers = feature_layers
        self._features = FeatureHook(model, feature_layers)
        model.get_decoder().register_forward_hook(self._keep_states)

    def pop(self) -> torch.Tensor:
        """Returns [T, hidden] of the model's last call, a view."""
        states, self._output = self._output, None
        if states is None:
            raise self._unknown()
        return states[0]

    def take_features(
        self, before: Mapping[int, torch.Tensor] | None = None
    ) -> torch.Tensor | None:
        """Returns [T, layers × hidden] of that call; None without feature layers.

        Args:
            before: Features of earlier pipeline stages.
        """
        read = {**(before or {}), **self._features.pop()}
        return concat_features(read, self._feature_layers)

    @contextmanager
    def proof(self) -> Iterator[None]:
        """Checks the hook; the body calls the model for the logits of all tokens.

        Raises:
            ConfigError: The output layer's input is something else.
        """
        read: list[torch.Tensor] = []
        head = self._model.get_output_embeddings()
        if not isinstance(head, nn.Module):
            raise self._unknown()
        handle = head.register_forward_pre_hook(lambda _, given: read.append(given[0]))
        try:
            yield
        finally:
            handle.remove()
        if not read or not torch.equal(read[-1][0], self.pop()):
            raise self._unknown()
        self._features.pop()

    def _keep_states(self, module: nn.Module, given: object, output: object) -> None:  # noqa: ARG002
        states = getattr(output, "last_hidden_state", None)
        self._output = states if isinstance(states, torch.Tensor) else None

    def _unknown(self) -> ConfigError:
        return unknown(self._model, self._option)


def unknown(model: PreTrainedModel, option: str) -> ConfigError:
    """Returns the error that a model does not show its hidden states."""
    return ConfigError(
        option,
        f"it needs hidden states, and {type(model).__name__} does not show "
        "its output layer's inputs",
    )
