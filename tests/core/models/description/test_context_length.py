"""How long a model's context is, from its length and its rotary embedding's factor."""

from typing import Any

import pytest

from hookline import ModelLoadError
from hookline_description.context_length import context_length

LENGTH = 64


def lengths(limit: float | None = None, **config: object) -> tuple[int, int]:
    """The longest context, and that which is served by default."""
    found = context_length("m", {"max_position_embeddings": LENGTH, **config}, limit)
    return found.most, found.default


@pytest.mark.parametrize("field", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("kind_field", ["type", "rope_type"])
@pytest.mark.parametrize(
    ("rope", "expected"),
    [
        ({"kind": "yarn", "factor": 4}, (256, 256)),
        ({"kind": "linear", "factor": 4.0}, (256, 256)),
        ({"kind": "dynamic", "factor": 4.0}, (256, 64)),
        ({"kind": "linear", "factor": 2.5}, (160, 160)),
        (
            {
                "kind": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 16,
            },
            (64, 64),
        ),
        (
            {
                "kind": "yarn",
                "factor": 8.0,
                "original_max_position_embeddings": 16,
            },
            (128, 128),
        ),
        ({"kind": "yarn", "original_max_position_embeddings": 16}, (64, 64)),
        (
            {
                "kind": "llama3",
                "factor": 4.0,
                "original_max_position_embeddings": 16,
            },
            (64, 64),
        ),
        (
            {
                "kind": "longrope",
                "factor": 4.0,
                "original_max_position_embeddings": 16,
            },
            (64, 16),
        ),
        (
            {"kind": "su", "long_factor": [], "original_max_position_embeddings": 16},
            (64, 16),
        ),
        ({"kind": "default", "factor": 4.0}, (64, 64)),
        ({"kind": "mrope", "mrope_section": [4, 4, 4]}, (64, 64)),
    ],
    ids=str,
)
def test_factors_extend_a_context(
    field: str, kind_field: str, rope: dict[str, object], expected: tuple[int, int]
) -> None:
    """As in vLLM, in the former and the present form of the field."""
    described = {key: each for key, each in rope.items() if key != "kind"}

    config: dict[str, Any] = {field: {**described, kind_field: rope["kind"]}}

    assert lengths(**config) == expected


def test_an_original_length_beside_the_rope_counts() -> None:
    """Phi-3 and others have it there; it has precedence."""
    rope = {"rope_type": "longrope", "original_max_position_embeddings": 32}

    assert lengths(rope_scaling=rope, original_max_position_embeddings=16) == (64, 16)


def test_each_type_of_layers_may_have_a_rope_of_its_own() -> None:
    """The largest factor counts, and is none of Gemma 3's, whose length has it."""
    ropes = {
        "full_attention": {"rope_type": "linear", "factor": 8.0},
        "sliding_attention": {"rope_type": "default"},
    }

    assert lengths(rope_parameters=ropes) == (512, 512)
    assert lengths(rope_parameters=ropes, model_type="gemma3_text") == (64, 64)


def test_the_smallest_length_counts() -> None:
    """But Command R's own, which is longer than the others."""
    assert lengths(seq_length=32, max_seq_len=48) == (32, 32)
    assert lengths(model_max_length=128) == (128, 128)


def test_a_tokenizer_bounds_the_context() -> None:
    """Before the factor, as in vLLM; most tokenizers have no bound to speak of."""
    rope = {"rope_type": "linear", "factor": 4.0}

    assert lengths(32.0) == (32, 32)
    assert lengths(1e30) == (64, 64)
    assert lengths(64, rope_parameters=rope) == (256, 256)


def test_the_length_is_explained() -> None:
    """For whoever asks for more."""
    rope = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    config = {"max_position_embeddings": LENGTH, "rope_scaling": rope}

    found = context_length("m", config)

    assert found.source == "original_max_position_embeddings 16 × yarn factor 4"


@pytest.mark.parametrize(
    ("rope", "reason"),
    [
        ("yarn", "rope_scaling is 'yarn', not an object"),
        ({"type": "yarn", "factor": "4"}, r"rope_scaling\.factor is '4', not above 0"),
        ({"type": "linear", "factor": -1}, r"rope_scaling\.factor is -1"),
        ({"type": "linear", "factor": 1e12}, "no model has a context of 64000"),
        ({"type": "yarn", "factor": 1e-3}, "no model has a context of 0 tokens"),
        (
            {"type": "yarn", "factor": 2, "original_max_position_embeddings": 0},
            "original_max_position_embeddings is 0",
        ),
    ],
    ids=str,
)
def test_impossible_values_are_named(rope: object, reason: str) -> None:
    """Each is one error, with its field."""
    with pytest.raises(ModelLoadError, match=reason):
        lengths(rope_scaling=rope)
