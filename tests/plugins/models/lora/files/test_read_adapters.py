"""Adapters are read as `peft` reads them."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline_lora.config import LoraConfig
from hookline_lora.exceptions import AdapterError
from hookline_lora.files.description import AdapterFacts, describe_adapter
from hookline_lora.files.weights import AdapterWeights, read_adapter
from hookline_models.checkpoints.cut import Cut
from hookline_testing.adapters import (
    LINEAR,
    Shapes,
    decoder_shapes,
    make_adapter,
    save_adapter,
    shapes_of,
    with_adapter,
)
from hookline_testing.oracle import Oracle, make_oracle

CONFIG = LoraConfig(max_lora_rank=64)
SHAPES = decoder_shapes()

VARIANTS: dict[str, dict[str, Any]] = {
    "all": {"target_modules": [*LINEAR], "r": 64},
    "rank 1": {"target_modules": ["q_proj"], "r": 1, "lora_alpha": 3},
    "all-linear": {"target_modules": "all-linear"},
    "stabilized": {"target_modules": ["o_proj"], "r": 6, "use_rslora": True},
    "patterns": {
        "target_modules": [*LINEAR],
        "use_rslora": True,
        "rank_pattern": {
            "layers.1.self_attn.q_proj": 3,
            "q_proj": 5,
            r".*\.(0|2)\.mlp\.(up|down)_proj": 2,
            "^model.layers.1.mlp.gate_proj": 7,
            "_proj": 9,
        },
        "alpha_pattern": {"v_proj": 1, r"layers\.\d+\.mlp\.[a-z]+_proj": 2.5},
    },
    "expression": {
        "target_modules": r"(?:.*?\bmodel\.layers\.[\d]{1,}\.(?:self_attn)\."
        r"(?:q_proj|k_proj)$)|.*\.1\.mlp\.up_proj"
    },
    "excluded": {
        "target_modules": [*LINEAR],
        "exclude_modules": ["layers.0.mlp.up_proj"],
    },
    "excluded by expression": {
        "target_modules": [*LINEAR],
        "exclude_modules": r".*\.self_attn\..*",
    },
    "layers": {"target_modules": [*LINEAR], "layers_to_transform": [0, 2]},
    "one layer": {
        "target_modules": [*LINEAR],
        "layers_to_transform": 1,
        "layers_pattern": "layers",
    },
    "another container": {
        "target_modules": [*LINEAR],
        "layers_to_transform": [1],
        "layers_pattern": ["h", "model.layers"],
    },
    "embeddings": {"target_modules": ["embed_tokens", "v_proj"], "r": 5},
    "head": {"target_modules": ["lm_head", "v_proj"], "r": 5},
    "saved head": {"target_modules": ["v_proj"], "modules_to_save": ["lm_head"]},
}


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return make_oracle("llama", tmp_path_factory.mktemp("base"))


def read(
    folder: Path,
    shapes: Shapes = SHAPES,
    dtype: torch.dtype = torch.float32,
    part: Any = None,
) -> tuple[AdapterFacts, AdapterWeights]:
    facts = describe_adapter(folder, targets=shapes, config=CONFIG)
    return facts, read_adapter(
        folder,
        digest=facts.digest,
        targets=shapes,
        config=CONFIG,
        dtype=dtype,
        part=part,
    )


def matrices(model: torch.nn.Module) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """A and B with its scale, of `peft`'s layers."""
    found = {}
    for name, layer in model.named_modules():
        if not hasattr(layer, "lora_A"):
            continue
        if layer.lora_embedding_A:
            down = layer.lora_embedding_A["default"]
            up = layer.lora_embedding_B["default"]
        else:
            down, up = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        found[name] = (down.detach(), up.detach() * layer.scaling["default"])
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_matrices_are_those_of_peft(
    oracle: Oracle, tmp_path: Path, variant: str
) -> None:
    """Of the same modules, with the same scales and the same numbers."""
    adapted = save_adapter(oracle.model, tmp_path, **VARIANTS[variant])

    facts, weights = read(tmp_path, shapes_of(oracle.model))

    expected = matrices(adapted)
    assert weights.products.keys() == expected.keys()
    for name, (down, up) in expected.items():
        assert torch.equal(weights.products[name].down, down)
        torch.testing.assert_close(weights.products[name].up, up, rtol=1e-6, atol=0)
    assert facts.rank == max(len(down) for down, _ in expected.values())
    for weight in weights.whole.values():
        assert torch.equal(weight, adapted.lm_head.modules_to_save["default"].weight)
    assert list(weights.whole) == VARIANTS[variant].get("modules_to_save", [])
    assert facts.num_bytes == weights.num_bytes


