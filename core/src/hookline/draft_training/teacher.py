"""The target, as what drafts for it learns from: its hidden states and weights."""

import torch

from hookline.config import EngineConfig
from hookline.models.description import describe
from hookline.models.loading import load_model
from hookline.models.shared_weights import shared_weights
from hookline.spec_decode.target import TargetModel
from hookline.worker.machine import choose_machine

_ATTENTION = "eager"
"""The plain one, which knows every model's refinements."""


class Teacher:
    """A model of `transformers`, in the dtype in which it is served.

    Attributes:
        target: Its weights; they are not to be changed.
    """

    def __init__(self, config: EngineConfig) -> None:
        """Loads it.

        Raises:
            ModelLoadError: It cannot be loaded.
            ConfigError: The device that is asked for is not there.
        """
        description = describe(config.model)
        limit = description.max_model_len(config.model.max_model_len)
        device = choose_machine(config.executor).platform.device
        self._model = load_model(
            config.model, description, limit, device, attention=_ATTENTION
        )
        self.target: TargetModel = shared_weights(config.model.model, self._model)

    @property
    def device(self) -> torch.device:
        return self.target.output.device

    @torch.no_grad()
    def states(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the output layer reads.

        Args:
            tokens: [n, length] int64, of one sequence a row.

        Returns:
            [n, length, hidden size], as `HiddenStates.final` of each position.
        """
        output = self._model.get_decoder()(input_ids=tokens, use_cache=False)
        states = output.last_hidden_state
        assert isinstance(states, torch.Tensor)
        return states
