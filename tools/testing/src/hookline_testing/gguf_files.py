"""Writes small random models as GGUF files, with `transformers` as the oracle.

Weights are converted one by one as the format has them, and the oracle gets what the
package `gguf` reads back.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.constants import GGML_QUANT_SIZES
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OF_GEMMA = {
    "pre_feedforward_layernorm": "ffn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_ARCHITECTURES = {"gemma3_text": "gemma3", "mistral": "llama"}
_SCALES = {
    Kind.Q2_K: (80, 82),
    Kind.Q3_K: (108,),
    Kind.Q4_K: (0, 2),
    Kind.Q5_K: (0, 2),
    Kind.Q6_K: (208,),
    Kind.IQ4_NL: (0,),
    Kind.IQ4_XS: (0,),
}
"""Where the scales of 16 bits are in the blocks of formats that are drawn at random."""
_DRAWN = {
    Kind.Q2_K: 1e-3,
    Kind.Q3_K: 4e-4,
    Kind.Q4_K: 1e-4,
    Kind.Q5_K: 5e-5,
    Kind.Q6_K: 2e-5,
    Kind.IQ4_NL: 4e-4,
    Kind.IQ4_XS: 2e-5,
}
"""Those scales, so that weights are about 0.05."""


def drawn_blocks(rows: int, inputs: int, kind: Kind, seed: int = 0) -> np.ndarray:
    """Returns random blocks, uint8 [rows, bytes of a row], whose numbers are small."""
    block, nbytes = GGML_QUANT_SIZES[kind]
    drawn = np.random.default_rng(seed)
    blocks = drawn.integers(0, 256, (rows * inputs // block, nbytes), np.uint8)
    for at, place in enumerate(_SCALES[kind]):
        scales = drawn.uniform(0.5, 1.5, len(blocks)) * _DRAWN[kind] * (7 if at else 1)
        blocks[:, place : place + 2] = scales.astype(np.float16)[:, None].view(np.uint8)
    return blocks.reshape(rows, -1)


def encoded(numbers: np.ndarray, kind: Kind, seed: int = 0) -> np.ndarray:
    """Returns numbers in a format; of some formats random blocks of their shape."""
    if kind in _DRAWN:
        rows, inputs = numbers.shape
        return drawn_blocks(rows, inputs, kind, seed)
    return gguf.quants.quantize(numbers, kind)


def permuted(numbers: torch.Tensor, heads: int) -> torch.Tensor:
    """Returns rows in llama.cpp's order: the two halves of each head alternate."""
    half = len(numbers) // heads // 2
    order = [
        head * 2 * half + side * half + at
        for head in range(heads)
        for at in range(half)
        for side in range(2)
    ]
    return numbers[order]


def unpermuted(numbers: torch.Tensor, heads: int) -> torch.Tensor:
    """The reverse of `permuted`."""
    order = permuted(torch.arange(len(numbers)), heads)
    found = torch.empty_like(numbers)
    found[order] = numbers
    return found


class GgufFile:
    """A model that is written as one file or several.

    Attributes:
        path: The file, or its first part.
        model: The same model in `transformers`, float32.
        writer: Of the metadata; to be changed before `write`.
    """

    def __init__(
        self,
        folder: Path,
        config: PreTrainedConfig,
        kind: Kind,
        *,
        table: Kind | None = None,
        name: str = "small",
        model: PreTrainedModel | None = None,
    ) -> None:
        """Makes a random model, unless one is given; writes nothing yet.

        Args:
            folder: Folder of the file.
            config: The model's shape.
            kind: Format of the matrices.
            table: Format of the embedding; None for `kind`.
            name: Of the file, without its suffix.
            model: Of this shape; `write` rounds its weights.
        """
        self._kind, self._table = kind, table or kind
        self.architecture = _ARCHITECTURES.get(config.model_type, config.model_type)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.model: PreTrainedModel = model or AutoModelForCausalLM.from_config(
                config
            )
        self.model.float().eval()
        self.config = config
        self.path = folder / f"{name}.gguf"
        self.writer = gguf.GGUFWriter(None, self.architecture)
        self._add_metadata(config)
        add_byte_tokens(self.writer, config.vocab_size)

    def write(self) -> Path:
        """Writes the file, and gives the oracle what `gguf` reads of it."""
        with torch.no_grad():
            for seed, (name, weight) in enumerate(self._weights().items()):
                self._add(name, weight, seed)
        write_file(self.writer, self.path)
        return self.path

    def _weights(self) -> Mapping[str, torch.Tensor]:
        return dict(self.model.named_parameters())

    def _add(self, name: str, weight: torch.Tensor, seed: int) -> None:
        stem, _, last = name.rpartition(".")
        *before, layer, rest = stem.split(".", 3) if "layers." in stem else ["", stem]
        del before
        is_gemma = self.architecture in {"gemma2", "gemma3"}
        names = _NAMES | (_OF_GEMMA if is_gemma else {})
        own = f"blk.{layer}.{names[rest]}" if layer else names[rest]
        heads = None
        if self.architecture == "llama" and own.endswith(("attn_q", "attn_k")):
            heads = self.config.num_attention_heads
            if own.endswith("k"):
                heads = self.config.num_key_value_heads
            weight.copy_(permuted(weight, heads))
        offset = int(self.architecture.startswith("gemma") and own.endswith("norm"))
        kind = Kind.F32
        if weight.ndim > 1:
            kind = self._table if own == "token_embd" else self._kind
        if offset:
            weight.uniform_(-0.5, 0.5)
        stored = encoded((weight + offset).numpy(), kind, seed)
        self.writer.add_tensor(f"{own}.{last}", stored, raw_dtype=kind)
        found = torch.from_numpy(gguf.quants.dequantize(stored, kind).copy())
        found = found.reshape(weight.shape) - offset
        weight.copy_(found if heads is None else unpermuted(found, heads))

    def _add_metadata(self, config: Any) -> None:
        writer = self.writer
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        if (head_dim := getattr(config, "head_dim", None)) is not None:
            writer.add_key_length(head_dim)
            writer.add_value_length(head_dim)
        if (window := getattr(config, "sliding_window", None)) is not None:
            writer.add_sliding_window(window)
        for name in ("attn_logit_softcapping", "final_logit_softcapping"):
            if (value := getattr(config, name, None)) is not None:
                writer.add_float32(f"{self.architecture}.{name}", value)
        rope = config.rope_parameters
        writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])


def add_byte_tokens(writer: gguf.GGUFWriter, count: int) -> None:
    """Adds a tokenizer of single bytes, and tokens that are unused."""
    from hookline_processes.tokenizer_texts import byte_level_alphabet  # noqa: PLC0415

    bytes_ = {value: text for text, value in byte_level_alphabet().items()}
    texts = [bytes_[each] for each in range(256)]
    unused = [f"[unused{each}]" for each in range(256, count)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*texts, *unused])
    writer.add_token_types([1] * 256 + [5] * len(unused))
    writer.add_token_merges([])


def write_file(writer: gguf.GGUFWriter, path: Path) -> None:
    """Writes everything that a writer has."""
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
