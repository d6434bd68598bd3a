"""Where the prompts of a load come from."""

from dataclasses import dataclass
from enum import StrEnum

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError
from hookline_bench.random_prompts import PromptShape


class DatasetName(StrEnum):
    """The kind of a dataset; only random prompts need no file."""

    RANDOM = "random"
    SHAREGPT = "sharegpt"
    CUSTOM = "custom"
    MOONCAKE = "mooncake"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSettings:
    """Options of datasets."""

    name: DatasetName = option(
        "Source of the prompts: random, ShareGPT's JSON, JSON lines of prompts or "
        "messages, or a trace in Mooncake's format, whose requests are sent at "
        "its times.",
        default=DatasetName.RANDOM,
        flag="dataset-name",
    )
    path: str | None = option(
        "File of the dataset.", default=None, flag="dataset-path", metavar="FILE"
    )
    sharegpt_output_len: int | None = option(
        "Number of tokens per completion of sharegpt.",
        default=None,
        metavar="TOKENS",
        minimum=1,
        shown_default="as many as the file's reply has",
    )
    custom_output_len: int | None = option(
        "Number of tokens per completion of custom, for lines without output_tokens.",
        default=None,
        metavar="TOKENS",
        minimum=1,
        shown_default="256",
    )
    mooncake_slowdown_factor: float | None = option(
        "Factor by which the times of mooncake are stretched.",
        default=None,
        metavar="NUMBER",
        above=0,
        shown_default="1",
    )

    def __post_init__(self) -> None:
        check_options(self)
        needs_file = not self.is_random
        if needs_file and self.path is None:
            raise ConfigError(
                "dataset-path", f"is required by dataset-name {self.name}"
            )
        if self.path is not None and not needs_file:
            raise ConfigError("dataset-name", "is required by dataset-path")
        self._check_own_options()

    def _check_own_options(self) -> None:
        own = {
            DatasetName.SHAREGPT: ("sharegpt-output-len", self.sharegpt_output_len),
            DatasetName.CUSTOM: ("custom-output-len", self.custom_output_len),
            DatasetName.MOONCAKE: (
                "mooncake-slowdown-factor",
                self.mooncake_slowdown_factor,
            ),
        }
        for name, (flag, value) in own.items():
            if value is not None and self.name is not name:
                raise ConfigError(flag, f"needs dataset-name {name}")

    def check_shape(self, shape: PromptShape) -> None:
        """Checks options of random prompts beside those of a dataset.

        Raises:
            ConfigError: A file has lengths of its own.
        """
        if not self.is_random and shape != PromptShape():
            detail = (
                f"{self.name} has lengths of its own and takes no --random-… options"
            )
            raise ConfigError("dataset-name", detail)

    @property
    def is_random(self) -> bool:
        """Whether the prompts come from no file."""
        return self.name is DatasetName.RANDOM

    @property
    def has_times(self) -> bool:
        """Whether the dataset says when its requests are sent."""
        return self.name is DatasetName.MOONCAKE

    @property
    def slowdown(self) -> float:
        """The factor by which the dataset's times are stretched."""
        return self.mooncake_slowdown_factor or 1.0
