"""Writes the random-weight models that Hookline and its peers are compared on.

usage: python benchmarks/bench_models.py FOLDER

llama-tiny   2 layers, hidden 128, head dim 64, float32: the engine's own overhead
llama-90m    12 layers, hidden 768, 12 heads, 4 KV heads, bfloat16 (82 M): balanced
qwen3-0.6b   28 layers, hidden 1024, 16 heads, 8 KV heads, bfloat16 (596 M): compute

`benchmarks/experts.py` adds one of its own:

qwen3-moe    8 layers, hidden 768, 12 heads, 4 KV heads, 16 experts of width 512, two of
             them for each token, bfloat16 (170 M)

Real architectures, deterministic weights, no network: the tokenizer is trained on the
standard library of the Python that runs the script.
"""

import argparse
import sysconfig
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NAMES = ("llama-tiny", "llama-90m", "qwen3-0.6b")
WITH_EXPERTS = "qwen3-moe"


def train_tokenizer() -> PreTrainedTokenizerFast:
    """Trains a byte-level BPE tokenizer with 8192 tokens."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=8192,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    bpe.train([str(path) for path in sources], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=SPECIAL_TOKENS[0], pad_token=SPECIAL_TOKENS[0]
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(name: str, vocab_size: int) -> PreTrainedModel:
    """Creates one of the models with random weights of seed 0."""
    common: dict[str, Any] = {
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 0,
    }
    torch.manual_seed(0)
    config: PreTrainedConfig
    if name == "llama-tiny":
        config = LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=64,
            **common,
        )
        return LlamaForCausalLM(config)
    if name == "llama-90m":
        config = LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=768,
            intermediate_size=2048,
            num_hidden_layers=12,
            num_attention_heads=12,
            num_key_value_heads=4,
            **common,
        )
        return in_bfloat16(LlamaForCausalLM(config))
    if name == WITH_EXPERTS:
        config = Qwen3MoeConfig(
            vocab_size=vocab_size,
            hidden_size=768,
            num_hidden_layers=8,
            num_attention_heads=12,
            num_key_value_heads=4,
            num_experts=16,
            num_experts_per_tok=2,
            moe_intermediate_size=512,
            **common,
        )
        return in_bfloat16(Qwen3MoeForCausalLM(config))
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        **common,
    )
    return in_bfloat16(Qwen3ForCausalLM(config))


def in_bfloat16(model: PreTrainedModel) -> PreTrainedModel:
    return torch.nn.Module.to(model, torch.bfloat16)


def write_models(folder: Path, names: tuple[str, ...] = NAMES) -> None:
    """Writes each model that does not exist yet."""
    missing = [name for name in names if not (folder / name / "config.json").is_file()]
    if not missing:
        return
    tokenizer = train_tokenizer()
    for name in missing:
        tokenizer.save_pretrained(folder / name)
        build_model(name, len(tokenizer)).save_pretrained(folder / name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    write_models(parser.parse_args().folder)
