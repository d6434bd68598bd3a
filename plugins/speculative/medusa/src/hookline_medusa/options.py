"""What the method can be told, in `--speculative-config` and when heads are trained."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from hookline.exceptions import ConfigError
from hookline.plugin_loading.method_options import (
    brought_folder,
    model_of,
    refuse_unknown,
)
from hookline_medusa.choices import Choices

OPTION = "speculative-config"
TRAINING_OPTION = "training-config"
METHOD = "medusa"
"""Also, in a target's folder, the heads that it brings along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MedusaOptions:
    """Which heads.

    Attributes:
        model: A folder with heads, or the name of an installed model that brings some;
            None takes those that the target brings.
        choices: The tree of drafts; None is a chain of what each head holds for the
            likeliest.
    """

    model: str | None = None
    choices: Choices | None = None

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """What users write.

        Raises:
            ConfigError: There is no such option, or its value is wrong.
        """
        refuse_unknown(METHOD, OPTION, given, ["model", "medusa_choices"])
        model = model_of(OPTION, given)
        wanted = given.get("medusa_choices")
        choices = None if wanted is None else Choices.parse(wanted)
        return cls(model=model, choices=choices)

    def folder(self, target: str) -> Path:
        """Where the heads of a target lie.

        Raises:
            ConfigError: There are none.
        """
        return brought_folder(
            METHOD, OPTION, self.model, target, what="heads", some="some"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """How heads are built and trained.

    Attributes:
        num_layers: Residual blocks of each head.
        own_output: Train an output layer for each head; otherwise they share the
            target's, which is not written to the checkpoint.
        epochs: How often each token is learnt from.
        batch_tokens: Tokens of a step.
        block_learning_rate: Of the residual blocks' matrices, at its highest.
        learning_rate: Of all else, at its highest.
    """

    num_layers: int = 1
    own_output: bool = True
    epochs: int = 4
    batch_tokens: int = 4096
    block_learning_rate: float = 0.02
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        for name in ("num_layers", "epochs", "batch_tokens"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(
                    TRAINING_OPTION, f"{name} must be a whole number from 1 up"
                )
        if not isinstance(self.own_output, bool):
            raise ConfigError(TRAINING_OPTION, "own_output must be true or false")
        for name in ("block_learning_rate", "learning_rate"):
            rate = getattr(self, name)
            if isinstance(rate, bool) or not isinstance(rate, int | float):
                raise ConfigError(TRAINING_OPTION, f"{name} must be a number")
            if not 0 < rate < 1:
                raise ConfigError(TRAINING_OPTION, f"{name} must be between 0 and 1")

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Raises `ConfigError` if there is no such option, or its value is wrong."""
        refuse_unknown(
            METHOD, TRAINING_OPTION, given, [each.name for each in fields(cls)]
        )
        return cls(**given)  # type: ignore[arg-type]
