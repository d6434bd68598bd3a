"""Heads are read in the formats in which they are published, and written in them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline.exceptions import ConfigError
from hookline_eagle.checkpoint import load_head, save_head
from hookline_eagle.head import Head
from hookline_eagle.rotary import angle_table
from hookline_testing.running_pickle import running_pickle

MakeHead = Callable[..., Head]

ROTARY = {"rope_theta": 10000.0, "max_position_embeddings": 256}

LAYER = {
    "self_attn.k_proj.weight": (32, 64),
    "self_attn.v_proj.weight": (32, 64),
    "self_attn.q_proj.weight": (64, 64),
    "self_attn.o_proj.weight": (64, 64),
    "mlp.gate_proj.weight": (96, 64),
    "mlp.up_proj.weight": (96, 64),
    "mlp.down_proj.weight": (64, 96),
    "post_attention_layernorm.weight": (64,),
}
EAGLE = {
    "embed_tokens.weight": (320, 64),
    "fc.weight": (64, 128),
    **{f"layers.0.{name}": shape for name, shape in LAYER.items()},
}
WIDE = {f"self_attn.{each}_proj.weight" for each in "qkv"}
EAGLE3 = {
    "fc.weight": (64, 192),
    "midlayer.hidden_norm.weight": (64,),
    "midlayer.input_layernorm.weight": (64,),
    **{
        f"midlayer.{name}": (shape[0], 128) if name in WIDE else shape
        for name, shape in LAYER.items()
    },
    "norm.weight": (64,),
    "lm_head.weight": (200, 64),
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-05,
    "vocab_size": 320,
    "rope_theta": 500000.0,
    "max_position_embeddings": 2048,
}
CONFIG3 = {**CONFIG, "draft_vocab_size": 200}


def published(names: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """Tensors of the names and shapes of published heads."""
    torch.manual_seed(3)
    found = {name: torch.randn(shape) for name, shape in names.items()}
    if "lm_head.weight" in names:
        found["d2t"] = torch.arange(200) // 2
        known = torch.zeros(320, dtype=torch.bool)
        known[torch.arange(200) + found["d2t"]] = True
        found["t2d"] = known
    return found


def write(
    folder: Path, tensors: dict[str, torch.Tensor], config: dict[str, Any]
) -> Path:
    folder.mkdir()
    torch.save(tensors, folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("bias", [True, False])
def test_published_heads_of_eagle_are_read(bias: bool, tmp_path: Path) -> None:
    """By their names, with and without a bias; the embedding is the target's own."""
    tensors = published(EAGLE)
    if bias:
        tensors["fc.bias"] = torch.randn(64)
    folder = write(tmp_path / "a", tensors, {**CONFIG, "bias": bias})

    found = load_head(folder)

    state = found.head.state_dict()
    assert state.keys() == tensors.keys() - {"embed_tokens.weight"}
    assert all(torch.equal(state[name], tensors[name]) for name in state)
    assert not found.head.shape.is_third
    assert found.head.shape.epsilon == 1e-5
    assert found.layers is None


@pytest.mark.parametrize("naming", ["midlayer", "layers.0", "with embedding"])
def test_published_heads_of_eagle3_are_read(naming: str, tmp_path: Path) -> None:
    """With the map of their vocabulary, whatever a trainer calls the layer."""
    tensors = published(EAGLE3)
    if naming == "with embedding":
        tensors["embed_tokens.weight"] = torch.randn(320, 64)
    given = {
        name.replace(
            "midlayer", "layers.0" if naming == "layers.0" else "midlayer"
        ): each
        for name, each in tensors.items()
    }
    folder = write(tmp_path / "a", given, CONFIG3)

    head = load_head(folder).head

    state = head.state_dict()
    assert state.keys() == tensors.keys()
    assert all(torch.equal(state[name], tensors[name]) for name in state)
    assert head.shape.own_embedding == (naming == "with embedding")
    drafted = torch.tensor([0, 1, 2, 199])
    assert head.tokens(drafted).tolist() == [0, 1, 3, 298]


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        ({}, None),
        ({"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}, (1, 2, 3)),
        (
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}},
            (1, 2, 3),
        ),
    ],
)
def test_layers_are_read_as_two_engines_write_them(
    config: dict[str, Any], layers: tuple[int, ...] | None, tmp_path: Path
) -> None:
    """vLLM numbers layers' inputs, SGLang their outputs."""
    folder = write(tmp_path / "a", published(EAGLE3), {**CONFIG3, **config})

    assert load_head(folder).layers == layers


