"""What cannot be served is refused at load, with the reason."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    DistilBertConfig,
    GPTJConfig,
    LlamaConfig,
    MambaConfig,
    PreTrainedConfig,
    Qwen3NextConfig,
    RwkvConfig,
    T5Config,
)

from hookline import LLM, ConfigError, ModelLoadError
from hookline.config import (
    CacheConfig,
    EngineConfig,
    LoadFormat,
    ModelConfig,
    SchedulerConfig,
)
from hookline_description.locating import located
from hookline_models.machines import cpu
from hookline_testing import save_byte_tokenizer

Change = Callable[..., Path]

TINY: dict[str, Any] = {"vocab_size": 320, "hidden_size": 32, "num_hidden_layers": 2}

UNSERVABLE: dict[str, tuple[Callable[[], PreTrainedConfig], str]] = {
    "t5": (
        lambda: T5Config(vocab_size=320, d_model=32, num_layers=2),
        "it is an encoder-decoder",
    ),
    "mamba": (
        lambda: MambaConfig(**TINY),
        "other than plain attention: linear_attention",
    ),
    "qwen3-next": (
        lambda: Qwen3NextConfig(
            **TINY, max_position_embeddings=64, num_experts=2, num_experts_per_tok=1
        ),
        "other than plain attention: linear_attention",
    ),
    "rwkv": (lambda: RwkvConfig(**TINY), "no valid max_position_embeddings"),
    "gptj": (
        lambda: GPTJConfig(
            vocab_size=320,
            n_embd=32,
            n_layer=2,
            n_head=2,
            rotary_dim=8,
            bos_token_id=None,
            eos_token_id=None,
        ),
        "gptj computes attention in modules of its own",
    ),
    "heads that do not divide": (
        lambda: LlamaConfig(
            **TINY, intermediate_size=32, num_attention_heads=2, num_key_value_heads=3
        ),
        "a trial of it fails: RuntimeError",
    ),
    "bert": (lambda: BertConfig(**TINY, num_attention_heads=2), "it is an encoder"),
    "distilbert": (
        lambda: DistilBertConfig(vocab_size=320, dim=32, n_heads=2),
        "DistilBertConfig",
    ),
}


def load(folder: Path, **more: object) -> None:
    """Loads the model and closes it again."""
    names = {"dtype", "load_format", "max_model_len"}
    model = ModelConfig(
        model=str(folder),
        **{key: value for key, value in more.items() if key in names},  # type: ignore[arg-type]
    )
    others = {key: value for key, value in more.items() if key not in names}
    LLM.from_config(EngineConfig(model=model, **others)).close()  # type: ignore[arg-type]


def refused(folder: Path, reason: str, **more: object) -> ModelLoadError:
    with pytest.raises(ModelLoadError, match=reason) as caught:
        load(folder, **more)
    assert caught.value.model == str(folder)
    assert "\n" not in reason
    return caught.value


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """The error names the path, and that nothing is downloaded."""
    refused(
        tmp_path / "nowhere", r"not a folder with config\.json, nor an installed model"
    )


def test_a_folder_without_a_config_is_refused(folder: Path) -> None:
    """Weights alone are no model."""
    (folder / "config.json").unlink()

    refused(folder, r"not a folder with config\.json")


@pytest.mark.parametrize("text", ["{", "", "\x00\xff", "[1, 2]", "5"])
def test_a_damaged_config_is_refused(folder: Path, text: str) -> None:
    """It is no JSON, or no object."""
    (folder / "config.json").write_text(text, "latin-1")

    refused(folder, r"config\.json (cannot be read|does not contain an object)")


def test_a_damaged_generation_config_is_refused(folder: Path) -> None:
    """The file that names the end-of-text tokens must be whole too."""
    (folder / "generation_config.json").write_text("{")

    refused(folder, r"generation_config\.json cannot be read")


@pytest.mark.parametrize("name", ["vocab_size", "max_position_embeddings"])
@pytest.mark.parametrize("value", [None, "many", 0, -3])
def test_an_unusable_number_is_refused(
    configured: Change, name: str, value: object
) -> None:
    """Without a vocabulary or a context length there is nothing to serve."""
    folder = configured(**{name: value})

    refused(folder, f"no valid {name}")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_tokenizer_is_refused(folder: Path, name: str) -> None:
    """The error names the tokenizer."""
    (folder / name).write_text("{")

    refused(folder, "tokenizer")


def test_a_missing_tokenizer_is_refused(folder: Path) -> None:
    """A model without one cannot take text."""
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()

    refused(folder, "tokenizer")


def test_missing_weights_are_refused(folder: Path) -> None:
    """A folder with a config alone."""
    (folder / "model.safetensors").unlink()

    refused(folder, "model.safetensors")


@pytest.mark.parametrize("size", [0, 7, 200, 100_000])
def test_truncated_weights_are_refused(folder: Path, size: int) -> None:
    """However much of the file is left."""
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])

    refused(folder, "SafetensorError")


def test_a_missing_tensor_is_named(folder: Path) -> None:
    """Nothing is served with weights that were made up."""
    name = "model.layers.1.mlp.down_proj.weight"
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    refused(folder, f"1 missing keys, such as {name}")


def test_a_tensor_of_a_wrong_shape_is_named(folder: Path) -> None:
    """Weights of another model's size do not fit."""
    name = "model.layers.0.self_attn.q_proj.weight"
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = torch.zeros(3, 5)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    refused(folder, f"1 mismatched keys, such as {name}$")


