"""Models in GGUF files are those that `transformers` makes of the same numbers."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig, ModelConfig
from hookline_description.describing import read_description
from hookline_description.locating import located
from hookline_gguf.blocks import MARK, BlockTensor, numbers
from hookline_gguf.loader import GgufLoader
from hookline_gguf.packing import PACKED, packed
from hookline_kernels.quantized_weight import dequantize, pack
from hookline_models.checkpoints.loading import load_model
from hookline_quantized.linear import QuantizedLinear
from hookline_testing.conformance import assert_conforms
from hookline_testing.gguf_files import GgufFile, encoded
from hookline_testing.oracle import SHAPE as ORACLE_SHAPE

SHAPE: dict[str, Any] = {**ORACLE_SHAPE, "pad_token_id": None}
LARGE = {**SHAPE, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1}
"""For blocks of 256 numbers."""
WINDOWS = ["sliding_attention", "full_attention", "sliding_attention"]
FAMILIES: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: LlamaConfig(**SHAPE),
    "llama-tied-biased": lambda: LlamaConfig(
        **SHAPE, tie_word_embeddings=True, attention_bias=True, head_dim=32
    ),
    "mistral": lambda: MistralConfig(**SHAPE, sliding_window=12),
    "qwen2": lambda: Qwen2Config(**SHAPE),
    "qwen3": lambda: Qwen3Config(**SHAPE, head_dim=32, tie_word_embeddings=True),
    "gemma": lambda: GemmaConfig(**SHAPE, head_dim=32),
    "gemma2": lambda: Gemma2Config(
        **SHAPE,
        head_dim=32,
        query_pre_attn_scalar=32,
        sliding_window=12,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=5.0,
        layer_types=WINDOWS,
    ),
    "gemma3": lambda: Gemma3TextConfig(
        **{**SHAPE, "num_hidden_layers": 6},
        head_dim=32,
        query_pre_attn_scalar=32,
        sliding_window=12,
    ),
    "phi3": lambda: Phi3Config(**SHAPE, sliding_window=12),
}
FORMATS = (
    *(Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1),
    *(Kind.Q2_K, Kind.Q3_K, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K),
    *(Kind.IQ4_NL, Kind.IQ4_XS),
)
PROMPT = [5, 71, 12, 200, 33, 7, 8, 150, 3, 44, 90, 120, 11, 6, 18, 240]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def loaded(path: Path, dtype: str = "float32", **options: Any) -> PreTrainedModel:
    """Loads a file as the engine does, with the attention of `transformers`."""
    model = ModelConfig(model=str(path), dtype=dtype, **options)  # type: ignore[arg-type]
    config = located(EngineConfig(model=model)).model
    description = read_description(config).description
    return load_model(config, description, 256, attention="eager", may_compile=False)


def logits(model: PreTrainedModel) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.tensor([PROMPT])).logits
    return found


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", [Kind.F32, Kind.Q8_0], ids=lambda kind: kind.name)
def test_a_model_computes_what_transformers_does(
    name: str, kind: Kind, tmp_path: Path
) -> None:
    """Its shape, order of rows, offsets and ties are undone: logits are equal."""
    file = GgufFile(tmp_path, FAMILIES[name](), kind)

    found = logits(loaded(file.write()))

    torch.testing.assert_close(found, logits(file.model), rtol=1e-4, atol=1e-5)


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + at / 9 for at in range(4)],
    "long_factor": [2.0 + at for at in range(4)],
    "original_max_position_embeddings": 8,
    "partial_rotary_factor": 0.5,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}


def with_frequencies(file: GgufFile) -> None:
    """Adds what converters make of Llama 3's scaling: a divisor of each frequency."""
    head_dim = 16
    plain = 10000.0 ** -(torch.arange(0, head_dim, 2).float() / head_dim)
    scaled = file.model.model.rotary_emb.inv_freq
    file.writer.add_tensor("rope_freqs.weight", (plain / scaled).numpy())


