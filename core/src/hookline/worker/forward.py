"""What computes a step's logits: the quickest way that a model can go."""

import logging
from importlib import import_module
from typing import Protocol

import torch
from transformers import PreTrainedModel

from hookline.models.adapt import adapt
from hookline.models.attention import AttentionSlot
from hookline.models.probe import Probed
from hookline.worker.paged_cache import PagedCache
from hookline_kernels import KernelError, PagedMetadata

_log = logging.getLogger(__name__)

_TOLERANCES = {torch.float32: 1e-3, torch.bfloat16: 0.1}
"""Norm of the difference as a share of the logits' norm; a wrong scale is far above."""


class Forward(Protocol):
    """Computes logits.

    Attributes:
        name: `decoder`, `adapted modules` or `modules`.
        reason: Why it is not the quickest way; empty if it is.
    """

    name: str
    reason: str

    def bind(self, cache: PagedCache) -> None:
        """Gives it the cache that the next calls write and read."""
        ...

    def __call__(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        wanted: torch.Tensor,
        metadata: PagedMetadata,
    ) -> torch.Tensor:
        """Logits [W, vocabulary] at W wanted of T tokens; all are int64."""
        ...


class ModuleForward:
    """Runs a model of `transformers`, its attention over the paged cache."""

    def __init__(
        self, model: PreTrainedModel, slot: AttentionSlot, *, name: str, reason: str
    ) -> None:
        self._model, self._slot = model, slot
        self.name, self.reason = name, reason

    def bind(self, cache: PagedCache) -> None:
        self._slot.attend = self._cache = cache

    def __call__(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        wanted: torch.Tensor,
        metadata: PagedMetadata,
    ) -> torch.Tensor:
        self._cache.metadata = metadata
        logits = self._model(
            input_ids=token_ids[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=wanted,
        ).logits[0]
        assert isinstance(logits, torch.Tensor)
        return logits


def choose_forward(
    model: PreTrainedModel,
    probed: Probed,
    slot: AttentionSlot,
    *,
    block_size: int,
    max_model_len: int,
    may_compile: bool,
) -> Forward:
    """The quickest way that gives what the model gave when it was probed.

    Takes the model over: its parts may be replaced.
    """
    if not may_compile:
        return ModuleForward(model, slot, name="modules", reason="kernels are torch")
    try:
        decoder = import_module("hookline.models.decoder")
    except ImportError as error:
        return _adapted(model, slot, str(error))
    try:
        forward: Forward = decoder.Decoder(
            model, probed, block_size=block_size, max_model_len=max_model_len
        )
        _try(forward, probed, model.dtype, block_size)
    except (decoder.NotDecoder, KernelError) as error:
        return _adapted(model, slot, str(error))
    return forward


def _adapted(model: PreTrainedModel, slot: AttentionSlot, reason: str) -> Forward:
    _log.info("the model runs as modules: %s", reason)
    adapt(model)
    return ModuleForward(model, slot, name="adapted modules", reason=reason)


@torch.inference_mode()
def _try(forward: Forward, probed: Probed, dtype: torch.dtype, block_size: int) -> None:
    """Computes the probe's prompts: all but their last tokens, and then these.

    Raises:
        KernelError: The logits are others.
    """
    length = len(probed.prompts[0])
    blocks = -(-length // block_size)
    cache = PagedCache(probed.layers, 2 * blocks, block_size, dtype)
    forward.bind(cache)
    tables = torch.arange(2 * blocks).view(2, blocks)
    tokens = torch.tensor(probed.prompts)
    found = torch.empty_like(probed.logits).view(2, length, -1)
    for part in (torch.arange(length - 1), torch.arange(length - 1, length)):
        end = int(part[-1]) + 1
        slots = tables[:, part // block_size] * block_size + part % block_size
        logits = forward(
            tokens[:, part].flatten(),
            part.repeat(2),
            torch.arange(2 * len(part)),
            PagedMetadata(
                slots=slots.flatten(),
                block_tables=tables,
                query_lens=[len(part)] * 2,
                seq_lens=[end] * 2,
                num_single=2 if len(part) == 1 else 0,
                seq_lens_tensor=torch.tensor([end] * 2),
            ),
        )
        found[:, part] = logits.view(2, len(part), -1)
    expected = probed.logits.float()
    error = (found.flatten(0, 1).float() - expected).norm() / expected.norm()
    if not error <= _TOLERANCES[dtype]:
        raise KernelError(f"its logits differ from the modules' by {error:.1%}")
