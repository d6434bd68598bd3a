"""The output layer is tied, stored, or both, whatever the configuration says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig

from hookline import ModelLoadError
from hookline.config import ModelConfig
from hookline_description.describing import describe
from hookline_models.checkpoints.loading import load_model
from hookline_testing.oracle import SHAPE, make_oracle

HEAD, TABLE = "lm_head.weight", "model.embed_tokens.weight"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """A model with a tied output layer, and one without."""
    found = {}
    for tied in (True, False):
        found[tied] = tmp_path_factory.mktemp("tied")
        config = LlamaConfig(**SHAPE, tie_word_embeddings=tied)
        make_oracle("llama", found[tied], config=config)
    return found


def configure(folder: Path, **values: object) -> None:
    """Changes config.json; None removes a field."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text("utf-8")), **values}
    kept = {name: value for name, value in config.items() if value is not None}
    path.write_text(json.dumps(kept))


def heads(folder: Path, **model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The output layer's weight, and the embedding's."""
    config = ModelConfig(model=str(folder), **model)
    found = load_model(config, describe(config), 256, may_compile=False)
    parameters = found.state_dict()
    return parameters[HEAD], parameters[TABLE]


@pytest.mark.parametrize("flag", [True, False, None], ids=str)
@pytest.mark.parametrize("stored", ["equal", "other"])
def test_a_stored_output_layer_counts(
    folders: dict[bool, Path], stored: str, flag: bool | None, tmp_path: Path
) -> None:
    """As in `transformers`, also if the flag says that it is tied."""
    folder = shutil.copytree(folders[False], tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    if stored == "equal":
        tensors[HEAD] = tensors[TABLE].clone()
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    configure(folder, tie_word_embeddings=flag)

    head, table = heads(folder)

    expected = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert torch.equal(head, expected.lm_head.weight)
    assert torch.equal(head, tensors[HEAD])
    assert torch.equal(table, tensors[TABLE])


@pytest.mark.parametrize("flag", [False, None], ids=str)
def test_a_tied_one_whose_flag_is_wrong(
    folders: dict[bool, Path], flag: bool | None, tmp_path: Path
) -> None:
    """Nothing is made up: one sentence says what is missing, and what to give."""
    folder = shutil.copytree(folders[True], tmp_path / "model")
    configure(folder, tie_word_embeddings=flag)

    with pytest.raises(ModelLoadError, match=r"lm_head\.weight; .* --hf-overrides"):
        heads(folder)

    head, table = heads(folder, hf_overrides={"tie_word_embeddings": True})
    assert torch.equal(head, table)
