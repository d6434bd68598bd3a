"""What the proposer can be told in `--speculative-config`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from hookline.exceptions import ConfigError
from hookline.plugin_loading.method_options import refuse_unknown

OPTION = "speculative-config"
MOST_TOKENS = 64
"""Longest suffix that can be looked for; each length has a table of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramOptions:
    """How the end of a text is looked for in what comes before it.

    Attributes:
        prompt_lookup_max: Tokens of the longest suffix that is looked for.
        prompt_lookup_min: Of the shortest one; the longest that is found wins.
        match: Of several places where it stands, the `last` or the `first` one.
    """

    prompt_lookup_max: int = 5
    prompt_lookup_min: int = 2
    match: str = "last"

    def __post_init__(self) -> None:
        for name in ("prompt_lookup_max", "prompt_lookup_min"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(OPTION, f"{name} must be a whole number")
            if not 1 <= value <= MOST_TOKENS:
                raise ConfigError(OPTION, f"{name} must be 1 to {MOST_TOKENS}")
        if self.prompt_lookup_min > self.prompt_lookup_max:
            raise ConfigError(
                OPTION, "prompt_lookup_min must not be above prompt_lookup_max"
            )
        if self.match not in ("last", "first"):
            raise ConfigError(OPTION, "match must be 'last' or 'first'")

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """What users write; of the two lengths, one alone bounds the other.

        Raises:
            ConfigError: There is no such option, or its value is wrong.
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
