"""Chooses the fastest way to run a model."""

import logging

import torch
from transformers import PreTrainedModel

from hookline.engine.decoder import Decoder, NotDecoder
from hookline.engine.worker.forward import Forward
from hookline_kernels import CPU, KernelError, Platform, import_compiled
from hookline_kernels.layer_ops import LayerOps
from hookline_kernels.modules.adapting import adapt
from hookline_kernels.modules.reduction import Reduce
from hookline_kernels.runtime.weight_pages import give_back_clean_pages
from hookline_models.forwards.attention import AttentionSlot
from hookline_models.forwards.finding_parts import find_parts
from hookline_models.forwards.hidden_state_hook import HiddenStateHook
from hookline_models.forwards.module_forward import ModuleForward
from hookline_models.forwards.probe import Probed
from hookline_models.forwards.trial import try_forward

_log = logging.getLogger(__name__)


def choose_forward(
    model: PreTrainedModel,
    probed: Probed,
    slot: AttentionSlot,
    *,
    block_size: int,
    cache_dtype: torch.dtype | None = None,
    max_model_len: int,
    may_compile: bool,
    why_torch: str = "kernels are torch",
    platform: Platform = CPU,
    states_option: str = "",
    feature_layers: tuple[int, ...] = (),
    reduce: Reduce | None = None,
) -> Forward:
    """Returns the fastest way that gives the logits that the probe saw.

    Takes the model over: its parts may be replaced. Logs why the decoder is not taken.

    Args:
        model: The loaded model.
        probed: Results of the probe.
        slot: Slot from which the model's modules call attention.
        block_size: Tokens in a block of the cache.
        cache_dtype: Data type of the cache; None is the model's.
        max_model_len: Largest number of tokens of a request.
        may_compile: Use kernels, not only plain torch.
        why_torch: Why not, in one clause, if it may not.
        platform: Platform of the model.
        states_option: The option for which `with_hidden` will be called; empty if it
            will not.
        feature_layers: Layers whose inputs are returned as features.
        reduce: Sums over the ranks that share the model; None if it is whole.

    Raises:
        ConfigError: Hidden states are needed, and the model does not show them.
    """

    def modules(name: str, reason: str) -> ModuleForward:
        hook = None
        if states_option:
            hook = HiddenStateHook(model, feature_layers, option=states_option)
            _prove(hook, model, probed, slot, block_size, platform)
        return ModuleForward(model, slot, name=name, reason=reason, hook=hook)

    if not may_compile:
        return modules("modules", why_torch)
    try:
        decoder = Decoder(
            find_parts(model),
            probed,
            _layer_ops(platform, reduce),
            block_size=block_size,
            cache_dtype=cache_dtype,
            max_model_len=max_model_len,
            feature_layers=feature_layers,
        )
        give_back_clean_pages()
        try_forward(
            decoder,
            probed,
            model.dtype,
            block_size,
            platform,
            cache_dtype=cache_dtype,
        )
    except (NotDecoder, KernelError) as error:
        reason = str(error)
        _log.info("the model runs as modules: %s", reason)
    else:
        return decoder
    if platform.is_gpu:
        return modules("modules", reason)
    forward = modules("adapted modules", reason)
    adapt(model)
    return forward


def _prove(  # noqa: PLR0917 - what `choose_forward` got
    hook: HiddenStateHook,
    model: PreTrainedModel,
    probed: Probed,
    slot: AttentionSlot,
    block_size: int,
    platform: Platform,
) -> None:
    """Proves that a hook reads the right hidden states of the modules."""
    forward = ModuleForward(model, slot, name="modules", reason="", hook=hook)
    with hook.proof():
        try_forward(forward, probed, model.dtype, block_size, platform)


def _layer_ops(platform: Platform, reduce: Reduce | None) -> LayerOps:
    """Raises `KernelError` if the platform's compiler is not installed."""
    ops: LayerOps
    if platform.is_gpu:
        ops = import_compiled("hookline_kernels.decoder.gpu_layer_ops").GpuLayerOps(
            reduce
        )
    else:
        ops = import_compiled("hookline_kernels.decoder.cpu_layer_ops").CpuLayerOps(
            reduce
        )
    return ops