@pytest.mark.parametrize("name", UNSERVABLE)
def test_models_without_a_paged_cache_are_refused(tmp_path: Path, name: str) -> None:
    """Encoders, encoder-decoders, recurrent and linear-attention models."""
    make, reason = UNSERVABLE[name]
    config = make()
    config.max_position_embeddings = 64
    config.save_pretrained(tmp_path)
    save_byte_tokenizer(tmp_path)

    refused(tmp_path, reason, load_format=LoadFormat.DUMMY)


def test_an_unknown_architecture_is_refused(configured: Change) -> None:
    """The error names it."""
    folder = configured(model_type="hal9000", architectures=["HalForCausalLM"])

    refused(folder, "hal9000")


def test_a_longer_context_than_the_models_is_refused(folder: Path) -> None:
    """Both lengths are named."""
    with pytest.raises(ConfigError, match=r"max-model-len: 257 is more.* 256"):
        load(folder, max_model_len=257)


def test_a_pool_too_small_for_one_request_is_refused(folder: Path) -> None:
    """One request of full length must fit, or it would wait for ever."""
    with pytest.raises(ConfigError, match=r"15 blocks hold 240 tokens.* 256"):
        load(folder, cache=CacheConfig(num_kv_blocks=15))

    load(folder, cache=CacheConfig(num_kv_blocks=16))


def test_memory_for_not_even_one_block_is_refused(folder: Path) -> None:
    """The size of a block is named: 3 layers × 2 heads × 2 × 16 × 16 tokens × f32."""
    with pytest.raises(ConfigError, match="one KV block takes 12288 bytes"):
        load(folder, cache=CacheConfig(kv_cache_memory=12287))

    load(folder, max_model_len=16, cache=CacheConfig(kv_cache_memory=12288))


def test_a_negative_prefault_size_is_refused() -> None:
    """The option is named."""
    with pytest.raises(ConfigError, match="kv-cache-prefault: must be at least 0"):
        CacheConfig(kv_cache_prefault=-1)


@pytest.mark.parametrize("wanted", [0, 8192])
def test_the_configured_part_of_the_cache_is_prefaulted(
    folder: Path, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All layers' keys and values; with 0 there is no thread at all."""
    asked: list[tuple[int, int]] = []

    def prefaulter(memory: list[torch.Tensor], num_bytes: int) -> SimpleNamespace:
        asked.append((len(memory), num_bytes))
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(cpu, "KVCachePrefaulter", prefaulter)

    load(folder, cache=CacheConfig(num_kv_blocks=16, kv_cache_prefault=wanted))

    assert asked == ([(6, 8192)] if wanted else [])


@pytest.mark.exhaustive
def test_by_default_the_cache_of_65536_tokens_is_prefaulted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small model's process does not take a GiB that may never be used."""
    asked: list[tuple[int, int]] = []

    def prefaulter(memory: list[torch.Tensor], num_bytes: int) -> SimpleNamespace:
        asked.append((sum(each.nbytes for each in memory), num_bytes))
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(cpu, "KVCachePrefaulter", prefaulter)

    load(folder, cache=CacheConfig(num_kv_blocks=32, block_size=8))

    [(total, prefaulted)] = asked
    assert prefaulted == total // (32 * 8) * 65_536


def test_a_budget_below_a_whole_prompt_is_refused(folder: Path) -> None:
    """Without chunked prefill a step must hold the longest prompt."""
    with pytest.raises(ConfigError, match="without chunked prefill"):
        load(
            folder,
            scheduler=SchedulerConfig(
                enable_chunked_prefill=False,
                max_num_batched_tokens=64,
                max_num_seqs=4,
            ),
        )


def test_an_unknown_engine_is_refused(folder: Path) -> None:
    """The error lists what is installed."""
    from hookline_registry import UnknownPluginError  # noqa: PLC0415

    with pytest.raises(UnknownPluginError, match="native"):
        load(folder, engine="nautilus")


@pytest.mark.parametrize("name", ["/nonexistent", "absent"])
def test_a_tokenizer_that_is_not_there_is_named(name: str) -> None:
    """It is said by the option's name before the model loads."""
    model = ModelConfig(model="demo", tokenizer=name)

    with pytest.raises(ConfigError) as caught:
        located(EngineConfig(model=model))

    assert str(caught.value) == (
        f"tokenizer: {name!r} is neither a folder nor an installed model"
    )
