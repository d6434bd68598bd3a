"""Options of the method, in `--speculative-config` and in training."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from hookline.config.checks import check_whole
from hookline.exceptions import ConfigError
from hookline_drafting.method_options import (
    check_number,
    check_rate,
    model_of,
    refuse_unknown,
    weights_folder,
)

OPTION = "speculative-config"
TRAINING_OPTION = "training-config"
METHOD = "eagle"
"""Also the name of a head's folder in a target's folder."""
GREEDY, PROBABILISTIC = "greedy", "probabilistic"


@dataclass(frozen=True, slots=True, kw_only=True)
class EagleOptions:
    """Which head drafts, and how.

    Attributes:
        model: Folder with a head, or name of an installed model that ships one; None
            takes the target's own.
        draft_sample_method: `greedy` drafts the most likely tokens; `probabilistic`
            samples the drafts of requests that sample.
    """

    model: str | None = None
    draft_sample_method: str = GREEDY

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Returns the options of a JSON object.

        Raises:
            ConfigError: An option is unknown, or its value is invalid.
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
        """Returns the folder of the head for a target.

        Raises:
            ConfigError: No head is found.
        """
        return weights_folder(
            METHOD, OPTION, self.model, target, what="head", some="one"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """How a head is built and trained.

    Attributes:
        start: Folder with an EAGLE head to continue from; None trains from scratch.
        intermediate_size: Size of the feed-forward layer; None takes the target's.
        epochs: Passes over the training tokens.
        batch_tokens: Tokens in a training step.
        learning_rate: Maximum learning rate.
        noise: Uniform noise on the target's features, relative to their mean size; the
            head later reads its own features, which are not exact either.
        feature_weight: Weight of the loss of features; that of tokens has 1.
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
        if self.intermediate_size is not None:
            check_whole(TRAINING_OPTION, "intermediate_size", self.intermediate_size)
        check_whole(TRAINING_OPTION, "epochs", self.epochs)
        check_whole(TRAINING_OPTION, "batch_tokens", self.batch_tokens)
        check_rate(TRAINING_OPTION, "learning_rate", self.learning_rate)
        check_number(TRAINING_OPTION, "noise", self.noise)
        check_number(TRAINING_OPTION, "feature_weight", self.feature_weight)

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Returns the options; `ConfigError` if one is unknown or invalid."""
        refuse_unknown(
            METHOD, TRAINING_OPTION, given, [each.name for each in fields(cls)]
        )
        return cls(**given)  # type: ignore[arg-type]
