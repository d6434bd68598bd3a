"""What the method can be told, in `--speculative-config` and when heads are trained."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from hookline.exceptions import ConfigError, ModelLoadError
from hookline.models.description import find_folder

OPTION = "speculative-config"
TRAINING_OPTION = "training-config"
OWN_FOLDER = "medusa"
"""In a target's folder: the heads that it brings along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MedusaOptions:
    """Which heads.

    Attributes:
        model: A folder with heads, or the name of an installed model that brings some;
            None takes those that the target brings.
    """

    model: str | None = None

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """What users write.

        Raises:
            ConfigError: There is no such option, or its value is wrong.
        """
        _refuse_unknown(OPTION, given, ["model"])
        model = given.get("model")
        if model is not None and (not isinstance(model, str) or not model):
            raise ConfigError(OPTION, f"model must name a folder, not {model!r}")
        return cls(model=model)

    def folder(self, target: str) -> Path:
        """Where the heads of a target lie.

        Raises:
            ConfigError: There are none.
        """
        if self.model is not None and (Path(self.model) / "config.json").is_file():
            return Path(self.model)
        try:
            brought = find_folder(self.model or target) / OWN_FOLDER
        except ModelLoadError as error:
            raise ConfigError(
                OPTION,
                f"the method medusa finds no heads: {self.model or target!r} is no "
                "folder with a config.json and no installed model",
            ) from error
        if not (brought / "config.json").is_file():
            raise ConfigError(
                OPTION,
                f"the model {self.model or target!r} brings no heads for the method "
                'medusa; give a folder with "model", or train some with '
                "`hookline train-draft`",
            )
        return brought


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
        _refuse_unknown(TRAINING_OPTION, given, [each.name for each in fields(cls)])
        return cls(**given)  # type: ignore[arg-type]


def _refuse_unknown(option: str, given: Mapping[str, object], known: list[str]) -> None:
    for name in given:
        if name not in known:
            raise ConfigError(
                option,
                f"the method medusa has no option {name!r}; it has {', '.join(known)}",
            )
