"""Adapters that cannot be computed are refused with the tensor and the reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch

from hookline_lora.config import LoraConfig
from hookline_lora.exceptions import AdapterError
from hookline_lora.files.description import describe_adapter
from hookline_testing.adapters import Shapes, decoder_shapes, make_adapter
from hookline_testing.running_pickle import running_pickle

Tensors = dict[str, torch.Tensor]
FIRST = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
SECOND = FIRST.replace("lora_A", "lora_B")


class Files(Protocol):
    """The fixture; see `conftest.py`."""

    folder: Path
    config: Path
    weights: Path
    shapes: Shapes

    def configure(self, **changes: Any) -> None: ...

    def change(self, change: Callable[[Tensors], object]) -> None: ...


def refusal(files: Files, **options: Any) -> str:
    """Why an adapter is refused."""
    with pytest.raises(AdapterError) as found:
        describe_adapter(
            files.folder, targets=files.shapes, config=LoraConfig(**options)
        )
    assert str(files.folder) in str(found.value)
    assert "\n" not in found.value.reason
    return found.value.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"use_dora": True}, "use_dora is True: DoRA is not supported"),
        ({"alora_invocation_tokens": [1]}, r"activated LoRA \(aLoRA\)"),
        ({"bias": "all"}, "bias is all: biases are not supported"),
        ({"lora_bias": True}, "lora_bias is True: biases"),
        ({"peft_type": "IA3"}, "peft_type is IA3; only LORA"),
        ({"peft_type": None}, "peft_type is None"),
        ({"peft_type": ["LORA"]}, "peft_type is"),
        ({"layer_replication": [[0, 2]]}, "replicated layers"),
        ({"target_parameters": ["a.b"]}, "target_parameters"),
        ({"trainable_token_indices": [1]}, "trainable tokens"),
        ({"megatron_config": {"a": 1}}, "Megatron"),
        ({"init_lora_weights": "pissa_niter_4"}, "changes the base model's weights"),
        ({"kasa_config": {"x": 1}}, "kasa_config is {'x': 1}, which is not supported"),
        ({"use_future": True}, "use_future is True, which is not supported"),
        ({"modules_to_save": ["embed_tokens"]}, "embed_tokens; only lm_head"),
        ({"modules_to_save": "lm_head"}, "modules_to_save is lm_head, not a list"),
        ({"target_modules": None}, "target_modules names no modules"),
        ({"target_modules": [1]}, r"target_modules is \[1\], not a list of names"),
        ({"target_modules": ["qkv_proj"]}, "lora_A.weight is not one of those"),
        ({"target_modules": "(a"}, r"target_modules: \(a cannot be used"),
        ({"rank_pattern": {"(?=a)": 4}}, "rank_pattern: .* of a kind that is not"),
        ({"rank_pattern": {"q_proj": 0}}, "q_proj is 0; it must be 1 to"),
        ({"rank_pattern": [4]}, r"rank_pattern is \[4\], not an object"),
        ({"alpha_pattern": {"q_proj": "4"}}, "q_proj is 4, not a number"),
        ({"lora_alpha": 1e300}, r"lora_alpha is 1e\+300"),
        ({"r": True}, "r is True; it must be"),
        ({"r": 10**30}, "r is 1000000"),
        ({"r": 8}, r"lora_A.weight has the shape \[4, 96\]; .* need \[8, 96\]"),
        ({"use_rslora": 1}, "use_rslora is 1, not a boolean"),
        ({"layers_to_transform": [-1]}, "layers_to_transform"),
        ({"layers_to_transform": [0]}, "layers.1.* is not one of those"),
        ({"layers_to_transform": 0, "layers_pattern": "(a|b)"}, "layers_pattern is"),
        ({"layers_to_transform": 0, "target_modules": "a"}, "needs a list"),
    ],
)
def test_a_configuration_is_refused(
    files: Files, changes: dict[str, Any], reason: str
) -> None:
    """With the key and its value."""
    files.configure(**changes)

    assert_matches(reason, refusal(files))


def assert_matches(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda each: each.pop(SECOND), f"{SECOND} is missing"),
        (
            lambda each: each.update(x=torch.ones(2)),
            "x is no tensor of PEFT, whose names begin with base_model.model.",
        ),
        (
            lambda each: each.update({"base_model.model.a.lora_A.weight": each[FIRST]}),
            "belongs to no layer of the base model",
        ),
        (
            lambda each: each.update(
                {FIRST.replace("q_proj", "qkv_proj"): each[FIRST]}
            ),
            "qkv_proj.lora_A.weight belongs to no layer of the base model",
        ),
        (
            lambda each: each.update(
                {
                    FIRST.replace("lora_A.weight", "lora_magnitude_vector"): each[
                        FIRST
                    ][0]
                }
            ),
            "lora_magnitude_vector belongs to DoRA",
        ),
        (
            lambda each: each.update(
                {SECOND.replace("weight", "bias"): each[FIRST][0]}
            ),
            "lora_B.bias is a bias",
        ),
        (
            lambda each: each.update({FIRST: each[FIRST][:, 1:].contiguous()}),
            r"q_proj.lora_A.weight has the shape \[4, 63\]; .* need \[4, 64\]",
        ),
        (
            lambda each: each.update({SECOND: each[SECOND].T.contiguous()}),
            r"q_proj.lora_B.weight has the shape \[4, 64\]",
        ),
        (
            lambda each: each.update({FIRST: each[FIRST].double()}),
            "numbers of type F64; BF16, F16, F32 are read",
        ),
        (
            lambda each: each.update({FIRST: each[FIRST].to(torch.float8_e4m3fn)}),
            "numbers of type F8_E4M3",
        ),
        (lambda each: each.clear(), "is missing"),
    ],
)
def test_tensors_are_refused(
    files: Files, change: Callable[[Tensors], object], reason: str
) -> None:
    """Missing ones, those that are too many, and those of another base."""
    files.change(change)

    assert_matches(reason, refusal(files))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(
    files: Files, dtype: torch.dtype, number: float
) -> None:
    """Wherever they are."""

    def change(tensors: Tensors) -> None:
        tensors[SECOND] = tensors[SECOND].to(dtype)
        tensors[SECOND][-1, -1] = number

    files.change(change)

    assert refusal(files) == (
        "adapter_model.safetensors: B of model.layers.0.self_attn.q_proj has numbers "
        "that are infinite or NaN"
    )


def test_limits_of_the_server_are_named(files: Files) -> None:
    """Those of ranks and of layers."""
    assert "rank 4; --max-lora-rank is 3" in refusal(files, max_lora_rank=3)
    allowed = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj")
    assert "--lora-target-modules has no gate_proj" in refusal(
        files, target_modules=allowed
    )


def test_a_whole_head_is_a_layer_too(files: Files) -> None:
    """So `--lora-target-modules` has to name it."""
    make_adapter(
        files.folder, files.shapes, targets=["q_proj"], modules_to_save=["lm_head"]
    )

    allowed = LoraConfig(target_modules=("q_proj", "lm_head"))
    describe_adapter(files.folder, targets=files.shapes, config=allowed)

    assert "has no lm_head" in refusal(files, target_modules=("q_proj",))


def test_another_model_is_refused(files: Files) -> None:
    """By the first shape that differs, or because no layer has its name."""
    files.shapes = decoder_shapes(hidden=32)
    assert "need [32, 4]" in refusal(files)
    files.shapes = {"transformer.h.0.attn.c_attn": (64, 192)}
    assert "belongs to no layer of the base model" in refusal(files)
    files.change(lambda tensors: tensors.clear())
    assert "no module of the base model is one of" in refusal(files)


def test_pickles_are_never_opened(files: Files) -> None:
    """Their name is enough."""
    files.weights.unlink()
    (files.folder / "adapter_model.bin").write_bytes(running_pickle())

    assert refusal(files) == (
        "its weights are in adapter_model.bin, a pickle, which is not read: save it "
        "with safe_serialization"
    )


def test_missing_files_are_named(files: Files) -> None:
    """Whichever of both it is."""
    files.weights.unlink()
    assert "adapter_model.safetensors cannot be read: No such file" in refusal(files)
    files.config.unlink()
    assert "adapter_config.json cannot be read: No such file" in refusal(files)


def test_a_pointer_of_git_lfs_is_no_file(files: Files) -> None:
    """The error says how to get the file."""
    files.weights.write_text("version https://git-lfs.github.com/spec/v1\n" * 3)

    assert "git lfs pull" in refusal(files)
