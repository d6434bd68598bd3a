"""The sampling of requests that are silent, as files and options recommend it."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from hookline import LLM, ConfigError, ModelLoadError
from hookline.config import ModelConfig
from hookline_description.describing import describe, read_description

FILE = "generation_config.json"
QWEN3 = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "do_sample": True}
PARAMS = {"temperature": 0.6, "top_p": 0.95, "top_k": 20}


def recommend(folder: Path, **values: object) -> None:
    """Writes the model's recommendation."""
    (folder / FILE).write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("options", "values", "most_tokens", "source"),
    [
        ({}, PARAMS, None, FILE),
        ({"generation_config": "vllm"}, {}, None, ""),
        (
            {"override_generation_config": {"temperature": 1, "top_k": -1}},
            {"temperature": 1.0, "top_p": 0.95},
            None,
            f"{FILE}, --override-generation-config",
        ),
        (
            {
                "generation_config": "vllm",
                "override_generation_config": {"max_new_tokens": 9.0},
            },
            {"max_tokens": 9},
            9,
            "--override-generation-config",
        ),
    ],
)
def test_options_choose_what_counts(
    folder: Path,
    options: dict[str, object],
    values: Mapping[str, float],
    most_tokens: int | None,
    source: str,
) -> None:
    """The model's file, none, or a part of it; only what is named bounds lengths."""
    recommend(folder, **QWEN3)

    found = describe(ModelConfig(model=str(folder), **options)).sampling  # type: ignore[arg-type]

    assert dict(found.values) == values
    assert {type(each) for each in found.values.values()} <= {int, float}
    assert isinstance(found.values.get("top_k", 1), int)
    assert (found.most_tokens, found.source) == (most_tokens, source)


def test_another_folder_has_its_own_file(folder: Path, tmp_path: Path) -> None:
    """Its tokens end texts, too, and its length bounds all requests."""
    recommend(folder, temperature=0.1)
    other = tmp_path / "other"
    other.mkdir()
    recommend(other, max_new_tokens=7, eos_token_id=5)

    model = ModelConfig(model=str(folder), generation_config=str(other))
    found = describe(model)

    assert dict(found.sampling.values) == {"max_tokens": 7}
    assert found.sampling.most_tokens == 7
    assert 5 in found.eos_token_ids


def test_a_length_in_the_models_own_file_bounds_nothing(folder: Path) -> None:
    """It is the default of requests without one, as in vLLM."""
    recommend(folder, max_new_tokens=7)

    found = describe(ModelConfig(model=str(folder))).sampling

    assert (dict(found.values), found.most_tokens) == ({"max_tokens": 7}, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1),
        ("temperature", "warm"),
        ("top_p", 0),
        ("top_p", True),
        ("top_k", 2.5),
        ("top_k", -3),
        ("max_new_tokens", 0),
        ("max_new_tokens", 10**400),
        ("min_p", [0.1]),
    ],
)
def test_what_cannot_be_used(folder: Path, name: str, value: object) -> None:
    """The model's own file loses the value; where an operator names it, it ends."""
    recommend(folder, repetition_penalty=1.5, **{name: value})
    own = read_description(ModelConfig(model=str(folder)))

    assert dict(own.description.sampling.values) == {"repetition_penalty": 1.5}
    [warning] = own.sampling.warnings
    assert warning.startswith(f"{FILE}: ")
    assert warning in own.warnings()
    with pytest.raises(ModelLoadError, match=FILE):
        describe(ModelConfig(model=str(folder), generation_config=str(folder)))
    override = {name: value}
    with pytest.raises(ConfigError) as caught:
        describe(ModelConfig(model=str(folder), override_generation_config=override))
    assert caught.value.option == "override-generation-config"


def test_nulls_set_nothing(folder: Path) -> None:
    """In the file; an option takes out by them what the file sets."""
    recommend(folder, temperature=None, top_k=20)

    own = describe(ModelConfig(model=str(folder))).sampling
    without = describe(
        ModelConfig(model=str(folder), override_generation_config={"top_k": None})
    ).sampling

    assert dict(own.values) == {"top_k": 20}
    assert dict(without.values) == {}


def test_unknown_names_are_refused(folder: Path, tmp_path: Path) -> None:
    """One error says what the option takes; a folder without the file is another."""
    unknown = ModelConfig(
        model=str(folder), override_generation_config={"max_tokens": 3}
    )

    with pytest.raises(ConfigError, match="max_new_tokens"):
        describe(unknown)
    with pytest.raises(ModelLoadError, match="does not exist"):
        describe(ModelConfig(model=str(folder), generation_config=str(tmp_path)))


def test_requests_without_parameters_get_them_offline() -> None:
    """`LLM` uses them, and shortens what would not fit into the context."""
    override = {"temperature": 0.25, "max_new_tokens": 64}

    with LLM(
        "demo",
        override_generation_config=override,
        executor="simulated",
        max_model_len=32,
    ) as llm:
        params = llm.get_default_sampling_params()
        [output] = llm.generate([[5] * 20], use_tqdm=False)

    assert (params.temperature, params.max_tokens) == (0.25, 64)
    assert output.outputs[0].output_tokens == 12
