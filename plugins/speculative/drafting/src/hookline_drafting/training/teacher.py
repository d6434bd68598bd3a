"""The target model as teacher: its hidden states and weights."""

import torch

from hookline.config import EngineConfig
from hookline_description.describing import describe
from hookline_drafting.shared_weights import shared_weights
from hookline_drafting.target import TargetModel
from hookline_models.checkpoints.loading import load_model
from hookline_models.machines.choosing import choose_machine

_ATTENTION = "eager"
"""The plain implementation, which supports every model's variant of attention."""


class Teacher:
    """The target as a model of `transformers`, in the dtype in which it is served.

    Attributes:
        target: The weights; must not be changed.
    """

    def __init__(self, config: EngineConfig) -> None:
        """Loads the model.

        Raises:
            ModelLoadError: The model cannot be loaded.
            ConfigError: The configured device is not available.
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
        """Returns the input of the output layer.

        Args:
            tokens: [n, length] int64, one sequence per row.

        Returns:
            [n, length, hidden size]: `HiddenStates.final` of each position.
        """
        output = self._model.get_decoder()(input_ids=tokens, use_cache=False)
        states = output.last_hidden_state
        assert isinstance(states, torch.Tensor)
        return states