def with_factors(file: GgufFile) -> None:
    for name in ("long", "short"):
        numbers = np.array(LONG[f"{name}_factor"], np.float32)
        file.writer.add_tensor(f"rope_factors_{name}.weight", numbers)
    file.writer.add_rope_scaling_orig_ctx_len(8)
    file.writer.add_rope_dimension_count(8)
    factor = float(file.model.model.rotary_emb.attention_scaling)
    file.writer.add_rope_scaling_attn_factors(factor)


def with_yarn(file: GgufFile) -> None:
    file.writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    file.writer.add_rope_scaling_factor(4.0)
    file.writer.add_rope_scaling_orig_ctx_len(64)


def with_linear(file: GgufFile) -> None:
    file.writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    file.writer.add_rope_scaling_factor(4.0)


@pytest.mark.parametrize(
    ("config", "add"),
    [
        (LlamaConfig(**SHAPE, rope_parameters=LLAMA3), with_frequencies),
        (
            Phi3Config(
                **SHAPE, rope_parameters=LONG, original_max_position_embeddings=8
            ),
            with_factors,
        ),
        (Qwen2Config(**SHAPE, rope_parameters=YARN), with_yarn),
        (LlamaConfig(**SHAPE, rope_parameters=LINEAR), with_linear),
    ],
    ids=["llama3", "longrope", "yarn", "linear"],
)
def test_rotary_embeddings_are_scaled_as_the_file_says(
    config: PreTrainedConfig, add: Callable[[GgufFile], None], tmp_path: Path
) -> None:
    """Factors for each frequency, or one for all, give the same logits."""
    file = GgufFile(tmp_path, config, Kind.F32)
    add(file)

    found = logits(loaded(file.write()))

    torch.testing.assert_close(found, logits(file.model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
def test_formats_are_read(kind: Kind, tmp_path: Path) -> None:
    """A model in each format computes what its dequantized weights do."""
    file = GgufFile(tmp_path, LlamaConfig(**LARGE), kind)

    found = logits(loaded(file.write()))

    torch.testing.assert_close(found, logits(file.model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
def test_weights_are_those_of_gguf(kind: Kind, tmp_path: Path) -> None:
    """Without kernels for them, numbers equal the package's bit by bit."""
    file = GgufFile(tmp_path, LlamaConfig(**LARGE), kind)
    path = file.write()

    with GgufLoader("small", [path]) as loader:
        found = loader.tensors()
        for name, weight in file.model.state_dict().items():
            blocks = found.get(f"{name.removesuffix('.weight')}.{MARK}{kind.name}")
            if isinstance(blocks, BlockTensor):
                assert torch.equal(numbers(blocks.rows(), kind), weight), name
            else:
                assert torch.equal(found[name][...].float(), weight), name


def test_without_kernels_weights_are_dequantized(tmp_path: Path) -> None:
    """Float16 has no kernels, so that all weights become plain ones."""
    file = GgufFile(tmp_path, FAMILIES["llama"](), Kind.Q4_0)
    found = loaded(file.write(), dtype="float16").state_dict()

    for name, weight in file.model.state_dict().items():
        assert torch.equal(found[name], weight.half()), name


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.name)
def test_packed_weights_are_those_of_gguf(kind: Kind) -> None:
    """Codes, scales and shifts of kernels stand for the package's numbers."""
    drawn = np.random.default_rng(1).normal(size=(64, 512)).astype(np.float32)
    rows = encoded(drawn, kind)
    whole = packed(rows, kind)
    shifts = None if whole.shifts is None else torch.from_numpy(whole.shifts)

    found = dequantize(
        pack(
            torch.from_numpy(whole.codes),
            torch.from_numpy(whole.scales),
            shifts,
            bits=whole.bits,
        )
    ).numpy()

    expected = gguf.quants.dequantize(rows, kind)
    if kind is Kind.Q4_K:  # shifts are rounded once more
        assert np.abs(found - expected).max() <= np.abs(expected).max() * 2.0**-22
    else:
        assert np.array_equal(found, expected)


def test_the_log_says_what_stays_quantized(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line tells formats and memory of what is kept and of what is not."""
    caplog.set_level(logging.INFO, "hookline_gguf")
    config = LlamaConfig(**SHAPE, tie_word_embeddings=True)

    loaded(GgufFile(tmp_path, config, Kind.Q4_0, table=Kind.Q8_0).write())

    own = [each for each in caplog.records if each.name.startswith("hookline_gguf")]
    [line] = [each.getMessage() for each in own]  # other tests turn on others' lines
    assert "21 of Q4_0 (" in line
    assert "1 of Q8_0 (" in line
    assert "dequantized to float32: 1 (0 MiB)" in line


def test_what_was_dequantized_may_be_quantized(tmp_path: Path) -> None:
    """--quantization w8a16 takes a file whose weights are in 16 bits."""
    file = GgufFile(tmp_path, FAMILIES["llama"](), Kind.F16)

    model = loaded(file.write(), quantization="w8a16")

    assert type(model.lm_head).__name__ == "JoinableLinear"
    torch.testing.assert_close(logits(model), logits(file.model), rtol=0.1, atol=0.02)


@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_0], ids=lambda kind: kind.name)
def test_blocks_take_activations_in_8_bits(kind: Kind, tmp_path: Path) -> None:
    """--quantization w8a8 leaves codes and scales what they are, and rounds inputs."""
    file = GgufFile(tmp_path, FAMILIES["llama"](), kind)

    model = loaded(file.write(), quantization="w8a8")

    for name, module in model.named_modules():
        if isinstance(module, QuantizedLinear):
            assert module.quantized is not None
            assert module.quantized.activation_group == 32
            weight = file.model.get_parameter(f"{name}.weight")
            assert torch.equal(dequantize(module.quantized), weight), name
    difference = (logits(model) - logits(file.model)).norm()
    assert 0 < difference < 0.05 * logits(file.model).norm()


def test_the_loader_conforms(tmp_path: Path) -> None:
    """It leaves safetensors alone, and reads tensors in parts."""
    path = GgufFile(tmp_path, FAMILIES["llama"](), Kind.Q4_0).write()
    folder = located(EngineConfig(model=ModelConfig(model=str(path)))).model.model

    assert_conforms("model_loader", "gguf", options={"folder": folder})
    assert_conforms("model_source", "gguf")


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_0], ids=lambda kind: kind.name)
def test_tokens_are_those_of_transformers(
    name: str, kind: Kind, tmp_path: Path
) -> None:
    """The engine's greedy tokens are those of `transformers`, with kernels."""
    expect_equal_tokens(GgufFile(tmp_path, FAMILIES[name](), kind))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K, Kind.BF16],
    ids=lambda kind: kind.name,
)
def test_formats_with_offsets_give_the_same_tokens(kind: Kind, tmp_path: Path) -> None:
    """Kernels add the offsets of groups, and take groups of 32 with 8 bits."""
    expect_equal_tokens(GgufFile(tmp_path, LlamaConfig(**LARGE), kind))


def expect_equal_tokens(file: GgufFile) -> None:
    llm = LLM(str(file.write()), dtype="float32", num_kv_blocks=64)

    [output] = llm.generate(
        [PROMPT],
        SamplingParams(temperature=0, max_tokens=16, ignore_eos=True),
    )

    with torch.no_grad():
        expected = file.model.generate(  # type: ignore[operator]
            torch.tensor([PROMPT]),
            do_sample=False,
            min_new_tokens=16,
            max_new_tokens=16,
            pad_token_id=0,
        )
    assert list(output.outputs[0].token_ids) == expected[0, len(PROMPT) :].tolist()
