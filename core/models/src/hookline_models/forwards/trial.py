"""Checks that a forward pass gives the logits that the model's modules gave."""

from typing import Protocol

import torch

from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.worker.paged_cache import PagedCache
from hookline_kernels import KernelError, Platform
from hookline_models.forwards.probe import Probed

_TOLERANCES = {
    torch.float32: 1e-3,
    torch.float16: 0.02,
    torch.bfloat16: 0.1,
    torch.int8: 0.15,
    torch.float8_e4m3fn: 0.25,
    torch.float8_e5m2: 0.35,
}
"""Norm of the difference relative to the logits', by dtype of model or KV cache; a
wrong scale is far above."""


class Bindable(Protocol):
    """A forward pass without hidden states."""

    def bind(self, cache: PagedCache) -> None: ...

    def __call__(self, batch: ForwardBatch) -> torch.Tensor: ...


@torch.inference_mode()
def try_forward(
    forward: Bindable,
    probed: Probed,
    dtype: torch.dtype,
    block_size: int,
    platform: Platform,
    *,
    cache_dtype: torch.dtype | None = None,
) -> None:
    """Computes the probe's prompts: all but their last tokens, then these.

    The cache has the dtype of the model, or `cache_dtype`.

    Raises:
        KernelError: The logits differ from the probe's.
    """
    length = len(probed.prompts[0])
    blocks = -(-length // block_size)
    cache = PagedCache(
        probed.layers,
        2 * blocks,
        block_size,
        dtype,
        cache_dtype=cache_dtype,
        platform=platform,
    )
    forward.bind(cache)
    device = platform.device
    tables = torch.arange(2 * blocks, device=device).view(2, blocks)
    tokens = torch.tensor(probed.prompts, device=device)
    found = torch.empty_like(probed.logits).view(2, length, -1)
    for part in torch.arange(length, device=device).split([length - 1, 1]):
        slots = tables[:, part // block_size] * block_size + part % block_size
        logits = forward(_batch(probed, tokens[:, part], part, tables, slots))
        found[:, part] = logits.view(2, len(part), -1)
    expected = probed.logits.float()
    error = (found.flatten(0, 1).float() - expected).norm() / expected.norm()
    if not error <= max(_TOLERANCES[dtype], _TOLERANCES[cache_dtype or dtype]):
        raise KernelError(f"its logits differ from the modules' by {error:.1%}")


def _batch(
    probed: Probed,
    tokens: torch.Tensor,
    positions: torch.Tensor,
    tables: torch.Tensor,
    slots: torch.Tensor,
) -> ForwardBatch:
    """Two requests' [2, n] tokens at n positions, with the logits of all."""
    count, lengths = len(positions), [int(positions[-1]) + 1] * 2
    return ForwardBatch(
        token_ids=tokens.flatten(),
        intermediate=probed.intermediate(tokens.flatten()),
        positions=positions.repeat(2),
        logits_indices=torch.arange(2 * count, device=tokens.device),
        slot_mapping=slots.flatten(),
        block_tables=tables,
        query_lens=[count] * 2,
        seq_lens=lengths,
        num_decodes=2 if count == 1 else 0,
        seq_lens_tensor=torch.tensor(lengths, device=tokens.device),
    )