def test_the_maker_writes_what_peft_reads(oracle: Oracle, tmp_path: Path) -> None:
    """Patterns, layers and a whole head included."""
    shapes = shapes_of(oracle.model)
    make_adapter(
        tmp_path,
        shapes,
        targets=(*LINEAR, "embed_tokens"),
        rank_pattern={"q_proj": 8},
        layers_to_transform=[0],
        layers_pattern="model.layers",
        modules_to_save=["lm_head"],
    )

    expected = matrices(with_adapter(oracle.model, tmp_path))

    assert {name: len(down) for name, (down, _) in expected.items()} == {
        each: 8 if "q_proj" in each else 4 for each in shapes if ".0." in each
    }
    _, weights = read(tmp_path, shapes)
    for name, (down, up) in expected.items():
        assert torch.equal(weights.products[name].down, down)
        assert torch.equal(weights.products[name].up, up)


def test_an_adapter_of_a_model_without_a_head_fits(
    oracle: Oracle, tmp_path: Path
) -> None:
    """Its names lack the first part, and its patterns are matched without it."""
    config: dict[str, Any] = {
        "task_type": "FEATURE_EXTRACTION",
        "target_modules": [*LINEAR],
        "rank_pattern": {"^layers.1.*": 2},
    }
    adapted = save_adapter(oracle.model.model, tmp_path, **config)

    _, weights = read(tmp_path, shapes_of(oracle.model))

    for name, (down, _) in matrices(adapted).items():
        assert torch.equal(weights.products[f"model.{name}"].down, down)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_scale_is_multiplied_before_rounding(
    tmp_path: Path, stored: torch.dtype, dtype: torch.dtype
) -> None:
    """In float32, whatever the file and the base have."""
    make_adapter(tmp_path, SHAPES, rank=3, alpha=7.0, dtype=stored)
    name = "model.layers.1.mlp.down_proj"
    file = load_file(tmp_path / "adapter_model.safetensors")

    _, weights = read(tmp_path, dtype=dtype)

    down, up = (file[f"base_model.model.{name}.lora_{each}.weight"] for each in "AB")
    scaled = up.float() * torch.tensor(7 / 3, dtype=torch.float32)
    assert torch.equal(weights.products[name].down, down.to(dtype))
    assert torch.equal(weights.products[name].up, scaled.to(dtype))


@pytest.mark.parametrize(
    ("module", "dim", "cut"),
    [
        ("model.layers.0.self_attn.q_proj", 0, ((32, 64),)),
        ("model.layers.0.self_attn.q_proj", 0, ((48, 64), (0, 16))),
        ("model.layers.0.mlp.down_proj", 1, ((48, 96),)),
        ("model.embed_tokens", 0, ((160, 320),)),
        ("model.embed_tokens", 1, ((0, 32),)),
        ("lm_head", 0, ((160, 320),)),
        ("lm_head", 1, ((8, 16), (32, 48))),
    ],
)
@pytest.mark.parametrize("padding", [0, 3])
def test_a_rank_reads_its_part(
    tmp_path: Path,
    module: str,
    dim: int,
    cut: tuple[tuple[int, int], ...],
    padding: int,
) -> None:
    """Rows of B or columns of A; of modules that it lacks nothing."""
    wanted = Cut(dim=dim, pieces=cut, padding=padding)
    targets = [module.rpartition(".")[2]]
    make_adapter(tmp_path, SHAPES, targets=targets)

    def part(name: str, shape: Sequence[int]) -> Cut | None:
        inputs, outputs = SHAPES[name]
        is_embedding = name == "model.embed_tokens"
        assert list(shape) == [inputs, outputs][:: 1 if is_embedding else -1]
        return wanted if name == module else None

    facts, whole = read(tmp_path)
    _, weights = read(tmp_path, part=part)

    assert list(weights.products) == [module]
    found, all_of_it = weights.products[module], whole.products[module]
    if (dim == 0) == (module == "model.embed_tokens"):
        assert torch.equal(found.up, all_of_it.up)
        expected = Cut(dim=1, pieces=cut, padding=padding).of(all_of_it.down)
        assert torch.equal(found.down, expected)
    else:
        assert torch.equal(found.down, all_of_it.down)
        expected = Cut(dim=0, pieces=cut, padding=padding).of(all_of_it.up)
        assert torch.equal(found.up, expected)
    assert facts.digest == weights.digest


