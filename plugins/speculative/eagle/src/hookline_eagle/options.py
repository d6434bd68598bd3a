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

OPTION = "speculative-config"
TRAINING_OPTION = "training-config"
METHOD = "eagle"
"""Also, in a target's folder, the head that it brings along."""
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
        refuse_unknown(METHOD, OPTION, given, [each.name for each in fields(cls)])
        model = model_of(OPTION, given)
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
        return brought_folder(
            METHOD, OPTION, self.model, target, what="head", some="one"
        )


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
        refuse_unknown(
            METHOD, TRAINING_OPTION, given, [each.name for each in fields(cls)]
        )
        return cls(**given)  # type: ignore[arg-type]
