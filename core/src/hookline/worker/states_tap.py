"""Hidden states of a model that runs as modules of `transformers`."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline.config.speculative import OPTION
from hookline.exceptions import ConfigError
from hookline.models.forward_output import side_by_side


class StatesTap:
    """Keeps what a model's decoder has said last until it is taken.

    The output layer is only given the positions whose logits are wanted, so it is the
    decoder that is listened to. That the one reads what the other says is a habit of
    nearly all models; `proof` tells.
    """

    def __init__(
        self, model: PreTrainedModel, feature_layers: tuple[int, ...] = ()
    ) -> None:
        """Listens from now on, also to what these layers read.

        Raises:
            ConfigError: The model has no such list of layers.
        """
        self._model = model
        self._said: torch.Tensor | None = None
        self._feature_layers = feature_layers
        self._read: dict[int, torch.Tensor] = {}
        decoder = model.get_decoder()
        decoder.register_forward_hook(self._listen)
        if not feature_layers:
            return
        layers = getattr(decoder, "layers", getattr(decoder, "h", None))
        if not isinstance(layers, nn.ModuleList):
            raise _unknown(model)
        for index in feature_layers:
            if index < len(layers):
                hook = partial(self._listen_before, index)
                layers[index].register_forward_pre_hook(hook, with_kwargs=True)
            else:
                layers[-1].register_forward_hook(partial(self._listen_behind, index))

    def take(self) -> torch.Tensor:
        """[T, hidden] of the model's last call; a view."""
        said, self._said = self._said, None
        if said is None:
            raise _unknown(self._model)
        return said[0]

    def take_features(self) -> torch.Tensor | None:
        """[T, layers × hidden] of the same call; None if no layers were named."""
        read, self._read = self._read, {}
        if read.keys() != set(self._feature_layers):
            raise _unknown(self._model)
        return side_by_side(read, self._feature_layers)

    @contextmanager
    def proof(self) -> Iterator[None]:
        """The model is called within, for the logits of all tokens.

        Raises:
            ConfigError: The output layer was given something else.
        """
        read: list[torch.Tensor] = []
        head = self._model.get_output_embeddings()
        if not isinstance(head, nn.Module):
            raise _unknown(self._model)
        listening = head.register_forward_pre_hook(
            lambda _, given: read.append(given[0])
        )
        try:
            yield
        finally:
            listening.remove()
        if not read or not torch.equal(read[-1][0], self.take()):
            raise _unknown(self._model)
        self.take_features()

    def _listen(self, module: nn.Module, given: object, output: object) -> None:  # noqa: ARG002
        said = getattr(output, "last_hidden_state", None)
        self._said = said if isinstance(said, torch.Tensor) else None

    def _listen_before(
        self,
        index: int,
        module: nn.Module,  # noqa: ARG002
        given: tuple[object, ...],
        named: dict[str, object],
    ) -> None:
        self._keep(index, given[0] if given else named.get("hidden_states"))

    def _listen_behind(
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


def _unknown(model: PreTrainedModel) -> ConfigError:
    return ConfigError(
        OPTION,
        f"the method wants hidden states, and those of {type(model).__name__} are not "
        "what its output layer reads",
    )
