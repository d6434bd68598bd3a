"""Options of the proposer, in `--speculative-config`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from hookline.config.checks import check_whole
from hookline.exceptions import ConfigError
from hookline_drafting.method_options import refuse_unknown

OPTION = "speculative-config"
MOST_TOKENS = 64
"""Maximum length of the matched suffix; each length has a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramOptions:
    """How the end of a text is matched against its earlier tokens.

    Attributes:
        prompt_lookup_max: Length of the longest suffix that is matched, in tokens.
        prompt_lookup_min: Length of the shortest one; the longest match wins.
        match: Which match to continue from if there are several: `last` or `first`.
    """

    prompt_lookup_max: int = 5
    prompt_lookup_min: int = 2
    match: str = "last"

    def __post_init__(self) -> None:
        for name, value in (
            ("prompt_lookup_max", self.prompt_lookup_max),
            ("prompt_lookup_min", self.prompt_lookup_min),
        ):
            check_whole(OPTION, name, value, maximum=MOST_TOKENS)
        if self.prompt_lookup_min > self.prompt_lookup_max:
            raise ConfigError(
                OPTION, "prompt_lookup_min must not be above prompt_lookup_max"
            )
        if self.match not in ("last", "first"):
            raise ConfigError(OPTION, "match must be 'last' or 'first'")

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Returns the options of a JSON object; a given length bounds the other one.

        Raises:
            ConfigError: An option is unknown, or its value is invalid.
        """
        known = ("prompt_lookup_max", "prompt_lookup_min", "match")
        refuse_unknown("ngram", OPTION, given, known)
        longest, shortest = map(given.get, known[:2])
        values = dict(given)
        if shortest is None and isinstance(longest, int):
            values["prompt_lookup_min"] = min(longest, cls().prompt_lookup_min)
        if longest is None and isinstance(shortest, int):
            values["prompt_lookup_max"] = max(shortest, cls().prompt_lookup_max)
        return cls(**values)  # type: ignore[arg-type]
