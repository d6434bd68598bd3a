"""Measures what a KV cache in 8 bits costs in quality, beside one in the model's dtype.

usage: python benchmarks/kv_cache_quality.py [--model demo] [--sequences 16]
           [--tokens 1024] [--generated 64] [--dtypes int8 fp8_e4m3 fp8_e5m2]
           [--quantization w8a16|w4a16]

Each sequence, of the Python standard library's text, is computed in chunks, so that its
tokens attend to cached ones. Reports for each dtype the perplexity, the mean
Kullback-Leibler divergence of the predictions from those with the model's own dtype
(nats per token), and the share of tokens whose most probable successor is the same.
Then both continue each sequence greedily: the share of equal tokens, and how many
precede the first difference. With --quantization the caches are those of a model with
quantized weights, and all of them are compared with the model that has neither.
"""

import argparse
import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hookline.clock import SystemClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    KVCacheDtype,
    ModelConfig,
    Quantization,
)
from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.loaded_model import LoadedModel
from hookline.engine.worker.paged_cache import PagedCache
from hookline.model_description import find_folder
from hookline.startup_timer import StartupTimer
from hookline.tokenizer import Tokenizer
from hookline_kernels import CPU
from hookline_models.loading.loader import load

BLOCK_SIZE = 16
CHUNK = 128


@dataclass(frozen=True, slots=True)
class Answers:
    """What a model says with a cache of one dtype.

    Attributes:
        logits: [sequences, tokens, vocabulary] of the given texts.
        continued: [sequences, generated] greedy tokens behind them.
        bytes_per_token: Size of a token in the cache.
    """

    logits: torch.Tensor
    continued: torch.Tensor
    bytes_per_token: int


@dataclass(frozen=True, slots=True)
class Loss:
    """How answers differ from those of the reference.

    Attributes:
        perplexity: Of the texts.
        divergence: Mean Kullback-Leibler divergence from the reference, in nats.
        same_top: Share of predictions with the same most probable token.
        same_continued: Share of greedy tokens that are the same.
        agreed: Mean number of greedy tokens before the first difference.
    """

    perplexity: float
    divergence: float
    same_top: float
    same_continued: float
    agreed: float

    @classmethod
    def of(cls, found: Answers, wanted: Answers, texts: torch.Tensor) -> "Loss":
        """Compares answers about texts [sequences, tokens]."""
        entropy = divergence = 0.0
        for own, other, text in zip(found.logits, wanted.logits, texts, strict=True):
            logs, reference = own.log_softmax(-1), other.log_softmax(-1)
            entropy -= float(logs[:-1].gather(1, text[1:, None]).mean())
            divergence += float((reference.exp() * (reference - logs)).sum(-1).mean())
        same = found.continued == wanted.continued
        tops = found.logits.argmax(-1) == wanted.logits.argmax(-1)
        return cls(
            perplexity=float(torch.tensor(entropy / len(texts)).exp()),
            divergence=divergence / len(texts),
            same_top=float(tops.float().mean()),
            same_continued=float(same.float().mean()),
            agreed=float(same.int().cumprod(1).sum(1).float().mean()),
        )


def texts_of(model: str, sequences: int, tokens: int) -> torch.Tensor:
    """Returns the starts of large files of the standard library, as token ids."""
    tokenizer = Tokenizer.load(find_folder(model))
    rows = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        if path.stat().st_size > 12 * tokens:
            ids = tokenizer.encode(path.read_text("utf-8")[: 12 * tokens])
            if len(ids) >= tokens:
                rows.append(ids[:tokens])
        if len(rows) == sequences:
            return torch.tensor(rows)
    raise SystemExit(f"there are only {len(rows)} texts of {tokens} tokens")


@torch.inference_mode()
def answers(
    model: ModelConfig,
    texts: torch.Tensor,
    generated: int,
    dtype: KVCacheDtype,
    kernels: Kernels = Kernels.AUTO,
) -> Answers:
    """Computes texts in chunks, then continues them one token at a time."""
    config = EngineConfig(
        model=model,
        cache=CacheConfig(kv_cache_dtype=dtype, block_size=BLOCK_SIZE),
        executor=ExecutorConfig(kernels=kernels),
    )
    timer = StartupTimer(SystemClock())
    loaded = load(config, CPU, timer, extensions=FollowedRows())
    run = _Run(loaded, len(texts), texts.shape[1] + generated)
    parts = [run.logits(part) for part in texts.split(CHUNK, 1)]
    last, continued = parts[-1][:, -1:], []
    for _ in range(generated):
        continued.append(last.argmax(-1))
        last = run.logits(continued[-1])
    size = sum(each.bytes_per_block(1, loaded.cache_dtype) for each in loaded.layers)
    return Answers(torch.cat(parts, 1), torch.cat(continued, 1), size)


class _Run:
    """Sequences of one length that are computed side by side."""

    def __init__(self, model: LoadedModel, sequences: int, tokens: int) -> None:
        blocks = -(-tokens // BLOCK_SIZE)
        self._model, self._computed = model, 0
        self._tables = torch.arange(sequences * blocks).view(sequences, blocks)
        cache = PagedCache(
            model.layers,
            sequences * blocks,
            BLOCK_SIZE,
            model.dtype,
            cache_dtype=model.cache_dtype,
        )
        model.forward.bind(cache)

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """Computes the next tokens of all sequences, [n, t] → [n, t, vocabulary]."""
        sequences, count = tokens.shape
        at = torch.arange(self._computed, self._computed + count)
        self._computed += count
        slots = self._tables[:, at // BLOCK_SIZE] * BLOCK_SIZE + at % BLOCK_SIZE
        lengths = [self._computed] * sequences
        found = self._model.forward(
            ForwardBatch(
                token_ids=tokens.flatten(),
                positions=at.repeat(sequences),
                logits_indices=torch.arange(tokens.numel()),
                slot_mapping=slots.flatten(),
                block_tables=self._tables,
                query_lens=[count] * sequences,
                seq_lens=lengths,
                num_decodes=sequences if count == 1 else 0,
                seq_lens_tensor=torch.tensor(lengths),
            )
        )
        return found.float().view(sequences, count, -1)


def main() -> None:
    """Prints a row for each dtype."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--generated", type=int, default=64)
    eight_bits = ["int8", "fp8_e4m3", "fp8_e5m2"]
    parser.add_argument("--dtypes", nargs="*", choices=eight_bits, default=eight_bits)
    parser.add_argument("--quantization", type=Quantization)
    options = parser.parse_args()
    texts = texts_of(options.model, options.sequences, options.tokens)
    plain = ModelConfig(model=options.model)
    model = replace(plain, quantization=options.quantization)
    wanted = answers(plain, texts, options.generated, KVCacheDtype.AUTO)
    print("| cache | bytes per token | perplexity | KL | same top | same greedy |")
    print("|---|---|---|---|---|---|")
    for name in ("auto", *options.dtypes):
        dtype = KVCacheDtype(name)
        found = wanted
        if dtype is not KVCacheDtype.AUTO or model != plain:
            found = answers(model, texts, options.generated, dtype)
        loss = Loss.of(found, wanted, texts)
        print(
            f"| {name} | {found.bytes_per_token} | {loss.perplexity:.4f} "
            f"| {loss.divergence:.2e} | {loss.same_top:.2%} "
            f"| {loss.same_continued:.1%}, the first {loss.agreed:.1f} "
            f"of {options.generated} |"
        )


if __name__ == "__main__":
    main()
