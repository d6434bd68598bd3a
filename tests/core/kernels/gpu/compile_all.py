"""Compiles every kernel for an H100, without one: what the interpreter cannot show.

Launches go as far as machine code, and print each kernel's name and shared memory.
"""

from typing import Any

import torch
import triton  # type: ignore[import-untyped]
from triton.backends.compiler import GPUTarget  # type: ignore[import-untyped]

from hookline_kernels import AttentionLayer
from hookline_kernels.gpu import (
    cache,
    decode,
    gated,
    new_tokens,
    norm,
    prefill,
    rejection,
    rotary,
    sampling,
    thin,
)

DTYPE = torch.bfloat16


class Driver:
    """Pretends that there is an H100."""

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0


def compile_instead(kernel: Any, *arguments: Any, **options: Any) -> None:
    compiled = launch(kernel, *arguments, **{**options, "warmup": True})
    print(kernel.fn.__name__, compiled.metadata.shared, flush=True)  # noqa: T201


def attend(
    key_dim: int, value_dim: int, softcap: float | None, biases: torch.Tensor | None
) -> None:
    keys = torch.zeros(8, 16, 2, key_dim, dtype=DTYPE)
    values = torch.zeros(8, 16, 2, value_dim, dtype=DTYPE)
    query = torch.zeros(64, 8, key_dim, dtype=DTYPE)
    tables = torch.zeros(64, 8, dtype=torch.int64)
    lengths = torch.ones(64, dtype=torch.int64)
    window = None if softcap is None else 100
    layer = AttentionLayer(keys, values, 0.1, window, softcap, biases, biases)
    for splits in (1, 4):
        decode.decode_attention(query, layer, tables, lengths, num_splits=splits)
    prefill.prefill_attention(
        query,
        layer,
        tables,
        query_starts=torch.arange(65),
        seq_lens=lengths,
        max_query_len=64,
    )


def attend_new() -> None:
    """Compiles attention over a step's own keys, without and with cached tokens."""
    query, key, value = torch.zeros(512, 32, 128, dtype=DTYPE).split([16, 8, 8], 1)
    caches = torch.zeros(2, 32, 16, 8, 128, dtype=DTYPE)
    for has_cached in (False, True):
        new_tokens.new_tokens_attention(
            query,
            key,
            value,
            AttentionLayer(caches[0], caches[1], 0.1),
            torch.zeros(1, 32, dtype=torch.int64),
            query_starts=torch.arange(2, dtype=torch.int32),
            seq_lens=torch.ones(1, dtype=torch.int64),
            max_query_len=512,
            has_cached=has_cached,
            output=torch.empty(512, 16, 128, dtype=DTYPE),
        )


def multiply() -> None:
    """Compiles products of few rows, which begin early."""
    module: Any = thin
    module.chained = lambda _device: {"chains": True, "launch_pdl": True}
    weight = torch.zeros(4096, 2048, dtype=DTYPE)
    norm_before = thin.RowNorm(torch.zeros(2048, dtype=DTYPE), 1e-6)
    for count in (1, 4):
        rows = torch.zeros(count, 2048, dtype=DTYPE)
        plan = thin.ThinPlan(2, 1024)
        thin.thin_product(rows, weight, plan, norm=norm_before, gated=True)
        thin.thin_product(rows, weight[:2048], plan, residual=rows.clone())


def others() -> None:
    rows, weight = torch.zeros(8, 4096, dtype=DTYPE), torch.zeros(4096, dtype=DTYPE)
    norm.rms_norm(rows, weight, 1e-6)
    norm.add_rms_norm(rows, rows.clone(), weight, 1e-6)
    gated.silu_mul(rows)
    query, key, value = torch.zeros(8, 48, 128, dtype=DTYPE).split([32, 8, 8], 1)
    angles = torch.zeros(8, 128, dtype=DTYPE)
    slots = torch.arange(8)
    keys, values = (torch.zeros(4, 16, 8, 128, dtype=DTYPE) for _ in range(2))
    rotary.rotate(query, key, angles, angles)
    rotary.rotate_and_write(
        query, key, value, angles, angles, keys=keys, values=values, slots=slots
    )
    cache.write_cache(key, value, keys, values, slots)
    ones, points = torch.ones(4), torch.zeros(4, dtype=torch.float64)
    logits = torch.zeros(4, 150_000, dtype=DTYPE)
    sampling.argmax(logits)
    sampling.draw(logits, ones, points)
    sampling.draw_filtered(
        logits, ones, points, top_k=slots[:4] + 1, top_p=ones, min_p=ones
    )
    shares = torch.zeros(8, 4096)
    for drafts in (None, shares[:4]):
        rejection.reject(
            slots[:4],
            torch.arange(5),
            drafts,
            shares,
            accept_points=points,
            next_points=points,
        )


if __name__ == "__main__":
    triton.runtime.driver.set_active(Driver())
    launch = triton.JITFunction.run
    triton.JITFunction.run = compile_instead
    attend(128, 128, None, None)
    attend(80, 64, 30.0, torch.zeros(8))
    attend_new()
    multiply()
    others()
