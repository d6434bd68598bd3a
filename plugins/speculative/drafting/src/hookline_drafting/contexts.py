"""What the hooks of proposers get and return."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hookline.config import EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerContext:
    """Payload of `create_proposer`: the method's options and the target.

    Attributes:
        config: The engine's configuration.
        options: Keys of `--speculative-config` that are specific to the method.
        num_speculative_tokens: The configured number of draft tokens: a number, `auto`,
            or None if it is left to the proposer's tree.
    """

    config: EngineConfig
    options: Mapping[str, object] = field(default_factory=dict)
    num_speculative_tokens: int | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingContext:
    """Payload of `train_draft`: the target, the training data and the options.

    Attributes:
        config: The target's engine configuration; only model, device and seed matter.
        num_speculative_tokens: Number of draft tokens per request and step.
        options: Keys of `--training-config`.
        make_rows: Returns token sequences for training and held-out ones for
            evaluation, all of one length. It is slow: call it once, after checking the
            options.
        num_prompt_tokens: Number of prompt tokens in each sequence; the target
            generated the rest at temperature 0. 0 if the sequences are texts from
            elsewhere.
        folder: Output folder; created if it does not exist.
        log: Prints a line of progress.
    """

    config: EngineConfig
    num_speculative_tokens: int
    make_rows: Callable[[], tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]]
    num_prompt_tokens: int
    folder: Path
    log: Callable[[str], None]
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """Result of `train_draft`: acceptance on the held-out sequences.

    Counted as verification at temperature 0 would, if the target generated these
    sequences.

    Attributes:
        drafts: Number of steps with drafts.
        accepted_by_position: Number of steps that accepted the draft token at each
            position.
    """

    drafts: int
    accepted_by_position: tuple[int, ...]

    @property
    def mean_accepted_length(self) -> float:
        """1 + accepted ÷ drafts: the mean number of tokens per step."""
        return 1 + sum(self.accepted_by_position) / max(1, self.drafts)