@pytest.mark.parametrize("third", [False, True])
def test_heads_survive_a_round_trip(
    third: bool, tmp_path: Path, make_head: MakeHead
) -> None:
    """In bfloat16, by the published names."""
    head = make_head(third=third)

    save_head(tmp_path / "a", head, ROTARY, "target")
    found = load_head(tmp_path / "a")

    names = set(load_file(tmp_path / "a" / "model.safetensors"))
    state, again = head.state_dict(), found.head.state_dict()
    assert names == state.keys()
    assert all(torch.equal(state[name], again[name].to(state[name])) for name in names)
    assert found.head.shape == head.shape
    assert found.config["rope_theta"] == ROTARY["rope_theta"]


def test_angles_are_those_of_llama() -> None:
    """By theta, and by the kind of scaling that Llama 3 has."""
    scaled = {
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        "max_position_embeddings": 512,
    }
    like = torch.empty(0)

    plain, _ = angle_table({"rope_theta": 500000.0}, 16, 100, like)
    other, _ = angle_table(scaled, 16, 100, like)

    expected = torch.cos(99 / 500000.0 ** (torch.arange(8) / 8))
    torch.testing.assert_close(plain[99, :8], expected)
    assert plain.shape == (100, 16)
    assert not torch.allclose(plain, other)
    with pytest.raises(ConfigError, match="is not supported"):
        angle_table({"rope_scaling": {"rope_type": "odd"}}, 16, 100, like)


def without(name: str) -> dict[str, torch.Tensor]:
    return {each: values for each, values in published(EAGLE).items() if each != name}


WRONG: dict[str, tuple[dict[str, torch.Tensor], dict[str, Any], str]] = {
    "no head": ({"a": torch.zeros(2)}, CONFIG, "has no fc.weight"),
    "a gap": (
        without("layers.0.mlp.up_proj.weight"),
        CONFIG,
        "missing layers.0.mlp.up",
    ),
    "more": (
        {**published(EAGLE), "layers.1.x": torch.zeros(2)},
        CONFIG,
        "unknown layers.1.x",
    ),
    "another width": (published(EAGLE), {**CONFIG, "hidden_size": 32}, "has the shape"),
    "several layers": (
        published(EAGLE),
        {**CONFIG, "num_hidden_layers": 2},
        "num_hidden_layers is 2",
    ),
    "activation": (published(EAGLE), {**CONFIG, "hidden_act": "relu"}, "only 'silu'"),
    "another kind": (
        published(EAGLE),
        {**CONFIG, "model_type": "deepseek_v3"},
        "of the kind 'deepseek_v3' are not supported",
    ),
    "a variant": (
        published(EAGLE3),
        {**CONFIG3, "norm_before_fc": True},
        "norm_before_fc is not supported",
    ),
    "no number": (
        published(EAGLE),
        {**CONFIG, "hidden_size": "x"},
        "usable hidden_size",
    ),
    "a map that leads out": (
        {**published(EAGLE3), "d2t": torch.full((200,), 200)},
        CONFIG3,
        "maps beyond the 320",
    ),
    "a map that meets": (
        {**published(EAGLE3), "d2t": -torch.arange(200)},
        CONFIG3,
        "two draft ids",
    ),
    "odd layers": (
        published(EAGLE3),
        {**CONFIG3, "eagle_aux_hidden_state_layer_ids": [1]},
        "must be three layers",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_weights_are_one_clear_error(name: str, tmp_path: Path) -> None:
    """The error names a tensor that does not fit."""
    tensors, config, reason = WRONG[name]
    folder = write(tmp_path / "a", tensors, config)

    with pytest.raises(ConfigError, match=reason) as caught:
        load_head(folder)

    assert caught.value.option == "speculative-config"


def test_damaged_and_hostile_files_are_one_clear_error(tmp_path: Path) -> None:
    """Missing weights, cut ones, and a pickle that would run code."""
    folder = tmp_path / "a"
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"config\.json cannot be read"):
        load_head(folder)
    (folder / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"neither model\.safetensors"):
        load_head(folder)
    (folder / "pytorch_model.bin").write_bytes(running_pickle())
    with pytest.raises(ConfigError, match="cannot be read"):
        load_head(folder)
    (folder / "model.safetensors").write_bytes(b"short")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_head(folder)
    save_file({"fc.weight": torch.zeros(4, 8)}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match="no usable"):
        load_head(folder)
