"""What computes a step's logits: the quickest way that a model can go."""

import logging
from importlib import import_module
from typing import Protocol

import torch
from transformers import PreTrainedModel

from hookline.models.adapt import adapt
from hookline.models.attention import AttentionSlot
from hookline.models.decoder import Decoder, NotDecoder
from hookline.models.decoder.layer_ops import Kit
from hookline.models.forward_output import WithHidden
from hookline.models.probe import Probed
from hookline.worker.paged_cache import PagedCache
from hookline.worker.states_tap import StatesTap
from hookline_kernels import CPU, KernelError, PagedMetadata, Platform

_log = logging.getLogger(__name__)

_TOLERANCES = {torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.1}
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

    def with_hidden(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        wanted: torch.Tensor,
        metadata: PagedMetadata,
    ) -> WithHidden:
        """As a call, and what the output layer and chosen layers read, of all tokens.

        The states are in memory of their own, which no later step writes to.
        """
        ...


class ModuleForward:
    """Runs a model of `transformers`, its attention over the paged cache."""

    def __init__(
        self,
        model: PreTrainedModel,
        slot: AttentionSlot,
        *,
        name: str,
        reason: str,
        tap: StatesTap | None = None,
    ) -> None:
        """Without a tap there are no hidden states."""
        self._model, self._slot, self._tap = model, slot, tap
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

    def with_hidden(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        wanted: torch.Tensor,
        metadata: PagedMetadata,
    ) -> WithHidden:
        assert self._tap is not None
        logits = self(token_ids, positions, wanted, metadata)
        return WithHidden(logits, self._tap.take(), self._tap.take_features())


def choose_forward(
    model: PreTrainedModel,
    probed: Probed,
    slot: AttentionSlot,
    *,
    block_size: int,
    max_model_len: int,
    may_compile: bool,
    platform: Platform = CPU,
    tells_hidden: bool = False,
    feature_layers: tuple[int, ...] = (),
) -> Forward:
    """The quickest way that gives what the model gave when it was probed.

    Takes the model over: its parts may be replaced.

    Args:
        model: As it was loaded.
        probed: What it showed of itself.
        slot: Where its modules look for attention.
        block_size: Of the cache.
        max_model_len: Of a sequence, in tokens.
        may_compile: Use kernels, not only plain torch.
        platform: What it runs on.
        tells_hidden: `with_hidden` will be called.
        feature_layers: Whose input it is to tell, too.

    Raises:
        ConfigError: It will be, and the model shows no hidden states.
    """

    def tap_wanted() -> StatesTap | None:
        if not tells_hidden:
            return None
        return _tap(
            model,
            probed,
            slot,
            block_size=block_size,
            platform=platform,
            feature_layers=feature_layers,
        )

    if not may_compile:
        tap = tap_wanted()
        reason = "kernels are torch"
        return ModuleForward(model, slot, name="modules", reason=reason, tap=tap)
    try:
        kit = _kit(platform)
        forward = Decoder(
            model, probed, kit, block_size=block_size, max_model_len=max_model_len
        )
        _try(forward, probed, model.dtype, block_size, platform)
    except (ImportError, NotDecoder, KernelError) as error:
        reason = str(error)
    else:
        forward.feature_layers = feature_layers
        return forward
    _log.info("the model runs as modules: %s", reason)
    tap = tap_wanted()
    if platform.is_gpu:
        return ModuleForward(model, slot, name="modules", reason=reason, tap=tap)
    adapt(model)
    return ModuleForward(model, slot, name="adapted modules", reason=reason, tap=tap)


def _tap(
    model: PreTrainedModel,
    probed: Probed,
    slot: AttentionSlot,
    *,
    block_size: int,
    platform: Platform,
    feature_layers: tuple[int, ...],
) -> StatesTap:
    """Where the modules' hidden states are had, once that is proven to be the place."""
    tap = StatesTap(model, feature_layers)
    forward = ModuleForward(model, slot, name="modules", reason="", tap=tap)
    with tap.proof():
        _try(forward, probed, model.dtype, block_size, platform)
    return tap


def _kit(platform: Platform) -> Kit:
    """Raises `ImportError` where the platform's compiler is missing."""
    if platform.is_gpu:
        gpu = import_module("hookline.models.decoder.gpu_layer_ops")
        kit: Kit = gpu.GpuKit()
    else:
        cpu = import_module("hookline.models.decoder.cpu_layer_ops")
        kit = cpu.CpuKit()
    return kit


@torch.inference_mode()
def _try(
    forward: Forward,
    probed: Probed,
    dtype: torch.dtype,
    block_size: int,
    platform: Platform,
) -> None:
    """Computes the probe's prompts: all but their last tokens, and then these.

    Raises:
        KernelError: The logits are others.
    """
    length = len(probed.prompts[0])
    blocks = -(-length // block_size)
    cache = PagedCache(probed.layers, 2 * blocks, block_size, dtype, platform=platform)
    forward.bind(cache)
    device = platform.device
    tables = torch.arange(2 * blocks, device=device).view(2, blocks)
    tokens = torch.tensor(probed.prompts, device=device)
    found = torch.empty_like(probed.logits).view(2, length, -1)
    for part in torch.arange(length, device=device).split([length - 1, 1]):
        end = int(part[-1]) + 1
        slots = tables[:, part // block_size] * block_size + part % block_size
        logits = forward(
            tokens[:, part].flatten(),
            part.repeat(2),
            torch.arange(2 * len(part), device=device),
            PagedMetadata(
                slots=slots.flatten(),
                block_tables=tables,
                query_lens=[len(part)] * 2,
                seq_lens=[end] * 2,
                num_single=2 if len(part) == 1 else 0,
                seq_lens_tensor=torch.tensor([end] * 2, device=device),
            ),
        )
        found[:, part] = logits.view(2, len(part), -1)
    expected = probed.logits.float()
    error = (found.flatten(0, 1).float() - expected).norm() / expected.norm()
    if not error <= _TOLERANCES[dtype]:
        raise KernelError(f"its logits differ from the modules' by {error:.1%}")
