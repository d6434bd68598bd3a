"""Settings of a draft training: method, data, amounts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hookline.config.option_fields import check_options
from hookline.config.options import option
from hookline.exceptions import ConfigError
from hookline.json_options import parse_object

_LEAST_TOKENS = 8
_SHARE_HELD_OUT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Settings of a draft training; see each field's help."""

    method: str = field(
        metadata=option(
            "Installed proposer that can be trained, such as medusa.", metavar="NAME"
        )
    )
    folder: Path = field(
        metadata=option(
            "Output folder; it must be new or empty.", flag="out", metavar="FOLDER"
        )
    )
    texts: tuple[Path, ...] = field(
        default=(),
        metadata=option(
            "Text file to learn from; its end is held out.",
            flag="data",
            metavar="FILE",
            shown_default="text that the model generates",
        ),
    )
    continues: bool = field(
        default=False,
        metadata=option(
            "Learn from the model's greedy continuations of pieces of the data.",
            flag="continue-data",
        ),
    )
    num_speculative_tokens: int = field(
        default=4,
        metadata=option(
            "Number of draft tokens per request and step.", metavar="TOKENS", minimum=1
        ),
    )
    tokens: int = field(
        default=400_000,
        metadata=option(
            "Maximum number of tokens to learn from; 5% more are held out.",
            metavar="TOKENS",
        ),
    )
    row_tokens: int = field(
        default=192,
        metadata=option("Length of a training sequence.", metavar="TOKENS"),
    )
    prompt_tokens: int = field(
        default=64,
        metadata=option(
            "Length of the prompt in a sequence that the model continues.",
            metavar="TOKENS",
            minimum=1,
        ),
    )
    options: Mapping[str, object] = field(
        default_factory=dict,
        metadata=option(
            "Options of the method.",
            flag="training-config",
            metavar="JSON",
            read=parse_object,
            json=True,
            single=True,
        ),
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
