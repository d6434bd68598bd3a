"""The section `recording` of a configuration."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Self

from hookline.config.options import check_options, option
from hookline.config.readers import read_size
from hookline.config.sections import ConfigSection

MIB = 1024 * 1024


class Content(StrEnum):
    """What a recording has of prompts and outputs."""

    NONE = "none"
    HASHES = "hashes"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingConfig(ConfigSection):
    """What engines record of their work, and when it is saved."""

    key: ClassVar = "recording"
    group: ClassVar = "recording"

    record: str | None = option(
        "File to which the engine records all its commands, decisions and results, "
        "prompts and tokens included.",
        default=None,
        metavar="FILE",
    )
    record_max_bytes: int = option(
        "Size of the file at which the recording goes on in another, FILE.part2 and "
        "so on.",
        default=256 * MIB,
        metavar="SIZE",
        minimum=MIB // 4,
        read=read_size,
    )
    flight_recorder_bytes: int | None = option(
        "Size of the ring in which each engine keeps its last steps; 0 for none.",
        default=None,
        metavar="SIZE",
        minimum=0,
        shown_default="64MiB, none for an engine in the front end's process",
        read=read_size,
    )
    flight_recorder_content: Content = option(
        "What the ring has of prompts and outputs: nothing, salted hashes of the "
        "prompts' blocks, or all tokens.",
        default=Content.HASHES,
    )
    flight_recorder_keep: int = option(
        "Number of saved recordings that are kept.",
        default=5,
        metavar="COUNT",
        minimum=1,
    )
    stall_seconds: float = option(
        "Duration of a step after which the ring is saved; the first one has ten "
        "times as long.",
        default=10.0,
        metavar="SECONDS",
        above=0,
    )

    def __post_init__(self) -> None:
        check_options(self)

    def of_process(self, number: int) -> Self:
        """Has each process of an engine record to a file of its own."""
        if self.record is None:
            return self
        return replace(self, record=f"{self.record}.{number}")
