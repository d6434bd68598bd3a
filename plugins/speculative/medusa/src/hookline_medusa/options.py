"""Options of the method, in `--speculative-config` and in training."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from hookline.config.checks import check_whole
from hookline.exceptions import ConfigError
from hookline_drafting.method_options import (
    check_rate,
    model_of,
    refuse_unknown,
    weights_folder,
)
from hookline_medusa.choices import Choices

OPTION = "speculative-config"
TRAINING_OPTION = "training-config"
METHOD = "medusa"
"""Also the name of the heads' folder in a target's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MedusaOptions:
    """Which heads draft, and how.

    Attributes:
        model: Folder with heads, or name of an installed model that ships some; None
            takes the target's own.
        choices: Tree of drafts; None drafts a chain of each head's most likely token.
    """

    model: str | None = None
    choices: Choices | None = None

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Returns the options of a JSON object.

        Raises:
            ConfigError: An option is unknown, or its value is invalid.
        """
        refuse_unknown(METHOD, OPTION, given, ["model", "medusa_choices"])
        model = model_of(OPTION, given)
        tree = given.get("medusa_choices")
        choices = None if tree is None else Choices.parse(tree)
        return cls(model=model, choices=choices)

    def folder(self, target: str) -> Path:
        """Returns the folder of the heads for a target.

        Raises:
            ConfigError: No heads are found.
        """
        return weights_folder(
            METHOD, OPTION, self.model, target, what="heads", some="some"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """How heads are built and trained.

    Attributes:
        num_layers: Number of residual blocks in each head.
        own_output: Whether each head has a separate output layer; otherwise heads share
            the target's, which is not written to the checkpoint.
        epochs: Passes over the training tokens.
        batch_tokens: Tokens in a training step.
        block_learning_rate: Maximum learning rate of the residual blocks' matrices.
        learning_rate: Maximum learning rate of all other weights.
    """

    num_layers: int = 1
    own_output: bool = True
    epochs: int = 4
    batch_tokens: int = 4096
    block_learning_rate: float = 0.02
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        check_whole(TRAINING_OPTION, "num_layers", self.num_layers)
        check_whole(TRAINING_OPTION, "epochs", self.epochs)
        check_whole(TRAINING_OPTION, "batch_tokens", self.batch_tokens)
        if not isinstance(self.own_output, bool):
            raise ConfigError(TRAINING_OPTION, "own_output must be true or false")
        check_rate(TRAINING_OPTION, "block_learning_rate", self.block_learning_rate)
        check_rate(TRAINING_OPTION, "learning_rate", self.learning_rate)

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Returns the options; `ConfigError` if one is unknown or invalid."""
        refuse_unknown(
            METHOD, TRAINING_OPTION, given, [each.name for each in fields(cls)]
        )
        return cls(**given)  # type: ignore[arg-type]
