"""Settings of a draft training: method, data, amounts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError

_LEAST_TOKENS = 8
_SHARE_HELD_OUT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Settings of a draft training; see each field's help."""

    method: str = option(
        "Installed proposer that can be trained, such as medusa.", metavar="NAME"
    )
    folder: Path = option(
        "Output folder; it must be new or empty.", flag="out", metavar="FOLDER"
    )
    texts: tuple[Path, ...] = option(
        "Text file to learn from; its end is held out.",
        default=(),
        flag="data",
        metavar="FILE",
        shown_default="text that the model generates",
    )
    continues: bool = option(
        "Learn from the model's greedy continuations of pieces of the data.",
        default=False,
        flag="continue-data",
    )
    num_speculative_tokens: int = option(
        "Number of draft tokens per request and step.",
        default=4,
        metavar="TOKENS",
        minimum=1,
    )
    tokens: int = option(
        "Maximum number of tokens to learn from; 5% more are held out.",
        default=400_000,
        metavar="TOKENS",
    )
    row_tokens: int = option(
        "Length of a training sequence.", default=192, metavar="TOKENS"
    )
    prompt_tokens: int = option(
        "Length of the prompt in a sequence that the model continues.",
        default=64,
        metavar="TOKENS",
        minimum=1,
    )
    options: Mapping[str, object] = option(
        "Options of the method.",
        default_factory=dict,
        flag="training-config",
        metavar="JSON",
        read_mapping=dict,
    )

    def __post_init__(self) -> None:
        check_options(self)
        least = max(self.num_speculative_tokens + 2, _LEAST_TOKENS)
        if self.row_tokens < self.prompt_tokens + least:
            raise ConfigError(
                "row-tokens", f"must exceed prompt-tokens by at least {least}"
            )
        if self.tokens < _SHARE_HELD_OUT * self.row_tokens:
            raise ConfigError(
                "tokens", f"must be at least {_SHARE_HELD_OUT} times row-tokens"
            )
        if self.continues and not self.texts:
            raise ConfigError("continue-data", "requires data")
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise ConfigError("out", f"{self.folder} is not empty")

    @property
    def is_generated(self) -> bool:
        """Whether the target generates the ends of the sequences."""
        return self.continues or not self.texts

    @property
    def num_rows(self) -> int:
        """Number of sequences to learn from."""
        return self.tokens // self.row_tokens

    @property
    def num_held_out(self) -> int:
        """Number of sequences for evaluation."""
        return self.num_rows // _SHARE_HELD_OUT
