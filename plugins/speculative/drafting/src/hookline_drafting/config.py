"""Speculative decoding: `--speculative-config`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, Self

from hookline.config.checks import check_seconds, check_whole
from hookline.config.extensions import SPECULATIVE_OPTION as OPTION
from hookline.exceptions import ConfigError
from hookline_metrics.drafts import MAX_SPECULATIVE_TOKENS
from hookline_registry.spelling import did_you_mean

AUTO = "auto"
MOST_BY_ITSELF = 8
"""Default maximum of `auto`: even at an acceptance rate of 0.9, a ninth draft is
accepted less than four times in ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeConfig:
    """The draft proposer, the number of drafts, and the limits of a call.

    Attributes:
        method: Name in the entry-point group `hookline.proposers`.
        num_speculative_tokens: Maximum number of draft tokens per request and step;
            `auto` chooses it each step from the measured acceptance and cost; None
            uses the depth of the proposer's tree.
        max_speculative_tokens: Maximum of `auto`; None is 8.
        timeout_seconds: Maximum time that a step waits for its drafts.
        breaker_failures: Number of consecutive failed steps after which the proposer is
            paused.
        breaker_seconds: Duration of the pause; one step is a trial afterwards.
        options: Options of the method; the plugin checks them.
    """

    method: str
    num_speculative_tokens: int | Literal["auto"] | None
    max_speculative_tokens: int | None = None
    timeout_seconds: float = 0.1
    breaker_failures: int = 5
    breaker_seconds: float = 30.0
    options: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or not self.method:
            raise ConfigError(OPTION, "method must name an installed proposer")
        if isinstance(self.num_speculative_tokens, str):
            if self.num_speculative_tokens != AUTO:
                raise ConfigError(
                    OPTION,
                    'num_speculative_tokens must be a whole number or "auto", not '
                    f"{self.num_speculative_tokens!r}",
                )
        elif self.num_speculative_tokens is not None:
            _check_tokens("num_speculative_tokens", self.num_speculative_tokens)
        if self.max_speculative_tokens is not None:
            _check_tokens("max_speculative_tokens", self.max_speculative_tokens)
            if not self.is_adaptive:
                raise ConfigError(
                    OPTION,
                    'max_speculative_tokens requires num_speculative_tokens "auto"',
                )
        check_whole(OPTION, "breaker_failures", self.breaker_failures)
        check_seconds(OPTION, "timeout_seconds", self.timeout_seconds)
        check_seconds(OPTION, "breaker_seconds", self.breaker_seconds)

    @property
    def is_adaptive(self) -> bool:
        """Whether the engine chooses the number of draft tokens."""
        return self.num_speculative_tokens == AUTO

    @property
    def most_speculative_tokens(self) -> int:
        """Maximum number of draft tokens of a request in a step."""
        if isinstance(self.num_speculative_tokens, str):
            return self.max_speculative_tokens or MOST_BY_ITSELF
        assert self.num_speculative_tokens is not None
        return self.num_speculative_tokens

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Makes the configuration from the keys that users write.

        Keys that are not fields are options of the method.

        Raises:
            ConfigError: A value is missing or wrong.
        """
        own = {each.name for each in fields(cls)} - {"options"}
        if "method" not in given:
            raise ConfigError(OPTION, _without_method(given))
        options = {key: value for key, value in given.items() if key not in own}
        named = {key: value for key, value in given.items() if key in own}
        named.setdefault("num_speculative_tokens", None)
        return cls(**named, options=options)  # type: ignore[arg-type]


def _without_method(given: Iterable[str]) -> str:
    """Returns what is wrong with keys that do not name the method."""
    for key in given:
        if hint := did_you_mean(key, ["method"]):
            return f"unknown key {key!r}{hint}"
    return "method is missing"


def _check_tokens(name: str, value: object) -> None:
    check_whole(OPTION, name, value, maximum=MAX_SPECULATIVE_TOKENS)
