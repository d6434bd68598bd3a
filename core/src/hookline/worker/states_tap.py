"""Hidden states of a model that runs as modules of `transformers`."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline.exceptions import ConfigError
from hookline.spec_decode.config import OPTION


class StatesTap:
    """Keeps what a model's decoder has said last until it is taken.

    The output layer is only given the positions whose logits are wanted, so it is the
    decoder that is listened to. That the one reads what the other says is a habit of
    nearly all models; `proof` tells.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._said: torch.Tensor | None = None
        model.get_decoder().register_forward_hook(self._listen)

    def take(self) -> torch.Tensor:
        """[T, hidden] of the model's last call; a view."""
        said, self._said = self._said, None
        if said is None:
            raise _unknown(self._model)
        return said[0]

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

    def _listen(self, module: nn.Module, given: object, output: object) -> None:  # noqa: ARG002
        said = getattr(output, "last_hidden_state", None)
        self._said = said if isinstance(said, torch.Tensor) else None


def _unknown(model: PreTrainedModel) -> ConfigError:
    return ConfigError(
        OPTION,
        f"the method wants hidden states, and those of {type(model).__name__} are not "
        "what its output layer reads",
    )
