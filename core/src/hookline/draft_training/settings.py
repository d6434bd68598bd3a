"""What is to be trained, and on what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hookline.exceptions import ConfigError

_LEAST_TOKENS = 8
_SHARE_HELD_OUT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """What to train, and on how much of what.

    Attributes:
        method: Name in the entry-point group `hookline.proposers`.
        folder: Where the result is written; a new or an empty one.
        texts: Files to learn from; without any, the model says what is learnt from.
        continues: Learn from what the model says behind pieces of the texts at
            temperature 0, not from the texts.
        num_speculative_tokens: Most draft tokens of a request in a step.
        tokens: To learn from, at most; a twentieth more is held out.
        row_tokens: Length of a sequence.
        prompt_tokens: Of a sequence that the model continues, what it is given.
        options: The method's own.
    """

    method: str
    folder: Path
    texts: tuple[Path, ...] = ()
    continues: bool = False
    num_speculative_tokens: int = 4
    tokens: int = 400_000
    row_tokens: int = 192
    prompt_tokens: int = 64
    options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.num_speculative_tokens < 1:
            raise ConfigError("num-speculative-tokens", "must be at least 1")
        if self.prompt_tokens < 1:
            raise ConfigError("prompt-tokens", "must be at least 1")
        least = max(self.num_speculative_tokens + 2, _LEAST_TOKENS)
        if self.row_tokens < self.prompt_tokens + least:
            raise ConfigError(
                "row-tokens", f"must be above prompt-tokens by {least} or more"
            )
        if self.tokens < _SHARE_HELD_OUT * self.row_tokens:
            raise ConfigError("tokens", f"must be {_SHARE_HELD_OUT} rows or more")
        if self.continues and not self.texts:
            raise ConfigError("continue-data", "wants data to continue")
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise ConfigError("out", f"{self.folder} is not empty")

    @property
    def is_said(self) -> bool:
        """Whether sequences end in what the target says."""
        return self.continues or not self.texts

    @property
    def num_rows(self) -> int:
        """Sequences to learn from."""
        return self.tokens // self.row_tokens

    @property
    def num_held_out(self) -> int:
        """Sequences to judge by."""
        return self.num_rows // _SHARE_HELD_OUT
