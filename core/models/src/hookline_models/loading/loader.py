"""The phase `load_model`: weights read, probed and arranged for the forward pass."""

import logging
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from transformers import PreTrainedModel

from hookline.config.cache import CacheConfig, KVCacheDtype
from hookline.config.engine import EngineConfig
from hookline.config.executor import ExecutorConfig
from hookline.config.model import ModelConfig
from hookline.engine.worker.extension import LoadedParts
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.loaded_model import LoadedModel
from hookline.engine.worker.rank_context import SINGLE_RANK, RankContext
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.model_description import ModelDescription
from hookline.startup_timer import StartupTimer
from hookline.step import ModelCost, ModelShape
from hookline_description.describing import read_description
from hookline_kernels import Platform
from hookline_kernels.cache_numbers import dtype_name
from hookline_kernels.modules.quantized_layer import bits_in_words
from hookline_kernels.runtime.threads.choosing import leave_cores
from hookline_models.checkpoints.loading import load_model
from hookline_models.checkpoints.model_part import DivideModel
from hookline_models.forwards.attention import AttentionSlot
from hookline_models.forwards.choice import choose_forward
from hookline_models.forwards.first_forward import (
    ModelToRun,
    StartForward,
    final_forward,
)
from hookline_models.forwards.layer_span import span_of
from hookline_models.forwards.probe import Probed, probe
from hookline_models.loading.cost import cost_of, sum_of_costs
from hookline_models.loading.fingerprint import fingerprint_of

_log = logging.getLogger(__name__)

_CACHE_DTYPES = {
    KVCacheDtype.FP8: torch.float8_e4m3fn,
    KVCacheDtype.FP8_E4M3: torch.float8_e4m3fn,
    KVCacheDtype.FP8_E5M2: torch.float8_e5m2,
    KVCacheDtype.INT8: torch.int8,
}


def load(
    config: EngineConfig,
    platform: Platform,
    timer: StartupTimer,
    *,
    extensions: FollowedRows,
    ranks: RankContext = SINGLE_RANK,
    cache_key: tuple[object, ...] | None = None,
    first_forward: StartForward = final_forward,
) -> LoadedModel:
    """Implements `LoadModel`; `first_forward` chooses what computes the first steps."""
    eight_bits = eight_bit_dtype(config.cache, platform)
    description = _described(config.model, timer)
    max_model_len = description.max_model_len(config.model.max_model_len)
    vocab_size = description.vocab_size
    ranks.begin_loading(looks_inside=extensions.looks_inside)
    with timer.phase("load weights"):
        model = load_model(
            config.model,
            description,
            max_model_len,
            platform.device,
            divide=cast("DivideModel", ranks.divide),
            may_compile=config.executor.may_compile,
            cache_dtype=eight_bits,
        )
    cache_dtype = eight_bits or model.dtype
    slot = AttentionSlot.install(model)
    with timer.phase("probe"):
        probed = probe(config.model.model, model, slot, vocab_size)
    cost = cost_of(model, probed.layers, cache_dtype)
    _leave_cores(config.executor, cost)
    extensions.prepare(
        LoadedParts(
            model=model,
            description=description,
            attention=probed.attention,
            platform=platform,
            has_whole_tables=ranks.has_whole_tables,
        ),
        timer,
    )
    choose = partial(
        choose_forward,
        model,
        probed,
        slot,
        block_size=config.cache.block_size,
        cache_dtype=cache_dtype,
        max_model_len=max_model_len,
        platform=platform,
        states_option=extensions.states_option,
        feature_layers=extensions.feature_layers,
        reduce=ranks.reduce,
    )
    fingerprint, span = _fingerprint(model, extensions, ranks), span_of(model)
    shape = _shape(model, description, probed, cache_dtype, max_model_len)
    shape = replace(shape, cost=sum_of_costs([cost] * ranks.num_sharers))
    may_change = ranks.is_alone and not extensions.keeps_forward
    dtypes = (model.dtype, cache_dtype)
    to_run = ModelToRun(config, platform, probed.layers, *dtypes, may_change)
    with timer.phase("adapt model"):  # takes the model apart
        first = first_forward(to_run, choose)
        forward = first.forward
        for side in extensions.sides:
            forward = side.forward(forward)
    loaded = LoadedModel(
        shape=shape,
        layers=probed.layers,
        attention=probed.attention,
        dtype=model.dtype,
        cache_dtype=cache_dtype,
        quantization=bits_in_words(model),
        hidden_size=model.config.get_text_config().hidden_size,
        own_layers=range(span.start, span.start + len(probed.layers)),
        feature_layers=extensions.feature_layers,
        fingerprint=fingerprint,
        forward=ranks.whole_logits(forward, vocab_size),
        upgrade=first.upgrade,
    )
    _check_fit(loaded, cache_key, config.model.model)
    return loaded


def _described(config: ModelConfig, timer: StartupTimer) -> ModelDescription:
    with timer.phase("read config"):
        read = read_description(config)
    for warning in read.warnings(config.max_model_len):
        _log.warning("%s", warning)
    return read.description


def _check_fit(
    loaded: LoadedModel, cache_key: tuple[object, ...] | None, name: str
) -> None:
    """Raises `ModelLoadError` if there is a cache that the model does not fit."""
    if cache_key not in (None, loaded.cache_key):
        raise ModelLoadError(
            name,
            "its weights or configuration have changed during sleep in a way that "
            "does not fit the KV cache: restart the engine",
        )


def eight_bit_dtype(config: CacheConfig, platform: Platform) -> torch.dtype | None:
    """Returns the configured dtype of 8 bits, or None for the model's dtype.

    Raises:
        ConfigError: The platform's kernels do not read it.
    """
    if config.kv_cache_dtype is KVCacheDtype.AUTO:
        return None
    if platform.is_gpu:
        raise ConfigError(
            "kv-cache-dtype",
            f"{config.kv_cache_dtype} is supported on CPUs only: use auto, or set "
            "device to cpu",
        )
    return _CACHE_DTYPES[config.kv_cache_dtype]


def _fingerprint(
    model: PreTrainedModel, extensions: FollowedRows, ranks: RankContext
) -> bytes:
    """Identifies the weights, where the cache's content may be used elsewhere."""
    return fingerprint_of(model, ranks.identity) if extensions.uses_cache else b""


def _shape(
    model: PreTrainedModel,
    description: ModelDescription,
    probed: Probed,
    cache_dtype: torch.dtype,
    max_model_len: int,
) -> ModelShape:
    windows = [each.window for each in probed.attention if each.window is not None]
    return ModelShape(
        architecture=type(model).__name__,
        dtype=dtype_name(model.dtype),
        cache_dtype=dtype_name(cache_dtype),
        vocab_size=description.vocab_size,
        max_model_len=max_model_len,
        eos_token_ids=description.eos_token_ids,
        sliding_window=max(windows, default=None),
        sampling=description.sampling,
    )


def _leave_cores(config: ExecutorConfig, cost: ModelCost) -> None:
    """Leaves cores to others where the model's steps are too small for all."""
    if config.shares_cores:
        leave_cores(config.threads, cost.flops_per_token + cost.flops_per_sample)
