"""How drafts are to be made: what `--speculative-config` says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, Self

from hookline.exceptions import ConfigError
from hookline.json_options import read_object

OPTION = "speculative-config"
MAX_SPECULATIVE_TOKENS = 128
AUTO = "auto"
MOST_BY_ITSELF = 8
"""Of `auto` where nothing else is said: where each draft is right nine times in ten, a
ninth one is needed less than four times in ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeConfig:
    """Which proposer drafts, how much, and when it is not waited for any longer.

    Attributes:
        method: Name in the entry-point group `hookline.proposers`.
        num_speculative_tokens: Most draft tokens of a request in a step; `auto` has
            the engine choose from what it measures, from step to step; None is as
            many as the proposer's tree has.
        max_speculative_tokens: What `auto` may choose at most; None is 8.
        timeout_seconds: A step waits so long for its drafts.
        breaker_failures: After so many steps in a row with a failure the proposer is
            left alone …
        breaker_seconds: … for so long; then one step tries again.
        options: The method's own; the plugin checks them.
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
            _tokens("num_speculative_tokens", self.num_speculative_tokens)
        if self.max_speculative_tokens is not None:
            _tokens("max_speculative_tokens", self.max_speculative_tokens)
            if not self.is_adaptive:
                raise ConfigError(
                    OPTION,
                    'max_speculative_tokens is for num_speculative_tokens "auto" alone',
                )
        _whole("breaker_failures", self.breaker_failures)
        _above_zero("timeout_seconds", self.timeout_seconds)
        _above_zero("breaker_seconds", self.breaker_seconds)

    @property
    def is_adaptive(self) -> bool:
        """Whether the engine chooses the number of drafts."""
        return self.num_speculative_tokens == AUTO

    @property
    def most_speculative_tokens(self) -> int:
        """Draft tokens that a request can have in a step."""
        if isinstance(self.num_speculative_tokens, str):
            return self.max_speculative_tokens or MOST_BY_ITSELF
        assert self.num_speculative_tokens is not None
        return self.num_speculative_tokens

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """What users write: keys that are not fields are the method's own options.

        Raises:
            ConfigError: A value is missing or wrong.
        """
        own = {each.name for each in fields(cls)} - {"options"}
        if "method" not in given:
            raise ConfigError(OPTION, "method is missing")
        options = {key: value for key, value in given.items() if key not in own}
        named = {key: value for key, value in given.items() if key in own}
        named.setdefault("num_speculative_tokens", None)
        return cls(**named, options=options)  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The same of a JSON object.

        Raises:
            ConfigError: It is none, or a value is missing or wrong.
        """
        return cls.from_mapping(read_object(OPTION, text))


def _tokens(name: str, value: object) -> None:
    _whole(name, value)
    if isinstance(value, int) and value > MAX_SPECULATIVE_TOKENS:
        raise ConfigError(OPTION, f"{name} must be at most {MAX_SPECULATIVE_TOKENS}")


def _whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(OPTION, f"{name} must be a whole number, not {value!r}")
    if value < 1:
        raise ConfigError(OPTION, f"{name} must be at least 1, not {value}")


def _above_zero(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(OPTION, f"{name} must be a number, not {value!r}")
    if not 0 < value < float("inf"):
        raise ConfigError(OPTION, f"{name} must be above 0, not {value}")
