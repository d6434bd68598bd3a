"""How many tokens a model's context has, by vLLM's rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hookline.exceptions import ModelLoadError
from hookline_description.rope import Rope, read_ropes
from hookline_description.sizes import MAX_LENGTH, is_length

_NAMES = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
"""Fields with a context's length; the smallest counts."""
_TRAINED_LENGTHS = {"bloom": 2048, "falcon": 2048, "mpt": 2048}
"""Tokens of the contexts that these families were trained with."""
_EXTENDED = "gemma3"
"""Models of these types have the extended length in `max_position_embeddings`, though
they name a factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLength:
    """The context of a model, in tokens.

    Attributes:
        most: The longest one.
        default: What is served unless a length is configured: shorter than `most` where
            rotary embeddings have other frequencies for contexts up to it.
        source: What `most` follows from, in one clause.
        ropes: The rotary embeddings.
    """

    most: int
    default: int
    source: str
    ropes: tuple[Rope, ...] = ()


def context_length(
    model: str, config: Mapping[str, object], tokenizer_limit: float | None = None
) -> ContextLength:
    """Derives the context's length.

    `max_position_embeddings`, or what a family has in its place, is the length before
    rotary embeddings extend it by their factor: linear and dynamic ones by that length,
    yarn by its `original_max_position_embeddings`, if it has one.

    Args:
        model: The model's name, for errors.
        config: The text model's configuration.
        tokenizer_limit: The tokenizer's `model_max_length`, if it has one. As in vLLM
            it bounds what the factor then extends.

    Raises:
        ModelLoadError: The configuration names no length, or an impossible one.
    """
    length, source = _named(model, config)
    if tokenizer_limit is not None and tokenizer_limit < length:
        length = int(tokenizer_limit)
        source = f"model_max_length {length} of the tokenizer"
    ropes = read_ropes(model, config)
    most = length
    if not str(config.get("model_type")).startswith(_EXTENDED):
        most, source = _extended(length, source, ropes)
    if not 0 < most <= MAX_LENGTH:
        raise ModelLoadError(
            model, f"config.json: no model has a context of {most} tokens ({source})"
        )
    shorter = (
        length if each.kind == "dynamic" else each.original or length
        for each in ropes
        if each.has_short_form
    )
    return ContextLength(
        most=most, default=min([most, *shorter]), source=source, ropes=ropes
    )


def _named(model: str, config: Mapping[str, object]) -> tuple[int, str]:
    """Returns the length that the configuration names, and how."""
    named = config.get("model_max_length")  # Command R: the others are shorter
    if is_length(named):
        return named, f"model_max_length {named}"
    fields = ((config.get(name), name) for name in _NAMES)
    found = [(value, name) for value, name in fields if is_length(value)]
    if found:
        length, name = min(found, key=lambda each: each[0])
        return length, f"{name} {length}"
    family = str(config.get("model_type"))
    trained = _TRAINED_LENGTHS.get(family)
    if trained is None or any(name in config for name in _NAMES):
        raise ModelLoadError(model, f"config.json has no valid {_NAMES[0]}")
    return trained, f"the {trained} tokens that {family} was trained with"


def _extended(length: int, source: str, ropes: Sequence[Rope]) -> tuple[int, str]:
    """Returns the length with factors, and what it follows from."""
    most = length
    for rope in ropes:
        if not rope.is_scaled or rope.factor is None:
            continue
        begin, named = length, source
        if rope.kind == "yarn" and rope.original is not None:
            begin = rope.original
            named = f"original_max_position_embeddings {begin}"
        extended = int(begin * rope.factor)
        if extended > most or (rope.kind == "yarn" and len(ropes) == 1):
            most = extended
            source = f"{named} × {rope.kind} factor {rope.factor:g}"
    return most, source
