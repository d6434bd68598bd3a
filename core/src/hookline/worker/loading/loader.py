"""The phase `load_model`: weights read, probed and arranged for the forward pass."""

from collections.abc import Sequence
from functools import partial

from hookline.config.engine import EngineConfig
from hookline.config.executor import ExecutorConfig
from hookline.cost import ModelCost
from hookline.models.attention import AttentionSlot
from hookline.models.cost import cost_of
from hookline.models.description import describe
from hookline.models.fingerprint import fingerprint_of
from hookline.models.layer_shapes import LayerAttention
from hookline.models.layer_span import span_of
from hookline.models.loading import load_model
from hookline.models.probe import probe
from hookline.startup_timer import StartupTimer
from hookline.step.model_shape import ModelShape
from hookline.worker.compiling.first_forward import first_forward
from hookline.worker.extension import LoadedParts
from hookline.worker.followed_rows import FollowedRows
from hookline.worker.loaded_model import LoadedModel
from hookline.worker.loading.cache_dtype import eight_bit_dtype
from hookline.worker.loading.forward_choice import choose_forward
from hookline.worker.rank_context import SINGLE_RANK, RankContext
from hookline_kernels import Platform
from hookline_kernels.cache_numbers import dtype_name
from hookline_kernels.modules.quantized_layer import bits_in_words
from hookline_kernels.runtime.threads.choosing import leave_cores


def load(
    config: EngineConfig,
    platform: Platform,
    timer: StartupTimer,
    *,
    extensions: FollowedRows,
    ranks: RankContext = SINGLE_RANK,
) -> LoadedModel:
    """Implements `LoadModel`."""
    eight_bits = eight_bit_dtype(config.cache, platform)
    with timer.phase("read config"):
        description = describe(config.model)
    max_model_len = description.max_model_len(config.model.max_model_len)
    ranks.begin_loading(looks_inside=extensions.looks_inside)
    with timer.phase("load weights"):
        model = load_model(
            config.model,
            description,
            max_model_len,
            platform.device,
            divide=ranks.divide,
            may_compile=config.executor.may_compile,
            cache_dtype=eight_bits,
        )
    cache_dtype = eight_bits or model.dtype
    slot = AttentionSlot.install(model)
    vocab_size = description.vocab_size
    with timer.phase("probe"):
        probed = probe(config.model.model, model, slot, vocab_size)
    span = span_of(model)
    cost = cost_of(model, probed.layers, cache_dtype)
    _leave_cores(config.executor, cost)
    parts = LoadedParts(
        model=model,
        description=description,
        attention=probed.attention,
        platform=platform,
        has_whole_tables=ranks.has_whole_tables,
    )
    extensions.prepare(parts, timer)
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
    uses_cache = extensions.uses_cache
    fingerprint = fingerprint_of(model, ranks.identity) if uses_cache else b""
    with timer.phase("adapt model"):  # takes the model apart
        dtypes = (model.dtype, cache_dtype)
        first = first_forward(config, platform, choose, probed, *dtypes)
    return LoadedModel(
        shape=ModelShape(
            architecture=type(model).__name__,
            dtype=dtype_name(model.dtype),
            cache_dtype=dtype_name(cache_dtype),
            vocab_size=vocab_size,
            max_model_len=max_model_len,
            eos_token_ids=description.eos_token_ids,
            cost=cost.on_ranks(ranks.num_sharers),
            sliding_window=_sliding_window(probed.attention),
        ),
        layers=probed.layers,
        attention=probed.attention,
        dtype=model.dtype,
        cache_dtype=cache_dtype,
        quantization=bits_in_words(model),
        hidden_size=model.config.get_text_config().hidden_size,
        own_layers=range(span.start, span.start + len(probed.layers)),
        feature_layers=extensions.feature_layers,
        fingerprint=fingerprint,
        forward=ranks.whole_logits(first.forward, vocab_size),
        with_kernels=first.with_kernels,
    )


def _sliding_window(attention: Sequence[LayerAttention]) -> int | None:
    windows = [each.window for each in attention if each.window is not None]
    return max(windows, default=None)


def _leave_cores(config: ExecutorConfig, cost: ModelCost) -> None:
    """Leaves cores to others where the model's steps are too small for all."""
    if config.shares_cores:
        leave_cores(config.threads, cost.flops_per_token + cost.flops_per_sample)
