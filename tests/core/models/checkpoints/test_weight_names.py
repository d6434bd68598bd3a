"""Folders whose weights have other names, or are not there: loaded, or named."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline import LLM, ModelLoadError
from hookline.config import EngineConfig, ModelConfig
from hookline_description.describing import describe
from hookline_models.checkpoints.loading import load_model
from hookline_testing.oracle import Oracle

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n"
)
INDEX = "model.safetensors.index.json"


def loaded(folder: Path) -> dict[str, torch.Tensor]:
    config = ModelConfig(model=str(folder))
    return load_model(config, describe(config), 64).state_dict()


def refusal(folder: Path) -> str:
    with pytest.raises(ModelLoadError) as found:
        loaded(folder)
    return found.value.reason


def split(folder: Path, *names: str) -> None:
    """Divides the weights among files of these names, without an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    keys = sorted(tensors)
    for at, name in enumerate(names):
        part = {key: tensors[key] for key in keys[at :: len(names)]}
        save_file(part, folder / name, metadata={"format": "pt"})


SHARDS = [f"model-0000{at}-of-00003.safetensors" for at in (1, 2, 3)]
FROM_0 = [f"model-0000{at}-of-00003.safetensors" for at in (0, 1, 2)]


@pytest.mark.parametrize(
    "names",
    [
        SHARDS,
        FROM_0,
        ["weights.safetensors"],
        ["consolidated.safetensors"],
        ["first.safetensors", "second.safetensors"],
    ],
    ids=lambda names: names[0],
)
def test_weights_of_other_names_are_loaded(
    llama: Oracle, folder: Path, names: list[str]
) -> None:
    """Shards without an index, and one file or several of whatever names."""
    split(folder, *names)

    found, expected = loaded(folder), llama.model.state_dict()

    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_what_repeats_the_weights_is_left_out(llama: Oracle, folder: Path) -> None:
    """An adapter, and the weights in their makers' own format."""
    tensors = {"layers.0.attention.wq.weight": torch.zeros(2)}
    for name in ("consolidated.safetensors", "adapter_model.safetensors"):
        save_file(tensors, folder / name)
    (folder / "model.safetensors").rename(folder / "other.safetensors")

    assert loaded(folder).keys() == llama.model.state_dict().keys()


def test_an_index_may_name_more_than_the_model_has(llama: Oracle, folder: Path) -> None:
    """What nothing needs may be missing; what is in two files has the index's home."""
    split(folder, "a.safetensors")
    tensors = load_file(folder / "a.safetensors")
    homes = {**dict.fromkeys(tensors, "a.safetensors"), "more": "b.safetensors"}
    save_file({"lm_head.weight": torch.zeros(2)}, folder / "b.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": homes}))

    found = loaded(folder)["lm_head.weight"]

    assert torch.equal(found, llama.model.state_dict()["lm_head.weight"])


def lose_a_shard(folder: Path) -> None:
    split(folder, *SHARDS)
    (folder / SHARDS[1]).unlink()


def lose_an_indexed_shard(folder: Path) -> None:
    split(folder, *SHARDS)
    homes = {tensor: name for name in SHARDS for tensor in load_file(folder / name)}
    (folder / INDEX).write_text(json.dumps({"weight_map": homes}))
    (folder / SHARDS[0]).unlink()


def index_what_is_not_there(folder: Path) -> None:
    split(folder, "a.safetensors")
    tensors = load_file(folder / "a.safetensors")
    homes = dict.fromkeys(tensors, "a.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": homes}))
    del tensors["lm_head.weight"]
    save_file(tensors, folder / "a.safetensors", metadata={"format": "pt"})


def keep_two_sets(folder: Path) -> None:
    split(folder, "a-00001-of-00001.safetensors", "b-00001-of-00001.safetensors")


def repeat_a_tensor(folder: Path) -> None:
    split(folder, "a.safetensors")
    tensors = load_file(folder / "a.safetensors")
    save_file({"lm_head.weight": tensors["lm_head.weight"]}, folder / "b.safetensors")


def point(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).write_text(POINTER)

    return change


def point_at_shards(folder: Path) -> None:
    split(folder, *SHARDS)
    point(SHARDS[1])(folder)


def replace_by(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(b"x")

    return change


def write(content: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(content)

    return change


def cut(size: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:size])

    return change


def use_original_names(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    tensors = {"tok_embeddings.weight": torch.zeros(2)}
    save_file(tensors, folder / "consolidated.safetensors")


PULL = r"is a Git LFS pointer, not the file itself: run `git lfs pull`"
DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a shard is missing": (lose_a_shard, f"1 of 3 shards.* is missing: {SHARDS[1]}"),
    "a shard of the index is missing": (
        lose_an_indexed_shard,
        f"1 of the 3 files that {INDEX} names is missing: {SHARDS[0]}",
    ),
    "the index has more": (
        index_what_is_not_there,
        "missing keys, such as lm_head.weight; .* finds 1 tensors in files that lack",
    ),
    "two sets of shards": (keep_two_sets, "several sets of shards, a-…-of-00001 and b"),
    "a tensor twice": (
        repeat_a_tensor,
        "lm_head.weight is in a.safetensors and in b.safetensors",
    ),
    "weights": (point("model.safetensors"), f"model.safetensors {PULL}"),
    "a shard": (point_at_shards, f"{SHARDS[1]} {PULL}"),
    "config": (point("config.json"), f"config.json {PULL}"),
    "generation": (point("generation_config.json"), f"generation_config.json {PULL}"),
    "tokenizer": (point("tokenizer.json"), f"tokenizer.json {PULL}"),
    "bin": (
        replace_by("pytorch_model.bin"),
        "no safetensors file, but pytorch_model.bin; .* save_pretrained",
    ),
    "gguf": (replace_by("model-Q4_K_M.gguf"), "but model-Q4_K_M.gguf"),
    "original": (
        replace_by("a.pth", "b.pth", "c.pth", "d.pth"),
        "a.pth, b.pth, c.pth and 1 more",
    ),
    "unfinished": (
        replace_by("model.safetensors.incomplete"),
        r"a download has not finished \(model.safetensors.incomplete\)",
    ),
    "below": (replace_by("fp16/model.safetensors"), "only its folder fp16"),
    "adapter": (
        replace_by("adapter_model.safetensors"),
        "only an adapter .* not its base model",
    ),
    "nothing": (replace_by(), "it has no safetensors file; weights are read from"),
    "makers' names": (use_original_names, "the tensors of Mistral's own format"),
    "empty": (write(b""), "model.safetensors is empty"),
    "a page": (write(b"<!DOCTYPE html><html>404</html>"), "is a page of the web"),
    "a start": (cut(200), "its 200 bytes end in its header"),
    "a part": (cut(100_000), r"is cut off: it has 100000 of \d+ bytes"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_wrong_is_named(folder: Path, name: str) -> None:
    """With the file, and what to do."""
    damage, reason = DAMAGES[name]
    damage(folder)

    assert re.search(reason, refusal(folder))


def test_a_pointers_error_is_the_only_one(folder: Path) -> None:
    """The engine says it before the tokenizer's library fails in words of its own."""
    point("tokenizer_config.json")(folder)

    with pytest.raises(ModelLoadError, match=f"tokenizer_config.json {PULL}"):
        LLM.from_config(EngineConfig(model=ModelConfig(model=str(folder)))).close()
