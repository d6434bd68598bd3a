"""What the method can be told, in `--speculative-config` and when heads are trained."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from hookline.exceptions import ConfigError, ModelLoadError
from hookline.models.description import find_folder

OPTION = "speculative-config"
TRAINING_OPTION = "training-config"
OWN_FOLDER = "eagle"
"""In a target's folder: the head that it brings along."""
GREEDY, PROBABILISTIC = "greedy", "probabilistic"


@dataclass(frozen=True, slots=True, kw_only=True)
class EagleOptions:
    """Which head, and how it is drafted from.

    Attributes:
        model: A folder with a head, or the name of an installed model that brings one;
            None takes the one that the target brings.
        draft_sample_method: `greedy` drafts what the head holds for the likeliest;
            `probabilistic` draws the drafts of requests that sample.
    """

    model: str | None = None
    draft_sample_method: str = GREEDY

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """What users write.

        Raises:
            ConfigError: There is no such option, or its value is wrong.
        """
        _refuse_unknown(OPTION, given, [each.name for each in fields(cls)])
        model = given.get("model")
        if model is not None and (not isinstance(model, str) or not model):
            raise ConfigError(OPTION, f"model must name a folder, not {model!r}")
        how = given.get("draft_sample_method", GREEDY)
        if not isinstance(how, str) or how not in {GREEDY, PROBABILISTIC}:
            raise ConfigError(
                OPTION,
                f"draft_sample_method must be {GREEDY} or {PROBABILISTIC}, not {how!r}",
            )
        return cls(model=model, draft_sample_method=how)

    def folder(self, target: str) -> Path:
        """Where the head of a target lies.

        Raises:
            ConfigError: There is none.
        """
        if self.model is not None and (Path(self.model) / "config.json").is_file():
            return Path(self.model)
        try:
            brought = find_folder(self.model or target) / OWN_FOLDER
        except ModelLoadError as error:
            raise ConfigError(
                OPTION,
                f"the method eagle finds no head: {self.model or target!r} is no "
                "folder with a config.json and no installed model",
            ) from error
        if not (brought / "config.json").is_file():
            raise ConfigError(
                OPTION,
                f"the model {self.model or target!r} brings no head for the method "
                'eagle; give a folder with "model", or train one with '
                "`hookline train-draft`",
            )
        return brought


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """How a head is built and trained.

    Attributes:
        start: A folder with a head of EAGLE to go on from; None begins anew.
        intermediate_size: Of its feed-forward layer; None takes the target's.
        epochs: How often each token is learnt from.
        batch_tokens: Tokens of a step.
        learning_rate: At its highest.
        noise: Uniform noise on the target's features, in shares of their mean size; the
            head will have to read features of its own, which are not exact either.
        feature_weight: Of the loss of features beside that of tokens.
    """

    start: str | None = None
    intermediate_size: int | None = None
    epochs: int = 4
    batch_tokens: int = 4096
    learning_rate: float = 2e-3
    noise: float = 0.1
    feature_weight: float = 0.5

    def __post_init__(self) -> None:
        if self.start is not None and not isinstance(self.start, str):
            raise ConfigError(TRAINING_OPTION, "start must name a folder")
        for name in ("intermediate_size", "epochs", "batch_tokens"):
            value = getattr(self, name)
            if name == "intermediate_size" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(
                    TRAINING_OPTION, f"{name} must be a whole number from 1 up"
                )
        for name in ("learning_rate", "noise", "feature_weight"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(TRAINING_OPTION, f"{name} must be a number")
        if not 0 < self.learning_rate < 1:
            raise ConfigError(TRAINING_OPTION, "learning_rate must be between 0 and 1")
        if not (0 <= self.noise < float("inf")):
            raise ConfigError(TRAINING_OPTION, "noise must be 0 or more")
        if not (0 <= self.feature_weight < float("inf")):
            raise ConfigError(TRAINING_OPTION, "feature_weight must be 0 or more")

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
                f"the method eagle has no option {name!r}; it has {', '.join(known)}",
            )