@pytest.mark.parametrize("dim", [0, 1])
def test_a_rank_reads_its_part_of_a_whole_head(tmp_path: Path, dim: int) -> None:
    """Also one that is larger than a piece of the file."""
    shapes = decoder_shapes(hidden=64, vocab=9000, layers=1)
    make_adapter(tmp_path, shapes, targets=["v_proj"], modules_to_save=["lm_head"])
    cut = Cut(dim=dim, pieces=((40, 64), (2, 9)))

    _, whole = read(tmp_path, shapes)
    _, weights = read(
        tmp_path, shapes, part=lambda *_: cut if _[0] == "lm_head" else None
    )

    assert not weights.products
    assert torch.equal(weights.whole["lm_head"], cut.of(whole.whole["lm_head"]))


def test_the_digest_is_of_what_matters(tmp_path: Path) -> None:
    """Neither names nor keys without effect change it; numbers and scales do."""
    digests = {}
    for name, options in {
        "first": {},
        "again": {"seed": 0},
        "other words": {"base_model_name_or_path": "x", "lora_dropout": 0.1},
        "same scale": {"alpha_pattern": {"q_proj": 8.0}},
        "other seed": {"seed": 1},
        "other scale": {"alpha": 9.0},
        "stabilized": {"use_rslora": True},
        "other layers": {"layers_to_transform": [0]},
        "other type": {"dtype": torch.bfloat16},
    }.items():
        folder = make_adapter(tmp_path / name, SHAPES, **options)  # type: ignore[arg-type]
        digests[name] = read(folder)[0].digest

    same = {digests[name] for name in ("first", "again", "other words", "same scale")}
    assert len(same) == 1
    assert len(set(digests.values())) == 6


def test_files_that_changed_meanwhile_are_refused(tmp_path: Path) -> None:
    """Nobody computes with other weights than those of the digest."""
    make_adapter(tmp_path, SHAPES)
    facts, _ = read(tmp_path)
    make_adapter(tmp_path, SHAPES, seed=5)

    with pytest.raises(AdapterError, match="its files have been changed"):
        read_adapter(
            tmp_path,
            digest=facts.digest,
            targets=SHAPES,
            config=CONFIG,
            dtype=torch.float32,
        )


def test_another_base_model_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the shapes are right; the same name elsewhere is none."""
    make_adapter(tmp_path, SHAPES, base_model_name_or_path="org/Tiny-1B")

    with caplog.at_level(logging.WARNING):
        for base in ("/models/tiny-1b", None):
            describe_adapter(tmp_path, targets=SHAPES, config=CONFIG, base=base)
        assert not caplog.records
        facts = describe_adapter(
            tmp_path, targets=SHAPES, config=CONFIG, base="org/other", number_bytes=2
        )

    assert "names the base model org/Tiny-1B" in caplog.text
    ref = facts.named("a", str(tmp_path), is_pinned=True)
    assert ref.base_model_name == "org/Tiny-1B"
    assert (ref.name, ref.digest, ref.is_pinned) == ("a", facts.digest, True)
    file = load_file(tmp_path / "adapter_model.safetensors")
    assert ref.num_bytes == sum(each.numel() for each in file.values()) * 2


def test_numbers_that_the_base_type_has_not_are_refused(tmp_path: Path) -> None:
    """Float16 ends at 65504; a large scale can exceed it."""
    make_adapter(tmp_path, SHAPES, alpha=900_000.0, strength=10.0)
    facts, _ = read(tmp_path)

    with pytest.raises(AdapterError, match=r"B of .* too large for torch\.float16"):
        read_adapter(
            tmp_path,
            digest=facts.digest,
            targets=SHAPES,
            config=CONFIG,
            dtype=torch.float16,
        )


def test_zeros_are_an_adapter(tmp_path: Path) -> None:
    """As `peft` starts one: it changes nothing, and is allowed."""
    make_adapter(tmp_path, SHAPES, strength=0.0)

    _, weights = read(tmp_path)

    assert not any(each.up.any() for each in weights.products.values())


def test_older_configurations_lack_keys(tmp_path: Path) -> None:
    """They have the values that `peft` had before there was a choice."""
    make_adapter(tmp_path, SHAPES, rank=8)
    path = tmp_path / "adapter_config.json"
    config = json.loads(path.read_text())
    path.write_text(
        json.dumps({key: config[key] for key in ("peft_type", "target_modules")})
    )
    file = load_file(tmp_path / "adapter_model.safetensors")
    save_file(file, tmp_path / "adapter_model.safetensors")

    facts, _ = read(tmp_path)

    assert (facts.rank, facts.alpha) == (8, 8.0)
