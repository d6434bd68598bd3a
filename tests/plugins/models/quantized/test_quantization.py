"""Models with quantized weights give what `transformers` gives with the same values."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hookline import LLM, ConfigError, ModelLoadError, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
    Quantization,
)
from hookline_description.describing import describe
from hookline_kernels.modules.quantized_layer import bits_in_words
from hookline_kernels.quantized_weight import as_integers, dequantize
from hookline_models.checkpoints.loading import load_model
from hookline_models.loading.cost import cost_of
from hookline_quantized.linear import QuantizedLinear
from hookline_testing.oracle import Oracle, make_oracle
from hookline_testing.quantized_checkpoints import LAYOUTS, compressed, quantize

PROMPTS = [[5, 9, 77, 4, 8, 101, 30], [200, 3, 3, 9]]
GREEDY = SamplingParams(temperature=0.0, max_tokens=12)


def said(
    folder: Path, kernels: Kernels = Kernels.AUTO, **model: Any
) -> list[list[int]]:
    config = EngineConfig(
        model=ModelConfig(model=str(folder), **model),
        cache=CacheConfig(num_kv_blocks=32),
        executor=ExecutorConfig(kernels=kernels),
    )
    with LLM.from_config(config) as llm:
        outputs = llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    return [list(each.outputs[0].token_ids) for each in outputs]


def loaded(folder: Path, **model: Any) -> Any:
    config = ModelConfig(model=str(folder), **model)
    return load_model(config, describe(config), 256, may_compile=False)


@pytest.mark.parametrize("bits", [Quantization.W8A16, Quantization.W4A16])
def test_quantizing_at_load(bits: Quantization, tmp_path: Path) -> None:
    """Greedy tokens are those of a model with the dequantized weights."""
    oracle = make_oracle("qwen3", tmp_path)
    for name, module in loaded(tmp_path, quantization=bits).named_modules():
        if isinstance(module, QuantizedLinear):
            assert module.quantized is not None
            plain = oracle.model.get_submodule(name)
            assert isinstance(plain, nn.Linear)
            plain.weight = nn.Parameter(dequantize(module.quantized))

    found = said(tmp_path, quantization=bits)

    assert found == [oracle.greedy(prompt, 12) for prompt in PROMPTS]


def assert_are_best(oracle: Oracle, prompt: list[int], tokens: list[int]) -> None:
    """Each token's logit is the largest one, or differs by less than codes do."""
    with torch.no_grad():
        logits = oracle.model(torch.tensor([prompt + tokens])).logits[0]
    for token, own in zip(tokens, logits[len(prompt) - 1 :], strict=False):
        assert own[token] >= own.max() - 0.02 * own.std()


@pytest.mark.parametrize("bits", [Quantization.W8A8, Quantization.W4A8])
def test_activations_become_integers(bits: Quantization, tmp_path: Path) -> None:
    """Greedy tokens are those of a model whose layers' inputs are rounded, too.

    Where two are nearly as good either may follow: the last bit of a number decides
    about its code.
    """
    oracle = make_oracle("qwen3", tmp_path)
    for name, module in loaded(tmp_path, quantization=bits).named_modules():
        if isinstance(module, QuantizedLinear):
            assert module.quantized is not None
            plain = oracle.model.get_submodule(name)
            assert isinstance(plain, nn.Linear)
            plain.weight = nn.Parameter(dequantize(module.quantized))
            size = module.quantized.activation_group
            plain.register_forward_pre_hook(
                lambda _, values, size=size: as_integers(values[0], size)
            )

    for kernels in (Kernels.AUTO, Kernels.TORCH):
        found = said(tmp_path, kernels, quantization=bits)
        for prompt, tokens in zip(PROMPTS, found, strict=True):
            assert_are_best(oracle, prompt, tokens)


def test_the_log_names_the_bits_of_both(llama: Oracle) -> None:
    """The line of kernels says that activations become integers."""
    plain = loaded(llama.folder, quantization=Quantization.W4A16)
    integers = loaded(llama.folder, quantization=Quantization.W4A8)

    assert bits_in_words(plain) == "weights in 4 and 8 bits"
    assert bits_in_words(integers) == "weights in 4 and 8 bits, activations in 8"


@pytest.mark.parametrize(
    "name",
    [
        "awq",
        "gptq-act-order",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in LAYOUTS
            if name not in {"awq", "gptq-act-order"}
        ),
    ],
)
def test_checkpoints_in_each_format(name: str, tmp_path: Path) -> None:
    """Greedy tokens are those of a model with the dequantized weights."""
    oracle = make_oracle("llama", tmp_path)
    quantize(oracle, tmp_path, LAYOUTS[name])

    assert said(tmp_path) == [oracle.greedy(prompt, 12) for prompt in PROMPTS]


@pytest.mark.parametrize("name", LAYOUTS)
def test_weights_read_from_each_format(name: str, tmp_path: Path) -> None:
    """They are the values that were written; only layers' weights are quantized."""
    oracle = make_oracle("llama", tmp_path)
    quantize(oracle, tmp_path, LAYOUTS[name])

    model = loaded(tmp_path)

    layers = [each for each in model.modules() if isinstance(each, QuantizedLinear)]
    assert len(layers) == 7 * 3
    assert type(model.lm_head) is nn.Linear
    for key, module in model.named_modules():
        if isinstance(module, QuantizedLinear):
            assert module.quantized is not None
            expected = oracle.model.get_submodule(key).weight
            found = dequantize(module.quantized)
            torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["int-quantized", "w8a8", "w8a8-static", "gptq"])
