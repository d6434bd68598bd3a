"""What ends a model's texts: whatever any of its files names."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline import LLM, ModelLoadError, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline_description.describing import describe, read_description
from hookline_models.checkpoints.loading import load_model
from hookline_processes.tokenizer_texts import byte_level_alphabet
from hookline_testing.oracle import Oracle

Change = Callable[..., Path]
PROMPT = [5, 6, 7]


def write(folder: Path, name: str, **values: object) -> None:
    """Changes a JSON file, or makes it."""
    path = folder / name
    found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**found, **values}))


def ends_of(folder: Path) -> tuple[int, ...]:
    return describe(ModelConfig(model=str(folder))).eos_token_ids


def warnings_of(folder: Path) -> list[str]:
    return read_description(ModelConfig(model=str(folder))).warnings()


def character(token_id: int) -> str:
    """The byte tokenizer's token of an id."""
    found = next(
        char for char, each in byte_level_alphabet().items() if each == token_id
    )
    assert isinstance(found, str)
    return found


def test_all_files_count(folder: Path) -> None:
    """Each is named with the files that name it, in their order, and none twice."""
    write(folder, "generation_config.json", eos_token_id=[3, 4])
    write(
        folder, "config.json", eos_token_id=4, text_config=config_with(folder, end=[5])
    )
    write(folder, "tokenizer_config.json", eos_token={"content": character(6)})

    read = read_description(ModelConfig(model=str(folder)))

    assert read.description.eos_token_ids == (3, 4, 5, 6)
    assert [each.sources for each in read.end_tokens.tokens] == [
        ("generation_config.json",),
        ("generation_config.json", "config.json"),
        ("config.json's text_config",),
        ("tokenizer_config.json",),
    ]


def config_with(folder: Path, *, end: object) -> dict[str, object]:
    config: dict[str, object] = json.loads((folder / "config.json").read_text("utf-8"))
    return {**config, "eos_token_id": end}


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_a_null_is_no_token(folder: Path, file: str) -> None:
    """It is left out with a warning, and the model loads."""
    write(folder, file, eos_token_id=[2, None])
    config = ModelConfig(model=str(folder))

    assert ends_of(folder) == (2,)
    assert [f"{file}: eos_token_id has a null" in each for each in warnings_of(folder)]
    load_model(config, describe(config), 64)


@pytest.mark.parametrize("end", [None, [], [None]])
def test_a_model_may_have_no_end(folder: Path, end: object) -> None:
    """Nothing names one."""
    write(folder, "config.json", eos_token_id=end)

    assert ends_of(folder) == ()


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("end", ["</s>", True, 2.0, [2, "3"], [[2]], {"id": 2}])
def test_a_value_of_another_type_is_named(folder: Path, file: str, end: object) -> None:
    """With its file and its field."""
    write(folder, file, eos_token_id=end)

    with pytest.raises(ModelLoadError, match=f"{file}: eos_token_id is .* neither"):
        ends_of(folder)


def test_a_tokenizers_end_of_another_type_is_named(folder: Path) -> None:
    """The file is the tokenizer's."""
    write(folder, "tokenizer_config.json", eos_token=2)

    with pytest.raises(ModelLoadError, match=r"tokenizer_config\.json: eos_token is 2"):
        ends_of(folder)


@pytest.mark.parametrize("end", [320, -1])
def test_an_id_outside_of_the_vocabulary_is_left_out(folder: Path, end: int) -> None:
    """It is named, as no logit belongs to it."""
    write(folder, "generation_config.json", eos_token_id=[1, end])

    assert ends_of(folder) == (1,)
    assert f"eos_token_id {end} is outside of the vocabulary" in warnings_of(folder)[0]


PLACES: dict[str, dict[str, dict[str, object]]] = {
    "added_tokens_decoder": {
        "tokenizer_config.json": {
            "eos_token": "<end>",
            "added_tokens_decoder": {"7": {"content": "<end>"}},
        }
    },
    "added_tokens": {
        "tokenizer_config.json": {"eos_token": "<end>"},
        "tokenizer.json": {"added_tokens": [{"id": 7, "content": "<end>"}]},
    },
    "a list of texts and scores": {
        "tokenizer_config.json": {"eos_token": "<end>"},
        "tokenizer.json": {"model": {"vocab": [["a", 0.0]] * 7 + [["<end>", -1.0]]}},
    },
    "special_tokens_map.json": {
        "special_tokens_map.json": {"eos_token": {"content": "<end>"}},
        "vocab.json": {"<end>": 7},
    },
}


@pytest.mark.parametrize("place", PLACES)
def test_the_tokenizers_token_is_found(folder: Path, place: str) -> None:
    """Wherever its files have its text and its id."""
    for file, values in PLACES[place].items():
        write(folder, file, **values)

    assert ends_of(folder) == (7,)


@pytest.mark.parametrize(
    ("special", "expected"),
    [
        ({"eos_token": character(6), "pad_token": character(6)}, (2, 6)),
        ({"eos_token": character(6), "unk_token": character(6)}, (2,)),
        ({"eos_token": "nowhere"}, (2,)),
    ],
    ids=["it pads, too", "it is unknown characters, too", "it has no id"],
)
def test_a_tokenizers_token_may_be_another(
    folder: Path, special: dict[str, object], expected: tuple[int, ...]
) -> None:
    """Padding ends a text, too; what stands for unknown characters may be within."""
    write(folder, "tokenizer_config.json", **special)
    write(folder, "config.json", eos_token_id=2)

    assert ends_of(folder) == expected


def test_any_of_them_ends_a_text(llama: Oracle, folder: Path) -> None:
    """Each alone does, none with ignore_eos, and none before min_tokens."""
    whole = llama.greedy(PROMPT, 24)
    first = {token: at for at, token in reversed(list(enumerate(whole)))}
    later = sorted((at, token) for token, at in first.items() if at >= 4)
    (early, generated), (late, read) = [each for each in later if each[1] < 256][:2]
    write(folder, "generation_config.json", eos_token_id=generated)
    write(folder, "tokenizer_config.json", eos_token=character(read))
    config = EngineConfig(
        model=ModelConfig(model=str(folder)), cache=CacheConfig(num_kv_blocks=16)
    )

    def tokens(**more: object) -> list[int]:
        params = SamplingParams(temperature=0.0, max_tokens=24, **more)  # type: ignore[arg-type]
        [output] = llm.generate([PROMPT], params)
        return output.outputs[0].token_ids

    with LLM.from_config(config) as llm:
        assert set(llm.front_end.facts.model.eos_token_ids) == {generated, read}
        assert tokens() == whole[: early + 1]
        assert tokens(ignore_eos=True) == whole
        assert tokens(ignore_eos=True, stop_token_ids=(read,)) == whole[: late + 1]
        assert not {generated, read} & set(tokens(min_tokens=24))
