"""Small random models of each family, with `transformers` as the oracle."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    DeepseekV2Config,
    DeepseekV3Config,
    FalconConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    MptConfig,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from hookline_testing.byte_tokenizer import save_byte_tokenizer
from hookline_testing.reference_cache import (
    Generated,
    ReferenceCache,
    reference_folder,
)

VOCAB = 320
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
EXPERTS: dict[str, Any] = {
    "head_dim": 16,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
}
_BLOOM: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "n_layer": 3,
    "n_head": 4,
    "seq_length": 256,
    "bos_token_id": None,
    "eos_token_id": None,
}
_LATENT: dict[str, Any] = {
    "kv_lora_rank": 32,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 48,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
}
_MANY_HEADS: dict[str, Any] = {**SHAPE, "num_key_value_heads": 4}
_FALCON: dict[str, Any] = {
    name: SHAPE[name] for name in SHAPE if name != "intermediate_size"
}

FAMILIES: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: LlamaConfig(**SHAPE),
    "qwen2": lambda: Qwen2Config(**SHAPE),
    "qwen3": lambda: Qwen3Config(**SHAPE, head_dim=24),
    "mistral": lambda: MistralConfig(**SHAPE, sliding_window=12),
    "gemma2": lambda: Gemma2Config(
        **SHAPE,
        head_dim=16,
        query_pre_attn_scalar=16,
        sliding_window=12,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=5.0,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "gemma3": lambda: Gemma3TextConfig(
        **SHAPE,
        head_dim=16,
        sliding_window=12,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "phi3": lambda: Phi3Config(**SHAPE),
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCAB,
        n_embd=64,
        n_layer=3,
        n_head=4,
        n_positions=256,
        bos_token_id=None,
        eos_token_id=None,
    ),
    "qwen3-moe": lambda: Qwen3MoeConfig(**SHAPE, **EXPERTS, num_experts=4),
    "mixtral": lambda: MixtralConfig(**SHAPE, num_local_experts=4),
    "gpt-oss": lambda: GptOssConfig(
        **SHAPE,
        head_dim=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=12,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 64,
        },
    ),
    "bloom": lambda: BloomConfig(**_BLOOM),
    "mpt": lambda: MptConfig(
        vocab_size=VOCAB,
        d_model=64,
        n_layers=3,
        n_heads=4,
        max_seq_len=256,
        bos_token_id=None,
        eos_token_id=None,
    ),
    "falcon": lambda: FalconConfig(**_FALCON),
    "falcon-new": lambda: FalconConfig(
        **_FALCON, num_kv_heads=2, new_decoder_architecture=True
    ),
    "falcon-alibi": lambda: FalconConfig(
        **_FALCON, alibi=True, multi_query=False, parallel_attn=False, bias=True
    ),
    "deepseek-v2": lambda: DeepseekV2Config(**_MANY_HEADS, **_LATENT),
    "deepseek-v3": lambda: DeepseekV3Config(**_MANY_HEADS, **_LATENT),
}


ESSENTIAL_FAMILIES = ("gemma2", "gpt-oss", "gpt2", "llama", "qwen3-moe")
"""Each has what no other has: windows and soft caps, sinks, learned positions, experts.
"""
_NUMBER_OF_HEADS = {
    "gpt2": ("n_head",),
    "bloom": ("n_head",),
    "mpt": ("n_heads",),
    "falcon": ("num_attention_heads",),
    "falcon-new": ("num_attention_heads", "num_kv_heads"),
    "falcon-alibi": ("num_attention_heads", "num_kv_heads"),
}
"""What these families' configurations have instead of the heads' width."""


@dataclass(frozen=True)
class Oracle:
    """A model on disk, and the same model in `transformers`."""

    folder: Path
    model: PreTrainedModel
    _said: dict[tuple[object, ...], tuple[int, list[int]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def greedy(
        self, prompt: list[int], count: int, *, repetition_penalty: float = 1.0
    ) -> list[int]:
        """Returns `generate`'s output for one prompt; it is cached, on disk too."""
        key = (repetition_penalty, *prompt)
        if self._said.get(key, (0, []))[0] < count:
            found = self._read_or_generate(prompt, count, repetition_penalty)
            self._said[key] = (count, found)
        return self._said[key][1][:count]

    def _read_or_generate(
        self, prompt: list[int], count: int, repetition_penalty: float
    ) -> list[int]:
        kept = ReferenceCache(self.model, _references())
        found = kept.find(prompt, count, repetition_penalty)
        if found is None:
            found = self._generate(prompt, count, repetition_penalty)
            kept.add(Generated(repetition_penalty, prompt, count, found))
        return found

    def _generate(
        self, prompt: list[int], count: int, repetition_penalty: float
    ) -> list[int]:
        with torch.inference_mode():
            output = self.model.generate(  # type: ignore[operator]
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
                max_new_tokens=count,
                do_sample=False,
                repetition_penalty=repetition_penalty,
            )
        tokens: list[int] = output[0, len(prompt) :].tolist()
        return tokens

    def probabilities_along(
        self, prompt: list[int], tokens: Sequence[int]
    ) -> torch.Tensor:
        """Returns the probabilities at each token's place, [tokens, vocab] float64."""
        with torch.inference_mode():
            every = torch.tensor([[*prompt, *tokens[:-1]]])
            logits: torch.Tensor = self.model(every).logits
        return logits[0, len(prompt) - 1 :].double().softmax(-1)

    def probabilities(self, prompt: list[int]) -> torch.Tensor:
        """Returns the next token's probabilities, [vocab size] float64."""
        with torch.inference_mode():
            logits: torch.Tensor = self.model(torch.tensor([prompt])).logits
        return logits[0, -1].double().softmax(-1)


@cache
def _references() -> Path:
    return reference_folder(Path(__file__))


def make_oracle(
    family: str,
    folder: Path,
    *,
    head_dim: int | None = None,
    config: PreTrainedConfig | None = None,
) -> Oracle:
    """Writes a random model of the family; its weights give clearly different logits.

    The oracle uses eager attention, which supports all models' features, but for a
    Falcon with ALiBi: its eager attention adds the biases twice. `head_dim`, a divisor
    of 64, selects kernels that require one. `config` is the family's by default.
    """
    torch.manual_seed(7)
    config = config or FAMILIES[family]()
    if head_dim is not None and family in _NUMBER_OF_HEADS:
        for name in _NUMBER_OF_HEADS[family]:
            setattr(config, name, config.hidden_size // head_dim)
    elif head_dim is not None and family.startswith("deepseek"):
        config.qk_nope_head_dim = config.v_head_dim = head_dim
    elif head_dim is not None:
        config.head_dim = head_dim
    model = AutoModelForCausalLM.from_config(
        config,
        dtype=torch.float32,
        attn_implementation="sdpa" if family == "falcon-alibi" else "eager",
    )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.mul_(3.0)
            elif name.endswith("sinks"):
                weight.copy_(torch.linspace(-1.0, 2.0, len(weight)))
    model.eval().save_pretrained(folder)
    save_byte_tokenizer(folder)
    return Oracle(folder, model)