def test_symmetric_weights_are_exact(name: str, tmp_path: Path) -> None:
    """They equal the reference bit for bit."""
    oracle = make_oracle("llama", tmp_path)
    quantize(oracle, tmp_path, LAYOUTS[name])

    layers = {
        key: each.quantized
        for key, each in loaded(tmp_path).named_modules()
        if isinstance(each, QuantizedLinear) and each.quantized is not None
    }

    assert len(layers) == 7 * 3
    for key, weight in layers.items():
        expected = oracle.model.get_parameter(f"{key}.weight")
        assert torch.equal(dequantize(weight), expected), key


def test_activations_stay_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line of the log says so."""
    quantize(make_oracle("llama", tmp_path), tmp_path, LAYOUTS["w8a8"])

    with caplog.at_level(logging.INFO, "hookline_quantized"):
        loaded(tmp_path)

    (line,) = caplog.messages
    assert line.endswith("activations are not quantized, but stay in float32")


def test_without_kernels(tmp_path: Path) -> None:
    """Torch expands the weights, and gives the same tokens."""
    oracle = make_oracle("llama", tmp_path)
    quantize(oracle, tmp_path, LAYOUTS["awq"])

    found = said(tmp_path, Kernels.TORCH)

    assert found == [oracle.greedy(prompt, 12) for prompt in PROMPTS]


def test_quantized_weights_cost_fewer_bytes(llama: Oracle) -> None:
    """A step reads fewer bytes, and computes as much."""
    plain = cost_of(loaded(llama.folder, dtype="bfloat16"), [])
    small = cost_of(loaded(llama.folder, dtype="bfloat16", quantization="w4a16"), [])

    assert small.weight_bytes < 0.5 * plain.weight_bytes
    assert small.flops_per_token == plain.flops_per_token
    assert small.flops_per_sample == plain.flops_per_sample


def test_float16_checkpoint_computes_in_bfloat16(tmp_path: Path) -> None:
    """Most quantized checkpoints name float16, for which CPUs have no kernels."""
    oracle = make_oracle("llama", tmp_path)
    oracle.model.config.dtype = torch.float16
    oracle.model.config.save_pretrained(tmp_path)
    quantize(oracle, tmp_path, LAYOUTS["gptq"])

    assert loaded(tmp_path).dtype == torch.bfloat16
    with pytest.raises(ModelLoadError, match="need bfloat16 or float32"):
        loaded(tmp_path, dtype="float16")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            {"quant_method": "bitsandbytes"},
            "Hookline reads awq, compressed-tensors, fbgemm_fp8, fp8, gguf, gptq",
        ),
        ({"quant_method": "gptq", "bits": 3}, "have 3 bits; Hookline reads 4 and 8"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "version 'gemv'"),
        (
            compressed("float-quantized", num_bits=4, type="float"),
            "group_0 has float weights of 4 bits",
        ),
        (compressed("pack-quantized", num_bits=3), "group_0 has int weights of 3 bits"),
        (
            compressed("int-quantized", num_bits=8)
            | {"sparsity_config": {"format": "sparse-24-bitmask"}},
            "are sparse .sparse-24-bitmask",
        ),
        (
            compressed("int-quantized", num_bits=8)
            | {"transform_config": {"config_groups": {"r1": {}}}},
            "have a transform_config",
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "algorithm 'NVFP4'"),
        (
            compressed("marlin-24", num_bits=4, type="int"),
            "the format 'marlin-24'",
        ),
        ({"quant_method": "compressed-tensors"}, "have no scheme of weights"),
        ({"quant_method": "fp8"}, "but none is quantized"),
        ({"quant_method": "gptq", "bits": 4}, "but none is quantized"),
    ],
)
def test_unknown_variants_are_refused(
    config: dict[str, object], reason: str, llama: Oracle, tmp_path: Path
) -> None:
    """Each by one error that says why."""
    folder = shutil.copytree(llama.folder, tmp_path / "model")
    described = json.loads((folder / "config.json").read_text("utf-8"))
    described["quantization_config"] = config
    (folder / "config.json").write_text(json.dumps(described))

    with pytest.raises(ModelLoadError, match=reason):
        loaded(folder)


def test_option_that_does_not_fit_the_checkpoint(llama: Oracle) -> None:
    """A format that the checkpoint does not have, or an unknown word."""
    with pytest.raises(ModelLoadError, match=r"is awq, .* checkpoint is not quantized"):
        loaded(llama.folder, quantization=Quantization.AWQ)
    with pytest.raises(ConfigError, match="must be one of w8a16, w4a16"):
        ModelConfig(quantization="int3")  # type: ignore[arg-type]


def test_damaged_layer_is_named(tmp_path: Path) -> None:
    """Its groups of inputs differ in size."""
    layout = LAYOUTS["gptq"]
    oracle = make_oracle("llama", tmp_path)

    def write(numbers: Any) -> dict[str, torch.Tensor]:
        return layout.write(numbers) | {"g_idx": torch.zeros_like(numbers.group_of)}

    quantize(oracle, tmp_path, type(layout)(layout.config, write, is_symmetric=True))

    with pytest.raises(ModelLoadError, match=r"self_attn.q_proj: .* differ in size"):
        loaded(tmp_path)
