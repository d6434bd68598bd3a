"""Rotary embeddings as `config.json` describes them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from hookline.exceptions import ModelLoadError
from hookline_description.sizes import is_length, short

_FIELDS = ("rope_scaling", "rope_parameters")
"""Former and present name of the field; `transformers` prefers the former, too."""
_ORIGINAL = "original_max_position_embeddings"
_SCALED = ("dynamic", "linear", "yarn")
"""Kinds that extend the context by their factor. `llama3` and `longrope` do not: their
models' `max_position_embeddings` is the extended length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """One rotary embedding, of all layers or of those of one type.

    Attributes:
        kind: Its type, by the name that `transformers` has for it.
        factor: By how much it extends the context; None if that is not said.
        original: Tokens of the contexts before that; None if that is not said.
        layers: The layers' type; empty for all.
    """

    kind: str
    factor: float | None
    original: int | None
    layers: str = ""

    @property
    def is_scaled(self) -> bool:
        """Whether its factor extends `max_position_embeddings`."""
        return self.kind in _SCALED

    @property
    def has_short_form(self) -> bool:
        """Whether a shorter context is served with other frequencies, which are better.

        They are chosen once, by the longest context that a server allows.
        """
        return self.kind in {"dynamic", "longrope"}


def read_ropes(model: str, config: Mapping[str, object]) -> tuple[Rope, ...]:
    """Returns a configuration's rotary embeddings: none, one, or one a type of layers.

    Raises:
        ModelLoadError: A field has a value that it cannot have.
    """
    name = next((each for each in _FIELDS if config.get(each)), None)
    if name is None:
        return ()
    found = config[name]
    if not isinstance(found, dict):
        raise ModelLoadError(
            model, f"config.json: {name} is {short(found)}, not an object"
        )
    nested = {key: each for key, each in found.items() if isinstance(each, dict)}
    if not nested:
        # A length beside the rotary embedding is the one that counts.
        return (_read(model, name, {**found, **_beside(config)}),)
    return tuple(
        _read(model, f"{name}.{key}", each, layers=str(key))
        for key, each in nested.items()
    )


def with_usual_names(config: Mapping[str, object]) -> dict[str, object]:
    """Returns a configuration with LongRoPE under its name, which `transformers` wants.

    Phi-3 has called it `su` and `yarn`.
    """
    renamed = dict(config)
    for name in _FIELDS:
        found = config.get(name)
        if isinstance(found, dict) and "long_factor" in found:
            kept = {key: each for key, each in found.items() if key != "type"}
            renamed[name] = {**kept, "rope_type": _kind_of(found)}
    return renamed


def _kind_of(found: Mapping[str, object]) -> str:
    kind = str(found.get("rope_type") or found.get("type") or "default")
    return "longrope" if "long_factor" in found else kind


def _beside(config: Mapping[str, object]) -> dict[str, object]:
    value = config.get(_ORIGINAL)
    return {} if value is None else {_ORIGINAL: value}


def _read(
    model: str, name: str, found: Mapping[str, object], *, layers: str = ""
) -> Rope:
    kind = _kind_of(found)
    factor, original = found.get("factor"), found.get(_ORIGINAL)
    if kind in _SCALED and factor is not None and not _is_positive(factor):
        raise ModelLoadError(
            model, f"config.json: {name}.factor is {short(factor)}, not above 0"
        )
    if original is not None and not is_length(original):
        raise ModelLoadError(
            model,
            f"config.json: {_ORIGINAL} is {short(original)}, not a number of tokens",
        )
    return Rope(
        kind=kind,
        factor=float(factor) if _is_positive(factor) else None,
        original=original,
        layers=layers,
    )


def _is_positive(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < math.inf
