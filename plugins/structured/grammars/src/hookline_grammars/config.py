"""Structured outputs: `--structured-outputs-config`, with the keys of vLLM."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Self

from hookline.config.checks import check_keys, check_seconds, check_whole
from hookline.config.extensions import STRUCTURED_OUTPUTS_OPTION as OPTION
from hookline.config.readers import read_size
from hookline.exceptions import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredOutputsConfig:
    """The grammar backend, and what grammars may cost.

    Attributes:
        backend: Name in the entry-point group `hookline.structured_output_backends`;
            `auto` is xgrammar, and llguidance for what that refuses, if they are
            installed; `none` turns structured outputs off.
        disable_any_whitespace: Whether no request's JSON has whitespace but the
            backend's own.
        disable_additional_properties: Whether objects of no request have properties
            that their schema does not name, unless it says otherwise.
        compile_seconds: Processor time that a grammar may take to compile, in all
            backends together.
        compile_memory: Bytes of memory that the compiling process may take for it.
        cache_size: Bytes of compiled grammars that are kept.
        enable_in_reasoning: Whether grammars also apply to reasoning, which leaves no
            room for it; otherwise they begin behind it.
        backend_options: Options of the backend; it checks them.
    """

    backend: str = "auto"
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    compile_seconds: float = 0.5
    compile_memory: int = 2**30
    cache_size: int = 256 * 2**20
    enable_in_reasoning: bool = False
    backend_options: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.backend, str) or not self.backend:
            raise ConfigError(OPTION, "backend must name an installed backend")
        for name in (
            "disable_any_whitespace",
            "disable_additional_properties",
            "enable_in_reasoning",
        ):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(OPTION, f"{name} must be true or false")
        check_seconds(OPTION, "compile_seconds", self.compile_seconds)
        check_whole(OPTION, "compile_memory", self.compile_memory)
        check_whole(OPTION, "cache_size", self.cache_size)
        if not isinstance(self.backend_options, dict):
            raise ConfigError(OPTION, "backend_options must be an object")

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Makes the configuration from the keys that users write.

        Raises:
            ConfigError: A key is unknown, or a value is wrong.
        """
        hint = "Options of the backend itself belong in backend_options"
        check_keys(OPTION, given, [each.name for each in fields(cls)], hint=hint)
        values = dict(given)
        for name in ("compile_memory", "cache_size"):
            if isinstance(text := values.get(name), str):
                values[name] = _size(name, text)
        return cls(**values)  # type: ignore[arg-type]


def _size(name: str, text: str) -> int:
    try:
        return read_size(text)
    except ValueError as error:
        raise ConfigError(OPTION, f"{name}: {error}") from error
